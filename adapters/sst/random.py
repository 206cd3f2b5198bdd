"""Random accesses of Miranda, through a cache, to memory of cxlab or of SST.

    sst --add-lib-path=FOLDER adapters/sst/random.py -- --memory cxlab

FOLDER has libcxlabmemory.so.
"""

import argparse
from pathlib import Path

import sst

parser = argparse.ArgumentParser()
parser.add_argument("--memory", choices=("cxlab", "simple", "dram"), default="cxlab")
parser.add_argument("--access-time", default="200ns", help="of the simple memory")
parser.add_argument("--scenario", default=str(Path(__file__).with_name("scenario.toml")))
parser.add_argument("--host", default="sst", help="the external host of the scenario")
parser.add_argument("--count", type=int, default=100_000, help="number of accesses")
parser.add_argument("--outstanding", type=int, default=16)
parser.add_argument("--uncached", action="store_true", help="accesses of 8 bytes, without a cache")
parser.add_argument("--report", default="", help="a file for cxlab's report")
arguments = parser.parse_args()

MIB = 1 << 20

cpu = sst.Component("cpu", "miranda.BaseCPU")
cpu.addParams(
    {
        "clock": "3GHz",
        "max_reqs_cycle": 2,
        "maxmemreqpending": arguments.outstanding,
        "printStats": 1,
    }
)
generator = cpu.setSubComponent("generator", "miranda.RandomGenerator")
generator.addParams({"count": arguments.count, "max_address": 256 * MIB, "issue_op_fences": "no"})

controller = sst.Component("controller", "memHierarchy.MemController")
controller.addParams({"clock": "1GHz", "addr_range_start": 0, "addr_range_end": 512 * MIB - 1})
kinds = {
    "cxlab": "cxlabmemory.backend",
    "simple": "memHierarchy.simpleMem",
    "dram": "memHierarchy.timingDRAM",
}
memory = controller.setSubComponent("backend", kinds[arguments.memory])
memory.addParams({"mem_size": "512MiB"})
if arguments.memory == "cxlab":
    memory.addParams(
        {"scenario": arguments.scenario, "host": arguments.host, "report": arguments.report}
    )
elif arguments.memory == "simple":
    memory.addParams({"access_time": arguments.access_time})
else:
    # One channel with the times of DDR4-2400, as in memHierarchy's own tests.
    memory.addParams(
        {
            "id": 0,
            "clock": "1.2GHz",
            "addrMapper": "memHierarchy.simpleAddrMapper",
            "channels": 1,
            "channel.numRanks": 2,
            "channel.transaction_Q_size": 32,
            "channel.rank.numBanks": 16,
            "channel.rank.bank.CL": 14,
            "channel.rank.bank.CL_WR": 12,
            "channel.rank.bank.RCD": 14,
            "channel.rank.bank.TRP": 14,
            "channel.rank.bank.dataCycles": 4,
            "channel.rank.bank.pagePolicy": "memHierarchy.simplePagePolicy",
            "channel.rank.bank.transactionQ": "memHierarchy.fifoTransactionQ",
            "channel.rank.bank.pagePolicy.close": 0,
        }
    )

to_memory = (cpu, "cache_link", "1ns")
if not arguments.uncached:
    cache = sst.Component("cache", "memHierarchy.Cache")
    cache.addParams(
        {
            "access_latency_cycles": 4,
            "cache_frequency": "3GHz",
            "replacement_policy": "lru",
            "coherence_protocol": "MESI",
            "associativity": 8,
            "cache_line_size": 64,
            "cache_size": "32KiB",
            "L1": 1,
        }
    )
    link = sst.Link("cpu_cache")
    link.connect((cpu, "cache_link", "300ps"), (cache, "highlink", "300ps"))
    to_memory = (cache, "lowlink", "1ns")
link = sst.Link("memory")
link.connect(to_memory, (controller, "highlink", "1ns"))

sst.setStatisticLoadLevel(5)
sst.setStatisticOutput("sst.statOutputConsole")
controller.enableAllStatistics({"type": "sst.AccumulatorStatistic"})
