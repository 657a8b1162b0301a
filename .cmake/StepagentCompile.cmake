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
  add_compile_options(-fsanitize=${STEPAGENT_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${STEPAGENT_SANITIZE})
endif()

# Everything of ours that runs outside a test carries its own C++ runtime: an application's
# (or a conda environment's) libstdc++ must neither be needed nor found.
add_library(stepagent_static_runtime INTERFACE)
if(NOT STEPAGENT_SANITIZE)
  target_link_options(stepagent_static_runtime INTERFACE -static-libstdc++ -static-libgcc)
endif()
