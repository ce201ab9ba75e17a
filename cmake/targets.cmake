# One line adds a test, an example or a benchmark.  Warnings stay in here: nothing that consumers link
# carries them.

add_library(kvpage_strict INTERFACE)
target_compile_options(
  kvpage_strict
  INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow;-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion,-Werror;-lineinfo>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${KVPAGE_CUDAEMU}>>:--no-compress>)

# An executable of the tree: strict, against the library (its CUDA half if it has .cu sources).
function(kvpage_add_executable target)
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE kvpage::kvpage kvpage_strict)
  if("${ARGN}" MATCHES "\\.cu(;|$)")
    target_link_libraries(${target} PRIVATE kvpage::cuda)
  endif()
endfunction()

# A GoogleTest program; every TEST in it is a test of its own for ctest.
function(kvpage_add_test target)
  FetchContent_MakeAvailable(googletest)
  include(GoogleTest)
  kvpage_add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE GTest::gtest_main)
  gtest_discover_tests(${target} TEST_PREFIX ${target}. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()

# A program with kernels as one test for ctest, with label "cuda"; the target "cuda_tests" builds all of them.
# Without a device it ends with status 77, which counts as skipped.  Under emulation it runs once for each of
# several schedules, with checks for races and for reads of memory nobody wrote.
set(KVPAGE_CUDAEMU_SEEDS 3 CACHE STRING "Seeds for each CUDA test under KVPAGE_CUDAEMU")
add_custom_target(cuda_tests)
function(kvpage_run_with_device test target)
  if(KVPAGE_CUDAEMU_RUN)
    add_test(NAME ${test} COMMAND ${KVPAGE_CUDAEMU_RUN} -n ${KVPAGE_CUDAEMU_SEEDS} -- $<TARGET_FILE:${target}>)
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "CUDAEMU_RACECHECK=1;CUDAEMU_INITCHECK=1")
  else()
    add_test(NAME ${test} COMMAND ${target})
  endif()
  set_tests_properties(${test} PROPERTIES LABELS cuda TIMEOUT 600 SKIP_RETURN_CODE 77)
  add_dependencies(cuda_tests ${target})
endfunction()

# A GoogleTest program with kernels.
function(kvpage_add_cuda_test target)
  FetchContent_MakeAvailable(googletest)
  kvpage_add_executable(${target} ${ARGN} ${PROJECT_SOURCE_DIR}/cmake/cuda_test_main.cpp)
  target_link_libraries(${target} PRIVATE GTest::gtest)
  kvpage_run_with_device(${target} ${target})
endfunction()

# An example; running it without arguments is a test.
function(kvpage_add_example target)
  kvpage_add_executable(${target} ${ARGN})
  add_test(NAME example.${target} COMMAND ${target})
endfunction()
function(kvpage_add_cuda_example target)
  kvpage_add_executable(${target} ${ARGN})
  kvpage_run_with_device(example.${target} ${target})
endfunction()

# A Google Benchmark program.  Tests only see that it builds: nothing is timed there.
function(kvpage_add_bench target)
  FetchContent_MakeAvailable(benchmark)
  kvpage_add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE benchmark::benchmark_main)
endfunction()

# Adds, with `adder`, every file of the current folder that matches: NAME.cpp, and NAME.cu if there is CUDA.
# Folders below that have a CMakeLists.txt of their own take part by it.
function(kvpage_add_folder adder cuda_adder prefix pattern)
  file(GLOB host_sources CONFIGURE_DEPENDS ${pattern}.cpp)
  foreach(source IN LISTS host_sources)
    cmake_path(GET source STEM name)
    cmake_language(CALL ${adder} ${prefix}${name} ${source})
  endforeach()
  if(kvpage_with_cuda)
    file(GLOB cuda_sources CONFIGURE_DEPENDS ${pattern}.cu)
    foreach(source IN LISTS cuda_sources)
      cmake_path(GET source STEM name)
      cmake_language(CALL ${cuda_adder} ${prefix}${name} ${source})
    endforeach()
  endif()
endfunction()

function(kvpage_add_subfolders)
  file(GLOB lists CONFIGURE_DEPENDS */CMakeLists.txt)
  foreach(list IN LISTS lists)
    cmake_path(GET list PARENT_PATH folder)
    add_subdirectory(${folder})
  endforeach()
endfunction()
