# Writes OUTPUT: every foreign include of HEADERS, then the macros that such headers leave behind
# (windows.h: min, max, small; complex.h: I).
cmake_minimum_required(VERSION 3.25)
set(includes)
foreach(header IN LISTS HEADERS)
  file(STRINGS ${header} lines REGEX "^#include <")
  list(APPEND includes ${lines})
endforeach()
list(FILTER includes EXCLUDE REGEX "<kvpage/")
list(SORT includes)
list(REMOVE_DUPLICATES includes)
list(TRANSFORM includes REPLACE "#include (<[^>]+>).*" "#if __has_include(\\1)\n#include \\1\n#endif")
list(JOIN includes "\n" includes)

file(WRITE ${OUTPUT} "#pragma once

${includes}

#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define small char
#define I (0.0f + 1.0fi)
")
