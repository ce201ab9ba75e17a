#include "kvpage/storage_operations.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "storage_fixture.hpp"

namespace {

using namespace kvpage_test;
using kvpage::bf16;
using kvpage::decode;
using kvpage::encode;
using kvpage::errc;
using kvpage::fp16;
using kvpage::fp8_e4m3;
using kvpage::fp8_e5m2;
using kvpage::null_page;
using kvpage::page_layout;
using kvpage::skipped_slot;
using kvpage::slot_index;

constexpr std::byte leftover{0x7F};  // NaN as fp8_e4m3 and fp8_e5m2, large as bf16 and fp16
constexpr std::uint64_t pages_in_storage = 16;

template <class E>
class StorageOperations : public testing::Test {};
using all_elements = testing::Types<bf16, fp16, fp8_e4m3, fp8_e5m2>;
TYPED_TEST_SUITE(StorageOperations, all_elements);

// Calls check(shape, layout) for everything that an element type can be stored as.
template <class E, class Check>
void for_each_storage(std::uint32_t tokens_per_page, Check check) {
  for (const named_shape& named : shapes_of<E>(tokens_per_page))
    for (const page_layout& layout : layouts_of(named.shape, pages_in_storage)) {
      SCOPED_TRACE(named.name);
      check(named.shape, layout);
    }
}

// Calls visit(index in keys or values, index in its tile, first of its tile) ... for the numbers of a part.
template <class T, class Visit>
void for_each_value(const page_shape& shape, const token_buffer<T>& buffer, std::size_t tokens, Visit visit) {
  for (std::uint32_t part = 0; part < shape.parts(); ++part)
    for (std::size_t token = 0; token < tokens; ++token)
      for (std::uint32_t head = 0; head < shape.heads(); ++head)
        for (std::uint32_t i = 0; i < shape.dim(); ++i)
          visit(part, head, i, token * buffer.stride + std::size_t{head} * shape.dim() + i);
}

template <class T>
const std::vector<T>& part_of(const token_buffer<T>& buffer, std::uint32_t part) {
  return part == 0 ? buffer.keys : buffer.values;
}

// The scale that the documentation promises for a value, from the input alone.
template <class E>
float expected_scale(const page_shape& shape, const std::vector<float>& input,
                     const std::vector<float>& calibrated, std::uint32_t layer, std::uint32_t part,
                     std::uint32_t head, std::uint32_t i, std::size_t at) {
  if (shape.scales() == scale_rule::none) return 1.0f;
  if (shape.tiles() == 0) return calibrated[shape.calibrated_index(layer, part, head)];
  const std::size_t tile = at - i % shape.tile_dim();
  float largest = 0;
  for (std::size_t k = tile; k < tile + shape.tile_dim(); ++k)
    largest = std::max(largest, std::abs(input[k]));
  const float scale =
      std::max(largest / kvpage::element_traits<E>::largest, std::numeric_limits<float>::min());
  return shape.scale_bytes() == 1 ? std::exp2(std::ceil(std::log2(scale))) : scale;
}

TYPED_TEST(StorageOperations, AppendThenGatherGivesTheNearestStorableValue) {
  using E = TypeParam;
  for_each_storage<E>(4, [](const page_shape& shape, const page_layout& layout) {
    for (const std::size_t tokens : {0u, 1u, 3u, 4u, 5u, 8u}) {
      stored_request<E> request{shape, layout, tokens, leftover};
      token_buffer<float> input{shape, tokens};
      for (std::uint32_t layer = 0; layer < shape.layers(); ++layer) {
        input.randomise(layer + 1);
        ASSERT_EQ(append(request.view, layer, request.slots(), std::as_const(input).arrays()), errc::ok);
        token_buffer<float> output{shape, tokens};
        ASSERT_EQ(gather(request.tokens(), layer, output.arrays()), errc::ok);

        for_each_value(shape, input, tokens, [&](auto part, auto head, auto i, std::size_t at) {
          const float in = part_of(input, part)[at];
          const float out = part_of(output, part)[at];
          if (i >= shape.encoded_dim()) {
            ASSERT_EQ(out, decode(encode<bf16>(in)));
            return;
          }
          const float scale =
              expected_scale<E>(shape, part_of(input, part), request.calibrated, layer, part, head, i, at);
          ASSERT_EQ(out, decode(encode<E>(in / scale)) * scale) << "value " << in << ", scale " << scale;
        });
      }
    }
  });
}

// Half a unit in the last place of the element, at the value's scale.
TYPED_TEST(StorageOperations, AppendThenGatherIsWithinHalfAUnit) {
  using E = TypeParam;
  const float relative = sizeof(E) == 2 ? 0x1p-8f : std::is_same_v<E, fp8_e4m3> ? 0x1p-4f : 0x1p-3f;
  const float smallest = decode(E{1});
  for_each_storage<E>(4, [&](const page_shape& shape, const page_layout& layout) {
    if (shape.tiles() == 0 && shape.scales() != scale_rule::none) return;  // calibrated ones may saturate
    stored_request<E> request{shape, layout, 9, leftover};
    token_buffer<float> input{shape, 9}, output{shape, 9};
    input.randomise(5);
    ASSERT_EQ(append(request.view, 0, request.slots(), std::as_const(input).arrays()), errc::ok);
    ASSERT_EQ(gather(request.tokens(), 0, output.arrays()), errc::ok);
    for_each_value(shape, input, 9, [&](auto part, auto head, auto i, std::size_t at) {
      const float in = part_of(input, part)[at];
      const float scale = i < shape.encoded_dim()
                              ? expected_scale<E>(shape, part_of(input, part), {}, 0, part, head, i, at)
                              : 1.0f;
      const float bound = std::max(std::abs(in) * relative, scale * smallest / 2) * 1.0001f;
      ASSERT_LE(std::abs(part_of(output, part)[at] - in), bound) << in;
    });
  });
}

TYPED_TEST(StorageOperations, UnscaledElementsComeBackBitForBit) {
  using E = TypeParam;
  for_each_storage<E>(4, [](const page_shape& shape, const page_layout& layout) {
    if (shape.scales() != scale_rule::none) return;
    stored_request<E> request{shape, layout, 7, leftover};
    token_buffer<E> input{shape, 7}, output{shape, 7};
    int bits = 0;  // every pattern in turn, NaNs included
    for (std::vector<E>* part : {&input.keys, &input.values})
      for (E& value : *part) value = E{static_cast<decltype(E::bits)>(bits += 37)};
    ASSERT_EQ(append(request.view, 1, request.slots(), std::as_const(input).arrays()), errc::ok);
    ASSERT_EQ(gather(request.tokens(), 1, output.arrays()), errc::ok);
    for_each_value(shape, input, 7, [&](auto part, auto, auto, std::size_t at) {
      ASSERT_EQ(part_of(input, part)[at], part_of(output, part)[at]);
    });
  });
}

// Inputs of every numeric type store what the same values as floats do.
TYPED_TEST(StorageOperations, InputsOfEveryType) {
  using E = TypeParam;
  for_each_storage<E>(4, [](const page_shape& shape, const page_layout& layout) {
    const auto check = [&]<class T>(T) {
      token_buffer<T> input{shape, 6};
      input.randomise(9);
      token_buffer<float> as_float{shape, 6};
      std::ranges::transform(input.keys, as_float.keys.begin(), kvpage::convert_value<float, T>);
      std::ranges::transform(input.values, as_float.values.begin(), kvpage::convert_value<float, T>);
      stored_request<E> one{shape, layout, 6, leftover}, other{shape, layout, 6, leftover};
      ASSERT_EQ(append(one.view, 0, one.slots(), std::as_const(input).arrays()), errc::ok);
      ASSERT_EQ(append(other.view, 0, other.slots(), std::as_const(as_float).arrays()), errc::ok);
      EXPECT_EQ(one.bytes(), other.bytes());
    };
    check(float{});
    check(bf16{});
    check(fp16{});
  });
}

// Latent and rotary part in arrays of their own, as engines compute them, store what one array does.
template <class T, class E>
void check_split_arrays(const page_shape& shape, const page_layout& layout, std::uint32_t latent_dim) {
  token_buffer<T> joint{shape, 6};
  joint.randomise(13);
  joint.keys[2] = kvpage::convert_value<T>(-std::numeric_limits<float>::quiet_NaN());
  split_buffer<T> split{shape, 6, latent_dim};
  split.for_each_pair(joint, [](T& here, const T& there) { here = there; });
  stored_request<E> one{shape, layout, 6, leftover}, two{shape, layout, 6, leftover};
  const kvpage::token_arrays<T> arrays = split.arrays();
  const kvpage::token_arrays<const T> input{arrays.keys, arrays.values, arrays.stride, arrays.latent_dim,
                                            arrays.rope_stride};
  ASSERT_EQ(append(one.view, 1, one.slots(), std::as_const(joint).arrays()), errc::ok);
  ASSERT_EQ(append(two.view, 1, two.slots(), input), errc::ok);
  EXPECT_EQ(one.bytes(), two.bytes());

  split_buffer<T> found{shape, 6, latent_dim};
  ASSERT_EQ(gather(one.tokens(), 1, joint.arrays()), errc::ok);
  ASSERT_EQ(gather(one.tokens(), 1, found.arrays()), errc::ok);
  found.for_each_pair(
      joint, [](const T& here, const T& there) { ASSERT_EQ(std::memcmp(&here, &there, sizeof(T)), 0); });
}

TYPED_TEST(StorageOperations, MlaInTwoArrays) {
  using E = TypeParam;
  for_each_storage<E>(4, [](const page_shape& shape, const page_layout& layout) {
    if (shape.parts() != 1) return;
    for (const std::uint32_t latent_dim : {shape.dim() - 64, 5u}) {
      check_split_arrays<float, E>(shape, layout, latent_dim);
      check_split_arrays<bf16, E>(shape, layout, latent_dim);
      check_split_arrays<E, E>(shape, layout, latent_dim);
    }
  });
}

// Nothing but the tokens' own bytes changes: not the null page, not other pages, not the padding.
TYPED_TEST(StorageOperations, CaseGSkippedSlotsPaddingAndTheNullPageStayAsTheyAre) {
  using E = TypeParam;
  for_each_storage<E>(4, [](const page_shape& shape, const page_layout& layout) {
    stored_request<E> request{shape, layout, 6, leftover};
    const std::vector<std::byte> before = request.bytes();
    token_buffer<float> input{shape, 6};
    input.randomise(2);
    std::vector<slot_index> slots(6, skipped_slot);
    ASSERT_EQ(append(request.view, 0, slots, std::as_const(input).arrays()), errc::ok);
    EXPECT_EQ(request.bytes(), before);

    slots[2] = *request.table.slot(5);
    ASSERT_EQ(append(request.view, 1, slots, std::as_const(input).arrays()), errc::ok);
    const std::vector<std::byte> after = request.bytes();
    std::vector<bool> may_change(before.size());
    const kvpage::page_id page = request.table.handles()[1].id();
    const auto block = layout.block_offset(page, 1);
    for (std::uint32_t part = 0; part < shape.parts(); ++part)
      for (std::uint32_t head = 0; head < shape.heads(); ++head) {
        const auto mark = [&](std::uint64_t offset, std::uint64_t count) {
          for (std::uint64_t i = 0; i < count; ++i) may_change.at(block + offset + i) = true;
        };
        mark(shape.vector_offset(part, 1, head), shape.encoded_dim() * sizeof(E));
        if (shape.dim() > shape.encoded_dim())
          mark(shape.rope_offset(part, 1, head), (shape.dim() - shape.encoded_dim()) * 2);
        mark(shape.scale_offset(part, 1, head), shape.tiles() * shape.scale_bytes());
      }
    for (std::size_t i = 0; i < before.size(); ++i)
      ASSERT_TRUE(may_change[i] || after[i] == before[i]) << "byte " << i;
  });
}

TYPED_TEST(StorageOperations, CaseGSlotsOutOfRangeAreRefusedAndNothingIsWritten) {
  using E = TypeParam;
  const named_shape named = shapes_of<E>(4).back();
  const page_layout layout = page_layout::page_major(named.shape, pages_in_storage);
  stored_request<E> request{named.shape, layout, 6, leftover};
  const std::vector<std::byte> before = request.bytes();
  token_buffer<float> input{named.shape, 6};
  const struct {
    slot_index slot;
    errc expected;
  } cases[] = {{-2, errc::outside_pool},
               {std::numeric_limits<slot_index>::min(), errc::outside_pool},
               {0, errc::null_handle},
               {3, errc::null_handle},
               {slot_index{pages_in_storage} * 4, errc::outside_pool},
               {slot_index{1} << 34, errc::outside_pool}};  // page 0 if cut to 32 bits
  for (const auto& c : cases) {
    std::vector<slot_index> slots = request.slots();
    slots.back() = c.slot;
    EXPECT_EQ(append(request.view, 0, slots, std::as_const(input).arrays()), c.expected) << c.slot;
    EXPECT_EQ(request.bytes(), before);
  }
}

TYPED_TEST(StorageOperations, AllZeroTokensAreZerosWhateverTheScale) {
  using E = TypeParam;
  for_each_storage<E>(4, [](const page_shape& shape, const page_layout& layout) {
    stored_request<E> request{shape, layout, 5, leftover};
    const token_buffer<float> zeros{shape, 5};
    token_buffer<float> output{shape, 5, 1.0f};
    ASSERT_EQ(append(request.view, 0, request.slots(), zeros.arrays()), errc::ok);
    ASSERT_EQ(gather(request.tokens(), 0, output.arrays()), errc::ok);
    for_each_value(shape, output, 5, [&](auto part, auto, auto, std::size_t at) {
      ASSERT_EQ(part_of(output, part)[at], 0.0f);
    });
  });
}

TYPED_TEST(StorageOperations, CaseJOneBadValueSpoilsNoOther) {
  using E = TypeParam;
  for_each_storage<E>(4, [](const page_shape& shape, const page_layout& layout) {
    stored_request<E> request{shape, layout, 1, leftover};
    token_buffer<float> input{shape, 1, 1.0f}, output{shape, 1};
    input.keys[3] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_EQ(append(request.view, 0, request.slots(), std::as_const(input).arrays()), errc::ok);
    ASSERT_EQ(gather(request.tokens(), 0, output.arrays()), errc::ok);
    EXPECT_TRUE(std::isnan(output.keys[3]));
    for_each_value(shape, output, 1, [&](auto part, auto, auto, std::size_t at) {
      if (part == 0 && at == 3) return;
      ASSERT_TRUE(std::isfinite(part_of(output, part)[at])) << at;
    });

    input.keys[3] = std::numeric_limits<float>::infinity();
    ASSERT_EQ(append(request.view, 0, request.slots(), std::as_const(input).arrays()), errc::ok);
    ASSERT_EQ(gather(request.tokens(), 0, output.arrays()), errc::ok);
    for_each_value(shape, output, 1, [&](auto part, auto, auto, std::size_t at) {
      if (part == 0 && at == 3) return;
      ASSERT_TRUE(std::isfinite(part_of(output, part)[at])) << at;
    });
  });
}

TYPED_TEST(StorageOperations, CaseJScalesTravelWithCopiedPages) {
  using E = TypeParam;
  for_each_storage<E>(4, [](const page_shape& shape, const page_layout& layout) {
    stored_request<E> request{shape, layout, 6, leftover};
    token_buffer<float> input{shape, 6};
    for (std::uint32_t layer = 0; layer < shape.layers(); ++layer) {
      input.randomise(layer);
      ASSERT_EQ(append(request.view, layer, request.slots(), std::as_const(input).arrays()), errc::ok);
    }
    kvpage::block_table<typename stored_request<E>::pool_type> copy{request.pool};
    ASSERT_EQ(copy.append(6), errc::ok);
    std::vector<kvpage::page_copy<typename stored_request<E>::handle>> copies;
    for (std::size_t page = 0; page < copy.pages(); ++page)
      copies.push_back({request.table.handles()[page], copy.handles()[page], 4});
    copies.push_back({});  // as appending without a shared page gives it
    ASSERT_EQ(copy_pages(request.view, request.pool, copies), errc::ok);

    for (std::uint32_t layer = 0; layer < shape.layers(); ++layer) {
      token_buffer<float> original{shape, 6}, copied{shape, 6};
      ASSERT_EQ(gather(request.tokens(), layer, original.arrays()), errc::ok);
      ASSERT_EQ(
          gather(kvpage::paged_tokens{request.view, request.pool, copy.handles(), 6}, layer, copied.arrays()),
          errc::ok);
      EXPECT_TRUE(same_bits(original.keys, copied.keys));
      EXPECT_TRUE(same_bits(original.values, copied.values));
    }
  });
}

// From every shape into every other shape of the same vectors: as if the source's values had been appended.
template <class From, class To>
void check_conversions() {
  for (const named_shape& source : shapes_of<From>(4))
    for (const named_shape& target : shapes_of<To>(6)) {
      if (!kvpage::detail::same_vectors(source.shape, target.shape)) continue;
      SCOPED_TRACE(source.name + " to " + target.name);
      stored_request<From> from{source.shape, page_layout::layer_major(source.shape, pages_in_storage), 13,
                                leftover};
      const page_layout layout = page_layout::page_major(target.shape, pages_in_storage);
      stored_request<To> to{target.shape, layout, 13, leftover}, expected{target.shape, layout, 13, leftover};
      token_buffer<float> values{source.shape, 13};
      for (std::uint32_t layer = 0; layer < source.shape.layers(); ++layer) {
        values.randomise(layer + 20);
        ASSERT_EQ(append(from.view, layer, from.slots(), std::as_const(values).arrays()), errc::ok);
        ASSERT_EQ(gather(from.tokens(), layer, values.arrays()), errc::ok);
        ASSERT_EQ(append(expected.view, layer, expected.slots(), std::as_const(values).arrays()), errc::ok);
      }
      ASSERT_EQ(convert_pages(from.tokens(), to.tokens()), errc::ok);
      EXPECT_EQ(to.bytes(), expected.bytes());
    }
}

TYPED_TEST(StorageOperations, ConvertsPagesToEveryElementShapeAndPageSize) {
  check_conversions<TypeParam, bf16>();
  check_conversions<TypeParam, fp8_e4m3>();
  check_conversions<TypeParam, fp8_e5m2>();
}

TYPED_TEST(StorageOperations, ConvertingToFp8AndBackKeepsWhatFp8Holds) {
  using E = TypeParam;
  if constexpr (sizeof(E) == 1) {
    const page_shape narrow = shapes_of<E>(4)[0].shape, wide = shapes_of<bf16>(4)[0].shape;
    stored_request<E> from{narrow, page_layout::layer_major(narrow, 8), 9, leftover};
    stored_request<E> back{narrow, page_layout::layer_major(narrow, 8), 9, leftover};
    stored_request<bf16> between{wide, page_layout::layer_major(wide, 8), 9, leftover};
    token_buffer<float> values{narrow, 9};
    values.randomise(4);
    for (const std::uint32_t layer : {0u, 1u})
      ASSERT_EQ(append(from.view, layer, from.slots(), std::as_const(values).arrays()), errc::ok);
    ASSERT_EQ(convert_pages(from.tokens(), between.tokens()), errc::ok);
    ASSERT_EQ(convert_pages(between.tokens(), back.tokens()), errc::ok);
    EXPECT_EQ(from.bytes(), back.bytes()) << "bf16 holds every finite 8-bit value";
  }
}

TYPED_TEST(StorageOperations, ClearedPagesAreZeroAndTheOthersAreNot) {
  using E = TypeParam;
  for_each_storage<E>(4, [](const page_shape& shape, const page_layout& layout) {
    stored_request<E> request{shape, layout, 8, leftover};
    ASSERT_EQ(clear_pages(request.view, request.pool, request.table.handles().first(1)), errc::ok);
    std::vector<std::byte> expected = request.bytes();
    std::ranges::fill(expected, leftover);
    for (std::uint32_t layer = 0; layer < shape.layers(); ++layer)
      for (const kvpage::page_id page : {null_page, request.table.handles()[0].id()})
        std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(layout.block_offset(page, layer)),
                    shape.block_bytes(), std::byte{0});
    EXPECT_EQ(request.bytes(), expected);
  });
}

