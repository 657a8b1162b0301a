#pragma once
// `stepagent convert IN --to FORMAT -o OUT`: any format, later.
//
// Purpose: a raw file, a cycle, a session, a run or a Kineto file becomes files of one format; several
// cycles go into a folder. Thread rule: a command of its own process.
// Failure rule: 0 good; 1 the input has problems, or the disk took not all, with a line each;
// 2 usage, and an OUT that cannot be made or is taken; 3 not readable at all. Nothing that exists is
// ever replaced.
namespace stepagent::cli {

int ConvertMain(int argc, char** argv);

}  // namespace stepagent::cli
