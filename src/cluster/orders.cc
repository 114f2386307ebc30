#include "cluster/orders.h"

namespace tandem::cluster {

wire::MasterMessage order_to_start(const MasterJob& job, int worker, const std::string& serve_at) {
  wire::MasterMessage message;
  wire::StartWorker& start = *message.mutable_start();
  const RunRequest& request = job.request();
  start.set_job(job.id());
  start.set_worker(worker);
  start.set_job_text(request.job_text);
  start.set_run_directory(job.directory().path().string());
  start.set_base_directory(request.base_directory.string());
  start.set_token(job.token());
  start.set_blas_core(request.kernels.blas_core);
  start.set_aten(request.kernels.aten);
  start.set_onednn(request.kernels.onednn);
  start.set_start_ms(request.limits.start.count());
  start.set_silence_ms(request.limits.silence.count());
  start.set_serve_at(serve_at);
  return message;
}

wire::MasterMessage order_to_tell(JobId job, int worker, const wire::WorkerMessage& words) {
  wire::MasterMessage message;
  message.mutable_tell()->set_job(job);
  message.mutable_tell()->set_worker(worker);
  message.mutable_tell()->set_message(words.SerializeAsString());
  return message;
}

wire::MasterMessage order_to_end(JobId job, int worker, Order order) {
  wire::MasterMessage message;
  message.mutable_end()->set_job(job);
  message.mutable_end()->set_worker(worker);
  message.mutable_end()->set_order(static_cast<int>(order));
  message.mutable_end()->set_cause(static_cast<int>(Cause::kCancelled));
  return message;
}

}  // namespace tandem::cluster
