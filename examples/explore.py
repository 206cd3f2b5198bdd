"""A tour of cxlab in Python, written as a notebook: run it whole, or cell by cell in an editor."""

# %% A system, built in Python. Nothing that is left out is guessed here: cxlab has the defaults.
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cxlab

out = Path("out/explore")
pool = (
    cxlab.Scenario("pool")
    .fabric(
        topology=cxlab.topology("spine-leaf", leaves=4, spines=2),
        routing="adaptive",
        link={"generation": "6", "lanes": 8},
    )
    .hosts("host", count=8, workload=cxlab.workload("uniform", read_ratio=0.67))
    .devices("mem", count=8, memory=cxlab.memory("fixed", latency="46 ns"))
    .measure(requests=20_000)
)
print(pool.to_toml())

# %% A mistake, found before anything runs.
try:
    pool.set("fabric.routing", "adaptiv").check()
except cxlab.ScenarioError as error:
    print(error)

# %% A run, and what it measured.
result = cxlab.run(pool, seed=7, requests=True)
print(result.table())
print(result.to_pandas("links").nlargest(5, "utilization")[["direction", "utilization"]])

# %% The request log: one row for each request, a column for each stage of its latency.
requests = result.to_pandas("requests")
latency_ns = (requests.completed_ps - requests.issued_ps) / 1e3
print(latency_ns.groupby(requests.write).describe())

# %% A sweep. Finished points are kept: run this cell again, and nothing runs.
frame = cxlab.sweep(
    pool,
    {
        "fabric.routing": ["shortest", "adaptive"],
        "hosts[0].issue.outstanding": [16, 64, 256],
    },
)
print(frame[["fabric.routing", "hosts[0].issue.outstanding", "bandwidth_gb_per_s", "p99_ns"]])


# %% A workload in Python: batches of addresses and of whether each writes.
def zipf(requester: cxlab.Requester) -> Iterator[tuple[np.ndarray, bool]]:
    """Lines by Zipf's law, each requester with a stream of its own."""
    rng = np.random.default_rng([7, requester.number])
    lines = requester.span // 64
    for _ in range(20):
        ranks = rng.zipf(1.2, size=1_000).astype(np.uint64)
        yield (ranks * np.uint64(0x9E3779B9)) % np.uint64(lines) * np.uint64(64), False


skewed = pool.set("hosts[0].workload", {"kind": "external", "name": "zipf"})
print(cxlab.run(skewed, workloads={"zipf": zipf}))

# %% Pictures, and a page with everything.
out.mkdir(parents=True, exist_ok=True)
cxlab.plot.topology(cxlab.plan(pool), result)
plt.savefig(out / "topology.png")
cxlab.plot.sweep_lines(
    frame, "hosts[0].issue.outstanding", "bandwidth_gb_per_s", by="fabric.routing"
)
plt.savefig(out / "sweep.png")
result.save(out)
print(f"now: cxlab report {out}")
