"""Runs of one requester over a bus, by duplex, header and mix: Figs. 16 and 17."""

import pandas as pd

from cxlab.reproduce import Settings
from cxlab.reproduce.esf.common import BLACK, BLUE, GREEN, RED, scenario

RATIOS = (1.0, 0.75, 0.5, 0.25, 0.0)
TICKS = (list(RATIOS), ["1:0", "3:1", "1:1", "1:3", "0:1"])
#: Header bytes; the payload has 64.
HEADERS = {0: BLACK, 16: BLUE, 32: GREEN, 64: RED}
KEYS = ["duplex", "header_bytes", "data_header_bytes"]


def collect(settings: Settings, figure: str) -> pd.DataFrame:
    """Bandwidth, bus utility and transmission efficiency over mix, header and duplex."""
    cases = [
        (duplex, header, data_header, ratio)
        for duplex in ("full", "half")
        for header in HEADERS
        for data_header in sorted({0, header})
        for ratio in RATIOS
    ]
    scenarios = [
        scenario(
            "duplex",
            {
                "measure.requests": 50_000,
                "fabric.link.duplex": duplex,
                "fabric.link.packet": {"header": f"{header} B", "data_header": f"{data_header} B"},
                "hosts[0].workload.read_ratio": ratio,
            },
        )
        for duplex, header, data_header, ratio in cases
    ]
    rows = []
    for (duplex, header, data_header, ratio), result in zip(
        cases, settings.run(figure, scenarios), strict=True
    ):
        report = result.report
        bus = [link for link in report["links"] if link["name"].startswith("host--")]
        busy = sum(link["utilization"] for link in bus)
        rows.append(
            {
                "duplex": duplex,
                "header_bytes": header,
                "data_header_bytes": data_header,
                "read_ratio": ratio,
                "bandwidth_gb_per_s": report["bandwidth_gb_per_s"]["total"],
                # The mean over directions, or the sum if they share the wire.
                "bus_utility": busy / len(bus) if duplex == "full" else busy,
                "transmission_efficiency": sum(link["payload_bytes"] for link in bus)
                / sum(link["bytes"] for link in bus),
            }
        )
    table = pd.DataFrame(rows)
    reads = table[table.read_ratio == 1.0].set_index(KEYS).bandwidth_gb_per_s
    keys = table[KEYS].itertuples(index=False, name=None)
    table["over_reads"] = table.bandwidth_gb_per_s / [reads[key] for key in keys]
    return table


def label(header: int) -> str:
    """Name of a header in a legend."""
    return f"{header} B" + (" = payload" if header == 64 else "")
