#include <kvpage/kvpage.hpp>

static_assert(__cplusplus >= 202002L);

int main() {
  const kvpage::page_handle<kvpage::fp8_e4m3, kvpage::tagged> handle;
  return handle.is_null() && kvpage::version_major == KVPAGE_VERSION_MAJOR ? 0 : 1;
}
