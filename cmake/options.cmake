# Everything but the library itself is off when kvpage is a part of another project.
option(KVPAGE_BUILD_TESTS "Build kvpage's tests" ${PROJECT_IS_TOP_LEVEL})
option(KVPAGE_BUILD_EXAMPLES "Build kvpage's examples" ${PROJECT_IS_TOP_LEVEL})
option(KVPAGE_BUILD_BENCH "Build kvpage's benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(KVPAGE_BUILD_FUZZERS "Build the fuzzer of the model tests; needs clang" OFF)
option(KVPAGE_INSTALL "Install kvpage's headers and CMake package" ${PROJECT_IS_TOP_LEVEL})

# AUTO takes the CUDA half if there is an nvcc, and never when kvpage is a part of another project.
set(KVPAGE_CUDA AUTO CACHE STRING "Provide kvpage::cuda and build what needs nvcc: AUTO, ON or OFF")
set_property(CACHE KVPAGE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(kvpage_with_cuda ${KVPAGE_CUDA})
if(KVPAGE_CUDA STREQUAL "AUTO")
  set(kvpage_with_cuda OFF)
  if(PROJECT_IS_TOP_LEVEL)
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(kvpage_with_cuda ON)
    endif()
  endif()
endif()

if(kvpage_with_cuda)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90)  # the PTX of 90 serves whatever comes later
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit 12.0 REQUIRED)
endif()
