// kvpage: a pool's tags on the device, kept up to date by what changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../config.hpp"
#include "../integrity.hpp"
#include "../tag_journal.hpp"
#include "staging_ring.cuh"

namespace kvpage::inline v0::cuda {

// The host's half of the mirror: what to send, so that the device's copy is the pool's.  device_tables has
// one and sends it along with the step; a pool may have several mirrors, one for each stream that verifies.
//
// Each change of a tag travels once.  Should more pages change between two steps than planned, and for the
// first step, all tags travel, by way of an image in pinned memory: an update is never skipped.
template <class Pool>
class page_tags {
 public:
  // `image` holds pool.size() tags in pinned memory.  The pool must outlive the mirror.
  page_tags(Pool& pool, std::uint32_t max_changes, page_tag* image)
      : pool_{&pool}, journal_(max_changes), sent_(pool.size()), image_{image} {
    pool.attach_journal(journal_);
  }
  page_tags(const page_tags&) = delete;
  page_tags& operator=(const page_tags&) = delete;
  ~page_tags() { pool_->detach_journal(journal_); }

  [[nodiscard]] bool mirrors(const Pool& pool) const noexcept { return pool_ == &pool; }

  // The next step needs all tags.
  void invalidate() noexcept { journal_.invalidate(); }

  // Whether the next step needs all tags.  They must not be staged before the device has read the image of
  // step image_step().
  [[nodiscard]] bool needs_all() const noexcept { return journal_.overflowed(); }
  [[nodiscard]] step_number image_step() const noexcept { return image_step_; }

  // Writes the image, for `step`.  O(pool.size()).
  void stage_all(step_number step) noexcept {
    for (page_id page = 0; page < sent_.size(); ++page) image_[page] = sent_[page] = pool_->tag(page);
    image_step_ = step;
    journal_.clear();
  }

  // Writes the tags that changed since the last call to `out`, which has room for max_changes, and returns
  // how many.  O(changes).
  [[nodiscard]] std::uint32_t stage_changes(tag_change* out) noexcept {
    std::uint32_t count = 0;
    for (const page_id page : journal_.pages()) {
      const page_tag tag = pool_->tag(page);
      if (tag == sent_[page]) continue;  // recorded twice, or back to what it was
      out[count++] = {page, tag};
      sent_[page] = tag;
    }
    journal_.clear();
    return count;
  }

 private:
  Pool* pool_;
  tag_journal journal_;
  std::vector<page_tag> sent_;
  page_tag* image_;
  step_number image_step_ = 0;
};

}  // namespace kvpage::inline v0::cuda
