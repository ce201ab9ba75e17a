# What a consumer gets from kvpage::kvpage: C++20, include paths and GSL.  No flag, no definition, no other
# library; and no target of kvpage's tests.
function(expect_property property expected)
  get_target_property(found kvpage::kvpage ${property})
  if(NOT found)
    set(found "")
  endif()
  if(NOT "${found}" STREQUAL "${expected}")
    message(FATAL_ERROR "kvpage::kvpage hands on ${property} \"${found}\", not \"${expected}\"")
  endif()
endfunction()

expect_property(INTERFACE_COMPILE_FEATURES cxx_std_20)
expect_property(INTERFACE_LINK_LIBRARIES Microsoft.GSL::GSL)
foreach(nothing IN ITEMS COMPILE_OPTIONS COMPILE_DEFINITIONS LINK_OPTIONS LINK_DIRECTORIES SOURCES PRECOMPILE_HEADERS)
  expect_property(INTERFACE_${nothing} "")
endforeach()

foreach(private IN ITEMS kvpage_strict kvpage_header_tests kvpage::cuda GTest::gtest benchmark::benchmark)
  if(TARGET ${private})
    message(FATAL_ERROR "target ${private} came along")
  endif()
endforeach()
