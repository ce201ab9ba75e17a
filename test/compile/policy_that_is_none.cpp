// expect: integrity_policy
#include <kvpage/page_handle.hpp>

#ifdef KVPAGE_CONTROL
using policy = kvpage::tagged;
#else
struct policy {};
#endif

kvpage::page_handle<kvpage::bf16, policy> handle;
