#include "command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "bench_ps_command_line.h"
#include "cluster_command_line.h"
#include "command_mistakes.h"
#include "validators.h"

namespace tandem::cli {
namespace {

// The options of every sub-command, while CLI11 fills them. Addresses must not change.
struct Slots {
  TrainOptions train;
  CheckpointOptions checkpoint;
  bool quiet = false, verbose = false, json = false;
  double start_timeout_s = 0, timeout_s = 0;
  EvalOptions eval;
  PredictOptions predict;
  std::string prompt;
  CLI::Option* prompt_option = nullptr;
  ModelSummaryOptions summary;
  ModelVerifyOptions verify;
  ModelExportOptions exporting;
  DoctorOptions doctor;
  ServerOptions server;
  BenchAllReduceOptions allreduce;
  BenchCheckpointOptions bench_checkpoint;
  BenchPsSlots bench_ps;
  ClusterSlots cluster;
  // What the sub-command that was given becomes.
  Finish finish;
};

Format format_of(const Slots& slots) {
  return slots.json ? Format::kJson : Format::kText;
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void add_json(CLI::App& command, Slots& slots, const char* meaning) {
  command.add_flag("--json", slots.json, meaning);
}

void add_worker_binary(CLI::App& command, std::string& target) {
  command
      .add_option("--worker-binary", target,
                  "The worker program (default: tandem-worker beside this one)")
      ->type_name("FILE");
}

void add_model(CLI::App& command, std::string& target) {
  command.add_option("model", target, "A .safetensors file, or a run directory with one")
      ->required()
      ->type_name("MODEL");
}

// What `train` and `resume` have in common.
void add_run_flags(CLI::App& command, Slots& slots) {
  add_json(command, slots, "Print the report on standard output");
  command.add_flag("-v,--verbose", slots.verbose, "Show everything that the worker prints");
  command.add_flag("-q,--quiet", slots.quiet, "Show warnings and errors only");
  slots.start_timeout_s = seconds(slots.train.limits.start);
  slots.timeout_s = seconds(slots.train.limits.silence);
  const CLI::Validator positive = within(0.001, 1e9);
  command
      .add_option("--start-timeout", slots.start_timeout_s,
                  "How long loading job and data may take")
      ->type_name("SECONDS")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--timeout", slots.timeout_s, "How long the worker may say nothing")
      ->type_name("SECONDS")
      ->check(positive)
      ->capture_default_str();
  add_worker_binary(command, slots.train.worker_binary);
}

Result<Options> finish_train(const Slots& slots) {
  if (slots.quiet && slots.verbose) {
    return Error(Code::kInvalidArgument,
                 "--quiet and --verbose exclude each other; give one of them");
  }
  if (slots.train.resume && slots.train.out.empty())
    return Error(Code::kInvalidArgument, "--resume needs --out, the directory of the run");
  TrainOptions result = slots.train;
  result.format = format_of(slots);
  result.detail = slots.quiet ? Detail::kQuiet : slots.verbose ? Detail::kVerbose : Detail::kNormal;
  result.limits.start = milliseconds(slots.start_timeout_s);
  result.limits.silence = milliseconds(slots.timeout_s);
  return Options(result);
}

void add_resume(CLI::App& app, Slots& slots) {
  CLI::App& command = *app.add_subcommand("resume", "Go on with a run from one of its checkpoints");
  TrainOptions& options = slots.train;
  command.add_option("run", options.run, "The run's directory")->required()->type_name("RUN");
  command
      .add_option("overrides", options.overrides,
                  "Keys of its job to set, as cluster.workers=4 or train.epochs=40")
      ->type_name("key=value");
  command
      .add_option("--step", options.step,
                  "From the checkpoint of this step (default: the newest); what came after it is "
                  "dropped")
      ->type_name("N");
  command
      .add_option("--master", slots.cluster.client.master,
                  "RUN is a job of the cluster with this master")
      ->type_name("HOST:PORT");
  add_secret(command, slots.cluster.client.secret);
  add_run_flags(command, slots);
  command.footer(
      "The run goes on in its own directory, with its own job.\n\n"
      "Examples:\n"
      "  tandem resume runs/digits-3\n"
      "  tandem resume runs/digits-3 cluster.workers=4\n"
      "  tandem resume runs/digits-3 --step 1200\n"
      "  tandem resume digits-3 --master 10.0.0.1:7070");
  slots.finish[&command] = [&slots]() -> Result<Options> {
    if (slots.cluster.client.master.empty()) return finish_train(slots);
    if (!slots.train.overrides.empty()) {
      return Error(Code::kInvalidArgument,
                   "a job of a cluster goes on with its own keys; leave out " +
                       slots.train.overrides[0] + ", or use `tandem resize` for its workers");
    }
    ClientOptions client = slots.cluster.client;
    client.action = ClientAction::kResume;
    client.job = slots.train.run;
    client.step = slots.train.step;
    client.format = format_of(slots);
    return Options(client);
  };
}

void add_checkpoint(CLI::App& app, Slots& slots) {
  CLI::App& group = *app.add_subcommand("checkpoint", "Look after the checkpoints of a run");
  group.require_subcommand(1);
  CheckpointOptions& options = slots.checkpoint;
  const auto add = [&](const char* name, const char* meaning, CheckpointAction action) -> auto& {
    CLI::App& command = *group.add_subcommand(name, meaning);
    command.add_option("run", options.run, "The run's directory")->required()->type_name("RUN");
    add_json(command, slots, "Print it as JSON");
    slots.finish[&command] = [&slots, action]() -> Result<Options> {
      slots.checkpoint.action = action;
      slots.checkpoint.format = format_of(slots);
      return Options(slots.checkpoint);
    };
    return command;
  };
  add("list", "All of them", CheckpointAction::kList);
  add("show", "What one holds", CheckpointAction::kShow)
      .add_option("--step", options.step, "Which one (default: the newest)")
      ->type_name("N");
  add("verify", "Check every byte against the checksums", CheckpointAction::kVerify)
      .add_option("--step", options.step, "Only this one")
      ->type_name("N");
  CLI::App& diff = add("diff", "How far the weights of two are apart", CheckpointAction::kDiff);
  diff.add_option("first", options.step, "The step of the one")->required()->type_name("STEP");
  diff.add_option("second", options.other, "The step of the other")->required()->type_name("STEP");
  add("prune", "Remove all but the newest", CheckpointAction::kPrune)
      .add_option("--keep", options.keep, "How many stay")
      ->check(within(0, 1e9))
      ->type_name("N")
      ->capture_default_str();
}

void add_train(CLI::App& app, Slots& slots) {
  CLI::App& command = *app.add_subcommand("train", "Train a model, here or on many machines");
  TrainOptions& options = slots.train;
  command.add_option("job", options.job, "The job file (TOML); - reads it from standard input")
      ->required()
      ->type_name("JOB.toml");
  command
      .add_option("overrides", options.overrides, "Keys of the job file to set, as train.epochs=5")
      ->type_name("key=value");
  command
      .add_option("--out", options.out,
                  "The run directory; must not exist or be empty (default: runs/NAME-N)")
      ->type_name("DIR")
      ->check(not_empty());
  command.add_flag("--resume", options.resume,
                   "Go on from the newest checkpoint when --out holds a run; else start one there");
  command
      .add_option("--hosts", options.hosts,
                  "Train on these hosts over ssh: a line for each, `name` or `name slots=N`. Job, "
                  "data and tandem must be at the same paths there")
      ->type_name("FILE");
  command.add_option("--ssh", options.ssh, "What reaches the hosts")
      ->type_name("COMMAND")
      ->capture_default_str();
  command.add_flag("--print-job", options.print_job,
                   "Print the job with every default filled in, and do nothing else");
  command.add_flag("--dry-run", options.dry_run,
                   "Run one step of everything and leave nothing behind");
  add_run_flags(command, slots);
  command.footer(
      "Progress goes to standard error; the last line on standard output is the run directory.\n"
      "Paths in the job file are taken from its directory, paths in overrides from the current "
      "one.\n\n"
      "Examples:\n"
      "  tandem train digits.toml\n"
      "  tandem train digits.toml train.epochs=5 train.optimizer.lr=0.1 --out runs/fast\n"
      "  tandem train digits.toml cluster.workers=4\n"
      "  tandem train digits.toml --out runs/long --resume\n"
      "  tandem train digits.toml --hosts hosts.txt\n"
      "  mpirun -n 4 tandem train digits.toml\n"
      "  tandem train digits.toml --print-job\n"
      "  tandem train digits.toml --json | jq .eval.accuracy");
  slots.finish[&command] = [&slots] { return finish_train(slots); };
}

void add_eval(CLI::App& app, Slots& slots) {
  CLI::App& command = *app.add_subcommand("eval", "Measure a trained model's loss and accuracy");
  add_model(command, slots.eval.model);
  command
      .add_option("overrides", slots.eval.overrides,
                  "Keys of its job to set, as data.test_images=FILE")
      ->type_name("key=value");
  command
      .add_option("--part", slots.eval.part, "Which part of the data: test, validation or train")
      ->check(one_of({"test", "validation", "train"}))
      ->type_name("PART")
      ->capture_default_str();
  add_json(command, slots, "Print the result as JSON");
  add_worker_binary(command, slots.eval.worker_binary);
  command.footer(
      "Examples:\n"
      "  tandem eval runs/digits-1\n"
      "  tandem eval runs/digits-1/model.safetensors --part validation --json\n"
      "  tandem eval runs/prices-3 data.test_path=today.csv");
  slots.finish[&command] = [&slots]() -> Result<Options> {
    slots.eval.format = format_of(slots);
    return Options(slots.eval);
  };
}

void add_predict(CLI::App& app, Slots& slots) {
  PredictOptions& options = slots.predict;
  CLI::App& command =
      *app.add_subcommand("predict", "Let a trained model answer: classes, values, or a text");
  add_model(command, options.model);
  command.add_option("inputs", options.inputs, "Files of samples: IDX, CSV or npy")
      ->type_name("INPUT");
  command.add_option("--top", options.top, "How many classes to name for each sample")
      ->check(within(1, 1 << 20))
      ->type_name("K")
      ->capture_default_str();
  slots.prompt_option =
      command.add_option("--prompt", slots.prompt, "A text to continue, for text models");
  slots.prompt_option->type_name("TEXT");
  command.add_option("--length", options.length, "How many characters to add to the prompt")
      ->check(within(1, 10'000'000))
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--temperature", options.temperature,
                  "0 takes the likeliest character; more is bolder")
      ->check(within(0, 100))
      ->type_name("T")
      ->capture_default_str();
  command.add_option("--seed", options.seed, "The same seed gives the same text")
      ->check(within(0, 9e18))
      ->type_name("S")
      ->capture_default_str();
  add_json(command, slots, "Print the answers as JSON");
  add_worker_binary(command, options.worker_binary);
  command.footer(
      "Examples:\n"
      "  tandem predict runs/mnist-1 t10k-images-idx3-ubyte.gz --top 3\n"
      "  tandem predict runs/prices-3 new.csv --json\n"
      "  tandem predict runs/novel-2 --prompt 'It was a' --length 300");
  slots.finish[&command] = [&slots]() -> Result<Options> {
    PredictOptions result = slots.predict;
    result.format = format_of(slots);
    if (slots.prompt_option->count() > 0) result.prompt = slots.prompt;
    if (result.inputs.empty() != result.prompt.has_value()) {
      return Error(Code::kInvalidArgument,
                   "predict needs either files of samples or, for a text model, --prompt TEXT\n"
                   "See `tandem predict --help`");
    }
    return Options(result);
  };
}

void add_model_commands(CLI::App& app, Slots& slots) {
  CLI::App& model = *app.add_subcommand("model", "Look into, check and convert model files");
  model.require_subcommand(1);

  CLI::App& summary =
      *model.add_subcommand("summary", "List a model's tensors and what is known about it");
  add_model(summary, slots.summary.model);
  add_json(summary, slots, "Print it as JSON");
  summary.footer("Example:\n  tandem model summary runs/digits-1");
  slots.finish[&summary] = [&slots]() -> Result<Options> {
    slots.summary.format = format_of(slots);
    return Options(slots.summary);
  };

  CLI::App& verify = *model.add_subcommand("verify", "Check a model file against its checksums");
  add_model(verify, slots.verify.model);
  add_json(verify, slots, "Print the result as JSON");
  verify.footer("Example:\n  tandem model verify runs/digits-1");
  slots.finish[&verify] = [&slots]() -> Result<Options> {
    slots.verify.format = format_of(slots);
    return Options(slots.verify);
  };

  CLI::App& exporting =
      *model.add_subcommand("export", "Write a model as npz (NumPy) or safetensors");
  add_model(exporting, slots.exporting.model);
  exporting.add_option("--out", slots.exporting.out, "The file to write; must not exist")
      ->required()
      ->type_name("FILE")
      ->check(not_empty());
  exporting
      .add_option("--format", slots.exporting.format,
                  "npz or safetensors (default: by the name of FILE)")
      ->check(one_of({"npz", "safetensors"}))
      ->type_name("FORMAT");
  exporting.footer("Example:\n  tandem model export runs/digits-1 --out digits.npz");
  slots.finish[&exporting] = [&slots]() -> Result<Options> { return Options(slots.exporting); };
  model.footer(
      "Examples:\n  tandem model summary runs/digits-1\n  tandem model export runs/digits-1 --out "
      "digits.npz");
}

void add_others(CLI::App& app, Slots& slots) {
  CLI::App& doctor =
      *app.add_subcommand("doctor", "Check what this machine has for training, and say what to do");
  add_json(doctor, slots, "Print the checks as JSON");
  add_worker_binary(doctor, slots.doctor.worker_binary);
  doctor.footer("Exit code 0, or 1 when a check fails. A warning is no failure.");
  slots.finish[&doctor] = [&slots]() -> Result<Options> {
    slots.doctor.format = format_of(slots);
    return Options(slots.doctor);
  };
  CLI::App& reference =
      *app.add_subcommand("job-reference", "Print the reference of the job file, as Markdown");
  slots.finish[&reference] = []() -> Result<Options> { return Options(JobReferenceOptions()); };
  // Nodes start it; people have no use for it.
  CLI::App& server = *app.add_subcommand("server", "A parameter server of a job");
  server.group("");
  server.add_option("--address", slots.server.address);
  server.add_option("--control", slots.server.control)->required();
  add_tls(server, slots.server.tls);
  slots.finish[&server] = [&slots]() -> Result<Options> { return Options(slots.server); };
}

void add_bench_checkpoint(CLI::App& bench, Slots& slots) {
  CLI::App& command = *bench.add_subcommand(
      "checkpoint", "How long a checkpoint stops the training, and how fast it is written");
  BenchCheckpointOptions& options = slots.bench_checkpoint;
  command.add_option("--bytes", options.bytes, "Size of the checkpoint, such as 64MiB")
      ->transform(as_bytes())
      ->check(within(1e6, 1e15))
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("--directory", options.directory, "Where to write: on the disk of the runs")
      ->type_name("DIR")
      ->capture_default_str();
  command.add_option("--rounds", options.rounds, "How often each is measured; the best counts")
      ->check(within(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  // Of the process that this one starts to measure.
  command.add_option("--measure-in", options.measure_in)->group("");
  add_json(command, slots, "Print an object");
  command.footer(
      "Copying the state in memory, which is what stops the training, is measured against memcpy; "
      "writing\nit with checksums and fsync, against dd with conv=fsync, in turn. Nothing stays on "
      "the disk.\n\n"
      "Example:\n  tandem bench checkpoint --bytes 256MiB --directory runs");
  slots.finish[&command] = [&slots]() -> Result<Options> {
    slots.bench_checkpoint.format = format_of(slots);
    return Options(slots.bench_checkpoint);
  };
}

void add_bench(CLI::App& app, Slots& slots) {
  CLI::App& bench = *app.add_subcommand("bench", "Measure parts of Tandem on this machine");
  bench.require_subcommand(1);
  CLI::App& command =
      *bench.add_subcommand("allreduce", "Sums of float32 between processes: time and bandwidth");
  BenchAllReduceOptions& options = slots.allreduce;
  command.add_option("--ranks", options.ranks, "Processes")
      ->check(within(2, 256))
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--bytes", options.bytes, "Sizes of the buffer, such as 1KiB,256KiB,64MiB")
      ->delimiter(',')
      ->transform(as_bytes())
      ->check(within(4, 1e12))
      ->type_name("SIZE,...");
  command.add_option("--engines", options.engines, "shm, gloo, mpi")
      ->delimiter(',')
      ->check(one_of({"shm", "gloo", "mpi"}))
      ->type_name("NAME,...");
  command.add_option("--orders", options.orders, "ordered (the lanes' tree), ring")
      ->delimiter(',')
      ->check(one_of({"ordered", "ring"}))
      ->type_name("NAME,...");
  add_json(command, slots, "Print a list of objects");
  add_worker_binary(command, options.worker_binary);
  command.footer(
      "Bus bandwidth is 2(N-1)/N of the bytes by the time of the slowest rank; best of five "
      "rounds.\n\n"
      "Example:\n  tandem bench allreduce --ranks 4 --bytes 256KiB,64MiB --engines shm,gloo,mpi");
  slots.finish[&command] = [&slots]() -> Result<Options> {
    slots.allreduce.format = format_of(slots);
    return Options(slots.allreduce);
  };
  add_bench_checkpoint(bench, slots);
  add_bench_ps(bench, slots.bench_ps, slots.finish);
}

}  // namespace

Result<Options> parse_command_line(std::span<const std::string> arguments,
                                   std::string_view version) {
  CLI::App app(
      "Tandem trains one model on one machine or many, and every run of a job gives the same bits.",
      "tandem");
  const auto slots = std::make_unique<Slots>();
  app.require_subcommand(1);
  bool version_asked = false;
  app.add_flag("--version", version_asked, "Print the version and exit");
  app.footer(
      "Start here:\n  tandem doctor\n  tandem train JOB.toml\n\nEvery command has its own --help.");
  add_train(app, *slots);
  add_resume(app, *slots);
  add_checkpoint(app, *slots);
  add_eval(app, *slots);
  add_predict(app, *slots);
  add_model_commands(app, *slots);
  add_bench(app, *slots);
  add_cluster_commands(app, slots->cluster, slots->finish);
  add_others(app, *slots);

  if (std::ranges::find(arguments, "--version") != arguments.end()) {
    return Options(HelpOptions{fmt::format("tandem {}\n", version)});
  }
  if (arguments.empty())
    return Error(Code::kInvalidArgument, "a command is missing\n\n" + app.help());
  TANDEM_ASSIGN(const CLI::App* command, find_command(app, arguments));
  // CLI11 takes its arguments last first.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return Options(HelpOptions{app.help()});
  } catch (const CLI::ParseError& error) {
    return explain(error, *command, arguments);
  }
  return slots->finish.at(command)();
}

}  // namespace tandem::cli
