#include <kvpage/cuda/verifier.cuh>

using fp8_pool = kvpage::page_pool<kvpage::fp8_e4m3, kvpage::tagged>;

template class kvpage::cuda::device_tables<fp8_pool>;
template class kvpage::cuda::verifier<fp8_pool>;
