# Finds the vendor's headers (cuda.h, cupti.h, nvtx3/nvToolsExt.h) in a CUDA toolkit, a
# distribution package or Python wheels, in this order, and offers them as
# stepagent::vendor_headers. They are never part of this repository and nothing is linked.
#
# Set STEPAGENT_CUDA_INCLUDE, STEPAGENT_CUPTI_INCLUDE or STEPAGENT_NVTX_INCLUDE to override.
set(_sa_roots)
if(DEFINED ENV{CUDA_HOME})
  list(APPEND _sa_roots $ENV{CUDA_HOME})
endif()
if(DEFINED ENV{CUDA_PATH})
  list(APPEND _sa_roots $ENV{CUDA_PATH})
endif()
list(APPEND _sa_roots /usr/local/cuda)
file(GLOB _sa_versioned /usr/local/cuda-*)
list(SORT _sa_versioned COMPARE NATURAL ORDER DESCENDING)
list(APPEND _sa_roots ${_sa_versioned} /opt/cuda)
set(_sa_dirs)
foreach(_r IN LISTS _sa_roots)
  list(APPEND _sa_dirs ${_r}/include ${_r}/extras/CUPTI/include)
endforeach()
list(APPEND _sa_dirs /usr/include /usr/lib/cuda/include)
# Wheels unpacked by the scripts into the build folder, then those of the interpreters on PATH.
file(GLOB _sa_wheels
     ${CMAKE_BINARY_DIR}/vendor/nvidia/*/include
     ${CMAKE_SOURCE_DIR}/build/vendor/nvidia/*/include
     /usr/lib/python3*/*-packages/nvidia/*/include
     /usr/local/lib/python3*/*-packages/nvidia/*/include
     $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/*/include)
list(APPEND _sa_dirs ${_sa_wheels})

find_path(STEPAGENT_CUDA_INCLUDE cuda.h PATHS ${_sa_dirs} NO_DEFAULT_PATH)
find_path(STEPAGENT_CUPTI_INCLUDE cupti.h PATHS ${_sa_dirs} NO_DEFAULT_PATH)
find_path(STEPAGENT_NVTX_INCLUDE nvtx3/nvToolsExt.h PATHS ${_sa_dirs} NO_DEFAULT_PATH)
foreach(_v CUDA CUPTI NVTX)
  if(NOT STEPAGENT_${_v}_INCLUDE)
    message(FATAL_ERROR
      "stepagent: the ${_v} headers were not found. Install a CUDA toolkit and set CUDA_HOME, or let "
      "./demo.sh or ./test.sh fetch the header wheels into the build folder, or set "
      "STEPAGENT_${_v}_INCLUDE. Looked in: ${_sa_dirs}")
  endif()
endforeach()
message(STATUS "stepagent: cuda.h from ${STEPAGENT_CUDA_INCLUDE}, cupti.h from "
               "${STEPAGENT_CUPTI_INCLUDE}, NVTX from ${STEPAGENT_NVTX_INCLUDE}")
add_library(stepagent_vendor_headers INTERFACE)
target_include_directories(stepagent_vendor_headers SYSTEM INTERFACE
  ${STEPAGENT_CUDA_INCLUDE} ${STEPAGENT_CUPTI_INCLUDE} ${STEPAGENT_NVTX_INCLUDE})
add_library(stepagent::vendor_headers ALIAS stepagent_vendor_headers)
