#include "cluster/master_metrics.h"

#include <fmt/format.h>

namespace tandem::cluster {
namespace {

void head(std::string& text, const char* name, const char* type, const char* help) {
  text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

template <typename Number>
void single(std::string& text, const char* name, const char* type, const char* help, Number value) {
  head(text, name, type, help);
  text += fmt::format("{} {}\n", name, value);
}

// A label's value; job names come from users.
std::string in_quotes(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result + "\"";
}

}  // namespace

std::string to_prometheus(const ClusterFacts& facts) {
  std::string text;
  single(text, "tandem_nodes", "gauge", "Nodes that are connected.", facts.nodes);
  single(text, "tandem_slots", "gauge", "Workers that the nodes can run.", facts.slots);
  single(text, "tandem_slots_used", "gauge", "Slots that have a worker.", facts.used_slots);
  single(text, "tandem_workers_lost_total", "counter", "Workers that were lost.",
         facts.workers_lost);
  single(text, "tandem_refused_peers_total", "counter",
         "Connections that did not prove that they belong here.", facts.refused_peers);
  head(text, "tandem_jobs", "gauge", "Jobs by state.");
  for (const auto& [state, count] : facts.jobs)
    text += fmt::format("tandem_jobs{{state={}}} {}\n", in_quotes(state), count);
  const auto each = [&](const char* name, const char* type, const char* help, auto value) {
    head(text, name, type, help);
    for (const auto& [job, progress] : facts.progress)
      text += fmt::format("{}{{job={}}} {}\n", name, in_quotes(job), value(progress));
  };
  each("tandem_job_steps_total", "counter", "Steps that a running job has done.",
       [](const wire::Progress& progress) { return progress.step(); });
  each("tandem_job_samples_total", "counter", "Samples that a running job has trained on.",
       [](const wire::Progress& progress) { return progress.samples(); });
  each("tandem_job_loss", "gauge", "The latest training loss of a running job.",
       [](const wire::Progress& progress) { return progress.loss(); });
  return text;
}

}  // namespace tandem::cluster