TEST(StorageOperations, CaseNStaleHandlesReadAndWriteNothing) {
  const page_shape shape = shapes_of<bf16>(4)[0].shape;
  stored_request<bf16> request{shape, page_layout::layer_major(shape, pages_in_storage), 8, leftover};
  const std::vector<kvpage::page_handle<bf16, kvpage::tagged>> kept{request.table.handles().begin(),
                                                                    request.table.handles().end()};
  ASSERT_EQ(request.table.truncate(4), errc::ok);
  ASSERT_EQ(request.table.append(4), errc::ok);  // the same page, granted again
  ASSERT_EQ(request.table.handles()[1].id(), kept[1].id());
  const std::vector<std::byte> before = request.bytes();

  token_buffer<float> output{shape, 8};
  const kvpage::paged_tokens<bf16, kvpage::tagged> stale{request.view, request.pool, kept, 8};
  EXPECT_EQ(gather(stale, 0, output.arrays()), errc::stale_handle);
  EXPECT_TRUE(same_bits(output.keys, token_buffer<float>{shape, 8}.keys))
      << "not even the good page was read";
  EXPECT_EQ(convert_pages(stale, request.tokens()), errc::stale_handle);
  EXPECT_EQ(convert_pages(request.tokens(), stale), errc::stale_handle);
  EXPECT_EQ(clear_pages(request.view, request.pool, kept), errc::stale_handle);
  const kvpage::page_copy<kvpage::page_handle<bf16, kvpage::tagged>> copies[] = {{kept[0], kept[1], 4}};
  EXPECT_EQ(copy_pages(request.view, request.pool, copies), errc::stale_handle);
  EXPECT_EQ(request.bytes(), before);
}

