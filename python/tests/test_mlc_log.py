"""The reader of MLC's output, on short excerpts of public logs."""

import math

import pytest

import cxlab

# Version 3.10, from github.com/gjbex/Code-optimization, info/cascadelake_mlc.txt.
CASCADE_LAKE = """\
Intel(R) Memory Latency Checker - v3.10
*** Unable to modify prefetchers (try executing 'modprobe msr')
*** So, enabling random access for latency measurements
Measuring idle latencies for random access (in ns)...
\t\tNuma node
Numa node\t     0\t     1\t
       0\t  80.8\t 140.4\t
       1\t 141.6\t  81.5\t

Measuring Peak Injection Memory Bandwidths for the system
Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)
Using all the threads from each core if Hyper-threading is enabled
Using traffic with the following read-write ratios
ALL Reads        :\t225630.8\t
3:1 Reads-Writes :\t208349.9\t
2:1 Reads-Writes :\t206510.3\t
1:1 Reads-Writes :\t200031.8\t
Stream-triad like:\t187482.4\t
"""

# Version 3.5, from the calibration data of FD.io CSIT for Xeon Skylake.
SKYLAKE = """\
$ sudo /home/testuser/mlc --idle_latency
Intel(R) Memory Latency Checker - v3.5
Command line parameters: --idle_latency

Using buffer size of 2000.000MB
Each iteration took 202.0 core clocks ( 80.8\tns)

$ sudo /home/testuser/mlc --loaded_latency
Intel(R) Memory Latency Checker - v3.5
Command line parameters: --loaded_latency

Using buffer size of 100.000MB/thread for reads and an additional 100.000MB/thread for writes

Measuring Loaded Latencies for the system
Using all the threads from each core if Hyper-threading is enabled
Using Read-only traffic type
Inject  Latency Bandwidth
Delay   (ns)    MB/sec
==========================
 00000  282.66   215712.8
 00200  121.92   160242.9
 20000   81.40     2541.9

$ sudo /home/testuser/mlc --c2c_latency
Intel(R) Memory Latency Checker - v3.5
Command line parameters: --c2c_latency

Measuring cache-to-cache transfer latency (in ns)...
Local Socket L2->L2 HIT  latency    53.7
Remote Socket L2->L2 HITM latency (data address homed in writer socket)
                         Reader Numa Node
    Writer Numa Node        0       1
                0           -   113.9
"""

# Version 3.9, from the guide of pmem.io to CXL memory as a NUMA node without processors.
EXPANDER = """\
Intel(R) Memory Latency Checker - v3.9
Command line parameters: --bandwidth_matrix

Using buffer size of 100.000MiB/thread for reads and an additional 100.000MiB/thread for writes
Measuring Memory Bandwidths between nodes within system
Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)
Using all the threads from each core if Hyper-threading is enabled
Using Read-only traffic type
                Numa node
Numa node            0       1
       0        30562.8  4795.3
"""


def read(tmp_path, text):
    path = tmp_path / "mlc.log"
    path.write_text(text)
    return cxlab.Mlc.from_log(path)


def test_the_tables_of_a_run_without_options_are_read(tmp_path):
    found = read(tmp_path, CASCADE_LAKE)
    assert (found.mode, found.version, found.inject_unit) == ("measured", "v3.10", "cycles")
    assert found.latency_matrix.loc["1", "0"] == 141.6
    assert found.idle_ns == 80.8
    assert found.peak["bandwidth_mb_per_s"].tolist()[0] == 225630.8
    assert found.peak["writes"].tolist() == ["", "rfo", "rfo", "rfo", "nt"]
    percents = [100, 75, 200 / 3, 50, 200 / 3]
    assert found.peak["read_percent"].tolist() == pytest.approx(percents)
    assert math.isnan(found.peak["read_mb_per_s"].iloc[0])
    assert len(found.loaded) == len(found.bandwidth_matrix) == 0


