#pragma once
// `stepagent report PATH… [--top N] [--sort KEY] [--by TABLE] [--json]`, or `PATH --html OUT`.
//
// Purpose: the summary of anything we write, and of a Kineto file; several ranks, a row each.
// Thread rule: called once, from the command line's main thread.
// Failure rule: exit status 0 good, 1 problems in the input (each listed on stderr), 2 usage,
// 3 not readable at all.

namespace stepagent::cli {

// argv[0] is "report" (or the program's name); options and paths follow.
int ReportMain(int argc, char** argv);

}  // namespace stepagent::cli