TEST(StorageOperations, CaseHFewerPagesThanTokensIsOutsideTheRow) {
  const page_shape shape = shapes_of<bf16>(4)[0].shape;
  const stored_request<bf16> request{shape, page_layout::layer_major(shape, pages_in_storage), 8, leftover};
  token_buffer<float> output{shape, 9};
  EXPECT_EQ(gather(kvpage::paged_tokens{request.view, request.pool, request.table.handles(), 9}, 0,
                   output.arrays()),
            errc::outside_row);
}

// deepseek-ai/FlashMLA's 656-byte token, read with nothing but its published layout.
TEST(StorageOperations, The656ByteTokenReadsAsPublished) {
  const page_shape shape = page_shape::mla_656(1, 4);
  stored_request<fp8_e4m3> request{shape, page_layout::layer_major(shape, 4), 2, leftover};
  token_buffer<float> input{shape, 2};
  input.randomise(1);
  ASSERT_EQ(append(request.view, 0, request.slots(), std::as_const(input).arrays()), errc::ok);
  const std::byte* const token = request.view.block(request.table.handles()[0].id(), 0) + 656;
  for (std::size_t i = 0; i < 512; ++i) {
    float scale;
    std::memcpy(&scale, token + 512 + i / 128 * 4, 4);
    const float value = decode(fp8_e4m3{static_cast<std::uint8_t>(token[i])}) * scale;
    const float in = input.keys[input.stride + i];
    ASSERT_LE(std::abs(value - in), std::max(std::abs(in) / 16, scale * 0x1p-10f) * 1.0001f) << i;
  }
  for (std::size_t i = 0; i < 64; ++i) {
    bf16 value;
    std::memcpy(&value, token + 528 + 2 * i, 2);
    ASSERT_EQ(value, encode<bf16>(input.keys[input.stride + 512 + i])) << i;
  }
}

