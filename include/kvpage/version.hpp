// kvpage: the library's version, for the preprocessor and for the compiler.
#pragma once

#define KVPAGE_VERSION_MAJOR 0
#define KVPAGE_VERSION_MINOR 1
#define KVPAGE_VERSION_PATCH 0

namespace kvpage::inline v0 {

inline constexpr int version_major = KVPAGE_VERSION_MAJOR;
inline constexpr int version_minor = KVPAGE_VERSION_MINOR;
inline constexpr int version_patch = KVPAGE_VERSION_PATCH;

}  // namespace kvpage::inline v0
