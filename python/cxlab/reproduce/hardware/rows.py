"""Rows that one run each answers: Vistara, CacheLib, CXL-DMSim, and expanders of other sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Drawing

from cxlab import Result
from cxlab.reproduce import Claim, Figure, Settings
from cxlab.reproduce.common import BLUE, RED
from cxlab.reproduce.hardware.common import System, bandwidth, full, idle, latency, paced
from cxlab.reproduce.ledger import (
    PREDICTED,
    Kind,
    Tolerance,
    derived,
    fitted,
    hypothesis,
)

#: Local DRAM behind a link that holds nothing back and takes no time: the host as a requester.
NO_LINK: dict[str, Any] = {
    "devices[0].link": {
        "generation": "7",
        "bandwidth": "20 TB/s",
        "port_delay": "0 ns",
        "propagation": "2 ps",
        "fec_delay": "0 ns",
    },
    "devices[0].controller": {"process_time": "0 ns", "contexts": 8192},
    "hosts[0].issue.process_time": "84 ns",
    "hosts[0].issue.outstanding": 4096,
    "measure.requests": 100_000,
}


def _dimms(grade: str, count: int) -> dict[str, Any]:
    """So many DIMMs of two ranks each, as a medium: groups of four, which pages go round."""
    four = {"kind": "dram", "grade": grade, "channels": 8, "ranks": 2}
    memory: dict[str, Any] = four
    if count > 4:
        media = [four] * (count // 4)
        memory = {"kind": "interleaved", "granularity": "4 KiB", "media": media, "queue": 8192}
    return {**NO_LINK, "devices[0].memory": memory, "devices[0].capacity": f"{4 * count} GiB"}


TURIN = System("zen5", "cz122", changes=_dimms("DDR5-6400BN", 12))
XEON = System("sapphire-rapids", "cz122", changes=_dimms("DDR5-4800BN", 8))
#: An expander whose idle latency is that of an unnamed one beside an EPYC, 401.8 ns.
UNNAMED = System("zen4", "cz122", changes={"devices[0].controller.process_time": "180 ns"})
#: Lines that one thread of it has in flight, from its bandwidth and that latency.
UNNAMED_LINES = 78
VISTARA = System("zen5", "vistara", 2)
CACHELIB = System("sapphire-rapids", "cachelib")
ASIC = System("sapphire-rapids", "cxl-dmsim-asic")
FPGA = System("sapphire-rapids", "cxl-dmsim-fpga")
MICRO_A = System("sapphire-rapids", "micro23-a")
MICRO_B = System("sapphire-rapids", "micro23-b")
MICRO_C = System("sapphire-rapids", "micro23-c")
CZ122 = System("sapphire-rapids", "cz122")
BLADE = System("emerald-rapids", "seagate-blade")
MELODY = System("sapphire-rapids", "cachelib", switch="melody-switch")
PLAIN_SWITCH = System("emerald-rapids", "cachelib", switch="")
BELUGA = System("sapphire-rapids", "cachelib", switch="beluga-switch")
#: An expander on a x8 link whose medium holds nothing back: what the link itself carries.
LINK: dict[str, Any] = {"devices[0].memory": {"kind": "fixed"}}
X8 = System("emerald-rapids", "cz122", changes=LINK)
TWO_X8 = System("emerald-rapids", "cz122", 2, changes=LINK)

#: Vistara's utilisation is taken of the 76.8 GB/s of four channels of DDR4-2400, the peak that its
#: text names, and its loaded mix, which it does not state, as 2:1.
VISTARA_PEAK = 76.8
VISTARA_MIX = 2 / 3
#: STREAM counts two or three arrays; a write that first reads moves one more line.
SCALE, ADD = 2 / 3, 3 / 4
#: Reads of four bytes in five, as STREAM's Add has them, and so on.
MIXES = {
    "Scale": (2 / 3, SCALE),
    "Add": (3 / 4, ADD),
    "Triad": (3 / 4, ADD),
    "Copy": (2 / 3, SCALE),
}

#: One core that follows pointers.
LOCAL: dict[str, Any] = {
    "hosts[0].workload": {"kind": "pointer-chase", "read_ratio": 1.0},
    "measure.requests": 20_000,
}

LATENCY = Tolerance(0.08, "the bar of latencies on this page", relative=True)
BANDWIDTH = Tolerance(0.05, "the bar of bandwidths on this page", relative=True)
OTHER = Tolerance(0.10, "the bar of other sources on this page", relative=True)

#: The spatial prefetcher of Intel's Optimization Reference Manual: the other line of a pair. The
#: strides are even, so that line is always the second.
PAIRS = {"after": 1, "beyond": 1, "within": "128 B"}
OTHER_EXPANDER = hypothesis(
    "the expanders of this source differ from CacheLib's in controller, retimer or host, which the "
    "source does not describe"
)
SWITCHED = hypothesis(
    "the switch or the host adapter of this system sends flits that are not full: a response in "
    "five slots, one of them for its header alone, would leave 24.1 GB/s of a x8 port"
)
UNSWITCHED = hypothesis(
    "the source measures less than others do without a switch, and does not say how"
)


@dataclass(frozen=True)
class Point:
    """A row of measurements, and the run that answers it."""

    row: str
    text: str
    measured: float
    #: `ns` or `GB/s`.
    unit: str
    system: System
    changes: dict[str, Any]
    kind: Kind = PREDICTED
    tolerance: Tolerance = OTHER
    #: Part of the simulated number that the measurement counts.
    counted: float = 1.0
    why: str = ""
    #: Percentile of the latency that was measured; None for the mean.
    percentile: Literal["p50", "p99"] | None = None
    #: Whether the row is of the time of a flit on the wire, in one direction.
    flit: bool = False

    def ours(self, result: Result) -> float:
        """The simulated number of the row."""
        if self.flit:
            # Both directions have a flit, and a wire of 1 ns.
            return (float(result.report["stages_ns"]["link"]) - 2) / 2
        if self.unit == "GB/s":
            return self.counted * bandwidth(result)
        if self.percentile is not None:
            return float(result.report["latency_ns"][self.percentile])
        return latency(result)


def _vistara() -> list[Point]:
    def point(
        row: str, text: str, value: float, unit: str, run: Any, kind: Kind = PREDICTED
    ) -> Point:
        bar = LATENCY if unit == "ns" else BANDWIDTH
        return Point(row, text, value, unit, VISTARA, run, kind, bar)

    queues = fitted("read and write queues of a channel")
    return [
        point("VIS15", "idle latency", 250, "ns", idle(), fitted("process time of `zen5`")),
        point("VIS01", "bandwidth, reads", 48, "GB/s", full(1.0), queues),
        point("VIS05", "bandwidth, 2:1", 42, "GB/s", full(2 / 3), queues),
        point("VIS07", "bandwidth, 1:1", 42, "GB/s", full(1 / 2)),
        point("VIS09", "latency at 10 %", 269, "ns", paced(VISTARA_MIX, 0.1 * VISTARA_PEAK)),
        point("VIS11", "latency at 30 %", 292, "ns", paced(VISTARA_MIX, 0.3 * VISTARA_PEAK)),
    ]


def _cachelib() -> list[Point]:
    def point(
        row: str, text: str, value: float, unit: str, run: Any, kind: Kind = PREDICTED
    ) -> Point:
        return Point(row, text, value, unit, CACHELIB, run, kind, OTHER)

    return [
        point(
            "CLB05", "idle latency", 250, "ns", idle(), fitted("process time of `sapphire-rapids`")
        ),
        point(
            "CLB01", "bandwidth, reads", 17.8, "GB/s", full(1.0), fitted("read path of `cachelib`")
        ),
        point("CLB02", "bandwidth, 3:1", 23.6, "GB/s", full(3 / 4)),
        point("CLB03", "bandwidth, 2:1", 25.1, "GB/s", full(2 / 3)),
        point("CLB04", "bandwidth, 1:1", 27.2, "GB/s", full(1 / 2)),
    ]


def _cxl_dmsim() -> list[Point]:
    lines = fitted("latency of `cxl-dmsim-asic`")
    slow = fitted("latency of `cxl-dmsim-fpga`")
    pages = hypothesis(
        "sequential addresses of lmbench need fewer page walks, which the model has none of"
    )
    points = [
        Point("DMS08", "ASIC, idle latency, random", 284.086, "ns", ASIC, idle(), lines),
        Point("DMS09", "ASIC, idle latency, earlier run", 284.893, "ns", ASIC, idle()),
        Point("DMS07", "ASIC, idle latency, sequential", 250.151, "ns", ASIC, idle(), why=pages),
        Point("DMS10", "FPGA, idle latency, random", 379.749, "ns", FPGA, idle(), slow),
        Point("DMS11", "FPGA, idle latency, earlier run", 382.928, "ns", FPGA, idle()),
    ]
    measured = {
        ASIC: ("ASIC", {"Copy": 16.9405, "Scale": 16.8197, "Add": 18.8692, "Triad": 18.8589}),
        FPGA: ("FPGA", {"Scale": 9.1711, "Add": 10.4248, "Triad": 10.4730}),
    }
    rows = {"ASIC": ["DMS24", "DMS25", "DMS26", "DMS27"], "FPGA": ["DMS21", "DMS22", "DMS23"]}
    judged = {
        "DMS25": fitted("rate of `cxl-dmsim-asic`"),
        "DMS23": fitted("rate of `cxl-dmsim-fpga`"),
    }
    for system, (name, values) in measured.items():
        for row, (kernel, value) in zip(rows[name], values.items(), strict=True):
            reads, counted = MIXES[kernel]
            points.append(
                Point(
                    row,
                    f"{name}, STREAM {kernel}",
                    value,
                    "GB/s",
                    system,
                    full(reads),
                    judged.get(row, PREDICTED),
                    counted=counted,
                )
            )
    copies = (("DMS28", "ASIC", ASIC, 25.1836), ("DMS20", "FPGA", FPGA, 13.0945))
    points += [
        Point(row, f"{name}, STREAM Copy, non-temporal", value, "GB/s", system, full(1 / 2))
        for row, name, system, value in copies
    ]
    unthrottled = (
        ("DMS29", "ASIC", ASIC, "Scale", 16.6475),
        ("DMS30", "ASIC", ASIC, "Add", 18.3965),
        ("DMS31", "ASIC", ASIC, "Triad", 18.4496),
        ("DMS33", "FPGA", FPGA, "Scale", 8.2797),
        ("DMS34", "FPGA", FPGA, "Add", 9.753),
        ("DMS35", "FPGA", FPGA, "Triad", 9.7806),
    )
    points += [
        Point(
            row,
            f"{name}, STREAM {kernel}, second run",
            value,
            "GB/s",
            system,
            full(MIXES[kernel][0]),
            counted=MIXES[kernel][1],
            why=hypothesis("reruns of the source differ by more than its first run from ours"),
        )
        for row, name, system, kernel, value in unthrottled
    ]
    points.append(
        Point("DMS32", "FPGA, STREAM Copy, second run", 13.1301, "GB/s", FPGA, full(1 / 2))
    )
    return points


def _local(processor: str, grade: str, socket: int = 0) -> System:
    """A core that reads memory of its processor's own, on a socket."""
    memory = {"kind": "dram", "grade": grade, "channels": 8}
    node = {"capacity": "32 GiB", "memory": memory, "at": {"socket": socket}}
    core = {"preset": processor, "cores": 1, "reorder": 1}
    return System("", "cachelib", core=core, changes={"hosts[0].nodes": [node]})


