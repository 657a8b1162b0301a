// A library that comes and goes. Its build id is in CMakeLists.txt.
extern "C" __attribute__((visibility("default"))) int unwind_plugin_function() { return 7; }
