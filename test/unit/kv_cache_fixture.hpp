// A small cache and what its tests ask of it.
#pragma once

#include <gtest/gtest.h>
#include <kvpage/kv_cache.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

using tokens = std::vector<kvpage::token_id>;

inline kvpage::prompt<kvpage::token_id> text_of(const tokens& text, const kvpage::prefix_salt& salt = {}) {
  return {text, salt};
}

// `count` tokens that nobody else's text begins with.
inline tokens tokens_of(kvpage::token_id author, std::size_t count) {
  tokens text(count);
  std::iota(text.begin(), text.end(), 1000 * author);
  return text;
}

constexpr std::uint32_t page_size = 4;

template <class Policy>
class kv_cache_fixture : public testing::Test {
 protected:
  using cache_type = kvpage::kv_cache<kvpage::bf16, Policy>;
  using handle = typename cache_type::handle;

  static kvpage::kv_cache_options options(std::uint64_t usable, std::size_t watermark = 0) {
    return {.groups = {{.pages = 1 + usable}},
            .tokens_per_page = page_size,
            .max_requests = 8,
            .max_tokens_per_request = 256,
            .watermark = watermark};
  }

  static void expect_clean(cache_type& cache) {
    EXPECT_EQ(cache.audit().finding, "") << "page " << cache.audit().page;
  }

  static kvpage::request_handle admitted(cache_type& cache, const tokens& text) {
    const auto admission = cache.admit(text_of(text));
    EXPECT_EQ(admission.code, kvpage::errc::ok);
    return admission.request;
  }

  static std::size_t abort(cache_type& cache, kvpage::request_handle request) {
    const auto left_alone = cache.abort(request);
    EXPECT_EQ(left_alone.error(), kvpage::errc::ok);
    return *left_alone;
  }
};