def _hosts() -> list[Point]:
    """Idle latencies to the memory of hosts, and of expanders from the same cores."""
    near, far = (_local("sapphire-rapids", "DDR5-4800BN", socket) for socket in (0, 1))
    zen5 = _local("zen5", "DDR5-6400BN")
    other = hypothesis(
        "page walks of lmbench and cxlbench, and other cores, clocks and DIMMs than the preset's"
    )
    mesh = fitted("mesh of the processor `sapphire-rapids`"), fitted("mesh of the processor `zen5`")

    def point(row: str, text: str, value: float, system: System, kind: Kind = PREDICTED) -> Point:
        changes = {**LOCAL, "hosts[0].span": "local"}
        return Point(row, text, value, "ns", system, changes, kind, why=other)

    sockets = (
        ("DMS01", "local, CXL-DMSim, sequential", 114.094, near),
        ("DMS02", "local, CXL-DMSim, random", 137.527, near),
        ("DMS03", "local, CXL-DMSim, earlier run", 131.481, near),
        ("VLD51", "local, VLDB 2025, median", 145, near),
        ("VLD53", "local, VLDB 2025, mean", 153, near),
        ("OTH02", "local, beside Montage's expander", 112, near),
        ("DMS04", "remote, CXL-DMSim, sequential", 193.66, far),
        ("DMS05", "remote, CXL-DMSim, random", 216.556, far),
        ("DMS06", "remote, CXL-DMSim, earlier run", 202.87, far),
        ("VLD54", "remote, VLDB 2025, median", 216, far),
        ("VLD56", "remote, VLDB 2025, mean", 224, far),
    )
    points = [
        point("MEL09", "local, Melody, lowest of three", 111, near, mesh[0]),
        *(point(row, text, value, system) for row, text, value, system in sockets),
        point("VIS16", "local, beside Vistara", 130, zen5, mesh[1]),
    ]
    peak = 614.4
    loaded = hypothesis("MLC's latency under little load is 39 ns above its idle one; ours is not")
    points += [
        Point("VIS02", "DRAM of Turin, reads", 497, "GB/s", TURIN, full(1.0)),
        Point("VIS06", "DRAM of Turin, 2:1", 453, "GB/s", TURIN, full(2 / 3)),
        Point("VIS08", "DRAM of Turin, 1:1", 439, "GB/s", TURIN, full(1 / 2)),
        Point("VIS10", "DRAM of Turin, 10 %", 169, "ns", TURIN, paced(1, 0.1 * peak), why=loaded),
        Point("VIS12", "DRAM of Turin, 30 %", 173, "ns", TURIN, paced(1, 0.3 * peak), why=loaded),
        Point("MEL08", "DRAM of Melody, highest, reads", 246, "GB/s", XEON, full(1.0)),
        Point(
            "MEL07",
            "DRAM of Melody, lowest, reads",
            218,
            "GB/s",
            XEON,
            full(1.0),
            why=hypothesis("this platform of the source has slower or fewer DIMMs"),
        ),
        point("OTH06", "local, EPYC, chase", 145.7, zen5),
    ]
    ports = fitted("root ports of the processor `sapphire-rapids`")
    reach = {**LOCAL, "hosts[0].span": "cxl"}
    return [
        *points,
        Point("CLB05", "CacheLib's expander, from a core", 250, "ns", near, reach, ports),
    ]


