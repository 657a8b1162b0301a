// Functions whose names a test knows; the callback sees from where it is called.
namespace sample {

volatile int done = 0;

template <typename T>
inline __attribute__((always_inline)) void Inlined(T callback) {
  callback();
  done = done + 1;
}

__attribute__((noinline)) void Hidden(void (*callback)()) {
  Inlined(callback);
  done = done + 1;
}

}  // namespace sample

extern "C" __attribute__((visibility("default"))) void sample_entry(void (*callback)()) {
  sample::Hidden(callback);
  sample::done = sample::done + 1;
}
