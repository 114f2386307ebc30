// Gloo's own all-reduce as a peer: tandem-bench-gloo RANKS BYTES,BYTES,...
//
// Processes on this machine over loopback TCP, as PyTorch's Gloo back-end has them.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "measure.h"

namespace {

void run_rank(const std::string& directory, int rank, int ranks, const std::vector<long>& sizes) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(directory);
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  const auto all_reduce = [&](auto* data, std::size_t count, auto function) {
    gloo::AllreduceOptions options(context);
    options.setOutput(data, count);
    options.setReduceFunction(function);
    gloo::allreduce(options);
  };
  using Function = void (*)(void*, const void*, const void*, std::size_t);
  const Function sum = &gloo::sum<float>, most = &gloo::max<double>;
  for (const long bytes : sizes) {
    std::vector<float> buffer(static_cast<std::size_t>(bytes) / sizeof(float));
    const double seconds =
        tandem::bench::best_time([&] { all_reduce(buffer.data(), buffer.size(), sum); },
                                 [&](double value) {
                                   all_reduce(&value, 1, most);
                                   return value;
                                 });
    if (rank == 0) tandem::bench::print_result("gloo", ranks, bytes, seconds);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: tandem-bench-gloo RANKS BYTES,BYTES,...\n");
    return 2;
  }
  const int ranks = std::atoi(argv[1]);
  std::string directory =
      (std::filesystem::temp_directory_path() / "tandem-bench-gloo-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) return 1;
  for (int rank = 0; rank < ranks; ++rank) {
    if (::fork() != 0) continue;
    run_rank(directory, rank, ranks, tandem::bench::sizes_of(argv[2]));
    return 0;
  }
  int code = 0;
  for (int status = 0; ::wait(&status) > 0;) code |= status != 0 ? 1 : 0;
  std::filesystem::remove_all(directory);
  return code;
}
