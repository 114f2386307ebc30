// A job: what a user submits. Parsed once from TOML (job/parse.h), validated, then passed down as
// plain values. Every default here is the documented one; docs/job-file.md is checked against the
// schema in job/schema.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "arch/arch.h"
#include "data/source.h"
#include "optim/config.h"

namespace tandem::job {

struct Model {
  arch::ModelConfig config;
  std::string init_from;            // A model.safetensors, or a run directory, to start from.
  std::vector<std::string> freeze;  // Globs of slot names that are not trained.
};

struct Train {
  std::int64_t epochs = 10;
  std::int64_t steps = 0;   // Stop after so many steps; 0: epochs decide.
  std::int64_t batch = 64;  // Global.
  std::uint64_t seed = 1;
  std::int64_t threads = 1;  // Kernel threads of each worker.
  arch::Loss loss;
  optim::OptimizerConfig optimizer;
  optim::ScheduleConfig schedule;
  optim::ClipConfig clip;
  std::int64_t eval_every_epochs = 1;
  std::int64_t early_stop_patience =
      0;  // Evaluations without improvement; 0: off. [train.early_stop]
  std::string early_stop_metric =
      "loss";  // loss, accuracy; of the validation part (test if that is empty).
  double early_stop_min_delta = 0;
  double early_stop_target = 0;  // Of the metric; 0: none.
  double early_stop_change = 0;  // Of the loss between evaluations, as a fraction; 0: none.
  double report_every_s =
      1.0;  // Interval of progress lines and metrics.jsonl. train.report_every_s
};

struct Cluster {
  std::int64_t workers = 1;
  std::int64_t min_workers = 1;   // With fewer the job waits.
  std::int64_t max_workers = 0;   // That it takes when there is room; 0: as `workers`.
  std::int64_t max_restarts = 8;  // Lost workers that are replaced.
  std::int64_t lanes = 0;         // 0: as many as workers.
  std::string strategy = "allreduce";
  std::int64_t servers = 1;       // Parameter servers; strategy ps.
  std::int64_t replicas = 1;      // Servers that hold each slice; strategy ps.
  std::string engine = "auto";    // auto, shm, gloo, mpi.
  double timeout_s = 60;          // How long a worker waits for another inside a step.
  std::int64_t bucket_bytes = 0;  // Gradients summed together; 0: what was measured to be best.
};

// Strategy ps.
struct Ps {
  std::string consistency = "bsp";     // bsp, ssp, asp.
  std::int64_t staleness = 3;          // Steps; ssp.
  double quorum = 1;                   // Of a step's lanes; bsp.
  std::string aggregate = "weighted";  // weighted, mean, sum.
  std::string stale_lr = "same";       // same, lowered; ssp and asp.
  double compensation = 0;             // Of delays; ssp and asp. 0: none.
  std::string transport = "auto";      // auto, tcp.
  std::string pull = "full";           // full, partial.
  std::string tables = "dense";        // dense, sparse: where tables of embeddings live.
  std::int64_t admit_after = 0;        // Steps that touch a row before it is made; sparse.
  std::int64_t evict_after = 0;  // Steps without touch after which it is gone; sparse. 0: never.
};

struct Checkpoint {
  std::int64_t every_steps = 0;  // 0: time decides.
  double every_seconds = 60;     // 0: none but by steps.
  std::int64_t keep = 3;         // The newest; 0: no checkpoints.
  std::string best = "none";     // none, loss, accuracy: the best one is kept, too.
};

struct Job {
  std::string name;
  Model model;
  data::SourceConfig data;
  Train train;
  Cluster cluster;
  Ps ps;
  Checkpoint checkpoint;

  bool has_servers() const { return cluster.strategy == "ps"; }
  // Whether workers wait for each other only now and then.
  bool is_async() const { return has_servers() && (ps.consistency != "bsp" || ps.quorum < 1); }
  // Whether servers keep the tables of embeddings row by row, and workers none of them.
  bool has_sparse_tables() const { return has_servers() && ps.tables == "sparse"; }
  std::int64_t lanes() const { return cluster.lanes > 0 ? cluster.lanes : cluster.workers; }
};

}  // namespace tandem::job
