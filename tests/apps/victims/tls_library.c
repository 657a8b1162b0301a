// tls_library: 48 bytes of initial-exec TLS. The loader keeps some room for such libraries, and no
// more.
#include <stdint.h>

static __thread uint64_t words[6] __attribute__((tls_model("initial-exec")));

__attribute__((visibility("default"))) int TouchTls(void) { return (int)++words[5]; }
