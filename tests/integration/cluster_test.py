"""Jobs on a cluster: submitted, watched, cancelled, resumed, resized, queued; machines and the master come and go."""
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import time
import urllib.error
import urllib.request

from cluster import LONG, ClusterTest
from harness import PATIENCE_S, argument_of, children_of, is_gone, main, wait_for
from jobs import RATINGS, SERVED


# Adam has state beside each row; rows wait for admission, and grow old.
SPARSE = f"""\
name = "sparse"
{RATINGS}optimizer = {{ kind = "adam", lr = 0.01 }}
{SERVED}[ps]
tables = "sparse"
admit_after = 1
evict_after = 40
[checkpoint]
every_steps = 0
every_seconds = 86400
"""


class Jobs(ClusterTest):
    def test_a_job_runs_on_two_nodes_and_ends_in_the_same_bits(self):
        self.start_master()
        self.start_node("a")
        self.start_node("b")
        job = self.submit("cluster.workers=4")
        self.assertEqual(job, "cluster-1")
        self.assert_truth(job)
        self.assertEqual([each["id"] for each in self.ask("jobs")["jobs"]], [job])
        self.assertIn(job, self.tandem("jobs", env=self.variables).stdout)
        self.assertIn("a ", self.tandem("nodes", env=self.variables).stdout)
        report = json.loads((self.run_of(job) / "report.json").read_text())
        self.assertEqual(report["cluster"]["workers"], {"start": 4, "end": 4})

    def test_cancel_and_resume_and_roll_back(self):
        self.start_master()
        node = self.start_node("a")
        job = self.submit()
        self.await_step(job)
        pids = self.workers(node)
        self.tandem("cancel", job, env=self.variables)
        self.await_end(job, "cancelled")
        self.await_gone(pids)
        self.tandem("resume", job, "--master", self.http, env=self.variables)
        self.assert_truth(job)
        step = int(sorted((self.run_of(job) / "checkpoints").glob("step-*"))[0].name[5:])
        self.tandem("resume", job, "--master", self.http, "--step", step, env=self.variables)
        self.assert_truth(job)

    def test_a_job_is_resized_while_it_trains(self):
        self.start_master()
        self.start_node("a", 4)
        job = self.submit("cluster.workers=1", *LONG)
        for count in (1, 4, 2):
            if count > 1:
                self.tandem("resize", job, count, env=self.variables)
            self.await_members(job, count)
            self.await_step(job, self.step(job) + 1)
        self.assert_truth_when_cancelled(job)
        self.assertGreaterEqual(len(self.events(job, "joined")), 3)

    def test_jobs_wait_for_slots_by_priority(self):
        self.start_master()
        self.start_node("a", 1)
        first = self.submit("name=first", "cluster.workers=1", *LONG)
        self.await_step(first)
        low = self.submit("name=low", "cluster.workers=1", "train.epochs=1")
        high = self.submit("name=high", "cluster.workers=1", "--priority", 5)
        self.assertEqual(self.ask("status", high)["place_in_queue"], 1)
        self.assertEqual(self.ask("status", low)["place_in_queue"], 2)
        huge = self.submit("name=huge", "cluster.workers=3", "cluster.min_workers=3")
        shown = self.tandem("status", env=self.variables).stdout
        self.assertIn("1 in the queue: needs 1 slot, and 1 of 1 cannot be taken from jobs that run", shown)
        self.assertIn("3 in the queue: needs 3 slots, the cluster has 1", shown)
        for job in (low, huge):
            self.tandem("cancel", job, env=self.variables)
            self.await_end(job, "cancelled")
        self.tandem("resume", low, "--master", self.http, env=self.variables)
        self.tandem("cancel", first, env=self.variables)
        self.await_end(high)
        self.await_end(low)

    def test_logs_are_shown_as_they_come(self):
        self.start_master()
        self.start_node("a")
        job = self.submit()
        self.assert_truth(job)
        self.tandem("logs", job, "-f", env=self.variables)
        self.assertIn(f"worker 1 of {job} printed nothing", self.tandem("logs", job, "--worker", 1, env=self.variables).stderr)
        self.assertIn("no worker 9; it has had 0, 1",
                      self.tandem("logs", job, "--worker", 9, env=self.variables, code=3).stderr)
        waiting = self.submit("cluster.workers=4", "cluster.min_workers=4")  # There are two slots.
        self.assertIn(f"{waiting} has not begun, so worker 7 has no log",
                      self.tandem("logs", waiting, "--worker", 7, env=self.variables, code=3).stderr)
        self.tandem("cancel", waiting, env=self.variables)
        for arguments in ((), ("-f",)):
            self.assertIn(f"{waiting} ended before it had a worker",
                          self.tandem("logs", waiting, *arguments, env=self.variables, code=3).stderr)
        late = self.tandem("cancel", job, env=self.variables, code=2).stderr
        self.assertIn("has ended already", late)
        self.assertNotIn("GET", late)
        self.assertIn("no job", self.tandem("logs", "nobody", env=self.variables, code=3).stderr)

    def test_wrong_jobs_are_refused_before_they_are_accepted(self):
        self.start_master()
        done = self.tandem("node", "--master", self.listen, "--name", "two\nlines", env=self.variables, code=2)
        self.assertIn("`two?lines` is no name for a node", done.stderr)
        done = self.tandem("submit", self.job, "train.epochs=zero", env=self.variables, code=2)
        self.assertIn("train.epochs", done.stderr)
        (self.scratch / "csv.toml").write_text('[model]\nkind = "mlp"\n[data]\nsource = "csv"\npath = "none.csv"\nlabel = "y"\n')
        done = self.tandem("submit", "csv.toml", env=self.variables, code=2)
        self.assertIn("none.csv", done.stderr)
        self.assertEqual(self.ask("jobs")["jobs"], [])
        self.assertIn("there is no job", self.tandem("cancel", "x-1", env=self.variables, code=3).stderr)
        self.variables["TANDEM_MASTER"] = "127.0.0.1:1"
        self.assertIn("tandem master", self.tandem("status", env=self.variables, code=5).stderr)