def _others() -> list[Point]:
    remote = fitted("process times of `micro23-b` and `micro23-c`")
    path = fitted("read path of `micro23-a`")
    rates = fitted("rates of `micro23-b` and `micro23-c`")
    idles = (
        ("MEL01", "Melody, CXL-A", 214),
        ("MEL04", "Melody, CXL-D", 239),
        ("PNM01", "Wang et al., IPDPS 2025", 266),
        ("PNM02", "PolarDB, SIGMOD 2025", 265.2),
        ("PNM03", "CHash, POMACS 2025", 268),
        ("PNM04", "ICCE-Asia 2024", 285.2),
        ("PNM15", "Samsung and Meta, as Panmnesia quotes", 250),
        ("OTH01", "Montage, 64 GB", 300),
        ("OTH03", "unnamed expander", 288.4),
    )
    points = [
        Point(row, f"idle latency, {name}", value, "ns", CACHELIB, idle(), why=OTHER_EXPANDER)
        for row, name, value in idles
    ]
    points += [
        Point(
            "MIC05", "bandwidth, reads, CXL-A of MICRO 2023", 17.7, "GB/s", MICRO_A, full(1.0), path
        ),
        Point(
            "MIC03",
            "bandwidth, reads, CXL-B of MICRO 2023",
            18.05,
            "GB/s",
            MICRO_B,
            full(1.0),
            rates,
        ),
        Point(
            "MIC04",
            "bandwidth, reads, CXL-C of MICRO 2023",
            5.12,
            "GB/s",
            MICRO_C,
            full(1.0),
            rates,
        ),
        Point("MIC07", "idle latency, CXL-B of MICRO 2023", 406, "ns", MICRO_B, idle(), remote),
        Point("MIC08", "idle latency, CXL-C of MICRO 2023", 609, "ns", MICRO_C, idle(), remote),
        Point(
            "MIC06",
            "idle latency, CXL-A of MICRO 2023",
            1.35 * 203,
            "ns",
            MICRO_A,
            idle(),
            why=OTHER_EXPANDER,
        ),
        Point("MEL05", "bandwidth, reads, slowest of Melody", 18, "GB/s", MICRO_A, full(1.0)),
        Point("MCR02", "bandwidth, CZ122, 2:1 assumed", 37, "GB/s", CZ122, full(2 / 3)),
        Point(
            "MEL14",
            "latency at saturation, CXL-A or B of Melody",
            1200,
            "ns",
            MICRO_A,
            full(1.0),
            why=hypothesis(
                "the host of the source has some 340 reads in flight, and the preset 512"
            ),
        ),
        Point(
            "MEL15",
            "latency at saturation, CXL-C of Melody",
            3000,
            "ns",
            FPGA,
            full(1.0),
            why=hypothesis("the host of the source has more reads in flight than the preset"),
        ),
        Point(
            "MEL18",
            "idle latency through a switch, Melody",
            600,
            "ns",
            MELODY,
            idle(),
            fitted("switching time of `melody-switch`"),
        ),
        Point(
            "BEL01",
            "latency of 64 B through a switch, Beluga",
            750,
            "ns",
            BELUGA,
            idle(),
            fitted("switching time of `beluga-switch`"),
        ),
        Point(
            "PAN02",
            "latency of reads through a switch, Panjiu",
            750,
            "ns",
            BELUGA,
            idle(),
            derived("others: latency of 64 B through a switch, Beluga"),
        ),
        Point(
            "XCN01",
            "idle latency through a switch, XConn",
            220.5,
            "ns",
            PLAIN_SWITCH,
            idle(),
            why=UNSWITCHED,
        ),
        Point(
            "XCN02",
            "bandwidth through a switch, two x8 ports, XConn",
            47.2,
            "GB/s",
            TWO_X8,
            full(1.0),
            why=SWITCHED,
        ),
        Point(
            "BEL02",
            "bandwidth of reads, one host adapter, Beluga",
            46.2,
            "GB/s",
            TWO_X8,
            full(1.0),
            why=SWITCHED,
        ),
        Point(
            "BEL03",
            "bandwidth of writes, one host adapter, Beluga",
            33,
            "GB/s",
            TWO_X8,
            full(0.0),
            why=SWITCHED,
        ),
        Point(
            "XCN17",
            "bandwidth of reads of one port, XConn",
            21.9,
            "GB/s",
            X8,
            full(1.0),
            why=SWITCHED,
        ),
        Point(
            "XCN18",
            "bandwidth of writes of one port, XConn",
            22.0,
            "GB/s",
            X8,
            full(0.0),
            why=SWITCHED,
        ),
        Point(
            "XCN14",
            "two equal read streams of one port, XConn",
            21.2,
            "GB/s",
            X8,
            full(1.0),
            why=SWITCHED,
        ),
        Point(
            "XCN15",
            "two equal write streams of one port, XConn",
            22.0,
            "GB/s",
            X8,
            full(0.0),
            why=SWITCHED,
        ),
    ]
    stride = hypothesis("strided writes open more rows of the source's DIMMs than the preset's")
    strides = (
        ("XCN19", "reads, stride of 2", 15.3, 2, 1.0),
        ("XCN20", "writes, stride of 2", 18.0, 2, 0.0),
        ("XCN21", "reads, stride of 4", 12.7, 4, 1.0),
        ("XCN22", "writes, stride of 4", 17.9, 4, 0.0),
        ("XCN23", "reads, stride of 6", 13.1, 6, 1.0),
        ("XCN24", "writes, stride of 6", 19.4, 6, 0.0),
        ("XCN25", "reads, stride of 8", 12.8, 8, 1.0),
        ("XCN26", "writes, stride of 8", 19.2, 8, 0.0),
    )
    points += [
        Point(
            row,
            f"{text} lines, one port, XConn",
            value,
            "GB/s",
            X8,
            {
                "hosts[0].workload": {
                    "kind": "stride",
                    "stride": f"{64 * lines} B",
                    "read_ratio": reads,
                },
                "hosts[0].issue.overfetch": PAIRS,
            },
            why=stride,
        )
        for row, text, value, lines, reads in strides
    ]
    chase = fitted("process time of the unnamed expander")
    alone = fitted("lines in flight of one thread beside the unnamed expander")
    several = hypothesis("threads of one CCX share fewer than their sum of buffers")
    points.append(
        Point("OTH05", "idle latency, unnamed, EPYC", 401.8, "ns", UNNAMED, idle(), chase)
    )
    threads = (
        ("OTH07", 1, 12.431),
        ("OTH09", 2, 20.288),
        ("OTH10", 3, 20.651),
        ("OTH11", 4, 23.053),
        ("OTH12", 5, 23.91),
        ("OTH13", 6, 23.985),
        ("OTH14", 7, 24.135),
    )
    points += [
        Point(
            row,
            f"bandwidth, unnamed, EPYC, {count} thread{'s' if count > 1 else ''}",
            value,
            "GB/s",
            UNNAMED,
            {
                "hosts[0].issue.outstanding": UNNAMED_LINES * count,
                "hosts[0].workload": {"kind": "stream", "read_ratio": 1.0},
            },
            alone if count == 1 else PREDICTED,
            why=several,
        )
        for row, count, value in threads
    ]
    points += [
        Point(
            row,
            f"256 B flit of PCIe 6.0, x{lanes}",
            value,
            "ns",
            System(
                "esf",
                "cz122",
                changes={"devices[0].link": {"generation": "6", "lanes": lanes}},
            ),
            idle(),
            flit=True,
        )
        for row, lanes, value in (("PNM12", 16, 2), ("PNM13", 8, 4), ("PNM14", 4, 8))
    ]
    points += [
        Point("PAN01", "latency of writes through a switch, Panjiu", 780, "ns", BELUGA, idle(0.0)),
        Point("OTH25", "idle latency, Samsung's CMM-B", 596, "ns", MELODY, idle()),
        Point(
            "XCN03",
            "latency of one read through a switch, XConn",
            230.2,
            "ns",
            PLAIN_SWITCH,
            idle(),
            why=UNSWITCHED,
        ),
    ]
    blade = fitted("latency of the medium and process time of `seagate-blade`")
    tail = hypothesis(
        "refresh, page walks and other cores widen the distribution; the model has none"
    )
    points += [
        Point("VLD57", "blade, idle latency of reads, median", 507, "ns", BLADE, idle(), blade),
        Point("VLD60", "blade, idle latency of reads, mean", 518, "ns", BLADE, idle()),
        Point("VLD67", "blade, idle latency of writes, median", 346, "ns", BLADE, idle(0.0), blade),
        Point("VLD70", "blade, idle latency of writes, mean", 349, "ns", BLADE, idle(0.0)),
        Point(
            "VLD58",
            "blade, idle latency of reads, 99 %",
            880,
            "ns",
            BLADE,
            idle(),
            why=tail,
            percentile="p99",
        ),
        Point(
            "VLD68",
            "blade, idle latency of writes, 99 %",
            421,
            "ns",
            BLADE,
            idle(0.0),
            why=tail,
            percentile="p99",
        ),
    ]
    return points


