# Every header compiles alone; and twice, in a translation unit whose earlier includes left hostile macros.
# Foreign headers don't survive such macros themselves, so all that ours include come before them.
file(GLOB_RECURSE host_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/kvpage/*.hpp)
file(GLOB_RECURSE cuda_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/kvpage/*.cuh
     ${PROJECT_SOURCE_DIR}/kernels/kvpage/*.cuh)

# Writes both files for each header and compiles them; `all_headers` are those that a header may include.
function(kvpage_add_header_tests target extension headers all_headers)
  set(work ${PROJECT_BINARY_DIR}/header_tests)
  set(sources)
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "^.*/(include|kernels)/kvpage/" "kvpage/" header ${header})
    string(MAKE_C_IDENTIFIER ${header} name)
    set(alone ${work}/${name}_alone.${extension})
    set(hostile ${work}/${name}_hostile.${extension})
    file(CONFIGURE OUTPUT ${alone} CONTENT "#include <${header}>\n")
    file(CONFIGURE OUTPUT ${hostile}
         CONTENT "#include \"hostile_macros.hpp\"\n\n#include <${header}>\n#include <${header}>\n")
    list(APPEND sources ${alone} ${hostile})
  endforeach()

  set(macros ${work}/${target}/hostile_macros.hpp)
  add_custom_command(
    OUTPUT ${macros}
    COMMAND ${CMAKE_COMMAND} "-DHEADERS=${all_headers}" -DOUTPUT=${macros} -P
            ${PROJECT_SOURCE_DIR}/cmake/hostile_macros.cmake
    DEPENDS ${all_headers} ${PROJECT_SOURCE_DIR}/cmake/hostile_macros.cmake
    VERBATIM)
  add_library(${target} OBJECT ${sources} ${macros})
  target_include_directories(${target} PRIVATE ${work}/${target})
  target_link_libraries(${target} PRIVATE kvpage::kvpage kvpage_strict)
endfunction()

kvpage_add_header_tests(kvpage_header_tests cpp "${host_headers}" "${host_headers}")
if(kvpage_with_cuda AND cuda_headers)
  kvpage_add_header_tests(kvpage_cuda_header_tests cu "${cuda_headers}" "${host_headers};${cuda_headers}")
  target_link_libraries(kvpage_cuda_header_tests PRIVATE kvpage::cuda)
  add_dependencies(cuda_tests kvpage_cuda_header_tests)
endif()
