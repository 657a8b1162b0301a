// Arguments of the programs in tests/apps: a table of options and one loop over it.
//
// Thread rule: called from main while it parses its arguments.
// Failure rule: an unknown option or a value out of range ends the program with status 2 and one
// line; --help prints the help and ends it with 0.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum OptionKind {
  kOptionFlag,      // bool
  kOptionNumber,    // uint64_t
  kOptionNumber32,  // uint32_t
  kOptionReal,      // double
  kOptionText,      // const char*
  kOptionChoice     // int: an index of choices
} OptionKind;

typedef struct OptionSpec {
  const char* name;  // NULL ends the table
  OptionKind kind;
  void* target;
  double min, max;             // numbers
  const char* const* choices;  // NULL-ended
} OptionSpec;

// Returns the index of the first argument that is no option.
int ParseOptions(int argc, char** argv, const OptionSpec* specs, const char* help);

// The same, for programs that take nothing but options.
void ParseOnlyOptions(int argc, char** argv, const OptionSpec* specs, const char* help);

uint64_t ParseNumber(const char* option, const char* text, uint64_t min, uint64_t max);
double ParseReal(const char* option, const char* text, double min, double max);

// The index of `text` in the NULL-ended `choices`.
int ParseChoice(const char* option, const char* text, const char* const* choices);

#ifdef __cplusplus
}
#endif
