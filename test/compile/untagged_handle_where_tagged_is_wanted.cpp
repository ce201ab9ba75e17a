// expect: (no known conversion from|could not convert).*page_handle<.*tagged
#include <kvpage/page_handle.hpp>

void wants_tagged(kvpage::page_handle<kvpage::bf16, kvpage::tagged>);

#ifdef KVPAGE_CONTROL
using given = kvpage::tagged;
#else
using given = kvpage::untagged;
#endif

void pass(kvpage::page_handle<kvpage::bf16, given> handle) { wants_tagged(handle); }
