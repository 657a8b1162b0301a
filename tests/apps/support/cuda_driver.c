#include "cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* ErrorName(const Driver* driver, CUresult result) {
  const char* name = NULL;
  if (driver->cuGetErrorName == NULL || driver->cuGetErrorName(result, &name) != CUDA_SUCCESS) {
    return "unknown";
  }
  return name == NULL ? "unknown" : name;
}

static bool FillTable(Driver* driver, char* reason, size_t reason_size) {
#define DRIVER_STRING2(name) #name
#define DRIVER_STRING(name) DRIVER_STRING2(name)
#define DRIVER_LOOKUP(name)                                                      \
  driver->name = (__typeof__(&name))dlsym(driver->library, DRIVER_STRING(name)); \
  if (driver->name == NULL) {                                                    \
    snprintf(reason, reason_size, "libcuda.so.1 lacks " DRIVER_STRING(name));    \
    return false;                                                                \
  }
  DRIVER_FUNCTIONS(DRIVER_LOOKUP)
#undef DRIVER_LOOKUP
  return true;
}

bool DriverOpen(Driver* driver, int device, char* reason, size_t reason_size) {
  memset(driver, 0, sizeof *driver);
  driver->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver->library == NULL) {
    snprintf(reason, reason_size, "no libcuda.so.1");
    return false;
  }
  if (!FillTable(driver, reason, reason_size)) return false;
  const CUresult result = driver->cuInit(0);
  if (result != CUDA_SUCCESS) {
    snprintf(reason, reason_size, "cuInit: %d %s", (int)result, ErrorName(driver, result));
    return false;
  }
  int count = 0;
  driver->cuDeviceGetCount(&count);
  if (count <= device) {
    snprintf(reason, reason_size, "device %d of %d does not exist", device, count);
    return false;
  }
  return true;
}

void* DriverSymbol(const Driver* driver, const char* name) {
  return driver->library == NULL ? NULL : dlsym(driver->library, name);
}

void DriverCheck(const Driver* driver, CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  fflush(stdout);
  fprintf(stderr, "%s: %d %s\n", call, (int)result, ErrorName(driver, result));
  exit(1);
}
