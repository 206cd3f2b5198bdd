"""Shared by the figures: scenarios and topologies."""

from pathlib import Path

from cxlab._scenario import Scenario
from cxlab._types import Value
from cxlab.reproduce.common import BLACK as BLACK
from cxlab.reproduce.common import BLUE as BLUE
from cxlab.reproduce.common import GREEN as GREEN
from cxlab.reproduce.common import ORANGE as ORANGE
from cxlab.reproduce.common import PURPLE as PURPLE
from cxlab.reproduce.common import RED as RED
from cxlab.reproduce.common import SKY as SKY
from cxlab.reproduce.ledger import Tolerance

DATA = Path(__file__).parent / "data"

#: Tolerance of bandwidths and latencies: the error of the paper's simulator against hardware.
BANDWIDTH = Tolerance(
    0.1,
    'the paper\'s own error: "ranging from 0.1% to 10% when compared to CXL hardware"',
    relative=True,
)
LATENCY = Tolerance(0.12, 'the paper\'s own error: "an error margin up to only 12%"', relative=True)
#: Tolerance of a closed form: that of the tests of laws (tests/tests/laws).
LAW = Tolerance(0.005, "our interval: windows end with requests in flight, 0.5 %", relative=True)
DUPLEX_LAW = Tolerance(
    0.01, "our interval: windows end with requests in flight, 1 %", relative=True
)

#: fabric.link.bandwidth of esf-fig10 and noisy-neighbours.
PORT_GB_PER_S = 8.0

TOPOLOGIES = {
    "chain": BLUE,
    "tree": SKY,
    "ring": GREEN,
    "spine-leaf": ORANGE,
    "fully-connected": RED,
}


def law(kind: str, requesters: int) -> float:
    """Aggregate over port bandwidth (ESF section V-A), equal to the links across the middle."""
    laws = {"chain": 1.0, "tree": 1.0, "ring": 2.0, "spine-leaf": requesters / 2}
    return laws.get(kind, float(requesters))


def scenario(name: str, changes: dict[str, Value]) -> Scenario:
    """A scenario of the paper with changes."""
    return Scenario.from_file(DATA / f"{name}.toml").update(changes)
