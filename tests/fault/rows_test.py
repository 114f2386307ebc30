"""The tests of servers_test.py on a job that pulls rows of tables alone. Its optimizer has no state, but its workers have old rows."""
import servers_test
from harness import main

JOB = """\
name = "rows"
[model]
kind = "matrix_factorization"
dim = 16
[data]
source = "ratings"
users = 900
items = 300
samples = 6000
[train]
epochs = 30
batch = 60
loss = "mse"
seed = 7
report_every_s = 0.02
optimizer = { kind = "sgd", lr = 0.02 }
[cluster]
workers = 2
lanes = 4
strategy = "ps"
servers = 2
max_restarts = 100
[ps]
pull = "partial"
[checkpoint]
every_steps = 100
"""


class RowsTest(servers_test.ServersTest):
    text = JOB
    truth = None


if __name__ == "__main__":
    main()
