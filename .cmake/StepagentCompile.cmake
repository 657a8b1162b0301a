# Language level, warnings, sanitizers and the compiler cache: one place, for every target.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# Assertions are part of tests, never of the product: NDEBUG everywhere but in Debug.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g -DNDEBUG")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g -DNDEBUG")

add_compile_options(-Wall -Wextra -Werror -Wno-missing-field-initializers
                    -fno-omit-frame-pointer -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
add_compile_definitions(_GNU_SOURCE)

find_program(STEPAGENT_CCACHE ccache)
if(STEPAGENT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${STEPAGENT_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${STEPAGENT_CCACHE})
endif()

if(STEPAGENT_SANITIZE)
  # Lines are all that a sanitizer's report needs, and half the time to compile.
  add_compile_options(-fsanitize=${STEPAGENT_SANITIZE} -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${STEPAGENT_SANITIZE})
  if(STEPAGENT_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Asio's fences are nothing that ThreadSanitizer follows; its queues have mutexes, which it does.
    add_compile_options(-Wno-tsan)
  endif()
endif()

# Everything of ours that runs outside a test carries its own C++ runtime: an application's
# (or a conda environment's) libstdc++ must neither be needed nor found. It runs on glibc 2.31
# (proto/compat/old_glibc.c), where libpthread and libdl are libraries of their own.
add_library(stepagent_static_runtime INTERFACE)
if(NOT STEPAGENT_SANITIZE)
  target_link_options(stepagent_static_runtime INTERFACE -static-libstdc++ -static-libgcc)
  foreach(_kind "" _program)
    add_library(stepagent_old_glibc${_kind} OBJECT ${CMAKE_SOURCE_DIR}/proto/compat/old_glibc.c)
    target_compile_options(stepagent_old_glibc${_kind} PRIVATE -fvisibility=hidden)
  endforeach()
  target_compile_definitions(stepagent_old_glibc_program PRIVATE STEPAGENT_PROGRAM=1)
  set(_is_program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
  target_sources(stepagent_static_runtime INTERFACE
    $<IF:${_is_program},$<TARGET_OBJECTS:stepagent_old_glibc_program>,$<TARGET_OBJECTS:stepagent_old_glibc>>)
  target_link_libraries(stepagent_static_runtime INTERFACE
    -Wl,--push-state,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -Wl,--pop-state)
endif()
