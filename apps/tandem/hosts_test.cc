#include "hosts.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

TEST(Hosts, ReadsNamesSlotsAndComments) {
  const auto hosts = parse_hosts("# ours\nnode-a\n\n  me@node-b\tslots=4  # big\r\n", "hosts.txt");
  ASSERT_TRUE(hosts.ok()) << hosts.error().message();
  EXPECT_EQ(*hosts, (std::vector<Host>{{"node-a", 1}, {"me@node-b", 4}}));
}

TEST(Hosts, SaysWhichLineIsWrong) {
  for (const char* text : {"a\nb slots=0", "a\nb slots=x", "a\nb cores=2", "a\n-oProxyCommand=x"}) {
    const auto hosts = parse_hosts(text, "hosts.txt");
    ASSERT_FALSE(hosts.ok()) << text;
    EXPECT_EQ(hosts.error().message().find("hosts.txt:2: "), 0U) << hosts.error().message();
  }
  EXPECT_FALSE(parse_hosts("# nobody\n", "hosts.txt").ok());
}

TEST(Hosts, QuotesForTheShell) {
  EXPECT_EQ(shell_word("it's $HOME"), "'it'\\''s $HOME'");
}

TEST(Hosts, TellsARankItsPlace) {
  TrainOptions options;
  options.job = "my job.toml";
  options.overrides = {"train.epochs=1"};
  const std::string script = remote_script(options, {{"me@a", 2}, {"b", 1}}, 2, 31234,
                                           "/opt/tandem/bin/tandem", "/srv/jobs");
  for (const char* part :
       {"RANK=2 WORLD_SIZE=3 MASTER_ADDR='a' MASTER_PORT=31234 ", "cd '/srv/jobs'",
        "'/opt/tandem/bin/tandem' train 'my job.toml' 'train.epochs=1'", "read -r TANDEM_TOKEN"}) {
    EXPECT_NE(script.find(part), std::string::npos) << part << " in " << script;
  }
}

}  // namespace
}  // namespace tandem::cli