TEST(StorageOperations, The584ByteTokenReadsAsPublished) {
  const page_shape shape = page_shape::mla_584(1, 4);
  stored_request<fp8_e4m3> request{shape, page_layout::layer_major(shape, 4), 2, leftover};
  token_buffer<float> input{shape, 2};
  input.randomise(1);
  ASSERT_EQ(append(request.view, 0, request.slots(), std::as_const(input).arrays()), errc::ok);
  const std::byte* const block = request.view.block(request.table.handles()[0].id(), 0);
  const std::byte* const token = block + 576;
  const std::byte* const scales = block + 4 * 576 + 8;
  for (std::size_t i = 0; i < 448; ++i) {
    const float scale = std::ldexp(1.0f, static_cast<int>(scales[i / 64]) - 127);
    const float value = decode(fp8_e4m3{static_cast<std::uint8_t>(token[i])}) * scale;
    const float in = input.keys[input.stride + i];
    ASSERT_LE(std::abs(value - in), std::max(std::abs(in) / 16, scale * 0x1p-10f) * 1.0001f) << i;
  }
  for (std::size_t i = 0; i < 64; ++i) {
    bf16 value;
    std::memcpy(&value, token + 448 + 2 * i, 2);
    ASSERT_EQ(value, encode<bf16>(input.keys[input.stride + 448 + i])) << i;
  }
}

}  // namespace
