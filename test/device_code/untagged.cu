#include <kvpage/cuda/verifier.cuh>

using untagged_pool = kvpage::page_pool<kvpage::fp8_e4m3, kvpage::untagged>;

template class kvpage::cuda::device_tables<untagged_pool>;
template class kvpage::cuda::verifier<untagged_pool>;
