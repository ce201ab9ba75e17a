#include <gtest/gtest.h>
#include <kvpage/version.hpp>

#include <string>

// The build system reads the version from the header; what it read comes back through KVPAGE_CMAKE_VERSION.
TEST(version, is_the_one_that_the_package_carries) {
  EXPECT_EQ(std::to_string(kvpage::version_major) + '.' + std::to_string(kvpage::version_minor) + '.' +
                std::to_string(kvpage::version_patch),
            KVPAGE_CMAKE_VERSION);
}
