/* The environment, read and extended without libc's functions.
 *
 * bash exports getenv and setenv of its own, which come before libc's in lookup and see nothing this
 * early; so the block is walked, and an addition makes a copy of the pointer array in static memory.
 * glibc's setenv notices a foreign array and copies it before growing it.
 */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "agent/stub/stub.h"

extern char** __environ;

/* 64 KiB of untouched zero pages; a longer environment is left alone. */
enum { kMaxEntries = 8192, kTextBytes = 2 * 4200 };
static char* entries[kMaxEntries];
static char text[kTextBytes];
static size_t text_used;

const char* stepagent_env(const char* name) {
  const size_t length = strlen(name);
  if (__environ == NULL) return NULL;
  for (char** e = __environ; *e != NULL; ++e) {
    if (strncmp(*e, name, length) == 0 && (*e)[length] == '=') return *e + length + 1;
  }
  return NULL;
}

void stepagent_env_add(const char* name, const char* value) {
  const size_t name_length = strlen(name);
  const size_t value_length = strlen(value);
  const size_t need = name_length + value_length + 2;
  if (text_used + need > kTextBytes || __environ == NULL) return;
  char* entry = text + text_used;
  memcpy(entry, name, name_length);
  entry[name_length] = '=';
  memcpy(entry + name_length + 1, value, value_length + 1);
  text_used += need;

  if (__environ != entries) {
    size_t count = 0;
    while (__environ[count] != NULL) ++count;
    if (count + 3 > kMaxEntries) return;
    memcpy(entries, __environ, count * sizeof(char*));
    entries[count] = NULL;
    __environ = entries;
  }
  size_t count = 0;
  while (entries[count] != NULL) ++count;
  if (count + 2 > kMaxEntries) return;
  entries[count + 1] = NULL;
  entries[count] = entry;
}
