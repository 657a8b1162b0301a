// Small things that most victims need.
//
// Thread rule: any thread.
// Failure rule: a victim that cannot do its own work ends with status 1 and a line on stderr.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Ends the program with status 1 and errno's text unless `ok`.
void Require(bool ok, const char* what);

double MonotonicSeconds(void);

// Waits for the child at most `seconds`. False: it still runs.
bool WaitChild(pid_t child, double seconds, int* status);

// Prints `help` and ends with 0 when the first argument is --help.
void HelpOption(int argc, char** argv, const char* help);

// One step as a user would write it: range `train_step` with a child range inside.
void PlainStep(const char* child);

#ifdef __cplusplus
}
#endif