class Servers(ClusterTest):
    PS = ("cluster.strategy=ps", "cluster.servers=2")

    def servers(self, *nodes):
        return [pid for node in nodes for pid in children_of(node.pid) if argument_of(pid, "--address") is not None]

    def test_parameter_servers_run_on_the_nodes_and_are_replaced(self):
        self.start_master()
        nodes = [self.start_node(name) for name in ("a", "b")]
        job = self.submit(*self.PS)
        self.await_step(job, 150)
        self.assertEqual([len(self.servers(node)) for node in nodes], [1, 1])
        self.assertEqual({argument_of(pid, "--address") for pid in self.servers(*nodes)}, {"127.0.0.1"})
        pids = self.servers(*nodes) + self.workers(*nodes)
        os.kill(self.servers(nodes[0])[0], signal.SIGKILL)
        self.assert_truth(job)
        self.assertEqual([event["who"] for event in self.events(job, "lost")], ["server 0"])
        self.await_gone(pids)
        self.assertEqual(self.servers(*nodes), [])

    def test_what_was_done_is_saved_when_the_master_is_gone(self):
        self.start_master()
        node = self.start_node("a", 2, "--master-timeout", "1")
        job = self.submit(*self.PS, *LONG, "checkpoint.every_steps=0", "checkpoint.every_seconds=86400")
        self.await_step(job, 100)
        pids = self.servers(node) + self.workers(node)
        self.master.kill()
        self.await_gone(pids)
        self.assertEqual(len(list((self.run_of(job) / "checkpoints").glob("step-*"))), 1)

    def test_a_node_dies_with_its_server_and_workers(self):
        self.start_master()
        nodes = [self.start_node(name) for name in ("a", "b")]
        job = self.submit(*self.PS)
        self.await_step(job, 150)
        nodes[1].kill()
        self.assert_truth(job)

    def test_copies_are_on_different_nodes_and_go_on_without_one(self):
        self.start_master()
        nodes = [self.start_node(name) for name in ("a", "b")]
        job = self.submit(*self.PS, "cluster.replicas=2")
        self.await_step(job, 150)
        nodes[1].kill()
        self.assert_truth(job)
        self.assertEqual(self.events(job, "rollback"), [])

    def await_servers(self, job, count):
        wait_for(lambda: self.ask("status", job)["servers"] == {"asked": count, "now": count}, f"{count} servers")

    def test_servers_join_and_leave_while_a_job_trains(self):
        self.start_master()
        node = self.start_node("a")
        job = self.submit("cluster.strategy=ps", "cluster.servers=1", *LONG, "checkpoint.every_steps=0",
                          "checkpoint.every_seconds=86400")
        self.await_step(job, 20)
        for count in (3, 1, 2):
            self.tandem("resize", job, "--servers", count, env=self.variables)
            self.await_servers(job, count)
            self.await_step(job, self.step(job) + 20)
            wait_for(lambda: len(self.servers(node)) == count, f"{count} processes")
        self.assertEqual([event["detail"] for event in self.events(job, "resized")],
                         ["from 1 to 3 servers", "from 3 to 1 servers", "from 1 to 2 servers"])
        for kind in ("lost", "rollback", "recovered"):
            self.assertEqual(self.events(job, kind), [], "moving slices disturbed the training")
        self.assert_truth_when_cancelled(job)
        report = json.loads((self.run_of(job) / "report.json").read_text())
        self.assertEqual(report["cluster"]["servers"], {"start": 1, "end": 2})

    def test_servers_join_and_leave_while_workers_do_not_wait_for_each_other(self):
        self.start_master()
        node = self.start_node("a")
        job = self.submit("cluster.strategy=ps", "cluster.servers=2", "ps.consistency=ssp", *LONG, "checkpoint.every_steps=0",
                          "checkpoint.every_seconds=86400")
        self.await_step(job, 20)
        for count in (4, 1, 3, 2):
            self.tandem("resize", job, "--servers", count, env=self.variables)
            self.await_servers(job, count)
            self.await_step(job, self.step(job) + 20)
            wait_for(lambda: len(self.servers(node)) == count, f"{count} processes")
        for kind in ("lost", "rollback", "recovered"):
            self.assertEqual(self.events(job, kind), [], "moving slices disturbed the training")
        self.tandem("cancel", job, env=self.variables)

    def test_rows_of_sparse_tables_move_with_the_servers(self):
        self.job.write_text(SPARSE)
        self.start_master()
        node = self.start_node("a")
        job = self.submit(*LONG)
        self.await_step(job, 100)
        for count in (3, 1, 2):
            self.tandem("resize", job, "--servers", count, env=self.variables)
            if count == 1:
                os.kill(self.workers(node)[0], signal.SIGKILL)
            self.await_servers(job, count)
            self.await_step(job, self.step(job) + 100)
            wait_for(lambda: len(self.servers(node)) == count, f"{count} processes")
        self.assertEqual(self.events(job, "rollback"), [], "rows were lost")
        self.assert_truth_when_cancelled(job)

    def test_servers_with_copies_join_and_leave_among_losses(self):
        self.start_master()
        nodes = [self.start_node(name) for name in ("a", "b")]
        job = self.submit(*self.PS, "cluster.replicas=2", *LONG)
        self.await_step(job, 20)
        for count in (3, 2):
            self.tandem("resize", job, "--servers", count, env=self.variables)
            os.kill(self.servers(*nodes)[0], signal.SIGKILL)
            self.await_servers(job, count)
            self.await_step(job, self.step(job) + 20)
            wait_for(lambda: len(self.servers(*nodes)) == count, f"{count} processes")
        wrong = self.tandem("resize", job, "--servers", 1, env=self.variables, code=2).stderr
        self.assertIn("2 copies of each slice", wrong)
        self.tandem("resize", job, env=self.variables, code=2)
        self.assert_truth_when_cancelled(job)


