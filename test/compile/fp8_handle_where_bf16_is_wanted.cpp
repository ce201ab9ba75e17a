// expect: (no known conversion from|could not convert).*page_handle<.*bf16
#include <kvpage/page_handle.hpp>

void wants_bf16(kvpage::page_handle<kvpage::bf16, kvpage::tagged>);

#ifdef KVPAGE_CONTROL
using given = kvpage::bf16;
#else
using given = kvpage::fp8_e4m3;
#endif

void pass(kvpage::page_handle<given, kvpage::tagged> handle) { wants_bf16(handle); }
