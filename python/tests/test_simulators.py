"""cxlab under gem5 and SST, from builds of them that environment variables name.

CXLAB_GEM5 is a gem5 binary for X86, built by adapters/gem5/Makefile. CXLAB_SST is a folder with
`bin/sst` and a libcxlabmemory.so in `cxlab`, built by adapters/sst/Makefile.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ADAPTERS = Path(__file__).parents[2] / "adapters"


def named(variable):
    if variable not in os.environ:
        pytest.skip(f"{variable} names no build of the simulator")
    return Path(os.environ[variable])


def output(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Gem5:
    def __init__(self, folder):
        self.binary = named("CXLAB_GEM5")
        self.folder = folder

    def run(self, name, script, *arguments, scenario="scenario.toml"):
        """Statistics of gem5 without "system.", the report of cxlab, and what was printed."""
        folder = self.folder / name
        scenario = ("--scenario", ADAPTERS / "gem5" / scenario)
        command = (self.binary, "--outdir", folder, ADAPTERS / "gem5" / script, *scenario)
        printed = output(*command, *arguments)
        found = re.findall(r"^system\.(\S+) +(\S+)", (folder / "stats.txt").read_text(), re.M)
        report = folder / "system.cxlab.json"
        return (
            {name: float(value) for name, value in found if value != "nan"},
            json.loads(report.read_text()) if report.exists() else None,
            printed,
        )


@pytest.fixture
def gem5(tmp_path):
    return Gem5(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("period", ["100ns", "2ns"])
def test_gem5_and_cxlab_count_the_same_requests(gem5, period):
    arguments = ("--period", period, "--duration", "100us")
    found, report, _ = gem5.run("traffic", "traffic.py", *arguments)
    reads, writes = found["memory.gem5.reads"], found["memory.gem5.writes"]
    assert report["requests"]["reads"] == reads
    assert report["requests"]["writes"] == writes
    assert report["requests"]["completed"] == reads + writes > 500
    ticks = found["memory.gem5.readTicks"] + found["memory.gem5.writeTicks"]
    # A request that waits at the port was accepted by gem5 and not issued by cxlab.
    waited = ticks / 1e3 / (reads + writes) - report["latency_ns"]["mean"]
    if period == "100ns":
        assert waited == pytest.approx(0, abs=0.01)
        assert found["memory.gem5.refused"] == 0
    else:
        assert waited > 1
        assert found["memory.gem5.refused"] > 0
    again = gem5.run("again", "traffic.py", *arguments)[1]
    assert again["digest"] == report["digest"]


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["timing", "o3"])
def test_a_program_in_gem5_has_its_values_and_cxlab_its_time(gem5, tmp_path, cpu):
    program = tmp_path / "chase"
    output("cc", "-O2", "-static", "-o", program, ADAPTERS / "gem5/chase.c")
    native = output(program, 8192)
    times = {}
    for memory in ("cxl", "simple"):
        arguments = ("--memory", memory, "--cpu", cpu, program, 8192)
        found, report, printed = gem5.run(memory, "program.py", *arguments)
        assert native in printed
        times[memory] = int(re.search(r"at (\d+) ps", printed)[1])
        if report:
            assert report["requests"]["completed"] == (
                found["memory.gem5.reads"] + found["memory.gem5.writes"]
            )
    assert times["cxl"] > times["simple"], "the simple memory takes 200 ns"


@pytest.mark.slow
def test_a_checkpoint_of_gem5_holds_the_time_of_cxlab(gem5, tmp_path):
    half = ("--period", "10ns", "--duration", "100us")
    _, first, _ = gem5.run("first", "traffic.py", *half, "--stop", tmp_path / "saved")
    found, second, printed = gem5.run(
        "second", "traffic.py", *half, "--restore", tmp_path / "saved"
    )
    assert int(re.search(r"at (\d+) ps", printed)[1]) > 99_000_000
    assert second["requests"]["completed"] > 0.9 * first["requests"]["completed"]
    assert found["memory.gem5.failed"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["timing", "o3"])
def test_cores_of_gem5_share_a_device_with_a_host_of_cxlab(gem5, tmp_path, cpu):
    program = tmp_path / "counters"
    output("cc", "-O2", "-static", "-pthread", "-o", program, ADAPTERS / "gem5/counters.c")
    found, report, printed = gem5.run(
        "shared", "shared.py", "--cpu", cpu, program, 300, scenario="shared.toml"
    )
    assert "600 and 600 of 600 additions, 0 wrong messages" in printed
    for core in ("core0", "core1"):
        assert found[f"memory.{core}.snoops"] > 300
        assert found[f"memory.{core}.snoopWritebacks"] > 100
    neighbour = next(host for host in report["hosts"] if host["name"] == "neighbour")
    assert neighbour["reads"] > 1000


class Sst:
    def __init__(self, folder):
        self.sst = named("CXLAB_SST")
        self.folder = folder

    def run(self, *arguments):
        """Sums of the statistics of SST's controller, and the report of cxlab."""
        report = self.folder / "report.json"
        printed = output(
            *(self.sst / "bin/sst", "--add-lib-path", self.sst / "cxlab"),
            *(ADAPTERS / "sst/random.py", "--", "--count=20000", f"--report={report}"),
            *arguments,
        )
        found = re.findall(r"^ controller\.(\w+) : .*? Sum.u64 = (\d+)", printed, re.M)
        return {name: int(value) for name, value in found}, json.loads(report.read_text())


@pytest.fixture
def sst(tmp_path):
    return Sst(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("outstanding", [1, 64])
def test_sst_and_cxlab_count_the_same_requests(sst, outstanding):
    found, report = sst.run(f"--outstanding={outstanding}")
    reads = found["requests_received_GetS"] + found["requests_received_GetX"]
    assert report["requests"]["reads"] == reads > 19_000
    assert report["requests"]["writes"] == found["requests_received_PutM"] > 9_000
    # A request is submitted at a cycle of 1 ns, and completes at the first one after its time. SST
    # may count one cycle more.
    cycles = found["latency_GetS"] + found["latency_GetX"]
    ns = report["read_latency_ns"]["mean"] + report["stages_ns"]["host_queue"]
    assert ns < cycles / reads < ns + 2


@pytest.mark.slow
def test_a_write_of_a_part_of_a_line_reads_the_line_in_sst(sst):
    found, report = sst.run("--uncached")
    reads, writes = found["requests_received_GetS"], found["requests_received_Write"]
    assert report["requests"]["writes"] == writes > 9_000
    # Each address is a multiple of 8: one write in eight begins with a line.
    fetched = report["requests"]["reads"] - reads
    assert 0.85 < fetched / writes < 0.9
