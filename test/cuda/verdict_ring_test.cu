// The host's side of the verdict ring, over memory that the test writes as the device would.
#include <gtest/gtest.h>
#include <kvpage/cuda/verdict_ring.cuh>

#include <array>
#include <cstddef>

namespace {

using kvpage::step_number;
using kvpage::cuda::poll_state;

constexpr std::uint32_t slots = 2, max_rows = 3;

struct written_ring {
  alignas(64) std::array<std::byte, slots * kvpage::cuda::detail::verdict_view::slot_bytes(max_rows)> bytes{};
  step_number begun = 0;
  kvpage::cuda::detail::verdict_view view{bytes.data(), slots, max_rows};
  kvpage::cuda::verdict_ring ring{view, begun};

  void verify(step_number step) {
    const auto slot = view.at(step);
    slot.summary = {.step = step, .rows = 2, .entries = 5, .failed_rows = 1};
    slot.failed[0] = {1, {.state = kvpage::row_state::stale_page}};
    slot.verified = step;
  }
};

}  // namespace

TEST(verdict_ring, a_step_is_pending_until_it_has_begun_and_been_verified) {
  written_ring device;
  EXPECT_EQ(device.ring.poll(1).state, poll_state::pending);
  device.begun = 1;
  EXPECT_EQ(device.ring.poll(1).state, poll_state::pending);
  device.verify(1);
  const auto found = device.ring.poll(1);
  EXPECT_EQ(found.state, poll_state::verified);
  EXPECT_EQ(found.summary, (kvpage::verify_summary{1, 2, 5, 1}));
  ASSERT_EQ(found.failed.size(), 1u);
  EXPECT_EQ(found.failed[0].row, 1u);
  EXPECT_EQ(device.ring.poll(3).state, poll_state::pending);  // in the same slot
}

TEST(verdict_ring, a_step_is_missed_once_a_later_one_has_begun) {
  written_ring device;
  device.begun = 2;
  EXPECT_EQ(device.ring.poll(1).state, poll_state::missed);
}

// Between the beginning of a step and the end of its verification, its slot holds some of both.
TEST(verdict_ring, a_step_has_expired_once_the_one_that_takes_its_slot_has_begun) {
  written_ring device;
  device.begun = 1;
  device.verify(1);
  device.begun = 3;
  device.view.at(3).summary.rows = 63;
  const auto found = device.ring.poll(1);
  EXPECT_EQ(found.state, poll_state::expired);
  EXPECT_EQ(found.summary, kvpage::verify_summary{});
  EXPECT_TRUE(found.failed.empty());
  device.verify(3);
  EXPECT_EQ(device.ring.poll(1).state, poll_state::expired);
  EXPECT_EQ(device.ring.poll(3).state, poll_state::verified);
}

TEST(verdict_ring_death, step_0_is_none_and_never_verified) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const written_ring device;
  EXPECT_DEATH(static_cast<void>(device.ring.poll(0)), "");
}
