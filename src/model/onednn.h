// oneDNN without its per-call costs: primitives whose arguments are bound once, and reorders
// between layouts that do nothing when the layouts agree. Internal to src/model/; one thread;
// dnnl::error is translated at the Model's edge.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <utility>
#include <vector>

#include "model/workspace.h"

namespace tandem::model {

// The process's one CPU engine and its in-order stream.
dnnl::engine& engine();
dnnl::stream& stream();

// A primitive with its arguments. execute() neither allocates nor looks anything up.
class Primitive {
 public:
  Primitive() = default;
  explicit Primitive(dnnl::primitive primitive) : primitive_(std::move(primitive)) {}

  // Binds memory to an argument (DNNL_ARG_...). With a null pointer the data is given before each
  // execute by set().
  void bind(int argument, const dnnl::memory::desc& desc, const float* data);
  void bind_bytes(int argument, const dnnl::memory::desc& desc, void* data);
  void set(int argument, const float* data);
  void execute();

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// Copies between two layouts of the same tensor.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  void run(const float* from, float* to);

 private:
  Primitive primitive_;
};

// A tensor that a kernel may want in another layout than that in which it lies. Costs nothing when
// they agree.
class Relaid {
 public:
  Relaid() = default;
  Relaid(Workspace& workspace, const dnnl::memory::desc& home, const dnnl::memory::desc& kernel);

  // The pointer for the kernel to read what lies at `home`.
  const float* read(const float* home);
  // What read() gave last time.
  const float* reread(const float* home) const { return copy_ == nullptr ? home : copy_; }
  // The pointer for the kernel to write what shall lie at `home`; written() then brings it there.
  float* to_write(float* home) const { return copy_ == nullptr ? home : copy_; }
  void written(float* home);

 private:
  float* copy_ = nullptr;
  Reorder in_, out_;
};

std::size_t floats_of(const dnnl::memory::desc& desc);

// Row-major layouts.
dnnl::memory::desc plain_image(const std::vector<std::int64_t>& shape);
dnnl::memory::desc any_layout(const std::vector<std::int64_t>& shape);
dnnl::memory::desc vector_desc(std::int64_t size);

}  // namespace tandem::model
