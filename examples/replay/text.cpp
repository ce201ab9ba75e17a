#include "text.hpp"

namespace replay {
namespace {

// splitmix64's finalizer: distinct numbers for distinct numbers.
constexpr std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58'476d'1ce4'e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d0'49bb'1331'11eb;
  return bits ^ (bits >> 31);
}

constexpr std::uint64_t shared = std::uint64_t{1} << 63;

}  // namespace

std::vector<kvpage::token_id> text_of(const trace_request& request, std::uint32_t id) {
  std::vector<kvpage::token_id> text(most_tokens(request));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t block = i / tokens_per_block;
    const bool from_block = i < request.input_length && block < request.hash_ids.size();
    const std::uint64_t author = from_block ? mixed(request.hash_ids[block]) : mixed(shared | id);
    text[i] = static_cast<kvpage::token_id>(mixed(author + i) >> 33);
  }
  return text;
}

std::uint64_t page_content(const trace_request& request, std::uint32_t id, std::size_t number,
                           std::size_t page_size) {
  const std::size_t end = (number + 1) * page_size;
  const std::size_t block = (end - 1) / tokens_per_block;  // its id stands for everything before it too
  if (end <= request.input_length && block < request.hash_ids.size())
    return shared | mixed(mixed(request.hash_ids[block]) + number);
  return (std::uint64_t{id} + 1) << 32 | number;
}

}  // namespace replay
