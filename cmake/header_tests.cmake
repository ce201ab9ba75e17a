# Every header compiles alone; and twice, in a translation unit whose earlier includes left hostile macros.
# Standard headers don't survive such macros themselves, so all that ours include come before them.

# Writes both files for each header of `root` that matches, and compiles them.
function(kvpage_add_header_tests target root pattern extension)
  set(work ${PROJECT_BINARY_DIR}/header_tests)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/${root}
       ${PROJECT_SOURCE_DIR}/${root}/kvpage/${pattern})
  set(sources)
  foreach(header IN LISTS headers)
    string(MAKE_C_IDENTIFIER ${header} name)
    set(alone ${work}/${name}_alone.${extension})
    set(hostile ${work}/${name}_hostile.${extension})
    file(CONFIGURE OUTPUT ${alone} CONTENT "#include <${header}>\n")
    file(CONFIGURE OUTPUT ${hostile} CONTENT "#include \"hostile_macros.hpp\"\n\n#include <${header}>\n#include <${header}>\n")
    list(APPEND sources ${alone} ${hostile})
  endforeach()
  if(NOT sources)
    return()
  endif()

  list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/${root}/)
  set(macros ${work}/${target}/hostile_macros.hpp)
  add_custom_command(
    OUTPUT ${macros}
    COMMAND ${CMAKE_COMMAND} "-DHEADERS=${headers}" -DOUTPUT=${macros} -P ${PROJECT_SOURCE_DIR}/cmake/hostile_macros.cmake
    DEPENDS ${headers} ${PROJECT_SOURCE_DIR}/cmake/hostile_macros.cmake
    VERBATIM)
  add_library(${target} OBJECT ${sources} ${macros})
  target_include_directories(${target} PRIVATE ${work}/${target})
  target_link_libraries(${target} PRIVATE kvpage::kvpage kvpage_strict)
endfunction()

kvpage_add_header_tests(kvpage_header_tests include *.hpp cpp)
if(kvpage_with_cuda)
  foreach(root include kernels)
    kvpage_add_header_tests(kvpage_${root}_cuh_tests ${root} *.cuh cu)
    if(TARGET kvpage_${root}_cuh_tests)
      target_link_libraries(kvpage_${root}_cuh_tests PRIVATE kvpage::cuda)
    endif()
  endforeach()
endif()
