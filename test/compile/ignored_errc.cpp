// expect: (unused-result|unused-value)
#include <kvpage/error.hpp>

kvpage::errc may_fail();

void ignore() {
#ifdef KVPAGE_CONTROL
  if (may_fail() != kvpage::errc::ok) return;
#else
  may_fail();
#endif
}
