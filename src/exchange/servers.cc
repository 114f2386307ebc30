#include "exchange/servers.h"

#include <algorithm>
#include <utility>

#include "exchange/server_link.h"

namespace tandem::exchange {
namespace {

class Servers final : public Exchange {
 public:
  Servers(const Plan& plan, ServerLink link)
      : plan_(plan), link_(std::move(link)), client_(link_.client()) {}

  std::size_t partials() const override { return client_.partials(); }
  std::span<float> partial(std::size_t index) override { return client_.partial(index); }

  bool has_rows() const override { return link_.has_rows(); }

  Status pull(std::int64_t steps_done, std::span<const RowLists> rows, std::span<float> parameters,
              Deadline deadline) override {
    return client_.pull_rows(steps_done, rows, parameters, deadline);
  }

  Status complete(std::int64_t steps_done, std::span<float> parameters,
                  Deadline deadline) override {
    return link_.complete(steps_done, parameters, deadline);
  }

  Status read_rows(std::int64_t steps_done, const RowLists& rows, std::span<float> parameters,
                   Deadline deadline) override {
    return client_.read_rows(steps_done, rows, parameters, deadline);
  }
  Status read_tables(std::int64_t steps_done, const RecordSink& sink, Deadline deadline) override {
    return link_.read_tables(steps_done, sink, deadline);
  }
  Result<std::vector<TableSize>> table_sizes(Deadline deadline) override {
    return link_.table_sizes(deadline);
  }

  Status begin(std::int64_t steps_done, double lr) override {
    client_.begin(steps_done, lr);
    early_ = 0;
    return {};
  }
  Status ready(std::size_t count) override { return client_.ready(count); }
  Status gather(Deadline deadline) override { return client_.finish(deadline); }

  void take(Bucket at, std::span<float> to) override {
    // Servers keep the sums of gradients to themselves.
    if (const std::size_t end = std::min(at.end, plan_.parameters); at.begin < end) {
      const std::span<const float> own = client_.partial(0).subspan(at.begin, end - at.begin);
      std::copy(own.begin(), own.end(), to.begin());
      to = to.subspan(own.size());
      at.begin = end;
    }
    link_.copy(at, to);
  }

  bool comes_in_parts() const override { return client_.comes_in_parts(); }
  bool has_all() const override { return client_.has_all(); }
  Status gather_part(Bucket part, Deadline deadline) override {
    return client_.await_part(part, deadline);
  }
  Status update_part(std::size_t end, std::span<float> parameters, Deadline deadline) override {
    if (end <= early_) return {};
    TANDEM_TRY(client_.await_part({early_, end}, deadline));
    if (before_.empty()) before_.resize(plan_.parameters);
    const std::span<const float> now = parameters.subspan(early_, end - early_);
    std::copy(now.begin(), now.end(), before_.begin() + static_cast<std::ptrdiff_t>(early_));
    link_.copy_trained({early_, end}, parameters);
    early_ = end;
    return {};
  }
  void undo(std::span<float> parameters) override {
    std::copy_n(before_.begin(), std::exchange(early_, 0), parameters.begin());
  }

  Update update(std::span<float> parameters) override {
    link_.copy_trained({early_, plan_.parameters}, parameters);
    early_ = 0;
    return {client_.norm(),
            client_.is_finite() ? optim::Updated::kFinite : optim::Updated::kNotFinite};
  }

  Status fetch_state(std::int64_t steps_done, Deadline deadline) override {
    return link_.fetch_state(steps_done, deadline);
  }

  collective::Traffic traffic() const override { return client_.traffic(); }

 private:
  const Plan plan_;
  ServerLink link_;
  ps::Client& client_;

  // Parameters below are those after the step that is not complete; what they were before.
  std::size_t early_ = 0;
  std::vector<float> before_;
};

}  // namespace

Result<std::unique_ptr<Exchange>> make_servers(const Plan& plan, const ServersConfig& config,
                                               collective::Group& group,
                                               std::span<float> parameters,
                                               optim::Optimizer& optimizer, Deadline deadline) {
  TANDEM_ASSIGN(ServerLink link,
                ServerLink::connect(plan, config, group, parameters, optimizer, deadline));
  return std::unique_ptr<Exchange>(std::make_unique<Servers>(plan, std::move(link)));
}

}  // namespace tandem::exchange
