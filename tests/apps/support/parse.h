// Number arguments of the programs in tests/apps.
//
// Thread rule: called from main while it parses its arguments.
// Failure rule: a value that is no number in range ends the program with status 2 and one line.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint64_t ParseNumber(const char* option, const char* text, uint64_t min, uint64_t max);
double ParseReal(const char* option, const char* text, double min, double max);

// The index of `text` in the NULL-ended `choices`.
int ParseChoice(const char* option, const char* text, const char* const* choices);

#ifdef __cplusplus
}
#endif
