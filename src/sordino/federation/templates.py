"""The commented files that `sordino federation init` writes."""

from __future__ import annotations

from pathlib import Path

from sordino.core.errors import UsageError
from sordino.core.files import write_text

OPERATOR = """\
# The operator of a federation. Next: sordino federation certs, serve, enrol, run (each with this folder).

[superlink]
host = "127.0.0.1"                      # where sites reach the fleet's paths; everything else stays on loopback
port = 9443
inner_port = 18000                      # the SuperLink itself, on loopback
names = ["localhost", "127.0.0.1"]      # hosts and addresses in the certificate

[patience]
answer_seconds = 300.0                  # how long answers are awaited
wait_seconds = 3600.0                   # how long to wait until enough sites are there for a round
least_sites = 1                         # below this many answers a run of private messages stops
spare_rounds = 2                        # void rounds of secure sums that are paid for in advance
"""

SITE = """\
# A site: what it holds, what may be spent, and what is allowed. What is not named here is refused.
# Next: sordino federation keys, site --check, site (each with this file).

site = "{name}"
window = "2026"                         # the data that the budgets belong to; new data, new window
unit = "column"                         # whose presence is protected: record, column (data.client) or client
units_public = false                    # true: the number of units and their budgets stand on the site's card

[data]
name = "table"                          # or "images", a data set of the catalogue, "package.module:function"
path = "records.csv"                    # CSV, Parquet or NPZ
label = "label"
client = "patient"                      # the column whose values are the units
classes = [0, 1]                        # declared, so that they do not follow from the data
                                        # images: path/CLASS/*.png, with clients = true path/CLIENT/CLASS/*.png

[budget]                                # of every unit, for the whole life of the window
epsilon = 3.0
delta = 1e-5                            # or: column = "epsilon" of the table, and delta; or file = "budgets.csv"
                                        # with the columns id, epsilon, delta

[allow]
purposes = ["readmission"]              # by name
models = ["logistic"]                   # of `sordino`'s own, or "package.module:function" that you installed
trust = ["local", "sum-only"]
methods = ["dp-sgd", "dp-fedavg"]
rounds = 100                            # releases of a run, retries included
parameters = 1000000                    # the largest model
cohort = 3                              # the smallest secure sum, in sites that you accepted
survivors = 2
colluders = 1                           # how many of them a sum must tolerate
approval = "automatic"                  # or "by-hand"
tell = "reason"                         # what an operator learns: nothing, reason or cost

# [metrics.loss]                        # may a noisy loss leave (fedfdp), and what may it cost a unit in a run?
# epsilon = 0.1
# delta = 1e-6

[agent]
folder = "state"                        # ledger, stored answers and log: for the agent's user alone
socket = "agent.sock"
user = "flower"                         # the SuperNode's user: not the agent's
pace_seconds = 0.5                      # answers leave at multiples of this, however long it took
refusal_seconds = 10.0                  # refusals at multiples of this, longer than any decision takes
"""


def write_folder(folder: Path, site: str | None) -> Path:
    """An operator's folder, or a site's; refuses to replace a file that is there."""
    file = folder / ("operator.toml" if site is None else "site.toml")
    if file.exists():
        raise UsageError(f"{file} is there already; edit it, or choose another folder")
    # The SuperNode's user passes through a site's folder, to the socket and to its own folder, and reads nothing.
    folder.mkdir(mode=0o700 if site is None else 0o711, parents=True, exist_ok=True)
    write_text(file, OPERATOR if site is None else SITE.format(name=site))
    file.chmod(0o600)
    return file
