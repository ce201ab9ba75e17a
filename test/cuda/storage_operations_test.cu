// The storage kernels against the host's functions: every byte of the pages, and every value gathered.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <kvpage/cuda/device_storage.cuh>
#include <kvpage/cuda/storage_operations.cuh>
#include <utility>
#include <vector>

#include "../unit/storage_fixture.hpp"
#include "device_memory.cuh"

namespace {

using namespace kvpage_test;
using kvpage::bf16;
using kvpage::errc;
using kvpage::fp16;
using kvpage::fp8_e4m3;
using kvpage::fp8_e5m2;
using kvpage::page_layout;
using kvpage::skipped_slot;
using kvpage::slot_index;

namespace cuda = kvpage::cuda;

constexpr std::byte leftover{0x7F};
constexpr std::uint64_t pages_in_storage = 8;
constexpr std::size_t tokens = 5;

// A request's storage on the host, and its double on the device.
template <class E>
struct both_sides {
  both_sides(const page_shape& shape, const page_layout& layout)
      : host{shape, layout, tokens, leftover}, device{shape, layout, host.calibrated} {
    EXPECT_CUDA(
        cudaMemcpy(device.view().block(0, 0), host.view.block(0, 0), layout.bytes(), cudaMemcpyHostToDevice));
  }

  [[nodiscard]] bool same_pages() const {
    const std::vector<std::byte> found =
        read_sync(device.view().block(0, 0), device.view().layout().bytes(), nullptr);
    return std::memcmp(found.data(), host.view.block(0, 0), found.size()) == 0;
  }
  [[nodiscard]] std::vector<std::int32_t> page_ids() const {
    std::vector<std::int32_t> ids;
    for (const auto& page : host.table.handles()) ids.push_back(static_cast<std::int32_t>(page.id()));
    return ids;
  }

  stored_request<E> host;
  cuda::device_storage<E> device;
};

template <class T>
struct device_copy : device_array<T> {
  explicit device_copy(const std::vector<T>& values) : device_array<T>{values.size()} {
    if (!values.empty()) write_sync(this->data(), values, nullptr);
  }
};

// A token_buffer in device memory.
template <class T>
struct device_tokens {
  explicit device_tokens(const token_buffer<T>& buffer)
      : stride{buffer.stride}, keys{buffer.keys}, values{buffer.values} {}

  [[nodiscard]] kvpage::token_arrays<const T> input() const {
    return {keys.data(), values.size() == 0 ? nullptr : values.data(), stride};
  }
  [[nodiscard]] kvpage::token_arrays<T> output() const {
    return {keys.data(), values.size() == 0 ? nullptr : values.data(), stride};
  }

