"""Logs of Intel MLC that are public, without the tables that a calibration does not read."""

from test_mlc_log import EXPANDER

_MORE = """
Measuring Loaded Latencies for the system
Using all the threads from each core if Hyper-threading is enabled
Using Read-only traffic type
Inject\tLatency\tBandwidth
Delay\t(ns)\tMB/sec
==========================
"""


def _log(idle: str, peaks: str, loaded: str) -> str:
    """A log of a run without options on two nodes, of version 3.10."""
    names = ["ALL Reads        :", "3:1 Reads-Writes :", "2:1 Reads-Writes :", "1:1 Reads-Writes :"]
    names.append("Stream-triad like:")
    rows = "".join(f"{name}\t{one}\n" for name, one in zip(names, peaks.split(), strict=True))
    return (
        "Intel(R) Memory Latency Checker - v3.10\n"
        "Measuring idle latencies for random access (in ns)...\n"
        f"\t\tNuma node\nNuma node\t     0\t     1\n{idle}\n"
        "Measuring Peak Injection Memory Bandwidths for the system\n"
        "Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)\n"
        "Using all the threads from each core if Hyper-threading is enabled\n"
        f"Using traffic with the following read-write ratios\n{rows}{_MORE}{loaded}"
    )


#: Cascade Lake and Ice Lake: github.com/gjbex/Code-optimization, info/cascadelake_mlc.txt and
#: info/icelake_mlc.txt, commit 286e1295. Skylake: github.com/hpcleuven/VscDocumentation,
#: source/leuven/old_hardware/genius/skylake_mlc.txt, commit 2ea7a95c. All three have two sockets
#: and no CXL memory. The expander: docs.pmem.io, guide of ndctl and CXL, "Run MLC".
LOGS = {
    "cascade-lake": _log(
        "       0\t  80.8\t 140.4\n       1\t 141.6\t  81.5\n",
        "225630.8 208349.9 206510.3 200031.8 187482.4",
        """\
 00000 155.60  226127.7
 00002 156.23  226129.4
 00008 155.32  226082.8
 00015 155.90  226627.2
 00050 157.25  221318.3
 00100 119.65  181499.4
 00200 103.11  120242.4
 00300  97.46   87252.6
 00400  94.40   67737.9
 00500  94.95   55202.5
 00700  90.12   40541.6
 01000  88.52   29035.8
 01300  87.39   22709.1
 01700  88.36   17635.5
 02500  85.50   12323.4
 03500  84.00    9059.1
 05000  83.91    6582.9
 09000  86.54    3975.8
 20000  82.21    2240.7
""",
    ),
    "ice-lake": _log(
        "       0\t  89.2\t 142.7\n       1\t 142.9\t  89.0\n",
        "351762.1 313084.7 297154.4 291841.4 320198.4",
        """\
 00000 264.04  351871.6
 00002 265.59  351747.1
 00008 259.87  351724.8
 00015 243.81  350234.2
 00050 184.82  327723.9
 00100 153.80  297201.4
 00200 109.56  173692.5
 00300 102.11  123303.1
 00400  99.73   95482.2
 00500  98.46   77827.2
 00700 100.06   56746.4
 01000  95.63   41144.3
 01300  95.68   32297.0
 01700  94.76   25179.4
 02500  94.09   17571.8
 03500  94.28   12837.9
 05000  93.89    9247.0
 09000  92.56    5483.5
 20000  91.23    2867.0
""",
    ),
    "skylake": _log(
        "       0\t  90.2\t 144.3\n       1\t 143.2\t  89.1\n",
        "211194.2 193422.0 192554.0 185556.1 172770.4",
        """\
 00000 166.18  210643.1
 00002 177.85  208001.7
 00008 166.21  206740.7
 00015 167.47  206801.3
 00050 163.31  201772.4
 00100 128.73  164062.6
 00200 116.34  110208.0
 00300 105.64   79347.3
 00400 103.73   61575.2
 00500 101.35   50291.8
 00700 102.52   36809.1
 01000  96.23   26420.4
 01300  95.39   20649.2
 01700  94.13   16054.2
 02500  93.31   11207.0
 03500  95.06    8212.5
 05000  92.51    5982.5
 09000  92.46    3634.3
 20000  91.66    2027.6
""",
    ),
    "expander": """\
# ./mlc --latency_matrix
Intel(R) Memory Latency Checker - v3.9
Command line parameters: --latency_matrix

Using buffer size of 2000.000MiB
Measuring idle latencies (in ns)...
                Numa node
Numa node            0       1
       0          84.5   564.5

"""
    + EXPANDER,
}
