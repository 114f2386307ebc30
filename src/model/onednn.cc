#include "model/onednn.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::model {

using Tag = dnnl::memory::format_tag;
constexpr auto kFloat = dnnl::memory::data_type::f32;

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  static dnnl::stream instance(engine());
  return instance;
}

void Primitive::bind(int argument, const dnnl::memory::desc& desc, const float* data) {
  bind_bytes(argument, desc, const_cast<float*>(data));
}

void Primitive::bind_bytes(int argument, const dnnl::memory::desc& desc, void* data) {
  memories_.emplace_back(desc, engine(), data);
  arguments_.push_back({argument, memories_.back().get()});
}

void Primitive::set(int argument, const float* data) {
  const auto found =
      std::find_if(arguments_.begin(), arguments_.end(),
                   [&](const dnnl_exec_arg_t& bound) { return bound.arg == argument; });
  TANDEM_CHECK(found != arguments_.end());
  memories_[static_cast<std::size_t>(found - arguments_.begin())].set_data_handle(
      const_cast<float*>(data));
}

void Primitive::execute() {
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(arguments_.size()),
                             arguments_.data()),
      "could not execute a primitive");
}

Reorder::Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to)
    : primitive_(dnnl::reorder(dnnl::reorder::primitive_desc(engine(), from, engine(), to))) {
  primitive_.bind(DNNL_ARG_FROM, from, nullptr);
  primitive_.bind(DNNL_ARG_TO, to, nullptr);
}

void Reorder::run(const float* from, float* to) {
  primitive_.set(DNNL_ARG_FROM, from);
  primitive_.set(DNNL_ARG_TO, to);
  primitive_.execute();
}

Relaid::Relaid(Workspace& workspace, const dnnl::memory::desc& home,
               const dnnl::memory::desc& kernel) {
  if (home == kernel) return;
  copy_ = workspace.take(floats_of(kernel));
  in_ = Reorder(home, kernel);
  out_ = Reorder(kernel, home);
}

const float* Relaid::read(const float* home) {
  if (copy_ == nullptr) return home;
  in_.run(home, copy_);
  return copy_;
}

void Relaid::written(float* home) {
  if (copy_ != nullptr) out_.run(copy_, home);
}

std::size_t floats_of(const dnnl::memory::desc& desc) {
  return desc.get_size() / sizeof(float);
}

dnnl::memory::desc plain_image(const std::vector<std::int64_t>& shape) {
  return {shape, kFloat, Tag::nchw};
}

dnnl::memory::desc any_layout(const std::vector<std::int64_t>& shape) {
  return {shape, kFloat, Tag::any};
}

dnnl::memory::desc vector_desc(std::int64_t size) {
  return {{size}, kFloat, Tag::x};
}

}  // namespace tandem::model
