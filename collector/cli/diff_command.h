#pragma once
// `stepagent diff A B`: two cycles, sessions, runs or Kineto files against each other.
//
// Thread rule: the program's main thread.
// Failure rule: exit status 0 good, 1 an input has problems that are listed, 2 usage, 3 an input
// cannot be read at all or holds no cycle. A difference is no failure.

namespace stepagent::cli {

int DiffMain(int argc, char** argv);

}  // namespace stepagent::cli
