// expect: (unused-result|unused-value)
#include <kvpage/error.hpp>

kvpage::result<int> may_fail();

void ignore() {
#ifdef KVPAGE_CONTROL
  if (!may_fail()) return;
#else
  may_fail();
#endif
}
