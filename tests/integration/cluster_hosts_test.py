"""A cluster of four hosts, made by the commands of docs/cluster.md word for word, without and with TLS; one host dies.

The script starts itself again in a world of its own (world.py); the hosts are network namespaces (hosts.py).
"""
import json
import pathlib
import re
import subprocess

from cluster import ClusterTest
from harness import PATIENCE_S, argument_of, bin_directory, children_of, wait_for
from hosts import NAMESPACES, make_bridge, make_hosts
from world import main

GUIDE = pathlib.Path(__file__).parents[2] / "docs/cluster.md"


def commands(kind):
    """The commands of the guide's blocks of this kind."""
    blocks = re.findall(rf"^```sh {kind}\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    if not blocks:
        raise AssertionError(f"{GUIDE} has no commands for {kind}")
    return "".join(blocks)


class Guide(ClusterTest):
    def setUp(self):
        super().setUp()
        make_bridge(self)
        text = self.job.read_text().replace('name = "cluster"', 'name = "digits"')
        self.job.write_text(text)
        home = self.scratch / "home"
        home.mkdir()
        self.variables = self.environment(HOME=str(home), PATH=f"{bin_directory()}:/usr/sbin:/usr/bin:/sbin:/bin")

    def shell(self, host, script):
        return subprocess.run([*host.inside(), "bash", "-euc", script], cwd=self.scratch, env=self.variables, text=True,
                              capture_output=True, timeout=PATIENCE_S)

    def serve(self, host, script, log):
        """Starts a command that goes on; `exec`, so that it is the process that is started."""
        with open(self.scratch / log, "w") as errors:
            process = subprocess.Popen([*host.inside(), "bash", "-euc", f"exec {script.strip()}"], cwd=self.scratch,
                                       env=self.variables, stdout=subprocess.DEVNULL, stderr=errors)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def follow(self, suffix):
        hosts = make_hosts(self, 4)
        done = self.shell(hosts[0], commands("once"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.serve(hosts[0], commands(f"master{suffix}"), "master.log")
        log = self.scratch / "master.log"
        wait_for(lambda: "HTTP is at" in log.read_text(), "the master")
        nodes = [self.serve(host, commands(f"node{suffix}"), f"{host.link}.log") for host in hosts[1:]]
        wait_for(lambda: log.read_text().count(" joined with ") == 3, "the nodes")
        return hosts, nodes

    def use(self, hosts):
        done = self.shell(hosts[1], commands("user"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("host-3", done.stdout)
        self.assertIn("digits-1", done.stdout)

    def await_report(self):
        report = self.scratch / "runs/digits-1/report.json"
        wait_for(report.exists, "the end of the job")
        self.assertEqual(self.essence(report), ClusterTest.truth, (self.scratch / "master.log").read_text())
        return json.loads(report.read_text())

    def test_the_guide_works_word_for_word(self):
        hosts, _ = self.follow("")
        self.use(hosts)
        self.assertEqual(self.await_report()["cluster"]["engine"], "gloo")

    def test_with_tls_and_a_host_that_dies(self):
        hosts, nodes = self.follow("-tls")
        self.use(hosts)
        metrics = self.scratch / "runs/digits-1/metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.read_text(), "the first step")
        nodes[2].kill()
        report = self.await_report()
        kinds = [event["kind"] for event in report["events"]]
        self.assertIn("lost", kinds)
        recovered = [event["recovered_ms"] for event in report["events"] if event["kind"] == "recovered"]
        self.assertTrue(recovered and max(recovered) < 20000, report["events"])

    def test_parameter_servers_speak_tls_where_their_nodes_do(self):
        hosts, nodes = self.follow("-tls")
        submit = "tandem submit digits.toml cluster.strategy=ps cluster.servers=2 cluster.workers=2 train.epochs=40"
        done = self.shell(hosts[1], f"export TANDEM_MASTER=192.168.77.1:7070; {submit}")
        self.assertEqual(done.returncode, 0, done.stderr)

        def started():
            return [pid for node in nodes for pid in children_of(node.pid) if argument_of(pid, "--tls-cert")]
        wait_for(lambda: len(started()) == 4, "two workers and two servers with certificates")
        self.await_report()


if __name__ == "__main__":
    main(NAMESPACES)