#: Where each source is to be read.
SOURCES = {
    "vistara": "Vistara, ISCA 2026, tables III and VI",
    "cachelib": "CacheLib wiki, OCP demo configuration",
    "cxl-dmsim": "CXL-DMSim, arXiv 2411.02282, plot scripts",
    "hosts": "the source that the row names",
    "others": "the source that the row names",
}


def _figure(name: str, title: str, points: Sequence[Point]) -> Figure:
    def collect(settings: Settings) -> pd.DataFrame:
        scenarios = [
            point.system.scenario(f"{name}-{point.row}", point.changes) for point in points
        ]
        results = settings.run(name, scenarios)
        return pd.DataFrame(
            {
                "row": point.row,
                "text": point.text,
                "unit": point.unit,
                "measured": point.measured,
                "simulated": point.ours(result),
                "kind": point.kind.name,
            }
            for point, result in zip(points, results, strict=True)
        )

    def claims(table: pd.DataFrame) -> list[Claim]:
        ours = table.set_index("row").simulated
        return [
            Claim(
                point.text,
                point.measured,
                float(ours[point.row]),
                point.kind,
                point.tolerance,
                section=f"{SOURCES[name]} ({point.row})",
                quote=f"{point.measured:g} {point.unit}",
                why=point.why,
            )
            for point in points
        ]

    def draw(table: pd.DataFrame) -> Drawing:
        figure, axes = plt.subplots(figsize=(6.5, 0.5 + 0.22 * len(table)), layout="constrained")
        off = 100 * (table.simulated / table.measured - 1)
        places = range(len(table))
        colours = [RED if abs(one) > 10 else BLUE for one in off]
        axes.barh(places, off, color=colours)
        axes.set_yticks(places, table.text, fontsize=7)
        axes.invert_yaxis()
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_xlabel("simulated over measured, %")
        axes.set_title(title)
        return figure

    return Figure(name, title, collect, claims, draw)


FIGURES: Sequence[Figure] = (
    _figure("vistara", "Vistara: idle, loaded, bandwidth by mix", _vistara()),
    _figure("cachelib", "CacheLib's expander: idle, bandwidth by mix", _cachelib()),
    _figure("cxl-dmsim", "CXL-DMSim's ASIC and FPGA: lmbench and STREAM", _cxl_dmsim()),
    _figure("hosts", "Idle latencies of hosts: local, remote, and from a core", _hosts()),
    _figure("others", "Expanders and switches of other sources", _others()),
)
