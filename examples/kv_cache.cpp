// An engine's scheduler over kv_cache: prompts that share their beginning, two samples of one prompt, and a cache
// so small that a request is preempted and later finds its pages again.
#include <kvpage/kvpage.hpp>

#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using fp8_cache = kvpage::kv_cache<kvpage::fp8_e4m3, kvpage::tagged>;
using kvpage::errc;

struct request {
  std::string name;
  std::vector<kvpage::token_id> text;  // the prompt, and what has been generated
  std::size_t computed = 0;            // tokens whose keys and values are written: all but the newest
  kvpage::request_handle handle = {};
};

// In a step every running request computes what it has not yet, and generates a token.  Nothing is launched here, so
// a step is over at once.
class engine {
 public:
  void admit(request asked) {
    const kvpage::admission admitted = cache_.admit(asked.text);
    if (admitted.code != errc::ok) throw std::runtime_error(asked.name + ": " + name_of(admitted.code));
    std::cout << asked.name << ": " << asked.text.size() << " tokens, of which " << admitted.cached_tokens
              << " need not be computed\n";
    asked.handle = admitted.request;
    asked.computed = admitted.cached_tokens;
    running_.push_back(asked);
  }

  // A second sample of a running request: it shares every page, until one of the two writes.
  void sample_again(std::size_t i, const std::string& name) {
    const auto fork = cache_.fork(running_[i].handle);
    if (!fork) throw std::runtime_error(name + ": " + name_of(fork.error()));
    running_.push_back({name, running_[i].text, running_[i].computed, *fork});
  }

  void step() {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      errc code = make_room(running_[i]);
      while (code == errc::exhausted && running_.size() > 1) {
        preempt_youngest();  // which may be this one
        code = i < running_.size() ? make_room(running_[i]) : errc::ok;
      }
      if (code != errc::ok) throw std::runtime_error(running_[i].name + ": " + name_of(code));
    }

    batch_.clear();
    for (const request& row : running_) {
      const errc code = batch_.add(*cache_.table(row.handle), row.text.size() - row.computed);
      if (code != errc::ok) throw std::runtime_error(row.name + ": " + name_of(code));
    }
    if (!kvpage::verify(batch_, cache_.pool(), ++step_, verdicts_)) throw std::runtime_error("not verified");
    for (std::size_t row = 0; row < batch_.rows(); ++row)
      if (verdicts_[row].state != kvpage::row_state::ok)
        batch_.cut_off(row);  // before anything reads through it

    // Copies come before the step's tokens are written; here they and the model would be enqueued.
    for (const auto& copy : cache_.copies())
      std::cout << "step " << step_ << ": copy " << copy.tokens << " tokens of page " << copy.source.id()
                << " to page " << copy.destination.id() << '\n';
    cache_.launched(step_);
    cache_.retire(step_);
    for (request& row : running_) {
      row.computed = row.text.size();
      row.text.push_back(0);  // what the model says
    }
    abort_failed();
  }

  // Ends the request; its full pages stay, for whoever begins with the same tokens.
  void finish(std::size_t i) {
    const errc code = cache_.finish(running_[i].handle, running_[i].text, running_[i].computed);
    if (code != errc::ok) throw std::runtime_error(running_[i].name + ": " + name_of(code));
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  [[nodiscard]] std::size_t running() const { return running_.size(); }
  [[nodiscard]] const std::vector<request>& preempted() const { return preempted_; }
  [[nodiscard]] bool is_clean() { return cache_.audit().clean() && cache_.pool().stats().live == 0; }

 private:
  static std::string name_of(errc code) { return std::string(to_string(code)); }

  // For the token that the last step has generated; a prompt has got its pages at its admission.
  [[nodiscard]] errc make_room(const request& row) {
    return cache_.grow(row.handle, row.text.size() - cache_.table(row.handle)->tokens());
  }

  void preempt_youngest() {
    std::cout << "no page is left: " << running_.back().name << " is preempted\n";
    preempted_.push_back(running_.back());
    finish(running_.size() - 1);
  }

  // Ends requests that no longer own what they would have read: after launched(), and by their handles, which never
  // release the new owner's pages.
  void abort_failed() {
    for (std::size_t row = batch_.rows(); row-- > 0;) {
      if (verdicts_[row].state == kvpage::row_state::ok) continue;
      std::cout << running_[row].name << " is aborted: " << *cache_.abort(running_[row].handle)
                << " of its pages are another's\n";
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(row));
    }
  }

  fp8_cache cache_{{.groups = {{.pages = 1 + 8}},
                    .tokens_per_page = 16,
                    .max_requests = 4,
                    .max_tokens_per_request = 128}};
  kvpage::decode_batch<fp8_cache::pool_type> batch_{{.rows = 4, .entries = 32, .slots = 4 * 128}};
  std::vector<kvpage::verdict> verdicts_ = std::vector<kvpage::verdict>(4);
  kvpage::step_number step_ = 0;
  std::vector<request> running_, preempted_;
};

// The same 32 tokens in front, then `count` of its own.
std::vector<kvpage::token_id> prompt(kvpage::token_id first, std::size_t count) {
  std::vector<kvpage::token_id> tokens(32 + count, first);
  std::iota(tokens.begin(), tokens.begin() + 32, 1000);
  return tokens;
}

}  // namespace

int main() try {
  engine engine;
  engine.admit({"alice", prompt(1, 13)});
  engine.step();
  engine.finish(0);
  engine.admit({"bob", prompt(2, 6)});  // the first two pages are there already
  engine.step();
  engine.sample_again(0, "bob, again");
  engine.admit({"carol", prompt(3, 20)});
  for (int i = 0; i < 20; ++i) engine.step();
  while (engine.running() != 0) engine.finish(0);

  for (const request& waiting : engine.preempted()) {
    engine.admit(waiting);
    engine.step();
    engine.finish(0);
  }
  return engine.is_clean() ? 0 : 1;
} catch (const std::exception& failure) {
  std::cerr << failure.what() << '\n';
  return 1;
}
