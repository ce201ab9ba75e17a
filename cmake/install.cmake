# find_package(kvpage) gives kvpage::kvpage; with COMPONENTS cuda also kvpage::cuda, which is installed whole if
# the tree was configured with KVPAGE_CUDA, and not at all otherwise.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kvpage)
install(DIRECTORY include/kvpage TYPE INCLUDE FILES_MATCHING PATTERN "*.hpp" PATTERN "cuda" EXCLUDE)
install(TARGETS kvpage EXPORT kvpage_targets)
install(EXPORT kvpage_targets NAMESPACE kvpage:: FILE kvpage-targets.cmake DESTINATION ${package_dir})
if(kvpage_with_cuda)
  install(DIRECTORY include/kvpage kernels/kvpage TYPE INCLUDE FILES_MATCHING PATTERN "*.cuh")
  install(TARGETS kvpage_cuda EXPORT kvpage_cuda_targets)
  install(EXPORT kvpage_cuda_targets NAMESPACE kvpage:: FILE kvpage-cuda-targets.cmake DESTINATION ${package_dir})
endif()

configure_package_config_file(cmake/kvpage-config.cmake.in kvpage-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(kvpage-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/kvpage-config.cmake ${PROJECT_BINARY_DIR}/kvpage-config-version.cmake
        DESTINATION ${package_dir})