def test_several_runs_in_a_file_are_read(tmp_path):
    found = read(tmp_path, SKYLAKE)
    assert found.idle_ns == 80.8
    assert found.loaded["inject"].tolist() == [0, 200, 20000]
    assert found.loaded["latency_ns"].tolist() == [282.66, 121.92, 81.40]
    # A curve rises with the load.
    assert found.curves["bandwidth_mb_per_s"].tolist() == [2541.9, 160242.9, 215712.8]
    assert found.curves["read_percent"].tolist() == [100] * 3


def test_a_node_without_processors_is_a_column_without_a_row(tmp_path):
    found = read(tmp_path, EXPANDER)
    assert found.bandwidth_matrix.shape == (1, 2)
    assert found.bandwidth_matrix.loc["0", "1"] == 4795.3


def test_the_mix_of_loaded_latencies_is_that_of_the_command_line(tmp_path):
    run = SKYLAKE.partition("\n\n$ sudo /home/testuser/mlc --loaded_latency\n")[2]
    run = run.partition("\n\n$")[0]
    both = run + "\n\n" + run.replace("--loaded_latency", "--loaded_latency -W5")
    found = read(tmp_path, both)
    assert sorted(set(found.curves["read_percent"])) == [50, 100]
    assert found.loaded["read_percent"].tolist() == [100] * 3
    with pytest.raises(cxlab.ResultError, match=r"mlc.log:2: found -W99; allowed: -W with one of"):
        read(tmp_path, run.replace("--loaded_latency", "--loaded_latency -W99"))


def test_a_log_is_written_and_read_like_a_measurement(tmp_path):
    found = read(tmp_path, CASCADE_LAKE)
    found.write(tmp_path / "out")
    again = cxlab.Mlc.read(tmp_path / "out")
    assert again.table() == found.table()
    assert "MLC v3.10" in again.table()
    assert again.latency_matrix.equals(found.latency_matrix)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "mlc.log: found no table; allowed: a table of idle latencies"),
        ("hello\n", "mlc.log: found no table"),
        (CASCADE_LAKE.replace("140.4", "14O.4"), "mlc.log:7: found '0\\t  80.8\\t 14O.4'"),
        (CASCADE_LAKE.replace("\t 140.4", ""), "mlc.log:7: found '0\\t  80.8'; allowed: a node"),
        (CASCADE_LAKE.replace("\t225630.8", ""), "mlc.log:14: found 'ALL Reads        :'"),
        (CASCADE_LAKE.replace("3:1 Reads", "3;1 Reads"), "mlc.log:15: found '3;1 Reads-Writes"),
        (CASCADE_LAKE.replace("3:1 Reads-", "0:0 Reads-"), "mlc.log:15: found '0:0 Reads-Writes'"),
        (CASCADE_LAKE + "\n" + CASCADE_LAKE, "mlc.log:23: found 'Measuring idle latencies"),
        (CASCADE_LAKE.partition("ALL")[0], "mlc.log:10: found no row after 'Measuring Peak"),
        (CASCADE_LAKE.partition("\t\tNuma")[0], "found no line of nodes after"),
        (CASCADE_LAKE + "\nSegmentation fault\n", "mlc.log:20: found 'Segmentation fault'"),
        (SKYLAKE.replace("00200  121.92", "00200  fast"), "mlc.log:21: found '00200  fast"),
        (SKYLAKE.replace("282.66   215712.8", "282.66"), "mlc.log:20: found '00000  282.66'"),
    ],
)
def test_what_is_no_table_of_mlc_is_named_by_its_line(tmp_path, text, expected):
    with pytest.raises(cxlab.ResultError) as caught:
        read(tmp_path, text)
    assert expected in str(caught.value)
    assert "allowed: " in str(caught.value)


def test_a_log_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "mlc.log"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(cxlab.ResultError, match="is not UTF-8"):
        cxlab.Mlc.from_log(path)
