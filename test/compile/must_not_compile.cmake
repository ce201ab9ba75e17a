# Passes if SOURCE fails to compile with a message that matches its first line, `// expect: REGEX`, and
# compiles once KVPAGE_CONTROL is defined (the same code with the mistake put right), so that the failure
# has no other cause.  COMPILER and INCLUDES say how to compile.
cmake_minimum_required(VERSION 3.25)
set(ENV{LC_ALL} C)
list(FILTER INCLUDES EXCLUDE REGEX "^$")
list(TRANSFORM INCLUDES PREPEND -I)
set(compile ${COMPILER} -std=c++20 -fsyntax-only -Wall -Wextra -Werror ${INCLUDES})

file(STRINGS ${SOURCE} first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "refused: the first line is not \"// expect: REGEX\"")
endif()
set(expected "${CMAKE_MATCH_1}")

execute_process(COMMAND ${compile} -DKVPAGE_CONTROL ${SOURCE} RESULT_VARIABLE status ERROR_VARIABLE messages)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "refused: the control fails\n${messages}")
endif()

execute_process(COMMAND ${compile} ${SOURCE} RESULT_VARIABLE status ERROR_VARIABLE messages)
if(status EQUAL 0)
  message(FATAL_ERROR "refused: it compiles")
endif()
if(NOT messages MATCHES "${expected}")
  message(FATAL_ERROR "refused: no message matches \"${expected}\"\n${messages}")
endif()
