"""What the figures share: scenarios, topologies, colours."""

from pathlib import Path

from cxlab._scenario import Scenario
from cxlab._types import Value

DATA = Path(__file__).parent / "data"

#: fabric.link.bandwidth of esf-fig10 and noisy-neighbours.
PORT_GBPS = 8.0

# Okabe and Ito's colours, which colour-blind readers tell apart.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#000000",
)
TOPOLOGIES = {
    "chain": BLUE,
    "tree": SKY,
    "ring": GREEN,
    "spine-leaf": ORANGE,
    "fully-connected": RED,
}


def law(kind: str, requesters: int) -> float:
    """Aggregate bandwidth over port bandwidth (ESF section V-A): also links across the middle."""
    laws = {"chain": 1.0, "tree": 1.0, "ring": 2.0, "spine-leaf": requesters / 2}
    return laws.get(kind, float(requesters))


def scenario(name: str, changes: dict[str, Value]) -> Scenario:
    """A scenario of the paper's with changes."""
    return Scenario.from_file(DATA / f"{name}.toml").update(changes)
