"""AXPY and remote procedure calls under assumptions that the paper leaves open.

No claim is judged. Each set changes a parameter that the calibrated testbed does
not determine; docs/explain/cohet.md has the reasons.
"""

import statistics

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab._types import Value
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.cohet import common, fig4, fig18
from cxlab.reproduce.cohet.common import BLUE, GREEN, ORANGE
from cxlab.reproduce.ledger import shown

OPEN = shown("assumptions that the paper leaves open")

#: The home agent's interval in cycles of the device.
INTERVAL: dict[str, Value] = {"hosts[0].processor.home_interval": fig18.FAST_INTERVAL}
#: Channels and banks by functions of many address bits, as on servers (docs/explain/dram.md).
HASH: dict[str, Value] = {
    f"hosts[0].nodes[{node}].memory": {"kind": "dram", "channels": 4, "hash": {"kind": "fold"}}
    for node in range(len(common.NODES))
}
#: Modified lines that the device evicts stay in the last-level cache.
EVICTIONS: dict[str, Value] = {"hosts[0].processor.llc.device_evictions": "llc"}
#: A load of a line of `y`, which will be stored, requests ownership. Only for AXPY.
OWNERSHIP: dict[str, Value] = {"hosts[0].workload.own_y": True}
#: Sets of assumptions, by name.
SETS: dict[str, dict[str, Value]] = {
    "as calibrated": {},
    "interval in cycles of the device": INTERVAL,
    "hashed channels and banks": HASH,
    "evictions of the device into the LLC": EVICTIONS,
    "loads of y ask for ownership": OWNERSHIP,
    "interval and hash": {**INTERVAL, **HASH},
    "interval, hash and evictions": {**INTERVAL, **HASH, **EVICTIONS},
    "all four": {**INTERVAL, **HASH, **EVICTIONS, **OWNERSHIP},
}
#: Assumptions about RpcNIC: those of Fig. 18's judged rows, or its variants by direction.
NICS: dict[str, dict[str, str]] = {
    "RpcNIC as in Fig. 18": {"deserialize": fig18.RPC_NIC, "serialize": fig18.RPC_NIC},
    "RpcNIC with two buffers, a copy at a time": {
        direction: next(iter(variants)) for direction, variants in fig18.VARIANTS.items()
    },
}
#: Methods for which the text gives numbers, and the direction that each is measured in.
METHODS = {
    fig18.PUSH: "deserialize",
    fig18.CXL_MEM: "serialize",
    fig18.PREFETCH: "serialize",
}
#: Relative distance from the paper's value within which a bar counts as near.
NEAR = 0.1
AXPY_SIZES = (65_536, 262_144)


def collect(settings: Settings) -> pd.DataFrame:
    """AXPY's times over explicit copies, and bars of Fig. 18 near the paper's, by set."""
    rows = []
    for name, assumed in SETS.items():
        axpy = _axpy(settings, name, assumed)
        for nic, bars in _bars(settings, name, assumed).items():
            rows.append({"assumptions": name, "rpc_nic": nic, **axpy, **bars})
    return pd.DataFrame(rows)


def _axpy(settings: Settings, name: str, assumed: dict[str, Value]) -> dict[str, float]:
    cases = [(size, model) for size in AXPY_SIZES for model in ("explicit", "cohet")]
    scenarios = [fig4.scenario(size, model, assumed) for size, model in cases]
    results = settings.run(f"sensitivity, AXPY, {name}", scenarios)
    times = {case: fig4.times_ns(result)[0] for case, result in zip(cases, results, strict=True)}
    return {f"axpy_{size}": times[size, "cohet"] / times[size, "explicit"] for size in AXPY_SIZES}