class Failures(ClusterTest):
    def test_a_node_dies_with_its_workers_and_another_comes(self):
        self.start_master()
        self.start_node("a")
        node = self.start_node("b")
        job = self.submit("cluster.workers=4", *LONG)
        self.await_step(job)
        pids = self.workers(node)
        node.kill()
        self.await_gone(pids)
        self.await_members(job, 2)
        self.start_node("c")
        self.await_members(job, 4)
        self.assert_truth_when_cancelled(job)
        self.assertTrue(all("was lost with its node b" in event["detail"] for event in self.events(job, "lost")))

    def test_a_job_survives_its_master(self):
        self.start_master()
        node = self.start_node("a", 2, "--master-timeout", "1")
        ended = self.submit("name=ended", "train.epochs=1")
        self.await_end(ended)
        before = self.ask("status", ended)
        job = self.submit(*LONG)
        self.await_step(job, 300)
        self.tandem("resize", job, 1, env=self.variables)
        pids = self.workers(node)
        self.master.kill()
        self.master.wait()
        self.await_gone(pids)
        self.start_master()
        self.assertEqual(self.state(job), "queued")
        self.assertEqual(self.ask("status", job)["workers"]["asked"], 1)
        after = self.ask("status", ended)
        self.assertEqual([after[key] for key in ("state", "reason")], [before[key] for key in ("state", "reason")])
        self.assertEqual([after["progress"][key] for key in ("step", "epoch", "samples", "loss")],
                         [before["progress"][key] for key in ("step", "epoch", "samples", "loss")])
        self.start_node("b", 2)
        self.await_step(job, 400)
        self.await_members(job, 1)
        self.assertEqual(len(self.events(job, "resumed")), 1)
        self.assert_truth_when_cancelled(job)

    def test_the_master_decides_when_a_job_ends_however_often_it_is_away(self):
        stop = ("train.epochs=1000", "train.eval_every_epochs=5", "train.early_stop.patience=24",
                "train.early_stop.min_delta=0.02")
        self.tandem("train", self.job, "--out", "own", "-q", "cluster.workers=1", "cluster.max_restarts=0", *stop)
        truth = self.report("own")
        self.assertEqual(truth["status"], "converged")
        self.start_master()
        node = self.start_node("a", 2, "--master-timeout", "1")
        job = self.submit(*stop)
        self.await_step(job)
        pids = self.workers(node)
        # It does not answer for a while, which is shorter than its node notices: they wait.
        self.master.send_signal(signal.SIGSTOP)
        time.sleep(2)
        self.assertEqual(self.workers(node), pids)
        self.master.send_signal(signal.SIGCONT)
        wait_for(lambda: any(step < max(self.metrics(job, "train")) for step in self.metrics(job, "eval")),
                 "a step after an evaluation")
        # It will not answer any more: they save what they have and end.
        self.master.send_signal(signal.SIGSTOP)
        time.sleep(2)
        self.master.kill()
        self.master.wait()
        self.await_gone(pids)
        saved = max(int(path.name[5:]) for path in (self.run_of(job) / "checkpoints").glob("step-*"))
        self.assertGreaterEqual(saved, self.metrics(job, "eval")[0])
        self.start_master()
        self.start_node("b", 2)
        self.await_end(job, "converged")
        report = json.loads((self.run_of(job) / "report.json").read_text())
        for key in ("status", "reason", "steps", "weights_hash", "eval"):
            self.assertEqual(report[key], truth[key], key)
        self.assertEqual([(event["who"], event["detail"]) for event in self.events(job, "early_stop")],
                         [("master", truth["reason"])])
        self.assertEqual(self.events(job, "lost"), [])

    def test_a_cancelled_job_stays_so_when_its_master_dies_at_once(self):
        self.start_master()
        node = self.start_node("a")
        job = self.submit(*LONG, "cluster.min_workers=2")
        self.await_step(job)
        pids = self.workers(node)
        self.tandem("resize", job, 1, env=self.variables, code=2)  # It cannot run with so few.
        self.tandem("cancel", job, env=self.variables)
        self.master.kill()
        self.master.wait()
        self.start_master()
        self.await_end(job, "cancelled")
        self.await_gone(pids)

    def test_a_job_cancelled_while_it_waits_again_keeps_what_it_has_done(self):
        self.start_master()
        node = self.start_node("a")
        job = self.submit(*LONG)
        store = self.run_of(job) / "checkpoints"
        wait_for(lambda: len(list(store.glob("step-*"))) >= 2, "two checkpoints")
        pids = self.workers(node)
        for process in (self.master, node):
            process.kill()
            process.wait()
        self.await_gone(pids)
        self.start_master()  # Without a node it can only wait.
        wait_for(lambda: f"takes up {job} again" in (self.scratch / "master.log").read_text(), "the job to be queued")
        self.tandem("cancel", job, env=self.variables)
        self.await_end(job, "cancelled")
        report = json.loads((self.run_of(job) / "report.json").read_text())
        step = max(int(path.name.removeprefix("step-")) for path in store.glob("step-*"))
        self.assertEqual((report["status"], report["steps"]), ("cancelled", step))
        self.assertEqual(report["reason"], f"cancelled by the user while it waited to go on after step {step}")
        self.assertEqual([event["kind"] for event in report["events"]][-1], "cancelled")
        self.tandem("train", self.job, "--out", "own", "-q", "cluster.workers=1", *LONG, f"train.steps={step}")
        own = self.report("own")
        for key in ("weights_hash", "steps", "epochs", "samples"):
            self.assertEqual(report[key], own[key], key)

    def test_workers_that_were_given_up_write_nothing_more(self):
        self.start_master()
        node = self.start_node("a")
        job = self.submit(*LONG)
        self.await_step(job, 200)
        pids = self.workers(node)
        node.send_signal(signal.SIGSTOP)  # Its workers train on, and nobody ends them.
        self.master.kill()
        self.master.wait()
        self.start_master()
        self.start_node("b")
        wait_for(lambda: any(map(is_gone, pids)), "the end of the worker that writes")
        self.await_step(job, self.step(job) + 200)
        node.kill()
        self.await_gone(pids)
        self.assertEqual(self.events(job, "checkpoint_failed"), [])
        self.assert_truth_when_cancelled(job)

    def test_control_c_leaves_no_process_anywhere(self):
        self.start_master()
        nodes = [self.start_node(name) for name in "ab"]
        job = self.submit("cluster.workers=4", *LONG)
        self.await_step(job)
        pids = self.workers(*nodes)
        self.assertEqual(len(pids), 4)
        nodes[0].send_signal(signal.SIGINT)
        self.assertEqual(nodes[0].wait(timeout=60), 0)
        self.await_members(job, 2)
        self.master.send_signal(signal.SIGINT)
        self.assertEqual(self.master.wait(timeout=60), 0)
        self.await_gone(pids)
        nodes[1].send_signal(signal.SIGINT)
        self.assertEqual(nodes[1].wait(timeout=60), 0)


