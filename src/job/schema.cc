#include "job/schema.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "job/field.h"

namespace tandem::job {

Schema::Schema(std::vector<Key> keys) : keys_(std::move(keys)) {
  for (const Key& key : keys_) {
    if (std::find(paths_.begin(), paths_.end(), key.path) == paths_.end())
      paths_.push_back(key.path);
  }
}

const Key* Schema::first_row(std::string_view path) const {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.path == path; });
  return found == keys_.end() ? nullptr : &*found;
}

std::vector<const Key*> Schema::rows(std::string_view path) const {
  std::vector<const Key*> found;
  for (const Key& key : keys_) {
    if (key.path == path) found.push_back(&key);
  }
  return found;
}

const Key* Schema::row_for(std::string_view path, void* record) const {
  for (const Key& key : keys_) {
    if (key.path == path && applies(key, record)) return &key;
  }
  return nullptr;
}

bool Schema::applies(const Key& key, void* record) const {
  if (key.when.selector.empty()) return true;
  const Key* selector = first_row(key.when.selector);
  TANDEM_CHECK(selector != nullptr);
  const std::string_view word = word_of(*selector, record);
  return std::find(key.when.words.begin(), key.when.words.end(), word) != key.when.words.end();
}

bool Schema::is_table(std::string_view path) const {
  return std::any_of(paths_.begin(), paths_.end(), [&](std::string_view key) {
    return key.size() > path.size() && key.starts_with(path) && key[path.size()] == '.';
  });
}

bool Schema::takes_word(std::string_view path) const {
  // [model] has a kind too, but a whole section is not written as a word.
  const bool nested = path.find('.') != std::string_view::npos;
  return nested && first_row(std::string(path) + ".kind") != nullptr;
}

std::vector<std::string_view> Schema::names_in(std::string_view path) const {
  std::vector<std::string_view> names;
  for (std::string_view key : paths_) {
    if (!path.empty()) {
      if (!key.starts_with(path) || key.size() <= path.size() || key[path.size()] != '.') continue;
      key.remove_prefix(path.size() + 1);
    }
    key = key.substr(0, key.find('.'));
    if (std::find(names.begin(), names.end(), key) == names.end()) names.push_back(key);
  }
  return names;
}

}  // namespace tandem::job
