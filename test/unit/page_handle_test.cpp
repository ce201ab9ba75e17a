#include <gtest/gtest.h>
#include <kvpage/page_handle.hpp>

#include <cstring>
#include <type_traits>

namespace {

using kvpage::bf16;
using kvpage::fp8_e4m3;
using kvpage::page_handle;
using kvpage::tagged;
using kvpage::untagged;

template <class Handle, std::size_t Bytes>
constexpr bool has_kernel_layout =
    sizeof(Handle) == Bytes &&
    alignof(Handle) == Bytes&& std::is_trivially_copyable_v<Handle>&& std::is_standard_layout_v<Handle>;

static_assert(has_kernel_layout<page_handle<bf16, untagged>, 4>);
static_assert(has_kernel_layout<page_handle<fp8_e4m3, untagged>, 4>);
static_assert(has_kernel_layout<page_handle<bf16, tagged>, 8>);
static_assert(has_kernel_layout<page_handle<fp8_e4m3, kvpage::basic_tagged<std::uint8_t>>, 8>);

static_assert(!std::is_convertible_v<page_handle<fp8_e4m3, tagged>, page_handle<bf16, tagged>>);
static_assert(!std::is_convertible_v<page_handle<bf16, untagged>, page_handle<bf16, tagged>>);
static_assert(!std::is_convertible_v<page_handle<bf16, tagged>, page_handle<bf16, untagged>>);
static_assert(!std::is_convertible_v<kvpage::page_id, page_handle<bf16, untagged>>);

}  // namespace

TEST(page_handle, a_default_one_is_the_null_pages) {
  const page_handle<bf16, tagged> none;
  EXPECT_TRUE(none.is_null());
  EXPECT_EQ(none.id(), kvpage::null_page);
  EXPECT_EQ(none.tag(), 0U);
  EXPECT_TRUE((page_handle<bf16, untagged>{}.is_null()));
}

TEST(page_handle, case_N_two_grants_of_one_page_differ) {
  using handle = page_handle<bf16, tagged>;
  EXPECT_EQ((handle{5, 1}), (handle{5, 1}));
  EXPECT_NE((handle{5, 1}), (handle{5, 3}));
  EXPECT_NE((handle{5, 1}), (handle{6, 1}));
}

TEST(page_handle, memory_holds_the_id_first) {
  const page_handle<bf16, tagged> handle{0x0102'0304, 0x0506'0709};
  std::uint32_t words[2];
  std::memcpy(words, &handle, sizeof words);
  EXPECT_EQ(words[0], 0x0102'0304U);
  EXPECT_EQ(words[1], 0x0506'0709U);
}
