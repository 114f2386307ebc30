"""Jobs that several scripts of tests/integration and tests/fault train. Some end inside [train], for a script to go on there."""

# Dropout and uneven batches; some seconds long, so that there is time to kill.
DIGITS = """\
[model]
kind = "mlp"
hidden = [48, 48]
dropout = 0.1
[data]
source = "digits"
[train]
batch = 19
seed = 7
report_every_s = 0.02
optimizer = { kind = "adam", lr = 0.002 }
"""

# Two tables, of which a step touches few rows.
RATINGS = """\
[model]
kind = "matrix_factorization"
dim = 16
[data]
source = "ratings"
users = 900
items = 300
samples = 6000
[train]
batch = 60
loss = "mse"
seed = 7
report_every_s = 0.02
"""

# Two workers and two servers, of which any may die.
SERVED = """\
[cluster]
workers = 2
lanes = 4
strategy = "ps"
servers = 2
max_restarts = 100
"""

# Rows of three columns, and dense features and layers beside them.
WIDE_DEEP = """\
name = "wide"
[model]
kind = "wide_deep"
dim = 5
hidden = [16, 8]
dropout = 0.1
[data]
source = "csv"
path = "clicks.csv"
label = "clicked"
categorical = ["user", "page", "place"]
[train]
steps = 60
batch = 18
optimizer = { kind = "sgd", lr = 0.05 }
clip = { value = 0.02 }
"""


def write_clicks(path):
    """The data of WIDE_DEEP."""
    lines = ["user,page,age,place,clicked"]
    for i in range(700):
        user, page = i * 7919 % 400, i * i % 301
        lines.append(f"{user},{page},{user % 50},{page % 17},{'yes' if (user + page) % 3 else 'no'}")
    path.write_text("\n".join(lines) + "\n")
