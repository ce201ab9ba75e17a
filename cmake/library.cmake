# kvpage::kvpage, the host half: C++20, its include path and GSL, nothing else.
add_library(kvpage INTERFACE)
add_library(kvpage::kvpage ALIAS kvpage)
target_compile_features(kvpage INTERFACE cxx_std_20)
target_include_directories(
  kvpage INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
target_link_libraries(kvpage INTERFACE Microsoft.GSL::GSL)

# kvpage::cuda adds the kernels and CUDA's headers.  Which CUDA runtime a program links is its own choice
# (CMAKE_CUDA_RUNTIME_LIBRARY).
if(kvpage_with_cuda)
  add_library(kvpage_cuda INTERFACE)
  add_library(kvpage::cuda ALIAS kvpage_cuda)
  set_target_properties(kvpage_cuda PROPERTIES EXPORT_NAME cuda)
  if("cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
    target_compile_features(kvpage_cuda INTERFACE cuda_std_20)
  else()  # CMake 3.25.1 does not know that nvcc speaks C++20
    target_compile_options(kvpage_cuda INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  endif()
  target_include_directories(
    kvpage_cuda INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/kernels> $<INSTALL_INTERFACE:include>)
  target_link_libraries(kvpage_cuda INTERFACE kvpage CUDA::toolkit)
  if(KVPAGE_CUDAEMU)
    target_link_libraries(kvpage_cuda INTERFACE $<BUILD_INTERFACE:${KVPAGE_CUDAEMU}>)
  endif()
endif()
