#include "cluster_command_line.h"

#include "validators.h"

namespace tandem::cli {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void add_security(CLI::App& command, SecurityOptions& options) {
  add_secret(command, options.secret);
  add_tls(command, options.tls);
}

void add_master(CLI::App& app, ClusterSlots& slots, Finish& finish) {
  CLI::App& command = *app.add_subcommand("master", "Accept jobs and nodes: the head of a cluster");
  MasterOptions& options = slots.master;
  command.add_flag("--init", options.init, "Make the cluster's secret, and nothing else");
  command.add_flag("--token", options.token, "Print the token for HTTP requests, and nothing else");
  command.add_option("--listen", options.listen, "Where nodes connect")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command.add_option("--http", options.http, "Where the HTTP API is")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command.add_option("--runs", options.runs, "Where jobs have their directories")
      ->type_name("DIR")
      ->capture_default_str();
  add_security(command, options.security);
  command.add_option("--start-timeout", slots.start_timeout_s, "For a worker to load its data")
      ->type_name("SECONDS")
      ->check(within(0.1, 1e6))
      ->capture_default_str();
  command.add_option("--timeout", slots.timeout_s, "After which a silent worker is killed")
      ->type_name("SECONDS")
      ->check(within(0.1, 1e6))
      ->capture_default_str();
  command.footer(
      "Jobs are in the directory of --runs; a master that starts again there goes on with them.\n\n"
      "Examples:\n"
      "  tandem master --init\n"
      "  tandem master --listen 10.0.0.1:7071 --http 10.0.0.1:7070");
  finish[&command] = [&slots]() -> Result<Options> {
    slots.master.limits.start = milliseconds(slots.start_timeout_s);
    slots.master.limits.silence = milliseconds(slots.timeout_s);
    return Options(slots.master);
  };
}

void add_node(CLI::App& app, ClusterSlots& slots, Finish& finish) {
  CLI::App& command = *app.add_subcommand("node", "Run workers on this machine for a master");
  NodeOptions& options = slots.node;
  command.add_option("--master", options.master, "Where the master listens for nodes")
      ->required()
      ->type_name("HOST:PORT");
  command.add_option("--slots", options.slots, "Workers at once (default: one for each core)")
      ->type_name("N")
      ->check(within(1, 4096));
  command.add_option("--name", options.name, "What people see (default: the host's name)")
      ->type_name("NAME");
  command
      .add_option("--master-timeout", options.master_timeout_s,
                  "Without a master for so long, workers are ended")
      ->type_name("SECONDS")
      ->check(within(0, 1e6))
      ->capture_default_str();
  add_security(command, options.security);
  command
      .add_option("--worker-binary", options.worker_binary,
                  "The worker program (default: beside this one)")
      ->type_name("FILE");
  command.footer("Example:\n  tandem node --master 10.0.0.1:7071 --slots 2");
  finish[&command] = [&slots]() -> Result<Options> { return Options(slots.node); };
}

class ClientCommands {
 public:
  ClientCommands(CLI::App& app, ClusterSlots& slots, Finish& finish)
      : app_(app), slots_(slots), finish_(finish) {}

  void add() {
    ClientOptions& options = slots_.client;
    CLI::App& submit = add("submit", "Give a job to a cluster", ClientAction::kSubmit);
    submit.add_option("job", options.job, "The job file (- for standard input)")
        ->required()
        ->type_name("JOB.toml");
    submit.add_option("overrides", options.overrides, "Keys to set, as train.epochs=3")
        ->type_name("key=value");
    submit.add_option("--priority", options.priority, "Larger ones get their workers first")
        ->type_name("N")
        ->check(within(-1000, 1000))
        ->capture_default_str();
    submit.footer(
        "Prints the job's name, by which the other commands know it.\n\n"
        "Example:\n  tandem submit digits.toml cluster.workers=4");
    CLI::App& status = add("status", "What the cluster does, or one job", ClientAction::kStatus);
    status.add_option("job", options.job, "Only this one")->type_name("JOB");
    status.add_flag("--watch", options.follow, "Again every second, until Ctrl-C");
    add("jobs", "All jobs, also those that have ended", ClientAction::kJobs);
    add("nodes", "The machines of the cluster", ClientAction::kNodes);
    CLI::App& logs = add("logs", "What a worker of a job printed", ClientAction::kLogs);
    add_job(logs);
    logs.add_option("--worker", options.worker, "Which one")
        ->type_name("N")
        ->check(within(0, 1e9))
        ->capture_default_str();
    logs.add_flag("-f,--follow", options.follow, "Go on until the job ends");
    add_job(add("cancel", "End a job; what it has learnt is saved", ClientAction::kCancel));
    CLI::App& resize =
        add("resize", "Give a job more or fewer workers or servers", ClientAction::kResize);
    add_job(resize);
    resize.add_option("workers", options.workers, "How many workers")
        ->type_name("N")
        ->check(within(1, 4096));
    resize.add_option("--servers", options.servers, "How many parameter servers")
        ->type_name("N")
        ->check(within(1, 256));
  }

 private:
  CLI::App& add(const char* name, const char* meaning, ClientAction action) {
    CLI::App& command = *app_.add_subcommand(name, meaning);
    command
        .add_option("--master", slots_.client.master,
                    "Its HTTP address (default: TANDEM_MASTER, or 127.0.0.1:7070)")
        ->type_name("HOST:PORT");
    add_secret(command, slots_.client.secret);
    command.add_flag("--json", slots_.json, "Print it as JSON");
    finish_[&command] = [this_slots = &slots_, action]() -> Result<Options> {
      this_slots->client.action = action;
      this_slots->client.format = this_slots->json ? Format::kJson : Format::kText;
      return Options(this_slots->client);
    };
    return command;
  }

  void add_job(CLI::App& command) {
    command.add_option("job", slots_.client.job, "Its name, as `tandem jobs` shows it")
        ->required()
        ->type_name("JOB");
  }

  CLI::App& app_;
  ClusterSlots& slots_;
  Finish& finish_;
};

}  // namespace

void add_secret(CLI::App& command, std::string& target) {
  command
      .add_option("--secret", target,
                  "The cluster's secret (default: TANDEM_SECRET, or ~/.config/tandem/secret)")
      ->type_name("FILE");
}

void add_tls(CLI::App& command, net::TlsFiles& files) {
  command
      .add_option("--tls-cert", files.cert_file, "Our certificate (PEM): everything goes over TLS")
      ->type_name("FILE");
  command.add_option("--tls-key", files.key_file, "Its key (PEM)")->type_name("FILE");
  command
      .add_option("--tls-ca", files.ca_file, "Who must have signed the other side's certificate")
      ->type_name("FILE");
}

void add_cluster_commands(CLI::App& app, ClusterSlots& slots, Finish& finish) {
  add_master(app, slots, finish);
  add_node(app, slots, finish);
  ClientCommands(app, slots, finish).add();
}

}  // namespace tandem::cli
