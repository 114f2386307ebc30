"""The tests of servers_test.py on a job that pulls rows of tables alone. Its optimizer has no state, but its workers have old rows."""
import servers_test
from harness import main
from jobs import RATINGS, SERVED

JOB = f"""\
name = "rows"
{RATINGS}epochs = 30
optimizer = {{ kind = "sgd", lr = 0.02 }}
{SERVED}[ps]
pull = "partial"
[checkpoint]
every_steps = 100
"""


class RowsTest(servers_test.ServersTest):
    text = JOB
    truth = None

    def test_copies_of_slices_with_rows_lose_no_step(self):
        process = self.begin("run", "cluster.servers=3", "cluster.replicas=2")
        for kills, option in enumerate(("--address", "--number", "--address"), start=1):
            self.signal(self.pids(process, option)[:1])
            self.await_recoveries(process, "run", kills)
        self.assert_same_end(process, "run")
        self.assertEqual(self.events("run", "rollback"), [])


if __name__ == "__main__":
    main()
