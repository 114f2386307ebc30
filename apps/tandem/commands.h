// The sub-commands: each does all of its work and returns the exit code of the program.
#pragma once

#include "options.h"
#include "surroundings.h"

namespace tandem::cli {

int train(const TrainOptions& options, const Surroundings& around);
int eval(const EvalOptions& options, const Surroundings& around);
int predict(const PredictOptions& options, const Surroundings& around);
int model_summary(const ModelSummaryOptions& options, const Surroundings& around);
int model_verify(const ModelVerifyOptions& options, const Surroundings& around);
int model_export(const ModelExportOptions& options, const Surroundings& around);
int checkpoint(const CheckpointOptions& options, const Surroundings& around);
int doctor(const DoctorOptions& options, const Surroundings& around);
int bench_allreduce(const BenchAllReduceOptions& options, const Surroundings& around);
int bench_checkpoint(const BenchCheckpointOptions& options, const Surroundings& around);
int bench_ps(const BenchPsOptions& options, const Surroundings& around);
int master(const MasterOptions& options, const Surroundings& around);
int node(const NodeOptions& options, const Surroundings& around);
int client(const ClientOptions& options, const Surroundings& around);
int server(const ServerOptions& options, const Surroundings& around);
int job_reference();

}  // namespace tandem::cli