def _bars(settings: Settings, name: str, assumed: dict[str, Value]) -> dict[str, dict[str, float]]:
    bases = {(direction, base) for nic in NICS.values() for direction, base in nic.items()}
    kinds = sorted({*bases, *((direction, method) for method, direction in METHODS.items())})
    cases = [(direction, method, bench) for direction, method in kinds for bench in fig18.BENCHES]
    assumed = {key: value for key, value in assumed.items() if key not in OWNERSHIP}
    scenarios = [
        fig18.scenario(bench, direction, method, assumed) for direction, method, bench in cases
    ]
    results = settings.run(f"sensitivity, RPC, {name}", scenarios)
    times = {
        case: fig18.times_ns(case[0], result)[0]
        for case, result in zip(cases, results, strict=True)
    }
    found = {}
    for nic, base in NICS.items():
        speedups = {
            method: [
                times[direction, base[direction], bench] / times[direction, method, bench]
                for bench in fig18.BENCHES
            ]
            for method, direction in METHODS.items()
        }
        near = {method: _near(method, of) for method, of in speedups.items()}
        found[nic] = {
            "near": sum(near.values()),
            **{f"near, {method}": count for method, count in near.items()},
            **{f"mean, {method}": statistics.fmean(of) for method, of in speedups.items()},
        }
    return found


def _near(method: str, speedups: list[float]) -> int:
    """Number of bars within 10 % of the value, or of the range, that the text states."""
    count = 0
    for bench, ours in zip(fig18.BENCHES, speedups, strict=True):
        stated = fig18.PAPER[method].get(bench)
        low, high = (stated, stated) if stated is not None else fig18.RANGES[method]
        count += low * (1 - NEAR) <= ours <= high * (1 + NEAR)
    return count


def claims(table: pd.DataFrame) -> list[Claim]:
    """No claim is judged."""
    found = []
    for row in table.to_dict("records"):
        if row["rpc_nic"] == next(iter(NICS)):
            found += [
                Claim(
                    f"{row['assumptions']}: Cohet over explicit copies, {size} elements",
                    "comparable",
                    row[f"axpy_{size}"],
                    OPEN,
                )
                for size in AXPY_SIZES
            ]
        found.append(
            Claim(
                f"{row['assumptions']}, {row['rpc_nic']}: bars of Fig. 18 within 10 %, of 18",
                "not stated",
                row["near"],
                OPEN,
            )
        )
    return found


def draw(table: pd.DataFrame) -> Drawing:
    """AXPY and the bars by set."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
    names = list(SETS)
    first = table[table.rpc_nic == next(iter(NICS))]
    for place, (size, colour) in enumerate(zip(AXPY_SIZES, (BLUE, ORANGE), strict=True)):
        at = [index + 0.4 * (place - 0.5) for index in range(len(names))]
        bars = left.barh(at, first[f"axpy_{size}"], 0.4, color=colour, label=f"{size:,} elements")
        left.bar_label(bars, fmt="%.2f", padding=2, fontsize=7)
    left.axvline(1, color="black", linewidth=0.8)
    left.set(xlabel="AXPY: Cohet over explicit copies, time")
    for place, (nic, colour) in enumerate(zip(NICS, (BLUE, GREEN), strict=True)):
        near = table[table.rpc_nic == nic].near
        at = [index + 0.4 * (place - 0.5) for index in range(len(names))]
        label = nic.removeprefix("RpcNIC ")
        bars = right.barh(at, near, 0.4, color=colour, label=label)
        right.bar_label(bars, padding=2, fontsize=7)
    right.set(xlabel="bars of Fig. 18 within 10 %, of 18", xlim=(0, 23), xticks=range(0, 19, 2))
    left.set_yticks(range(len(names)), names, fontsize=8)
    left.invert_yaxis()
    left.legend(fontsize=7)
    right.legend(fontsize=7, title="RpcNIC", title_fontsize=7)
    for axes in (left, right):
        axes.grid(axis="y", visible=False)
    figure.suptitle("Cohet under assumptions that the paper leaves open; nothing is judged")
    return figure


FIGURE = Figure("sensitivity", "AXPY and RPC under other assumptions", collect, claims, draw)
