#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <kvpage/page_handle.hpp>

namespace {

using handle = kvpage::page_handle<kvpage::fp8_e4m3, kvpage::tagged>;

struct seen {
  kvpage::page_id id;
  kvpage::page_tag tag;
  std::uint32_t bytes;
};

__global__ void read_handle(const handle* given, seen* found) {
  *found = {given->id(), given->tag(), static_cast<std::uint32_t>(sizeof(handle))};
}

}  // namespace

TEST(page_handle, the_device_reads_the_handle_that_the_host_wrote) {
  const handle given{7, 41};
  handle* d_given = nullptr;
  seen* d_found = nullptr;
  ASSERT_EQ(cudaMalloc(&d_given, sizeof given), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&d_found, sizeof(seen)), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(d_given, &given, sizeof given, cudaMemcpyHostToDevice), cudaSuccess);

  read_handle<<<1, 1>>>(d_given, d_found);
  ASSERT_EQ(cudaGetLastError(), cudaSuccess);

  seen found{};
  ASSERT_EQ(cudaMemcpy(&found, d_found, sizeof found, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(found.id, 7U);
  EXPECT_EQ(found.tag, 41U);
  EXPECT_EQ(found.bytes, sizeof(handle));
  EXPECT_EQ(cudaFree(d_given), cudaSuccess);
  EXPECT_EQ(cudaFree(d_found), cudaSuccess);
}
