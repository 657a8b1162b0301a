#include "parse.h"

#include <errno.h>
#include <inttypes.h>
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
