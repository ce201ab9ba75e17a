// Main of the CUDA tests.  Without a device the tests are skipped (status 77), not passed.  Under the
// emulated runtime, what its checkers found fails the test that caused it.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>

extern "C" __attribute__((weak)) unsigned long long cudaemu_findings(void);

namespace {

class findings_fail : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override { before_ = cudaemu_findings(); }
  void OnTestEnd(const testing::TestInfo&) override { EXPECT_EQ(cudaemu_findings(), before_); }

 private:
  unsigned long long before_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess || devices == 0) {
    std::printf("skipped, no CUDA device: %s\n", cudaGetErrorString(status));
    return 77;
  }
  if (cudaemu_findings != nullptr) testing::UnitTest::GetInstance()->listeners().Append(new findings_fail);
  return RUN_ALL_TESTS();
}
