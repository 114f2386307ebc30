#include "job/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "job/field.h"
#include "job/job.h"
#include "job/schema.h"

namespace tandem::job {
namespace {

constexpr std::string_view kIntroduction = R"(# The job file

<!-- Made by `tandem job-reference`; a test compares it with the code. Change src/job/ and run
     `tandem job-reference > docs/job-file.md`. -->

A job says what to train, on what, how, and on how many workers. It is a [TOML](https://toml.io) file; the smallest:

```toml
[model]
kind = "cnn"
```

That trains on the digits that are inside Tandem, with a default for everything else. A typical one:

```toml
name = "digits"

[model]
kind = "cnn"

[data]
source = "digits"

[train]
epochs = 20
batch = 64                 # over all lanes
seed = 1
optimizer = { kind = "sgd", lr = 0.05, momentum = 0.9 }

[cluster]
lanes = 2
```

A model of one's own, with a word where a layer needs no more than its kind:

```toml
[model]
kind = "layers"
layers = [
  { kind = "conv", out = 16, padding = 1 },
  "batchnorm",
  "relu",
  { kind = "max_pool", kernel = 2 },
  "flatten",
  { kind = "linear" },     # as many outputs as the data has classes
]

[train]
optimizer = "adam"         # short for { kind = "adam" }
schedule = { kind = "cosine", warmup_steps = 20 }
early_stop = { patience = 5, metric = "accuracy" }
```

The file is read strictly. An unknown key, a wrong type, a value out of range, a key that does not go with the others:
each is an error that points at its place and says what was meant, and all of them are reported at once.

```
error: unknown key `train.optimiser`
  --> digits.toml:7:1
   |
 7 | optimiser = { kind = "sgd" }
   | ^^^^^^^^^ did you mean `optimizer`?
```

Any key can be changed on the command line, with dots between its parts:

```sh
tandem train digits.toml train.epochs=5 train.optimizer.lr=0.1 'model.freeze=["conv*"]'
```

The value is TOML; strings need no quotes. `train.optimizer.lr=0.1` changes one key of the table and leaves the others as
the file has them, `train.optimizer=adam` replaces the whole table. `--print-job` shows the job that results, with every
default filled in; a run's `job.toml` holds the same. Relative paths start at the job file's directory.
)";

std::string as_code(std::string_view text) {
  return fmt::format("`{}`", text);
}

std::string when_text(const Key& key) {
  if (key.when.selector.empty()) return "";
  std::vector<std::string> words;
  for (std::string_view word : key.when.words) words.push_back(as_code(word));
  return fmt::format("`{}` {}", key.when.selector, fmt::join(words, ", "));
}

std::string default_of(const Key& key, void* fresh) {
  if (key.presence == Presence::kRequired) return "required";
  if (!key.fallback.empty()) return as_code(key.fallback);
  return is_unset(key, fresh) ? "" : as_code(field_text(key, fresh));
}

// One row of a reference table for one row of the schema.
std::string row_text(const Key& key, std::string_view name, void* fresh) {
  const std::string when = when_text(key);
  std::string meaning(key.meaning);
  if (const std::string allowed = allowed_text(key); !allowed.empty() && !key.is_word()) {
    meaning += fmt::format(" Allowed: {}.", allowed);
  }
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", name, type_text(key), default_of(key, fresh),
                     when, meaning);
}

std::string words_list(const Key& key, std::string_view name) {
  std::string text = fmt::format("\n`{}` is one of:\n\n", name);
  for (const Word& word : key.words) text += fmt::format("- `{}`: {}\n", word.name, word.meaning);
  return text;
}

// The table of all keys whose path starts with `prefix` and has no further dot, then the words they
// take.
std::string keys_of(const Schema& schema, std::string_view prefix, void* fresh) {
  std::string table = "\n| key | type | default | only with | meaning |\n|---|---|---|---|---|\n";
  std::string words;
  for (const Key& key : schema.keys()) {
    if (!key.path.starts_with(prefix)) continue;
    const std::string_view name = key.path.substr(prefix.size());
    if (name.find('.') != std::string_view::npos) continue;
    table += row_text(key, name, fresh);
    if (key.is_word() && schema.first_row(key.path) == &key) words += words_list(key, name);
  }
  return table + words;
}

std::string section_text(const Schema& schema, std::string_view section, void* fresh) {
  std::string text = fmt::format("\n## [{}]\n", section);
  text += keys_of(schema, fmt::format("{}.", section), fresh);
  for (std::string_view name : schema.names_in(section)) {
    const std::string path = fmt::format("{}.{}", section, name);
    if (!schema.is_table(path)) continue;
    text += fmt::format("\n### {}\n\nA table: `{} = {{ {} = ... }}`.", path, name,
                        schema.names_in(path).front());
    if (schema.takes_word(path)) text += " A bare word stands for its `kind`.";
    text += "\n" + keys_of(schema, path + ".", fresh);
  }
  return text;
}

}  // namespace

std::string reference_markdown() {
  Job fresh;
  arch::Layer fresh_layer;
  const Schema& schema = job_schema();
  std::string text(kIntroduction);
  text +=
      "\n\"Only with\" names what another key must hold for the key to be allowed. Where a key has "
      "several lines, the first "
      "that\napplies counts.\n\n## Outside of sections\n" +
      keys_of(schema, "", &fresh);
  for (std::string_view section : schema.names_in("")) {
    if (!schema.is_table(section)) continue;
    text += section_text(schema, section, &fresh);
    if (section == "model")
      text += "\n### Entries of model.layers\n" + keys_of(layer_schema(), "", &fresh_layer);
  }
  return text;
}

}  // namespace tandem::job
