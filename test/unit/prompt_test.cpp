#include <gtest/gtest.h>
#include <kvpage/prompt.hpp>

#include <array>
#include <span>
#include <type_traits>
#include <vector>

namespace {

using kvpage::page_key;
using kvpage::prefix_salt;
using kvpage::prompt;
using kvpage::token_id;

static_assert(std::is_convertible_v<std::vector<token_id>, prompt<token_id>>);
static_assert(std::is_convertible_v<std::array<token_id, 3>, prompt<token_id>>);
static_assert(std::is_convertible_v<std::span<token_id>, prompt<token_id>>);
static_assert(!std::is_convertible_v<std::vector<unsigned>, prompt<token_id>>, "another type of token");
static_assert(!std::is_convertible_v<token_id, prompt<token_id>>);

TEST(prompt, refers_to_the_callers_tokens) {
  const std::vector<token_id> tokens{4, 5, 6};
  const prompt<token_id> text(tokens, {.tenant = "a"});
  EXPECT_EQ(text.symbols.data(), tokens.data());
  EXPECT_EQ(text.tokens, 3u);
  EXPECT_EQ(text.salt, prefix_salt{.tenant = "a"});
  EXPECT_EQ(prompt<token_id>{}.tokens, 0u);
  EXPECT_EQ((prompt<token_id>{{tokens.data(), 2}}.tokens), 2u);
  EXPECT_EQ((prompt<token_id>{{}, {.tenant = "b"}}.salt.tenant), "b");
  const auto size_of = [](const prompt<token_id>& any) { return any.tokens; };
  EXPECT_EQ(size_of({{tokens.data(), 2}, prefix_salt{.tenant = "x"}}), 2u);
  EXPECT_EQ(size_of(tokens), 3u);
  EXPECT_EQ(prompt<token_id>::symbols_per_page(16), 16u);
}

TEST(prompt, of_keys_says_how_many_tokens_they_stand_for) {
  const page_key keys[]{{1, 2}, {3, 4}};
  const prompt<page_key> text(keys, 40);
  EXPECT_EQ(text.symbols.data(), keys);
  EXPECT_EQ(text.symbols.size(), 2u);
  EXPECT_EQ(text.tokens, 40u);
  EXPECT_EQ((prompt<page_key>{{}, 100}.tokens), 100u);
  EXPECT_EQ(prompt<page_key>::symbols_per_page(16), 1u);
}

}  // namespace
