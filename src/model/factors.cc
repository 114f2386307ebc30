// Matrix factorisation: bias + user's bias + item's bias + the product of the user's and the item's
// row.
#include "base/check.h"
#include "model/plan_context.h"
#include "model/row_kernels.h"
#include "model/table_rows.h"

namespace tandem::model {
namespace {

class Factors final : public Layer {
 public:
  Factors(PlanContext& context, const Activation& in, const Activation& out)
      : out_(out),
        bias_(context.offset("bias")),
        user_(table(context, 0, in)),
        item_(table(context, 1, in)),
        user_bias_(table(context, 2, in)),
        item_bias_(table(context, 3, in)) {}

  void forward(const Pass& pass) override {
    for (TableRows* rows : {&user_, &item_, &user_bias_, &item_bias_}) rows->find();
    for (std::int64_t i = 0; i < samples(); ++i) {
      out_.value[i] =
          pass.parameters[bias_] + *user_bias_.row(pass.parameters, i) +
          *item_bias_.row(pass.parameters, i) +
          dot(user_.row(pass.parameters, i), item_.row(pass.parameters, i), user_.width());
    }
  }

  void backward(const Pass& pass) override {
    for (const TableRows* rows : {&user_, &item_, &user_bias_, &item_bias_}) {
      rows->clear(pass.gradients);
    }
    float sum = 0;
    for (std::int64_t i = 0; i < samples(); ++i) {
      const float up = out_.gradient[i];
      sum += up;
      *user_bias_.row(pass.gradients, i) += up;
      *item_bias_.row(pass.gradients, i) += up;
      accumulate_scaled(user_.row(pass.gradients, i), item_.row(pass.parameters, i), up,
                        user_.width());
      accumulate_scaled(item_.row(pass.gradients, i), user_.row(pass.parameters, i), up,
                        user_.width());
    }
    pass.gradients[bias_] = sum;
  }

 private:
  static TableRows table(const PlanContext& context, std::size_t number, const Activation& in) {
    TANDEM_CHECK(context.blueprint().tables.size() == 4);
    return {context.blueprint(), context.blueprint().tables[number], in};
  }

  std::int64_t samples() const { return out_.rows(); }

  const Activation out_;
  const std::int64_t bias_;
  TableRows user_, item_, user_bias_, item_bias_;
};

}  // namespace

LayerPtr make_factors(PlanContext& context, const Activation& in, Activation& out) {
  out = context.make({in.shape[0], 1}, PlanContext::Gradient::kWanted);
  return std::make_unique<Factors>(context, in, out);
}

}  // namespace tandem::model