class Strangers(ClusterTest):
    def refused(self, words):
        log = self.scratch / "master.log"
        wait_for(lambda: words in log.read_text(), f"`{words}` in the master's log")

    def test_strangers_are_refused_and_named_while_others_train(self):
        self.start_master()
        self.start_node("a")
        job = self.submit()
        self.tandem("master", "--init", "--secret", "other")
        stranger = self.start("node", "--master", self.listen, "--slots", 1, "--name", "stranger", "--secret", "other")
        self.refused("refused 127.0.0.1")
        said = stranger.stderr.readline()
        self.assertIn("the peer says that this side does not have the cluster's secret; copy the master's", said)
        self.assertIn("stop this node, set that right, and start it again", said)
        self.assertNotIn("trying again", said)
        namesake = self.start("node", "--master", self.listen, "--slots", 1, "--name", "a", env=self.variables)
        wait_for(lambda: [node["name"] for node in self.ask("nodes")["nodes"]] == ["a", "a-2"], "the node of the same name")
        namesake.kill()
        wait_for(lambda: len(self.ask("nodes")["nodes"]) == 1, "its end")
        host, port = self.listen.split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(300)]
        for bytes_ in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"TDNH\xff\xff\x01\x00" + bytes(32)):
            with socket.create_connection((host, int(port))) as garbage:
                garbage.sendall(bytes_)
                garbage.settimeout(30)
                while garbage.recv(4096):
                    pass
        self.assertEqual([node["name"] for node in self.ask("nodes")["nodes"]], ["a"])
        for each in silent:
            each.close()
        stranger.kill()
        self.assert_truth(job)
        metrics = urllib.request.urlopen(f"http://{self.http}/metrics", timeout=30).read().decode()
        self.assertRegex(metrics, r"tandem_refused_peers_total [1-9]")
        self.assertIn('tandem_jobs{state="finished"} 1', metrics)

    def memory(self, field):
        """A line of the master's /proc/PID/status, in bytes."""
        status = pathlib.Path(f"/proc/{self.master.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)[1]) << 10

    def crowd(self, address, count):
        host, port = address.split(":")
        for _ in range(count):
            connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
            self.addCleanup(connection.close)
            yield connection

    def told_of(self):
        """How many refused peers the master's log tells of, and in how many lines."""
        log = (self.scratch / "master.log").read_text()
        sums = [int(count) for count in re.findall(r"(\d+) more were refused", log)]
        named = len(re.findall(r"refused 127\.0\.0\.1:\d+: ", log))
        return named + sum(sums), named + len(sums)

    def test_a_thousand_silent_connections_cost_the_master_little(self):
        count = 1000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * count)), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.start_master()
        self.start_node("a")
        self.await_end(self.submit("train.epochs=1"))  # The master has done all that it does.
        before = self.memory("VmRSS")
        pathlib.Path(f"/proc/{self.master.pid}/clear_refs").write_text("5")  # VmHWM begins anew.
        connections = [each for address in (self.listen, self.http) for each in self.crowd(address, count)]
        job = self.submit("train.epochs=2")
        self.assertEqual([node["name"] for node in self.ask("nodes")["nodes"]], ["a"])
        self.await_end(job)
        for each in connections:
            with contextlib.suppress(ConnectionResetError):
                while each.recv(4096):
                    pass
        wait_for(lambda: self.told_of()[0] == count, "all that were refused to be in the log")
        self.assertLess(self.told_of()[1], count / 10)
        self.assertEqual([node["name"] for node in self.ask("nodes")["nodes"]], ["a"])
        growth = {field: (self.memory(field) - before) / (1 << 20) for field in ("VmHWM", "VmRSS")}
        self.assertLess(max(growth.values()), 16, growth)

    def test_changes_need_the_token(self):
        self.start_master()
        request = urllib.request.Request(f"http://{self.http}/api/v1/jobs", data=b'{"job": ""}',
                                         headers={"Content-Type": "application/json"})
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=30)
        self.assertEqual(caught.exception.code, 401)
        caught.exception.close()
        token = self.tandem("master", "--token", env=self.variables).stdout.strip()
        request.add_header("Authorization", f"Bearer {token}")
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=30)
        self.assertEqual(caught.exception.code, 400)
        caught.exception.close()
        del self.variables["TANDEM_SECRET"]
        self.variables["HOME"] = str(self.scratch)
        self.assertIn("tandem master --init", self.tandem("master", "--listen", "0.0.0.0:0", "--runs", "other",
                                                          env=self.variables, code=7).stderr)

    def test_a_taken_port_is_an_error_that_says_so(self):
        self.start_master()
        done = self.tandem("master", "--listen", self.listen, "--http", "127.0.0.1:0", "--runs", "other",
                           env=self.variables, code=2)
        self.assertIn(self.listen, done.stderr)
        done = self.tandem("master", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", env=self.variables, code=2)
        self.assertIn("another master", done.stderr)


if __name__ == "__main__":
    main()
