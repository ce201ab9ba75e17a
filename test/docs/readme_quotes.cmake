# README.md's C++ example is examples/quickstart.cpp, to the letter.
cmake_minimum_required(VERSION 3.25)
file(READ ${ROOT}/README.md readme)
file(READ ${ROOT}/examples/quickstart.cpp example)
string(FIND "${readme}" "```cpp\n${example}```\n" place)
if(place EQUAL -1)
  message(FATAL_ERROR "README.md's example differs from examples/quickstart.cpp")
endif()