  std::uint64_t stride;
  device_copy<T> keys, values;
};

template <class E>
class storage_kernels : public testing::Test {};
using all_elements = testing::Types<bf16, fp16, fp8_e4m3, fp8_e5m2>;
TYPED_TEST_SUITE(storage_kernels, all_elements);

// Every shape once, with the layouts in turn; two heads' dims do not divide by four, to take the narrow way.
template <class E, class Check>
void for_each_storage(Check check) {
  std::size_t turn = 0;
  for (const named_shape& named : shapes_of<E>(4)) {
    SCOPED_TRACE(named.name);
    check(named.shape, layouts_of(named.shape, pages_in_storage)[turn++ % 2]);
  }
  const page_shape odd = page_shape::kv(
      {.layers = 1, .kv_heads = 2, .head_dim = 7, .tokens_per_page = 3, .element_bytes = sizeof(E)});
  SCOPED_TRACE("odd head_dim");
  check(odd, page_layout::layer_major(odd, pages_in_storage));
}

template <class T, class E>
void append_then_gather(const page_shape& shape, const page_layout& layout) {
  both_sides<E> storage{shape, layout};
  const std::uint32_t layer = shape.layers() - 1;
  token_buffer<T> input{shape, tokens};
  input.randomise(test_seed() + 1);
  input.keys[1] = kvpage::convert_value<T>(std::numeric_limits<float>::quiet_NaN());
  input.keys[2] = kvpage::convert_value<T>(-std::numeric_limits<float>::infinity());
  std::vector<slot_index> slots = storage.host.slots();
  slots[3] = skipped_slot;
  ASSERT_EQ(append(storage.host.view, layer, slots, std::as_const(input).arrays()), errc::ok);

  const device_copy<slot_index> d_slots{slots};
  const device_tokens<T> d_input{input};
  const device_copy<std::uint32_t> d_refused{{0}};
  ASSERT_CUDA(cuda::enqueue_append(storage.device.view(), layer, d_slots.data(), tokens, d_input.input(),
                                   d_refused.data(), nullptr));
  EXPECT_EQ(read_sync(d_refused.data(), 1, nullptr)[0], 0u);
  EXPECT_TRUE(storage.same_pages());

  token_buffer<T> expected{shape, tokens}, found{shape, tokens};
  ASSERT_EQ(gather(storage.host.tokens(), layer, expected.arrays()), errc::ok);
  const device_copy<std::int32_t> d_pages{storage.page_ids()};
  const device_tokens<T> d_found{found};
  ASSERT_CUDA(
      cuda::enqueue_gather(storage.device.view(), layer, d_pages.data(), tokens, d_found.output(), nullptr));
  EXPECT_TRUE(same_bits(read_sync(d_found.keys.data(), d_found.keys.size(), nullptr), expected.keys));
  EXPECT_TRUE(same_bits(read_sync(d_found.values.data(), d_found.values.size(), nullptr), expected.values));
}

TYPED_TEST(storage_kernels, append_and_gather_give_the_hosts_bits) {
  for_each_storage<TypeParam>([](const page_shape& shape, const page_layout& layout) {
    append_then_gather<float, TypeParam>(shape, layout);
    append_then_gather<bf16, TypeParam>(shape, layout);
  });
}

TEST(storage_kernels, append_and_gather_take_fp16) {
  for_each_storage<fp8_e4m3>([](const page_shape& shape, const page_layout& layout) {
    append_then_gather<fp16, fp8_e4m3>(shape, layout);
  });
}

// Latent and rotary part in arrays of their own; a latent of 6 takes the narrow way.
template <class T, class E>
void append_then_gather_split(const page_shape& shape, const page_layout& layout, std::uint32_t latent_dim) {
  both_sides<E> storage{shape, layout};
  token_buffer<T> input{shape, tokens}, expected{shape, tokens};
  input.randomise(test_seed() + 5);
  ASSERT_EQ(append(storage.host.view, 1, storage.host.slots(), std::as_const(input).arrays()), errc::ok);
  ASSERT_EQ(gather(storage.host.tokens(), 1, expected.arrays()), errc::ok);

  split_buffer<T> split{shape, tokens, latent_dim};
  split.for_each_pair(input, [](T& here, const T& there) { here = there; });
  const device_copy<slot_index> d_slots{storage.host.slots()};
  const device_copy<T> d_latents{split.latents}, d_ropes{split.ropes};
  ASSERT_CUDA(cuda::enqueue_append(storage.device.view(), 1, d_slots.data(), tokens,
                                   kvpage::token_arrays<const T>{d_latents.data(), d_ropes.data(),
                                                                 split.stride, latent_dim, split.rope_stride},
                                   nullptr, nullptr));
  EXPECT_TRUE(storage.same_pages());

  const device_copy<std::int32_t> d_pages{storage.page_ids()};
  ASSERT_CUDA(cuda::enqueue_gather(
      storage.device.view(), 1, d_pages.data(), tokens,
      kvpage::token_arrays<T>{d_latents.data(), d_ropes.data(), split.stride, latent_dim, split.rope_stride},
      nullptr));
  split.latents = read_sync(d_latents.data(), d_latents.size(), nullptr);
  split.ropes = read_sync(d_ropes.data(), d_ropes.size(), nullptr);
  split.for_each_pair(
      expected, [](const T& here, const T& there) { ASSERT_EQ(std::memcmp(&here, &there, sizeof(T)), 0); });
}

TYPED_TEST(storage_kernels, mla_in_two_arrays_gives_the_hosts_bits) {
  for_each_storage<TypeParam>([](const page_shape& shape, const page_layout& layout) {
    if (shape.parts() != 1) return;
    for (const std::uint32_t latent_dim : {shape.dim() - 64, 6u}) {
      append_then_gather_split<bf16, TypeParam>(shape, layout, latent_dim);
      append_then_gather_split<float, TypeParam>(shape, layout, latent_dim);
    }
  });
}

TYPED_TEST(storage_kernels, copy_and_clear_give_the_hosts_bits) {
  using E = TypeParam;
  for_each_storage<E>([](const page_shape& shape, const page_layout& layout) {
    both_sides<E> storage{shape, layout};
    kvpage::block_table<typename stored_request<E>::pool_type> target{storage.host.pool};
    ASSERT_EQ(target.append(tokens), errc::ok);
    token_buffer<float> input{shape, tokens};
    input.randomise(test_seed() + 3);
    ASSERT_EQ(append(storage.host.view, 0, storage.host.slots(), std::as_const(input).arrays()), errc::ok);
    ASSERT_CUDA(cudaMemcpy(storage.device.view().block(0, 0), storage.host.view.block(0, 0), layout.bytes(),
                           cudaMemcpyHostToDevice));

    std::vector<kvpage::page_copy<typename stored_request<E>::handle>> copies{
        {storage.host.table.handles()[0], target.handles()[1], 3}, {}};
    ASSERT_EQ(copy_pages(storage.host.view, storage.host.pool, copies), errc::ok);
    const device_copy<kvpage::page_copy<typename stored_request<E>::handle>> d_copies{copies};
    ASSERT_CUDA(cuda::enqueue_copy_pages(storage.device.view(), d_copies.data(), copies.size(), nullptr));
    EXPECT_TRUE(storage.same_pages());

    ASSERT_EQ(clear_pages(storage.host.view, storage.host.pool, storage.host.table.handles()), errc::ok);
    const device_copy<std::int32_t> d_pages{storage.page_ids()};
    ASSERT_CUDA(cuda::enqueue_clear_pages(storage.device.view(), d_pages.data(), d_pages.size(), nullptr));
    EXPECT_TRUE(storage.same_pages());
  });
}

template <class From, class To>
void convert(const named_shape& source, const named_shape& target) {
  if (!kvpage::detail::same_vectors(source.shape, target.shape)) return;
  SCOPED_TRACE(source.name + " to " + target.name);
  both_sides<From> from{source.shape, page_layout::layer_major(source.shape, pages_in_storage)};
  both_sides<To> to{target.shape, page_layout::page_major(target.shape, pages_in_storage)};
  token_buffer<float> input{source.shape, tokens};
  for (std::uint32_t layer = 0; layer < source.shape.layers(); ++layer) {
    input.randomise(test_seed() + layer);
    ASSERT_EQ(append(from.host.view, layer, from.host.slots(), std::as_const(input).arrays()), errc::ok);
  }
  ASSERT_CUDA(cudaMemcpy(from.device.view().block(0, 0), from.host.view.block(0, 0),
                         from.device.view().layout().bytes(), cudaMemcpyHostToDevice));
  ASSERT_EQ(convert_pages(from.host.tokens(), to.host.tokens()), errc::ok);
  const device_copy<std::int32_t> d_from{from.page_ids()}, d_to{to.page_ids()};
  ASSERT_CUDA(cuda::enqueue_convert_pages(from.device.view(), d_from.data(), to.device.view(), d_to.data(),
                                          tokens, nullptr));
  EXPECT_TRUE(to.same_pages());
}

TEST(storage_kernels, convert_gives_the_hosts_bits) {
  const named_shape kv_bf16 = shapes_of<bf16>(4)[0], mla_bf16 = shapes_of<bf16>(4)[2];
  for (const named_shape& narrow : shapes_of<fp8_e4m3>(6)) {
    convert<bf16, fp8_e4m3>(kv_bf16, narrow);
    convert<bf16, fp8_e4m3>(mla_bf16, narrow);
    convert<fp8_e4m3, bf16>(narrow, kv_bf16);
    convert<fp8_e4m3, bf16>(narrow, mla_bf16);
  }
  convert<fp16, fp8_e5m2>(kv_bf16, shapes_of<fp8_e5m2>(6)[4]);
}

// What a table may hold after a row was cut off, or if nobody has verified it.
TEST(storage_kernels, case_g_bad_slots_and_pages_are_passed_over) {
  const page_shape shape = shapes_of<bf16>(4)[0].shape;
  both_sides<bf16> storage{shape, page_layout::layer_major(shape, pages_in_storage)};
  token_buffer<float> input{shape, tokens};
  input.randomise(1);
  ASSERT_EQ(append(storage.host.view, 0, storage.host.slots(), std::as_const(input).arrays()), errc::ok);
  ASSERT_CUDA(cudaMemcpy(storage.device.view().block(0, 0), storage.host.view.block(0, 0),
                         storage.host.view.layout().bytes(), cudaMemcpyHostToDevice));
  const device_tokens<float> d_input{input};
  const device_copy<slot_index> d_slots{
      {-1, -2, 3, slot_index{pages_in_storage} * 4, slot_index{1} << 34}};  // null page: 3; page 0 in 32 bits
  const device_copy<std::uint32_t> d_refused{{0}};
  ASSERT_CUDA(cuda::enqueue_append(storage.device.view(), 0, d_slots.data(), tokens, d_input.input(),
                                   d_refused.data(), nullptr));
  EXPECT_EQ(read_sync(d_refused.data(), 1, nullptr)[0], 4u);
  EXPECT_TRUE(storage.same_pages()) << "nothing was written";

  const device_copy<std::int32_t> d_bad{{0, std::numeric_limits<std::int32_t>::max()}};
  const device_copy<std::int32_t> d_bad_to{{-1, 8}}, d_held{storage.page_ids()};
  const device_tokens<float> d_found{input};
  ASSERT_CUDA(
      cuda::enqueue_gather(storage.device.view(), 0, d_bad.data(), tokens, d_found.output(), nullptr));
  const std::vector<float> found = read_sync(d_found.keys.data(), d_found.keys.size(), nullptr);
  for (std::size_t token = 0; token < tokens; ++token)
    for (std::size_t i = 0; i < shape.heads() * shape.dim(); ++i)
      ASSERT_EQ(found[token * input.stride + i], 0.0f);
  ASSERT_CUDA(cuda::enqueue_clear_pages(storage.device.view(), d_bad.data(), 2, nullptr));
  ASSERT_CUDA(cuda::enqueue_convert_pages(storage.device.view(), d_bad.data(), storage.device.view(),
                                          d_bad_to.data(), tokens, nullptr));
  ASSERT_CUDA(cuda::enqueue_convert_pages(storage.device.view(), d_held.data(), storage.device.view(),
                                          d_bad.data(), tokens, nullptr));
  using handle = stored_request<bf16>::handle;
  const handle held = storage.host.table.handles()[0], absent{pages_in_storage, 1};
  const device_copy<kvpage::page_copy<handle>> d_copies{{{held, handle{}, 4},
                                                         {handle{}, held, 4},
                                                         {held, absent, 4},
                                                         {absent, held, 4},
                                                         {handle{6, 1}, held, 0}}};
  ASSERT_CUDA(cuda::enqueue_copy_pages(storage.device.view(), d_copies.data(), d_copies.size(), nullptr));
  EXPECT_TRUE(storage.same_pages()) << "nothing was written";
}

// The next step of the same captured graph has other tokens and slots.
TEST(storage_kernels, append_can_be_captured_and_replayed) {
  const page_shape shape = shapes_of<fp8_e4m3>(4)[0].shape;
  both_sides<fp8_e4m3> storage{shape, page_layout::layer_major(shape, pages_in_storage)};
  token_buffer<float> input{shape, tokens};
  const device_tokens<float> d_input{input};
  std::vector<slot_index> slots = storage.host.slots();
  const device_copy<slot_index> d_slots{slots};

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t step = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&stream));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cuda::enqueue_append(storage.device.view(), 0, d_slots.data(), tokens, d_input.input(), nullptr,
                                   stream));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  ASSERT_CUDA(cudaGraphInstantiate(&step, graph, 0));
  for (std::uint32_t round = 0; round < 2; ++round) {
    input.randomise(round);
    slots[round] = skipped_slot;
    write_sync(d_input.keys.data(), input.keys, stream);
    write_sync(d_input.values.data(), input.values, stream);
    write_sync(d_slots.data(), slots, stream);
    ASSERT_CUDA(cudaGraphLaunch(step, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    ASSERT_EQ(append(storage.host.view, 0, slots, std::as_const(input).arrays()), errc::ok);
    EXPECT_TRUE(storage.same_pages());
  }
  ASSERT_CUDA(cudaGraphExecDestroy(step));
  ASSERT_CUDA(cudaGraphDestroy(graph));
  ASSERT_CUDA(cudaStreamDestroy(stream));
}

}  // namespace
