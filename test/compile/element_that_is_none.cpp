// expect: (constraint failure|constraints not satisfied)
#include <kvpage/page_handle.hpp>

#ifdef KVPAGE_CONTROL
using element = kvpage::fp8_e5m2;
#else
using element = long long;
#endif

kvpage::page_handle<element, kvpage::tagged> handle;
