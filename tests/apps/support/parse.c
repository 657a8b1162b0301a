#include "parse.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t ParseNumber(const char* option, const char* text, uint64_t min, uint64_t max) {
  char* end = NULL;
  errno = 0;
  const unsigned long long value = strtoull(text, &end, 10);
  const int is_number = end != text && *end == '\0' && errno == 0 && text[0] != '-';
  if (is_number && value >= min && value <= max) return value;
  fprintf(stderr, "%s %s: expected a number from %" PRIu64 " to %" PRIu64 "\n", option, text, min,
          max);
  exit(2);
}

double ParseReal(const char* option, const char* text, double min, double max) {
  char* end = NULL;
  const double value = strtod(text, &end);
  if (end != text && *end == '\0' && value >= min && value <= max) return value;
  fprintf(stderr, "%s %s: expected a number from %g to %g\n", option, text, min, max);
  exit(2);
}

int ParseChoice(const char* option, const char* text, const char* const* choices) {
  for (int i = 0; choices[i] != NULL; i++) {
    if (strcmp(choices[i], text) == 0) return i;
  }
  fprintf(stderr, "%s %s: expected one of", option, text);
  for (int i = 0; choices[i] != NULL; i++) fprintf(stderr, " %s", choices[i]);
  fputc('\n', stderr);
  exit(2);
}

static void Store(const OptionSpec* spec, const char* text) {
  const uint64_t min = (uint64_t)spec->min;
  const uint64_t max = spec->max >= 1.8e19 ? UINT64_MAX : (uint64_t)spec->max;
  switch (spec->kind) {
    case kOptionFlag:
      *(bool*)spec->target = true;
      break;
    case kOptionNumber:
      *(uint64_t*)spec->target = ParseNumber(spec->name, text, min, max);
      break;
    case kOptionNumber32:
      *(uint32_t*)spec->target = (uint32_t)ParseNumber(spec->name, text, min, max);
      break;
    case kOptionReal:
      *(double*)spec->target = ParseReal(spec->name, text, spec->min, spec->max);
      break;
    case kOptionText:
      *(const char**)spec->target = text;
      break;
    case kOptionChoice:
      *(int*)spec->target = ParseChoice(spec->name, text, spec->choices);
      break;
  }
}

int ParseOptions(int argc, char** argv, const OptionSpec* specs, const char* help) {
  enum { kMaxOptions = 32, kFirstCode = 256 };
  struct option options[kMaxOptions + 1] = {{0}};
  int count = 0;
  for (; specs[count].name != NULL && count < kMaxOptions - 1; count++) {
    const int takes_value = specs[count].kind == kOptionFlag ? no_argument : required_argument;
    options[count] = (struct option){specs[count].name, takes_value, NULL, kFirstCode + count};
  }
  options[count] = (struct option){"help", no_argument, NULL, kFirstCode + count};
  int code;
  while ((code = getopt_long(argc, argv, "+", options, NULL)) != -1) {
    if (code < kFirstCode) exit(2);
    if (code == kFirstCode + count) {
      fputs(help, stdout);
      exit(0);
    }
    Store(&specs[code - kFirstCode], optarg);
  }
  return optind;
}

void ParseOnlyOptions(int argc, char** argv, const OptionSpec* specs, const char* help) {
  const int first = ParseOptions(argc, argv, specs, help);
  if (first == argc) return;
  fprintf(stderr, "%s: unexpected argument %s\n", argv[0], argv[first]);
  exit(2);
}
