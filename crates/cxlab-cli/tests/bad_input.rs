//! Broken scenarios, traces and arguments, through the real command. Each ends with exit code 2 and
//! one report on standard error that says where, what was found and what is allowed.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod common;

use common::{Folder, Output, cxlab};

/// A scenario without a mistake, one value a line.
const BASE: &str = include_str!("common/base.toml");

/// A mistake in a scenario.
struct Scenario {
    /// Texts of the base and what stands there instead.
    edits: &'static [(&'static str, &'static str)],
    /// Text on the line that the report names; empty for the whole file.
    at: &'static str,
    /// What the report says.
    says: &'static [&'static str],
}

const fn one(
    edits: &'static [(&'static str, &'static str)],
    at: &'static str,
    says: &'static [&'static str],
) -> Scenario {
    Scenario { edits, at, says }
}

/// One mistake each.
const SCENARIOS: &[Scenario] = &[
    // Syntax.
    one(
        &[("kind = \"pbr\"", "kind = pbr")],
        "kind = pbr",
        &["must be in quotes", "write \"pbr\""],
    ),
    one(
        &[("[fabric.link]", "[fabric.link")],
        "[fabric.link",
        &["not valid TOML"],
    ),
    one(
        &[("seed = 7", "seed = 7\nseed = 8")],
        "seed = 8",
        &["duplicate key"],
    ),
    one(&[("seed = 7", "seed =")], "seed =", &["a value is missing"]),
    one(
        &[("seed = 7", "seed = 2026-01-01")],
        "seed = 2026",
        &["`seed`", "2026-01-01", "number"],
    ),
    one(
        &[("seed = 7", "seed = 99999999999999999999")],
        "seed = 9",
        &["`seed`", "64 bits"],
    ),
    one(
        &[("read_ratio = 0.5", "read_ratio = nan")],
        "read_ratio = nan",
        &["hosts[0].workload.read_ratio", "nan", "finite"],
    ),
    one(
        &[(
            "seed = 7",
            "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a = 1",
        )],
        "a.a.a",
        &["nested too deeply", "32"],
    ),
    // Unknown keys, at every level.
    one(
        &[("seed = 7", "sede = 7")],
        "sede = 7",
        &["`sede`", "did you mean `seed`?", "allowed keys"],
    ),
    one(
        &[("requests = 500", "request = 500")],
        "request = 500",
        &["did you mean `requests`?"],
    ),
    one(
        &[("routing = ", "ruoting = ")],
        "ruoting",
        &["in `fabric`", "did you mean `routing`?"],
    ),
    one(
        &[("switches = 4", "swithces = 4")],
        "swithces",
        &["in `fabric.topology`", "did you mean `switches`?"],
    ),
    one(
        &[("switching_time", "switch_time")],
        "switch_time",
        &["did you mean `switching_time`?"],
    ),
    one(
        &[("lanes = 16", "lane = 16")],
        "lane = 16",
        &["in `fabric.link`", "did you mean `lanes`?"],
    ),
    one(
        &[("m2s_req = 1000", "m2s_rqe = 64")],
        "m2s_rqe",
        &["in `fabric.link.credits`", "did you mean `m2s_req`?"],
    ),
    one(
        &[("outstanding = 16", "oustanding = 16")],
        "oustanding",
        &["in `hosts[0].issue`", "did you mean `outstanding`?"],
    ),
    one(
        &[("read_ratio = 0.5", "readratio = 0.5")],
        "readratio",
        &["in `hosts[0].workload`", "did you mean `read_ratio`?"],
    ),
    one(
        &[("latency = \"46 ns\"", "latencies = \"46 ns\"")],
        "latencies",
        &["in `devices[0].memory`", "did you mean `latency`?"],
    ),
    one(
        &[("granularity = ", "granularty = ")],
        "granularty",
        &["in `address_map`", "did you mean `granularity`?"],
    ),
    one(
        &[("threads = 1", "thread = 1")],
        "thread = 1",
        &["did you mean `threads`?"],
    ),
    one(
        &[("[execution]", "[exectuion]")],
        "[exectuion]",
        &["did you mean `execution`?"],
    ),
    one(
        &[("outstanding = 16", "cache = { size = \"32 KiB\", way = 8 }")],
        "cache = ",
        &["in `hosts[0].issue.cache`", "`way`", "did you mean `ways`?"],
    ),
    // Missing keys.
    one(
        &[("name = \"bad-input\"\n", "")],
        "",
        &["missing required key `name`"],
    ),
    one(
        &[("kind = \"uniform\"\n", "")],
        "[hosts.workload]",
        &["`kind`", "allowed kinds", "`uniform`"],
    ),
    one(
        &[("kind = \"ring\"\n", "")],
        "[fabric.topology]",
        &["`kind`", "`ring`", "`mesh`"],
    ),
    // Wrong types.
    one(
        &[("seed = 7", "seed = \"7\"")],
        "seed = ",
        &["`seed`", "integer", "\"7\"", "without quotes"],
    ),
    one(
        &[("lanes = 16", "lanes = true")],
        "lanes = ",
        &["fabric.link.lanes", "true", "16"],
    ),
    one(
        &[("outstanding = 16", "outstanding = 16.5")],
        "outstanding",
        &["hosts[0].issue.outstanding", "16.5", "integer"],
    ),
    one(
        &[("generation = \"6\"", "generation = 6")],
        "generation",
        &["fabric.link.generation", "found the integer 6", "\"6\""],
    ),
    one(
        &[(
            "[fabric.topology]\nkind = \"ring\"\nswitches = 4",
            "topology = \"rign\"",
        )],
        "topology = ",
        &["fabric.topology", "a table", "kind = \"ring\""],
    ),
    one(
        &[("[[hosts]]", "[hosts]")],
        "[hosts]",
        &["`hosts`", "an array", "a table"],
    ),
    // Units.
    one(
        &[("propagation = \"1 ns\"", "propagation = 1")],
        "propagation",
        &[
            "fabric.link.propagation",
            "found the integer 1",
            "\"25 ns\"",
            "ps, ns, us",
        ],
    ),
    one(
        &[("\"46 ns\"", "\"46\"")],
        "latency",
        &["devices[0].memory.latency", "`46`", "ps, ns, us, ms, s"],
    ),
    one(
        &[("\"16 GiB\"", "\"16 Gib\"")],
        "capacity",
        &["devices[0].capacity", "`16 Gib`", "GiB"],
    ),
    one(
        &[("lanes = 16", "bandwidth = \"32 Gbps\"")],
        "bandwidth",
        &["fabric.link.bandwidth", "`32 Gbps`", "GB/s"],
    ),
    one(
        &[("\"1 ns\"", "\"-1 ns\"")],
        "propagation",
        &["`-1 ns`", "units"],
    ),
    one(
        &[("\"1 ns\"", "\"0.0001 ns\"")],
        "propagation",
        &["`0.0001 ns`", "whole number of ps"],
    ),
    // Ranges.
    one(
        &[("lanes = 16", "lanes = 3")],
        "lanes",
        &["fabric.link.lanes", "3", "1, 2, 4, 8, 16"],
    ),
    one(
        &[("m2s_req = 1000", "m2s_req = 0")],
        "m2s_req",
        &["m2s_req", "is 0", "from 1 to 1023"],
    ),
    one(
        &[("m2s_req = 1000", "m2s_req = 1024")],
        "m2s_req",
        &["m2s_req", "1024", "from 1 to 1023"],
    ),
    one(
        &[("count = 2\n\n[hosts", "count = 0\n\n[hosts")],
        "count = 0",
        &["hosts[0].count", "4095"],
    ),
    one(
        &[("threads = 1", "threads = 0")],
        "threads = 0",
        &["execution.threads", "from 1 to 256"],
    ),
    one(
        &[("requests = 500", "requests = 0")],
        "requests = 0",
        &["measure.requests", "at least 1"],
    ),
    one(
        &[("requests = 500", "requests = 2000000000000000")],
        "requests = 2",
        &["measure.requests", "2000000000000000", "10^15"],
    ),
    one(
        &[("seed = 7", "seed = -7")],
        "seed = -7",
        &["`seed`", "-7", "at least 0"],
    ),
    one(
        &[("lanes = 16", "flit_error_rate = 0.5")],
        "flit_error_rate",
        &["fabric.link.flit_error_rate", "0.5", "0.1"],
    ),
    one(
        &[("read_ratio = 0.5", "read_ratio = 1.5")],
        "read_ratio",
        &["hosts[0].workload.read_ratio", "found 1.5", "0 to 1"],
    ),
    one(
        &[("switches = 4", "switches = 1")],
        "switches",
        &["fabric.topology.switches", "1", "4096"],
    ),
    one(
        &[("\"20 ns\"", "\"20 ms\"")],
        "switching_time",
        &[
            "fabric.switch.switching_time",
            "found 20 ms",
            "at most 1 ms",
        ],
    ),
    one(
        &[("\"46 ns\"", "\"4 s\"")],
        "latency",
        &["devices[0].memory.latency", "4 s", "at most 1 s"],
    ),
    one(
        &[("\"25 ns\"", "\"25 ms\"")],
        "port_delay",
        &["fabric.link.port_delay", "25 ms", "1 ms"],
    ),
    one(
        &[
            ("\"25 ns\"", "\"0 ps\"\nfec_delay = \"0 ps\""),
            ("\"1 ns\"", "\"1 ps\""),
        ],
        "propagation",
        &["fabric.link.propagation", "found 1 ps", "at least 2 ps"],
    ),
    one(
        &[
            ("outstanding = 16", "cache = { size = \"32 KiB\" }"),
            (
                "capacity = ",
                "coherence.class = \"hdm-db\"\ncontroller.write_completion = \"written\"\ncapacity = ",
            ),
        ],
        "written",
        &[
            "devices[0].controller.write_completion",
            "accepted",
            "hdm-h",
        ],
    ),
    one(
        &[("lanes = 16", "retimers = 3")],
        "retimers",
        &["fabric.link.retimers", "is 3", "from 0 to 2"],
    ),
    one(
        &[("lanes = 16", "retimers = 2\nretimer_delay = \"1 ms\"")],
        "retimer_delay",
        &[
            "fabric.link.retimer_delay",
            "found 1 ms",
            "allowed here: at most",
        ],
    ),
    one(
        &[("lanes = 16", "fec_delay = \"2 ms\"")],
        "fec_delay",
        &["fabric.link.fec_delay", "found 2 ms", "1 ms"],
    ),
    one(
        &[("lanes = 16", "preset = \"efs\"")],
        "preset",
        &["fabric.link.preset", "efs", "esf"],
    ),
    one(
        &[("lanes = 16", "bandwidth = \"0 B/s\"")],
        "bandwidth",
        &["fabric.link.bandwidth", "found 0 B/s", "1 MB/s"],
    ),
    one(
        &[("outstanding = 16", "rate = \"0 B/s\"")],
        "rate = ",
        &["hosts[0].issue.rate", "found 0 B/s", "64 B/s"],
    ),
    one(
        &[("outstanding = 16", "cache = { size = \"100 B\" }")],
        "cache",
        &[
            "hosts[0].issue.cache.size",
            "found 100 B",
            "multiples of 512 B",
        ],
    ),
    one(
        &[("outstanding = 16", "cache = { size = \"1 TiB\" }")],
        "cache",
        &[
            "hosts[0].issue.cache.size",
            "34359738368",
            "allowed: 67108864",
        ],
    ),
    one(
        &[
            ("outstanding = 16", "outstanding = 1048576"),
            ("count = 2\n\n[hosts", "count = 17\n\n[hosts"),
        ],
        "outstanding",
        &[
            "hosts[0].issue.outstanding",
            "found 1048576 for each of 17",
            "allowed: 16777216",
        ],
    ),
    one(
        &[(
            "outstanding = 16",
            "cache = { size = \"32 KiB\", policy = { kind = \"lur\" } }",
        )],
        "cache = ",
        &["hosts[0].issue.cache.policy", "lur", "lru"],
    ),
    one(
        &[(
            "outstanding = 16",
            "cache = { size = \"32 KiB\", policy = { kind = \"fifo\" } }",
        )],
        "cache = ",
        &[
            "hosts[0].issue.cache.policy",
            "found \"fifo\"",
            "reaches no memory of class hdm-db",
            "\"lru\"",
        ],
    ),
    one(
        &[
            (
                "outstanding = 16",
                "cache = { size = \"32 KiB\" }\nin_order = true",
            ),
            ("capacity = ", "coherence.class = \"hdm-db\"\ncapacity = "),
        ],
        "in_order = true",
        &[
            "hosts[0].issue.in_order",
            "found true",
            "is coherent",
            "allowed: false",
        ],
    ),
    one(
        &[
            ("outstanding = 16", "cache = { size = \"32 KiB\" }"),
            ("read_ratio = 0.5", "read_ratio = 0.5\nrequest = \"4 KiB\""),
            ("capacity = ", "coherence.class = \"hdm-db\"\ncapacity = "),
        ],
        "request = ",
        &[
            "hosts[0].workload.request",
            "found more than 64 B",
            "is coherent",
            "allowed: 32 B, 64 B",
        ],
    ),
    one(
        &[
            ("outstanding = 16", "cache = { size = \"32 KiB\" }"),
            (
                "capacity = ",
                "coherence = { class = \"hdm-db\", filter = { join = \"2 us\" } }\ncapacity = ",
            ),
        ],
        "join = ",
        &[
            "devices[0].coherence.filter.join",
            "found 2 us",
            "at most 1 us",
        ],
    ),
    one(
        &[
            ("outstanding = 16", "cache = { size = \"32 KiB\" }"),
            (
                "capacity = ",
                "coherence = { class = \"hdm-db\", filter = { block = 1, join = \"0 ns\" } }\ncapacity = ",
            ),
        ],
        "join = ",
        &[
            "devices[0].coherence.filter.join",
            "`block = 1`",
            "`block` of 2 to 4",
        ],
    ),
    one(
        &[("read_ratio = 0.5", "read_ratio = 0.5\nrequest = \"96 B\"")],
        "request = ",
        &["request", "found 96 B", "32 B to 4 KiB"],
    ),
    one(
        &[(
            "outstanding = 16",
            "cache = { size = \"32 KiB\", mshrs = 0 }",
        )],
        "mshrs = 0",
        &["hosts[0].issue.cache.mshrs", "1", "1048576"],
    ),
    one(
        &[(
            "outstanding = 16",
            "cache = { size = \"32 KiB\", mshrs = 1048577 }",
        )],
        "mshrs = 1048577",
        &["hosts[0].issue.cache.mshrs", "1", "1048576"],
    ),
    one(
        &[
            (
                "outstanding = 16",
                "cache = { size = \"32 KiB\", mshrs = 1048576 }",
            ),
            ("count = 2\n\n[hosts", "count = 5\n\n[hosts"),
            ("capacity = ", "coherence.class = \"hdm-db\"\ncapacity = "),
        ],
        "mshrs = 1048576",
        &[
            "hosts[0].issue.cache.mshrs",
            "found 1048576 for each of 5",
            "allowed: 4194304",
        ],
    ),
    one(
        &[("\"25 ns\"", "\"1 ms\"")],
        "port_delay",
        &[
            "fabric.link.port_delay",
            "found 1 ms",
            "allowed here: at most",
            "links to a device",
        ],
    ),
    one(
        &[(
            "lanes = 16",
            "bandwidth = \"1 MB/s\"\ntransmission = \"packet\"\npacket = { header = \"64 KiB\" }",
        )],
        "bandwidth",
        &[
            "fabric.link.bandwidth",
            "found 1 MB/s",
            "65536 B",
            "allowed here: at most",
        ],
    ),
    // Unknown kinds.
    one(
        &[("kind = \"ring\"", "kind = \"rign\"")],
        "kind = \"rign\"",
        &[
            "in `fabric.topology`",
            "\"rign\"",
            "did you mean `ring`?",
            "`mesh`",
        ],
    ),
    one(
        &[("kind = \"uniform\"", "kind = \"unifrom\"")],
        "kind = \"unifrom\"",
        &[
            "in `hosts[0].workload`",
            "did you mean `uniform`?",
            "`pointer-chase`",
        ],
    ),
    one(
        &[("kind = \"fixed\"", "kind = \"fixd\"")],
        "kind = \"fixd\"",
        &["devices[0].memory", "\"fixd\"", "fixed"],
    ),
    one(
        &[("\"shortest\"", "\"shortset\"")],
        "routing",
        &[
            "fabric.routing",
            "\"shortset\"",
            "did you mean \"shortest\"?",
            "\"adaptive\"",
        ],
    ),
    one(
        &[("kind = \"pbr\"", "kind = \"prb\"")],
        "kind = \"prb\"",
        &[
            "fabric.kind",
            "\"prb\"",
            "did you mean \"pbr\"?",
            "\"multiple-vcs\"",
        ],
    ),
    one(
        &[("\"6\"", "\"8\"")],
        "generation",
        &["fabric.link.generation", "\"8\"", "\"7\""],
    ),
    // Names.
    one(
        &[("name = \"mem\"", "name = \"host\"")],
        "name = \"host\"\ncount = 2\ncapacity",
        &["devices[0].name", "`host0`", "hosts[0].name", "new name"],
    ),
    one(
        &[("name = \"host\"", "name = \"a host\"")],
        "name = \"a host\"",
        &["hosts[0].name", "\"a host\"", "letters, digits"],
    ),
    one(
        &[("name = \"mem\"", "name = \"\"")],
        "name = \"\"",
        &["devices[0].name", "1 to 64"],
    ),
    one(
        &[("\"bad-input\"", "\"\"")],
        "name = \"\"",
        &["`name`", "found \"\"", "1 to 200"],
    ),
    one(
        &[("name = \"host\"\ncount = 2", "name = \"sw0\"")],
        "[fabric.topology]",
        &["fabric.topology", "`sw0` names two parts"],
    ),
    // Addresses.
    one(
        &[("\"16 GiB\"", "\"300 MiB\"")],
        "capacity",
        &[
            "devices[0].capacity",
            "found 300 MiB",
            "multiples of 256 MiB",
        ],
    ),
    one(
        &[("\"16 GiB\"", "\"0 B\"")],
        "capacity",
        &["devices[0].capacity", "found 0 B", "256 MiB"],
    ),
    one(
        &[("\"256 B\"", "\"300 B\"")],
        "granularity",
        &["address_map.granularity", "found 300 B", "256 B, 512 B"],
    ),
    one(
        &[("\"256 B\"", "\"32 KiB\"")],
        "granularity",
        &["address_map.granularity", "found 32 KiB", "16 KiB"],
    ),
    one(
        &[("[address_map]", "[address_map]\nxor_maps = [0x100]")],
        "xor_maps",
        &["address_map.xor_maps", "modulo", "arithmetic = \"xor\""],
    ),
    one(
        &[(
            "[address_map]",
            "[address_map]\narithmetic = \"xor\"\nxor_maps = [0x200]",
        )],
        "xor_maps",
        &["address_map.xor_maps", "XOR map 0, 0x200", "bit 8 (0x100)"],
    ),
    one(
        &[(
            "[address_map]",
            "[address_map]\narithmetic = \"xor\"\nxor_maps = []",
        )],
        "xor_maps",
        &["address_map.xor_maps", "0 XOR maps are fewer than 1"],
    ),
    one(
        &[("[address_map]", "[address_map]\nways = 5")],
        "ways = 5",
        &["address_map.ways", "found 5", "3 * 2^k"],
    ),
    one(
        &[("[address_map]", "[address_map]\nways = 4")],
        "ways = 4",
        &["address_map.ways", "found 4", "a divisor of 2"],
    ),
    one(
        &[("read_ratio = 0.5", "footprint = \"64 GiB\"")],
        "footprint",
        &["hosts[0].workload.footprint", "found 64 GiB", "32 GiB"],
    ),
    one(
        &[("read_ratio = 0.5", "offset = \"100 B\"")],
        "offset",
        &[
            "hosts[0].workload.offset",
            "found 100 B",
            "multiples of 64 B",
        ],
    ),
    // Links.
    one(
        &[("lanes = 16", "duplex = \"half\"")],
        "duplex",
        &[
            "fabric.link.duplex",
            "found \"half\"",
            "transmission = \"packet\"",
        ],
    ),
    one(
        &[("lanes = 16", "flit = \"68B\"")],
        "flit = ",
        &["fabric.link.flit", "68B", "generation 6 or 7", "256B"],
    ),
    one(
        &[("lanes = 16", "transmission = \"packet\"\nflit = \"256B\"")],
        "flit = ",
        &["fabric.link.flit", "transmission = \"packet\""],
    ),
    one(
        &[(
            "lanes = 16",
            "flit_error_rate = 0.001\nreplay_buffer_flits = 2",
        )],
        "replay_buffer_flits",
        &[
            "fabric.link.replay_buffer_flits",
            "found 2",
            "allowed: at least",
        ],
    ),
    one(
        &[(
            "lanes = 16",
            "transmission = \"packet\"\npacket = { staging = \"1 MiB\" }",
        )],
        "packet = ",
        &["fabric.link.packet.staging", "found 1 MiB", "64 KiB"],
    ),
    one(
        &[(
            "capacity = ",
            "coherence = { class = \"hdm-db\" }\ncapacity = ",
        )],
        "[hosts.issue]",
        &["hosts[0].issue", "found no cache", "hdm-db", "cache = "],
    ),
    one(
        &[(
            "[devices.memory]\nkind = \"fixed\"\nlatency = \"46 ns\"",
            "[devices.memory]\nkind = \"dram-cache\"\nbehind = { kind = \"ssd\", erase_time = \"2 s\" }",
        )],
        "behind = ",
        &[
            "devices[0].memory.behind.erase_time",
            "found 2 s",
            "at most 1 s",
        ],
    ),
    one(
        &[(
            "[devices.memory]\nkind = \"fixed\"\nlatency = \"46 ns\"",
            "[devices.memory]\nkind = \"interleaved\"\nmedia = [{ kind = \"fixed\" }, { kind = \"fixed\", banks = 0 }]",
        )],
        "media = ",
        &[
            "devices[0].memory.media[1].banks",
            "is 0",
            "from 1 to 65536",
        ],
    ),
    one(
        &[(
            "[devices.memory]\nkind = \"fixed\"\nlatency = \"46 ns\"",
            "[devices.memory]\nkind = \"interleaved\"\nmedia = [{ kind = \"dram\", chanels = 2 }]",
        )],
        "media = ",
        &[
            "in `devices[0].memory.media[0]`",
            "did you mean `channels`?",
        ],
    ),
    one(
        &[(
            "[devices.memory]\nkind = \"fixed\"\nlatency = \"46 ns\"",
            "[devices.memory]\nkind = \"interleaved\"\ncopies = 3\nmedia = [{ kind = \"fixed\" }]",
        )],
        "[devices.memory]",
        &["devices[0].memory.granularity", "found 256 B", "16 GiB / 3"],
    ),
    // Cores and hosts' own memory.
    one(
        &[(
            "[hosts.issue]\noutstanding = 16",
            "[hosts.core]\nwindow = 0",
        )],
        "window = 0",
        &["hosts[0].core.window", "is 0", "1 to 65536"],
    ),
    one(
        &[(
            "[hosts.issue]\noutstanding = 16",
            "[hosts.core]\nprefetch = 65537",
        )],
        "prefetch = 65537",
        &["hosts[0].core.prefetch", "65537", "65536"],
    ),
    one(
        &[("[hosts.issue]\noutstanding = 16", "[hosts.core]\nmises = 4")],
        "mises = 4",
        &["in `hosts[0].core`", "did you mean `misses`?"],
    ),
    one(
        &[(
            "[hosts.issue]\noutstanding = 16",
            "[hosts.core]\ncycle = \"0 ps\"",
        )],
        "cycle = ",
        &["hosts[0].core.cycle", "found 0 ps", "1 ps to 1 ms"],
    ),
    one(
        &[(
            "[hosts.issue]\noutstanding = 16",
            "[hosts.core]\ncaches = []",
        )],
        "caches = []",
        &["hosts[0].core.caches", "found 0 levels", "1 to 4"],
    ),
    one(
        &[(
            "[hosts.issue]\noutstanding = 16",
            "[hosts.core]\ncaches = [{ size = \"1 KiB\", ways = 32, access_time = \"1 ns\" }]",
        )],
        "caches = ",
        &[
            "hosts[0].core.caches[0].size",
            "found 1 KiB",
            "multiples of 2 KiB",
        ],
    ),
    one(
        &[("[hosts.issue]", "core = {}\n[hosts.issue]")],
        "[hosts.issue]",
        &["hosts[0].issue", "found `issue` and `core`", "one of them"],
    ),
    one(
        &[(
            "[hosts.issue]",
            "local = { capacity = \"1 GiB\" }\n[hosts.issue]",
        )],
        "local = ",
        &["hosts[0].local", "without a core", "core = {}"],
    ),
    one(
        &[(
            "[hosts.issue]\noutstanding = 16",
            "core = {}\nlocal = { capacity = \"1 KiB\" }",
        )],
        "local = ",
        &[
            "hosts[0].local.capacity",
            "found 1 KiB",
            "multiples of 4 KiB",
        ],
    ),
    one(
        &[(
            "kind = \"uniform\"\nread_ratio = 0.5",
            "kind = \"random-read\"",
        )],
        "[hosts.workload]",
        &["hosts[0].workload", "without a core", "core = {}"],
    ),
    one(
        &[
            ("[hosts.issue]\noutstanding = 16", "core = {}"),
            (
                "capacity = ",
                "coherence = { class = \"hdm-db\" }\ncapacity = ",
            ),
        ],
        "core = {}",
        &["hosts[0].core", "hdm-db", "cache = "],
    ),
    one(
        &[
            ("kind = \"ring\"", "kind = \"chain\""),
            ("switches = 4", "switches = 1"),
            ("generation = \"6\"", "generation = \"5\""),
            (
                "outstanding = 16",
                "outstanding = 16\ncache = { size = \"64 KiB\" }",
            ),
            ("capacity = ", "coherence.class = \"hdm-db\"\ncapacity = "),
        ],
        "coherence.class",
        &["devices[0].coherence.class", "68 B flits", "256 B flits"],
    ),
    // PBR flits, and sync headers.
    one(
        &[("generation = \"6\"", "generation = \"5\"")],
        "[fabric.link]",
        &["fabric.link.flit", "68 B flits", "\"256B\"", "table 6-13"],
    ),
    one(
        &[(
            "lanes = 16",
            "lanes = 16\nflit = \"256B-latency-optimized\"",
        )],
        "flit",
        &[
            "fabric.link.flit",
            "latency-optimised",
            "\"256B\"",
            "fabric.edge_link",
        ],
    ),
    one(
        &[("lanes = 16", "lanes = 16\nsync_header_bypass = true")],
        "sync_header_bypass",
        &[
            "fabric.link.sync_header_bypass",
            "generation 3, 4 or 5",
            "table 6-15",
        ],
    ),
    one(
        &[
            (
                "outstanding = 16",
                "outstanding = 16\ncache = { size = \"64 KiB\" }",
            ),
            (
                "capacity = ",
                "coherence = { class = \"hdm-db\", filter = { lines = 100, ways = 8 } }\ncapacity = ",
            ),
        ],
        "coherence = ",
        &["devices[0].coherence.filter.lines"],
    ),
    one(
        &[(
            "capacity = ",
            "coherence = { class = \"hdm-db\", victim = { kind = \"lur\" } }\ncapacity = ",
        )],
        "coherence = ",
        &["devices[0].coherence.victim", "lru"],
    ),
    one(
        &[(
            "lanes = 16",
            "transmission = \"packet\"\npacket = { header = \"1 MiB\" }",
        )],
        "packet = ",
        &["fabric.link.packet.header", "found 1 MiB", "64 KiB"],
    ),
    one(
        &[(
            "[fabric.switch]",
            "[fabric.edge_link]\nlanes = 16\nflit = \"68B\"\n[fabric.switch]",
        )],
        "flit = ",
        &["fabric.edge_link.flit", "68B", "256B"],
    ),
    // Fabrics.
    one(
        &[("count = 2\n\n[hosts", "count = 4095\n\n[hosts")],
        "[[hosts]]",
        &["`hosts`", "found 4097 hosts and devices", "at most 4096"],
    ),
    one(
        &[("[fabric.switch]", "[fabric.switch]\nmax_ports = 2")],
        "max_ports",
        &["fabric.switch.max_ports", "has 3 ports", "at most 2"],
    ),
    one(
        &[("kind = \"pbr\"", "kind = \"single-vcs\"")],
        "kind = \"single-vcs\"",
        &["fabric.kind", "VCS hierarchy is a tree", "PBR"],
    ),
    one(
        &[
            ("kind = \"pbr\"", "kind = \"single-vcs\""),
            ("\"ring\"", "\"chain\""),
        ],
        "kind = \"single-vcs\"",
        &["fabric.kind", "`host0`", "`host1`", "one upstream port"],
    ),
    one(
        &[(
            "kind = \"pbr\"",
            "kind = \"pbr\"\nbindings = [{ device = \"mem0\", host = \"host0\" }]",
        )],
        "bindings",
        &["fabric.bindings", "kind = \"multiple-vcs\""],
    ),
    one(
        &[(
            "kind = \"pbr\"",
            "kind = \"multiple-vcs\"\nbindings = [{ device = \"men0\", host = \"host0\" }]",
        )],
        "bindings",
        &[
            "fabric.bindings[0].device",
            "`men0`",
            "mem0, mem1",
            "did you mean `mem0`?",
        ],
    ),
    one(
        &[(
            "kind = \"pbr\"",
            "kind = \"multiple-vcs\"\nbindings = [{ device = \"mem0\", host = \"hots1\" }]",
        )],
        "bindings",
        &[
            "fabric.bindings[0].host",
            "`hots1`",
            "host0, host1",
            "did you mean `host1`?",
        ],
    ),
    one(
        &[
            (
                "kind = \"pbr\"",
                "kind = \"multiple-vcs\"\nbindings = [{ device = \"mem0\", host = \"host0\" }, { device = \"mem0\", host = \"host1\" }]",
            ),
            (
                "kind = \"ring\"\nswitches = 4",
                "kind = \"chain\"\nswitches = 1",
            ),
        ],
        "bindings",
        &["fabric.bindings", "`mem0`", "more than one"],
    ),
    // Regions.
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"300 MiB\"",
        )],
        "300 MiB",
        &[
            "regions[0].capacity",
            "300 MiB over 2",
            "multiples of 512 MiB",
        ],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"0 B\"",
        )],
        "0 B",
        &["regions[0].capacity", "multiples of 512 MiB"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"20 GiB\"",
        )],
        "20 GiB",
        &[
            "regions[0].capacity",
            "10 GiB of them on device `mem0`",
            "6 GiB left of 16 GiB",
        ],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\nhosts = [\"hots\"]",
        )],
        "hots",
        &["regions[0].hosts", "`hots`", "host0, host1"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\ndevices = [\"mem0\", \"mem2\"]",
        )],
        "mem2",
        &["regions[0].devices", "`mem2`", "did you mean"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\nhosts = [\"host0\"]",
        )],
        "[[hosts]]",
        &["hosts[0]", "no region for host `host1`"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\nsharing = \"share\"",
        )],
        "sharing",
        &["regions[0].sharing", "\"share\"", "exclusive", "shared"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = 'own'\ncapacity = \"1 GiB\"",
        )],
        "name = 'own'",
        &["regions[1].name", "`own` twice"],
    ),
    one(
        &[
            (
                "threads = 1",
                "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"",
            ),
            (
                "count = 2\ncapacity",
                "count = 2\nlogical_devices = 1\ncapacity",
            ),
        ],
        "[[regions]]",
        &[
            "regions[0].hosts",
            "more hosts on `mem0` than its 1 logical",
        ],
    ),
    one(
        &[
            (
                "threads = 1",
                "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\nsharing = \"shared\"",
            ),
            (
                "count = 2\ncapacity",
                "count = 2\nlogical_devices = 4\ncapacity",
            ),
        ],
        "sharing",
        &["regions[0].sharing", "one host each"],
    ),
    // Events.
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[events]]\nat = \"2 us\"\nkind = \"release\"\nregion = \"own\"\nhost = \"host0\"\n",
        )],
        "region = \"own\"",
        &["events[0].region", "without regions", "[[regions]]"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"release\"\nregion = \"onw\"\nhost = \"host0\"\n",
        )],
        "region = \"onw\"",
        &["events[0].region", "`onw`", "did you mean `own`?"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"release\"\nregion = \"own\"\nhost = \"hots0\"\n",
        )],
        "host = \"hots0\"",
        &["events[0].host", "`hots0`", "did you mean `host0`?"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"release\"\nregion = \"own\"\nhost = \"host\"\n",
        )],
        "host = \"host\"",
        &["events[0].host", "`host`", "host0, host1"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\nhosts = [\"host0\"]\n[[regions]]\nname = \"rest\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"add\"\nregion = \"own\"\nhost = \"host1\"\n",
        )],
        "host = \"host1\"",
        &[
            "events[0].host",
            "`host1`",
            "a host of region `own`; allowed: host0",
        ],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"remove\"\nregion = \"own\"\nhost = \"host0\"\n",
        )],
        "kind = \"remove\"",
        &["`events[0]`", "unknown kind \"remove\"", "`release`"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"add\"\nregion = \"own\"\nhost = \"host0\"\n",
        )],
        "kind = \"add\"",
        &[
            "events[0].kind",
            "`host0` has already",
            "initially_added = false",
        ],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"release\"\nregion = \"own\"\nhost = \"host0\"\n[[events]]\nat = \"3 us\"\nkind  = \"release\"\nregion = \"own\"\nhost = \"host0\"\n",
        )],
        "kind  = \"release\"",
        &["events[1].kind", "`host0` does not have", "3 us"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"release\"\nregion = \"own\"\nhost = \"host0\"\n[[events]]\nat = \"1 us\"\nkind = \"add\"\nregion = \"own\"\nhost = \"host0\"\n",
        )],
        "at = \"1 us\"",
        &["events[1].at", "found 1 us", "behind an event at 2 us"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 h\"\nkind = \"release\"\nregion = \"own\"\nhost = \"host0\"\n",
        )],
        "at = \"2 h\"",
        &["events[0].at", "2 h"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"7200 s\"\nkind = \"release\"\nregion = \"own\"\nhost = \"host0\"\n",
        )],
        "at = \"7200 s\"",
        &["events[0].at", "at most 3600 s"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\nsharing = \"moving\"\n[[events]]\nat = \"2 us\"\nkind = \"add\"\nregion = \"own\"\nhost = \"host1\"\n",
        )],
        "kind = \"add\"",
        &[
            "events[0].kind",
            "to `host1` while `host0` has it",
            "one host at a time",
        ],
    ),
    one(
        &[
            (
                "threads = 1",
                "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"release\"\nregion = \"own\"\nhost = \"host0\"\n",
            ),
            (
                "outstanding = 16",
                "outstanding = 16\ncache = { size = \"64 KiB\" }",
            ),
        ],
        "cache = {",
        &[
            "hosts[0].issue.cache",
            "region `own`",
            "requesters without caches",
        ],
    ),
    one(
        &[
            (
                "threads = 1",
                "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\ninitially_added = false",
            ),
            ("[hosts.issue]\noutstanding = 16", "core = {}"),
        ],
        "core =",
        &["hosts[0].core", "region `own`", "requesters without caches"],
    ),
    // The fabric manager.
    one(
        &[
            (
                "threads = 1",
                "threads = 1\n[[regions]]\nname = \"pool\"\ncapacity = \"2 TiB\"\nsharing = \"pooled\"\n",
            ),
            ("16 GiB", "4 TiB"),
        ],
        "2 TiB",
        &["regions[0].capacity", "2 TiB, pooled", "at most 1 TiB"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\n[[events]]\nat = \"2 us\"\nkind = \"demand\"\nhost = \"host0\"\nregion = \"own\"\ncapacity = \"256 MiB\"\n",
        )],
        "region = \"own\"",
        &["events[0].region", "`own`, which is not pooled", "pooled"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\n[[events]]\nat = \"2 us\"\nkind = \"demand\"\nhost = \"host0\"\nregion = \"pool\"\ncapacity = \"300 MiB\"\n",
        )],
        "capacity = \"300 MiB\"",
        &[
            "events[0].capacity",
            "300 MiB",
            "multiples of 256 MiB up to",
        ],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\n[[events]]\nat = \"2 us\"\nkind = \"demand\"\nhost = \"host0\"\nregion = \"pool\"\ncapacity = \"2 GiB\"\n",
        )],
        "capacity = \"2 GiB\"",
        &["events[0].capacity", "2 GiB", "1 GiB"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\n[[events]]\nat = \"2 us\"\nkind = \"add\"\nhost = \"host0\"\nregion = \"pool\"\n",
        )],
        "kind = \"add\"",
        &["events[0].kind", "`pool`, which is pooled", "demand"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\n[[events]]\nat = \"2 us\"\nkind = \"host-leaves\"\nhost = \"host0\"\n[[events]]\nat = \"3 us\"\nkind  = \"demand\"\nhost = \"host0\"\nregion = \"pool\"\ncapacity = \"256 MiB\"\n",
        )],
        "kind  = \"demand\"",
        &["events[1].kind", "`host0`, which has left"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\n[[events]]\nat = \"2 us\"\nkind = \"demand\"\nhost = \"host0\"\nregion = \"pool\"\ncapacity = \"256 MiB\"\n",
        )],
        "[[hosts]]",
        &["no region for host `host1`", "granted some of it"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\n[fabric_manager]\npolicy = { kind = \"best\" }\n",
        )],
        "policy",
        &["fabric_manager.policy", "best-fit"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\n[fabric_manager]\npolicy = { kind = \"watermark\", most = 0.1 }\n",
        )],
        "policy",
        &["fabric_manager.policy.most", "found 0.1", "0.25, to 16"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\n[fabric_manager]\npolicy = { kind = \"watermark\", reserve = 17.0 }\n",
        )],
        "policy",
        &["fabric_manager.policy", "17"],
    ),
    one(
        &[
            (
                "threads = 1",
                "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\n",
            ),
            ("[hosts.issue]\noutstanding = 16", "core = {}"),
        ],
        "core =",
        &["hosts[0].core", "region `pool`"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\ndevices = [\"mem0\"]\n[[events]]\nat = \"2 us\"\nkind = \"set-ld-allocations\"\nhost = \"host0\"\nregion = \"own\"\ndevice = \"mem0\"\ncapacity = \"256 MiB\"\n",
        )],
        "device = \"mem0\"",
        &[
            "events[0].device",
            "no logical devices",
            "`logical_devices`",
        ],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\ndevices = [\"mem0\"]\n[[events]]\nat = \"2 us\"\nkind = \"set-ld-allocations\"\nhost = \"host0\"\nregion = \"pool\"\ndevice = \"mem1\"\ncapacity = \"256 MiB\"\n",
        )],
        "device = \"mem1\"",
        &["events[0].device", "`mem1`", "a device of region `pool`"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[regions]]\nname = \"pool\"\ncapacity = \"1 GiB\"\nsharing = \"pooled\"\ndevices = [\"mem0\"]\n[[events]]\nat = \"2 us\"\nkind = \"set-ld-allocations\"\nhost = \"host0\"\nregion = \"pol\"\ndevice = \"mem0\"\ncapacity = \"256 MiB\"\n",
        )],
        "region = \"pol\"",
        &["events[0].region", "did you mean `pool`?"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[events]]\nat = \"2 us\"\nkind = \"bind\"\nhost = \"host0\"\ndevice = \"mem0\"\n",
        )],
        "device =",
        &["events[0].device", "without regions", "[[regions]]"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"bind\"\nhost = \"host0\"\ndevice = \"mem0\"\n",
        )],
        "kind = \"bind\"",
        &["events[0].kind", "`host0` to `mem0`, which it is bound to"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"unbind\"\nhost = \"host0\"\ndevice = \"mem7\"\n",
        )],
        "device = \"mem7\"",
        &["events[0].device", "`mem7`", "did you mean `mem"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"unbind\"\nhost = \"hots0\"\ndevice = \"mem0\"\n",
        )],
        "host = \"hots0\"",
        &["events[0].host", "`hots0`", "did you mean `host0`?"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"unbind\"\nhost = \"host0\"\ndevice = \"mem0\"\noption = \"wait\"\n",
        )],
        "option",
        &[
            "events[0]",
            "wait",
            "managed-hot-remove",
            "surprise-hot-remove",
        ],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"unbind\"\nhost = \"host0\"\ndevice = \"mem0\"\n[[events]]\nat = \"3 us\"\nkind  = \"bind\"\nhost = \"host0\"\ndevice = \"mem0\"\n",
        )],
        "kind  = \"bind\"",
        &["events[1].kind", "which it is bound to", "has ended"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"unbind\"\nhost = \"host0\"\ndevice = \"mem0\"\n[[events]]\nat = \"3 us\"\nkind  = \"unbind\"\nhost = \"host0\"\ndevice = \"mem0\"\n",
        )],
        "kind  = \"unbind\"",
        &["events[1].kind", "which it is not bound to"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\ndevices = [\"mem0\"]\n[[events]]\nat = \"2 us\"\nkind = \"unbind\"\nhost = \"host0\"\ndevice = \"mem1\"\n",
        )],
        "device = \"mem1\"",
        &["events[0].device", "no region gives `host0` memory"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[fabric_manager]\ncommand_time = \"2 h\"\n",
        )],
        "command_time",
        &["fabric_manager.command_time", "2 h"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[fabric_manager]\nscrub_time = \"7200 s\"\n",
        )],
        "scrub_time",
        &["fabric_manager.scrub_time", "at most 3600 s"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[fabric_manager]\nhost_time = \"7200 s\"\n",
        )],
        "host_time",
        &["fabric_manager.host_time", "at most 3600 s"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[fabric_manager]\ncomand_time = \"2 us\"\n",
        )],
        "comand_time",
        &["comand_time", "did you mean `command_time`?"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[fabric_manager]\nunbound = [{ host = \"host0\", device = \"mem7\" }]\n",
        )],
        "unbound",
        &["fabric_manager.unbound[0].device", "`mem7`"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[fabric_manager]\nunbound = [{ host = \"host0\", device = \"mem0\" }, { host = \"host0\", device = \"mem0\" }]\n",
        )],
        "unbound",
        &["fabric_manager.unbound[1]", "`host0` and `mem0` again"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\nsharing = \"moving\"\n[fabric_manager]\nscrub_time = \"5 us\"\n[[events]]\nat = \"2 us\"\nkind = \"release\"\nregion = \"own\"\nhost = \"host0\"\n[[events]]\nat = \"4 us\"\nkind  = \"add\"\nregion = \"own\"\nhost = \"host1\"\n",
        )],
        "kind  = \"add\"",
        &["events[1].kind", "scrubbed until 17 us"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\n[[events]]\nat = \"2 us\"\nkind = \"set-qos\"\nhost = \"host0\"\ndevice = \"mem0\"\nallocated = 64\n",
        )],
        "device =",
        &["events[0].device", "`mem0`", "`qos` with `bandwidth`"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[events]]\nat = \"2 us\"\nkind = \"set-qos\"\nhost = \"host0\"\ndevice = \"mem0\"\n",
        )],
        "kind = \"set-qos\"",
        &["events[0].kind", "neither `allocated` nor `limit`"],
    ),
    one(
        &[
            (
                "threads = 1",
                "threads = 1\n[[events]]\nat = \"2 us\"\nkind = \"set-qos\"\nhost = \"host0\"\ndevice = \"mem0\"\nallocated = 64\n",
            ),
            (
                "count = 2\ncapacity",
                "count = 2\nqos = { bandwidth = \"8 GB/s\", shares = [{ host = \"host1\", allocated = 200 }] }\ncapacity",
            ),
        ],
        "allocated = 64",
        &["events[0].allocated", "264 of 256"],
    ),
    one(
        &[
            (
                "threads = 1",
                "threads = 1\n[[events]]\nat = \"2 us\"\nkind = \"set-qos\"\nhost = \"host1\"\ndevice = \"mem0\"\nlimit = 64\n",
            ),
            (
                "count = 2\ncapacity",
                "count = 2\nqos = { bandwidth = \"8 GB/s\", shares = [{ host = \"host1\", allocated = 200 }] }\ncapacity",
            ),
        ],
        "limit = 64",
        &[
            "events[0].limit",
            "found 64",
            "at least what is allocated then, 200",
        ],
    ),
    one(
        &[
            (
                "threads = 1",
                "threads = 1\n[[events]]\nat = \"2 us\"\nkind = \"set-qos\"\nhost = \"host1\"\ndevice = \"mem0\"\nlimit = 0\n",
            ),
            (
                "count = 2\ncapacity",
                "count = 2\nqos = { bandwidth = \"8 GB/s\", shares = [{ host = \"host1\", allocated = 200 }] }\ncapacity",
            ),
        ],
        "limit = 0",
        &["events[0].limit", "0"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[events]]\nat = \"2 us\"\nkind = \"host-joins\"\nhost = \"host0\"\n[[events]]\nat = \"3 us\"\nkind  = \"host-joins\"\nhost = \"host0\"\n",
        )],
        "kind  = ",
        &["events[1].kind", "joined or left before"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[events]]\nat = \"2 us\"\nkind = \"host-leaves\"\nhost = \"host0\"\n[[events]]\nat = \"3 us\"\nkind  = \"host-leaves\"\nhost = \"host0\"\n",
        )],
        "kind  = ",
        &["events[1].kind", "has left before"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[events]]\nat = \"2 us\"\nkind = \"host-leaves\"\nhost = \"host9\"\n",
        )],
        "host = \"host9\"",
        &["events[0].host", "`host9`"],
    ),
    one(
        &[(
            "threads = 1",
            "threads = 1\n[[regions]]\nname = \"own\"\ncapacity = \"1 GiB\"\nsharing = \"moving\"\n[[events]]\nat = \"2 us\"\nkind = \"host-leaves\"\nhost = \"host1\"\n[[events]]\nat = \"90 us\"\nkind = \"release\"\nregion = \"own\"\nhost = \"host0\"\n[[events]]\nat = \"95 us\"\nkind  = \"add\"\nregion = \"own\"\nhost = \"host1\"\n",
        )],
        "kind  = \"add\"",
        &["events[2].kind", "`host1`, which has left"],
    ),
    one(
        &[
            (
                "threads = 1",
                "threads = 1\n[[events]]\nat = \"2 us\"\nkind = \"host-joins\"\nhost = \"host0\"\n",
            ),
            ("[hosts.issue]\noutstanding = 16", "core = {}"),
        ],
        "core =",
        &["hosts[0].core", "`host0`", "joins, leaves"],
    ),
    one(
        &[(
            "count = 2\ncapacity",
            "count = 2\nlogical_devices = 4\ncapacity",
        )],
        "logical_devices",
        &["devices[0].logical_devices", "[[regions]]"],
    ),
    one(
        &[(
            "count = 2\ncapacity",
            "count = 2\nlogical_devices = 17\ncapacity",
        )],
        "logical_devices",
        &["devices[0].logical_devices", "17", "16"],
    ),
    one(
        &[(
            CUSTOM,
            "kind = \"custom\"\nswitches = [\"a\"]\nlinks = [[\"host0\", \"aa\"], [\"host1\", \"a\"], [\"mem0\", \"a\"], [\"mem1\", \"a\"]]",
        )],
        "links",
        &[
            "fabric.topology.links",
            "link 0",
            "`aa`",
            "did you mean `a`?",
        ],
    ),
    one(
        &[(
            CUSTOM,
            "kind = \"custom\"\nswitches = [\"a\"]\nlinks = [[\"host0\", \"a\"], [\"mem0\", \"a\"], [\"mem1\", \"a\"]]",
        )],
        "links",
        &["fabric.topology.links", "`host1` is attached to nothing"],
    ),
    one(
        &[(
            CUSTOM,
            "kind = \"custom\"\nswitches = [\"a\"]\nlinks = [[\"a\", \"a\"], [\"host0\", \"a\"], [\"host1\", \"a\"], [\"mem0\", \"a\"], [\"mem1\", \"a\"]]",
        )],
        "links",
        &["fabric.topology.links", "`a` is linked to itself"],
    ),
    one(
        &[(
            CUSTOM,
            "kind = \"custom\"\nswitches = [\"a\", \"b\"]\nlinks = [[\"host0\", \"a\"], [\"host1\", \"a\"], [\"mem0\", \"a\"], [\"mem1\", \"b\"]]",
        )],
        "topology",
        &["fabric.topology", "`mem1`"],
    ),
    one(
        &[(
            CUSTOM,
            "kind = \"custom\"\nswitches = [\"a\"]\nlinks = [[\"host0\"], [\"host1\", \"a\"], [\"mem0\", \"a\"], [\"mem1\", \"a\"]]",
        )],
        "links",
        &["fabric.topology.links", "[\"host0\"]", "two names"],
    ),
    one(
        &[
            ("kind = \"ring\"", "kind = \"fully-connected\""),
            ("switches = 4", "switches = 2000"),
        ],
        "switches",
        &["fabric.topology.switches", "2000", "1024"],
    ),
    // Windows.
    one(
        &[(
            "requests = 500",
            "warmup_requests = 10\nwarmup_time = \"1 us\"",
        )],
        "warmup_time",
        &[
            "measure.warmup_time",
            "found 1 us",
            "warmup_requests = 10",
            "one of them",
        ],
    ),
    one(
        &[("requests = 500", "warmup = \"auto\"\nwarmup_requests = 10")],
        "warmup = ",
        &[
            "measure.warmup",
            "\"auto\"",
            "warmup_requests too",
            "one of them",
        ],
    ),
    one(
        &[("requests = 500", "warmup = \"soon\"")],
        "warmup = ",
        &["measure.warmup", "\"soon\"", "allowed values: \"auto\""],
    ),
    one(
        &[("requests = 500", "precision = \"60 %\"")],
        "precision",
        &["measure.precision", "found 60 %", "100 ppm to 50 %"],
    ),
    one(
        &[("requests = 500", "precision = 1")],
        "precision",
        &["measure.precision", "the integer 1", "%, ppm"],
    ),
    one(
        &[("requests = 500", "requests = 500\nduration = \"1 us\"")],
        "duration",
        &[
            "measure.duration",
            "found 1 us",
            "requests = 500",
            "one of them",
        ],
    ),
    one(
        &[("requests = 500", "duration = \"0 ns\"")],
        "duration",
        &["measure.duration", "found 0 ns"],
    ),
    one(
        &[("requests = 500", "duration = \"1 ps\"")],
        "duration = \"1 ps\"",
        &[
            "measure.duration",
            "found 1 ps",
            "the latency of the nearest device",
        ],
    ),
    one(
        &[("requests = 500", "duration = \"5000 s\"")],
        "duration",
        &["measure.duration", "found 5000 s", "3600 s"],
    ),
    one(
        &[
            ("requests = 500", "warmup_requests = 500"),
            ("[hosts.issue]", "requests = 100\n[hosts.issue]"),
        ],
        "[measure]",
        &["measure", "ended during the warm-up"],
    ),
    // Sampling.
    one(
        &[("requests = 500", "sampling = { every = 3999 }")],
        "sampling",
        &["measure.sampling.every", "found 3999", "4000 and more"],
    ),
    one(
        &[("requests = 500", "sampling = { detailed = 9 }")],
        "sampling",
        &["measure.sampling.detailed", "9", "10"],
    ),
    one(
        &[("requests = 500", "sampling = { window = 9 }")],
        "sampling",
        &["measure.sampling", "window", "every", "detailed", "warmup"],
    ),
    one(
        &[("requests = 500", "sampling = {}\nduration = \"1 us\"")],
        "duration",
        &[
            "measure.duration",
            "sampling",
            "allowed with sampling: requests",
        ],
    ),
    one(
        &[("requests = 500", "sampling = {}\nwarmup = \"auto\"")],
        "warmup",
        &["measure.warmup", "sampling", "warmup_requests"],
    ),
    one(
        &[
            ("requests = 500", "requests = 500\nsampling = {}"),
            ("[hosts.issue]\noutstanding = 16", "[hosts.core]"),
        ],
        "sampling",
        &["measure.sampling", "hosts[0].core", "allowed with sampling"],
    ),
    one(
        &[("requests = 500", "requests = 500\nsampling = {}")],
        "sampling",
        &[
            "measure.sampling.every",
            "found 100000",
            "no unit was measured",
        ],
    ),
    // Traces that a scenario names.
    one(
        &[(
            "kind = \"uniform\"\nread_ratio = 0.5",
            "kind = \"trace\"\npath = \"missing.cxlt\"",
        )],
        "path = ",
        &["hosts[0].workload.path", "missing.cxlt", "No such file"],
    ),
    one(
        &[("kind = \"uniform\"\nread_ratio = 0.5", "kind = \"trace\"")],
        "[hosts.workload]",
        &["hosts[0].workload.path", "found none", "a trace file"],
    ),
    one(
        &[(
            "kind = \"uniform\"\nread_ratio = 0.5",
            "kind = \"trace\"\npath = \"x\"\nrepeat = 0",
        )],
        "repeat",
        &["hosts[0].workload.repeat", "found 0", "1 and more"],
    ),
    one(
        &[(
            "kind = \"uniform\"\nread_ratio = 0.5",
            "kind = \"trace\"\npath = \"x\"\nshare = \"bolck\"",
        )],
        "share",
        &[
            "hosts[0].workload.share",
            "\"bolck\"",
            "did you mean \"block\"?",
            "\"interleave\"",
        ],
    ),
    // Viral.
    one(
        &[(
            "[[hosts]]\nname = \"host\"",
            "[[events]]\nat = \"1 us\"\nkind = \"viral\"\ncomponent = \"mem7\"\n[[hosts]]\nname = \"host\"",
        )],
        "component = ",
        &["events[0].component", "`mem7`", "a host or a device"],
    ),
    one(
        &[
            (
                "[[hosts]]\nname = \"host\"",
                "[[events]]\nat = \"1 us\"\nkind = \"viral\"\ncomponent = \"mem0\"\n[[hosts]]\nname = \"host\"",
            ),
            (
                "\"mem\"\ncount = 2",
                "\"mem\"\ncount = 2\nmedia_errors = { rate = 1e-6 }",
            ),
        ],
        "media_errors",
        &["devices[0].media_errors", "viral", "none"],
    ),
    one(
        &[(
            "[[hosts]]\nname = \"host\"",
            "[[events]]\nat = \"1 us\"\nkind = \"device-removed\"\ndevice = \"mem1\"\n[[events]]\nat = \"1 us\"\nkind = \"viral\"\ncomponent = \"mem0\"\n[[hosts]]\nname = \"host\"",
        )],
        "events",
        &["events", "components fail", "stay whole"],
    ),
    // G-FAM devices.
    one(
        &[
            ("\"mem\"\ncount = 2", "\"mem\"\ncount = 2\ng_fam = true"),
            ("lanes = 16", "flit = \"256B-latency-optimized\""),
        ],
        "flit = ",
        &[
            "fabric.link.flit",
            "latency-optimised",
            "\"256B\"",
            "section",
        ],
    ),
    one(
        &[("\"mem\"\ncount = 2", "\"mem\"\ncount = 2\ng_famm = true")],
        "g_famm",
        &["`g_famm`", "did you mean `g_fam`?"],
    ),
    // Enumeration.
    one(
        &[(
            "seed = 7",
            "seed = 7\nenumeration = { sofware_time = \"1 ns\" }",
        )],
        "sofware_time",
        &["`sofware_time`", "did you mean `software_time`?"],
    ),
    one(
        &[(
            "seed = 7",
            "seed = 7\nenumeration = { register_time = \"2 ms\" }",
        )],
        "register_time",
        &["enumeration.register_time", "2 ms", "at most"],
    ),
    one(
        &[("seed = 7", "seed = 7\nenumeration = { host_bridges = 17 }")],
        "host_bridges",
        &[
            "enumeration.host_bridges",
            "found 17",
            "1 to 16",
            "8.2.4.20.7",
        ],
    ),
    one(
        &[("seed = 7", "seed = 7\nenumeration = { host_bridges = 0 }")],
        "host_bridges",
        &["enumeration.host_bridges", "found 0", "1 to 16"],
    ),
    one(
        &[("seed = 7", "seed = 7\nenumeration = { host_bridges = 2 }")],
        "host_bridges",
        &[
            "enumeration.host_bridges",
            "found 2",
            "`host0` has 1 root port",
        ],
    ),
    one(
        &[
            ("seed = 7", "seed = 7\nenumeration = {}"),
            ("[address_map]", "[address_map]\narithmetic = \"xor\""),
        ],
        "arithmetic = \"xor\"",
        &[
            "address_map.arithmetic",
            "\"xor\"",
            "\"modulo\"",
            "enumeration.host_bridges",
        ],
    ),
    one(
        &[
            ("seed = 7", "seed = 7\nenumeration = {}"),
            ("routing = \"shortest\"", "routing = \"adaptive\""),
        ],
        "routing = \"adaptive\"",
        &["fabric.routing", "adaptive", "enumeration", "\"shortest\""],
    ),
    one(
        &[
            ("seed = 7", "seed = 7\nenumeration = {}"),
            ("\"mem\"\ncount = 2", "\"mem\"\ncount = 16"),
        ],
        "[address_map]",
        &["address_map", "host0", "8 places", "address_map.ways"],
    ),
    one(
        &[
            ("seed = 7", "seed = 7\nenumeration = {}"),
            ("\"mem\"\ncount = 2", "\"mem\"\ncount = 33"),
            ("\"256 B\"", "\"256 B\"\nways = 3"),
        ],
        "enumeration = {}",
        &["enumeration", "33 downstream ports", "host0", "at most 32"],
    ),
    one(
        &[
            ("seed = 7", "seed = 7\nenumeration = {}"),
            ("\"host\"\ncount = 2", "\"host\"\ncount = 17"),
        ],
        "enumeration = {}",
        &["enumeration", "17 hosts", "mem0", "at most 16"],
    ),
    one(
        &[
            ("seed = 7", "seed = 7\nenumeration = {}"),
            ("\"mem\"\ncount = 2", "\"mem\"\ncount = 12"),
            ("\"256 B\"", "\"256 B\"\nways = 1"),
        ],
        "[address_map]",
        &["region 10", "no HDM decoder left"],
    ),
];

const CUSTOM: &str = "kind = \"ring\"\nswitches = 4";

fn edited(edits: &[(&str, &str)]) -> String {
    edits.iter().fold(BASE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the base has {from:?}");
        text.replacen(from, to, 1)
    })
}

/// The line that begins what is looked for.
fn line_of(text: &str, at: &str) -> usize {
    let place = text
        .find(at)
        .unwrap_or_else(|| panic!("{at:?} is in the scenario"));
    text[..place].matches('\n').count() + 1
}

/// What is wrong with a report, if anything is.
fn complaints(output: &Output, reports: usize, says: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |right: bool, what: String| {
        if !right {
            wrong.push(what);
        }
    };
    expect(
        output.code == Some(2),
        format!("exit {:?} and not 2", output.code),
    );
    expect(
        output.stdout.is_empty(),
        format!("standard output: {}", output.stdout),
    );
    let found = output
        .stderr
        .lines()
        .filter(|line| line.starts_with("error"))
        .count();
    expect(
        found == reports,
        format!("{found} reports and not {reports}"),
    );
    for bad in ["panicked", "internal error", "RUST_BACKTRACE"] {
        expect(!output.stderr.contains(bad), format!("says {bad:?}"));
    }
    for text in says {
        expect(
            output.stderr.contains(text),
            format!("does not say {text:?}"),
        );
    }
    wrong
}

#[derive(Default)]
struct Table {
    cases: usize,
    failures: Vec<String>,
}

impl Table {
    fn case(&mut self, name: &str, output: &Output, reports: usize, says: &[&str]) {
        self.cases += 1;
        let wrong = complaints(output, reports, says);
        if !wrong.is_empty() {
            let shown = output.stderr.chars().take(3000).collect::<String>();
            self.failures.push(format!(
                "## {name}\n{}\n--- it says:\n{shown}",
                wrong.join("\n")
            ));
        }
    }

    fn end(self, at_least: usize) {
        let failed = self.failures.len();
        assert!(
            failed == 0,
            "{failed} of {}\n\n{}",
            self.cases,
            self.failures.join("\n\n")
        );
        assert!(self.cases >= at_least, "{} cases", self.cases);
    }
}

#[test]
fn the_base_of_the_table_has_no_mistake() {
    let folder = Folder::new("bad-base");
    let path = folder.file("base.toml", BASE.as_bytes());
    let output = cxlab(&[&"check", &path]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_broken_scenario_is_one_report_with_file_line_key_value_and_what_is_allowed() {
    let folder = Folder::new("bad-scenarios");
    let mut table = Table::default();
    for (number, Scenario { edits, at, says }) in SCENARIOS.iter().enumerate() {
        let text = edited(edits);
        let line = if at.is_empty() { 1 } else { line_of(&text, at) };
        let file = format!("bad{number}.toml");
        let path = folder.file(&file, text.as_bytes());
        let out = folder.path(&format!("out{number}"));
        let output = cxlab(&[&"run", &path, &"--out", &out]);
        let place = format!("{file}:{line}:");
        let says: Vec<&str> = says.iter().copied().chain([place.as_str()]).collect();
        table.case(&format!("{edits:?}"), &output, 1, &says);
        assert!(!out.exists(), "{edits:?} leaves {}", out.display());
    }
    table.end(90);
}

#[test]
fn all_mistakes_of_a_scenario_are_reported_at_once() {
    let folder = Folder::new("bad-several");
    let mut table = Table::default();
    let schema = edited(&[
        ("lanes = 16", "lanes = 3"),
        ("kind = \"ring\"", "kind = \"rign\""),
        ("read_ratio = 0.5", "read_ratios = 0.5"),
        ("\"16 GiB\"", "16"),
    ]);
    let path = folder.file("schema.toml", schema.as_bytes());
    let says = [
        "fabric.link.lanes",
        "did you mean `ring`?",
        "`read_ratios`",
        "devices[0].capacity",
    ];
    table.case("schema", &cxlab(&[&"check", &path]), 4, &says);
    let values = edited(&[
        ("lanes = 16", "duplex = \"half\""),
        ("\"16 GiB\"", "\"16 MiB\""),
        ("\"256 B\"", "\"100 B\""),
        ("read_ratio = 0.5", "read_ratio = 2.0"),
        ("requests = 500", "duration = \"0 ns\""),
        ("name = \"host\"", "name = \"h h\""),
    ]);
    let path = folder.file("values.toml", values.as_bytes());
    let says = [
        "fabric.link.duplex",
        "devices[0].capacity",
        "address_map.granularity",
        "hosts[0].workload.read_ratio",
        "measure.duration",
        "hosts[0].name",
    ];
    table.case("values", &cxlab(&[&"check", &path]), 6, &says);
    let path = folder.file("empty.toml", b"");
    let says = ["`name`", "`fabric`", "`hosts`", "empty.toml:1:1"];
    table.case("empty", &cxlab(&[&"check", &path]), 3, &says);
    let base = folder.file("base.toml", BASE.as_bytes());
    let output = cxlab(&[
        &"check",
        &base,
        &"--set",
        &"seed",
        &"--set",
        &"hosts[7].count=1",
        &"--set",
        &"sede=1",
    ]);
    table.case(
        "set",
        &output,
        3,
        &["no `=`", "hosts` has no entry 7", "did you mean `seed`?"],
    );
    table.end(4);
}

#[test]
fn a_broken_argument_is_one_report_that_names_it() {
    let folder = Folder::new("bad-arguments");
    let base = folder.file("base.toml", BASE.as_bytes());
    folder.file("spine-leaf.toml", BASE.as_bytes());
    let binary = folder.file("binary.toml", b"name = 1\n\x7fELF\x02\x01\x01\x00\xff\xfe");
    let latin = folder.file("latin.toml", b"# ok\nname = \"caf\xe9\"\n");
    let nul = folder.file("nul.toml", b"name = \"a\0b\"\n");
    let out = folder.path("out");
    let missing = folder.path("spine-laef.toml");
    let trace = folder.path("t.cxlt");
    let mut table = Table::default();
    let mut case = |args: &[&dyn AsRef<std::ffi::OsStr>], says: &[&str]| {
        let name = args
            .iter()
            .map(|arg| arg.as_ref().to_string_lossy())
            .collect::<Vec<_>>();
        table.case(&name.join(" "), &cxlab(args), 1, says);
    };
    // The scenario file.
    case(
        &[&"run", &missing],
        &[
            "spine-laef.toml",
            "cannot be read",
            "did you mean",
            "spine-leaf.toml?",
        ],
    );
    case(
        &[&"run", &folder.path("")],
        &["is a folder", "allowed: a scenario file"],
    );
    case(&[&"check", &binary], &["binary.toml:2", "0xff", "UTF-8"]);
    case(
        &[&"plan", &latin],
        &["latin.toml:2", "0xe9", "offset 16", "UTF-8"],
    );
    case(&[&"check", &nul], &["nul.toml:1", "not valid TOML"]);
    case(&[&"check", &"/dev/zero"], &["/dev/zero", "at most 16 MiB"]);
    case(&[&"run"], &["<SCENARIO>"]);
    // --set.
    case(
        &[&"run", &base, &"--set", &"seed", &"--out", &out],
        &["--set seed", "no `=`", "path=value"],
    );
    case(
        &[&"run", &base, &"--set", &"=1", &"--out", &out],
        &["--set =1", "before `=` is empty"],
    );
    case(
        &[&"run", &base, &"--set", &"hosts[x].count=1"],
        &["--set", "`[x]` is not an index"],
    );
    case(
        &[&"run", &base, &"--set", &"hosts[5].count=1"],
        &["has no entry 5", "1 entry"],
    );
    case(
        &[&"run", &base, &"--set", &"hosts.count=1"],
        &["`hosts` is an array", "hosts[0].count"],
    );
    case(
        &[&"run", &base, &"--set", &"seed.x=1"],
        &["`seed` is a single value", "seed={ x = ... }"],
    );
    case(
        &[&"run", &base, &"--set", &"fabric.lnik.lanes=8"],
        &[
            "--set fabric.lnik.lanes=8",
            "`lnik`",
            "did you mean `link`?",
        ],
    );
    case(
        &[&"run", &base, &"--set", &"fabric.link.lanes=5"],
        &[
            "--set fabric.link.lanes=5",
            "fabric.link.lanes",
            "1, 2, 4, 8, 16",
        ],
    );
    case(
        &[&"run", &base, &"--set", &"devices[0].capacity=1 GB"],
        &[
            "--set devices[0].capacity=1 GB",
            "found 1 GB",
            "multiples of 256 MiB",
        ],
    );
    // Options.
    case(
        &[&"run", &base, &"--seed", &"abc"],
        &["'abc'", "--seed", "0 to 18446744073709551615"],
    );
    case(
        &[&"run", &base, &"--seed=-1"],
        &["'-1'", "--seed", "0 to 18446744073709551615"],
    );
    case(
        &[&"run", &base, &"--threads", &"0"],
        &["'0'", "--threads", "1..=256"],
    );
    case(
        &[&"run", &base, &"--threads", &"257"],
        &["257", "--threads", "1..=256"],
    );
    case(
        &[&"run", &base, &"--thread", &"2"],
        &["'--thread'", "'--threads'"],
    );
    case(&[&"rum", &base], &["'rum'", "'run'"]);
    case(
        &[&"run", &base, &"--trace-file", &trace],
        &["--trace-file", "no host", "\"trace\""],
    );
    case(
        &[&"plan", &base, &"--format", &"sgv"],
        &["'sgv'", "--format", "svg", "json"],
    );
    case(
        &[&"list", &"topologeis"],
        &["`topologeis`", "did you mean `topologies`?", "workloads"],
    );
    case(&[&"list", &"zzz"], &["`zzz`", "topologies, routings"]);
    // Traces.
    case(&[&"trace", &"capture", &"-o", &trace], &["<COMMAND>"]);
    case(
        &[
            &"trace",
            &"capture",
            &"-o",
            &trace,
            &"--",
            &"no-such-program-here",
        ],
        &["COMMAND", "no-such-program-here", "PATH"],
    );
    case(
        &[
            &"trace",
            &"capture",
            &"-o",
            &trace,
            &"--",
            &"/no/such/program",
        ],
        &["COMMAND", "/no/such/program", "a program to run"],
    );
    case(
        &[
            &"trace",
            &"capture",
            &"-o",
            &trace,
            &"--filter",
            &"32",
            &"--",
            &"true",
        ],
        &["--filter", "found `32`", "SIZE/WAYS"],
    );
    case(
        &[
            &"trace",
            &"capture",
            &"-o",
            &trace,
            &"--filter",
            &"1 KiB/0",
            &"--",
            &"true",
        ],
        &["--filter", "found 0 ways", "allowed: 1 to"],
    );
    case(
        &[
            &"trace",
            &"capture",
            &"-o",
            &trace,
            &"--per-instruction",
            &"fast",
            &"--",
            &"true",
        ],
        &["--per-instruction", "`fast`", "units"],
    );
    for sample in ["5", "5:", "0:5", "7:5", "a:b", "-1:5"] {
        let args: [&dyn AsRef<std::ffi::OsStr>; 7] = [
            &"trace",
            &"capture",
            &"-o",
            &trace,
            &"--sample",
            &sample,
            &"--",
        ];
        let mut args = args.to_vec();
        if sample.starts_with('-') {
            // clap takes it for an option otherwise.
            args.splice(4..6, [&"--sample=-1:5" as &dyn AsRef<std::ffi::OsStr>]);
        }
        args.push(&"true");
        case(&args, &["--sample", sample, "RECORDED:EVERY"]);
    }
    case(
        &[
            &"trace",
            &"capture",
            &"-o",
            &trace,
            &"--recorder",
            &"pin",
            &"--",
            &"true",
        ],
        &["--recorder", "pin", "fastest, qemu, valgrind"],
    );
    case(
        &[&"trace", &"import", &base, &"-o", &folder.path("")],
        &["--out", "no regular file"],
    );
    case(
        &[&"trace", &"import", &base, &"-o", &"/dev/null"],
        &["--out", "/dev/null", "no regular"],
    );
    table.end(30);
    assert!(!out.exists() && !trace.exists());
    assert!(cxlab_system::output::is_special(std::path::Path::new(
        "/dev/null"
    )));
}

#[test]
fn capture_without_valgrind_says_how_to_get_it() {
    let folder = Folder::new("bad-valgrind");
    let out = folder.path("t.cxlt");
    let mut command = common::command(&[&"trace", &"capture", &"-o", &out, &"--", &"/bin/true"]);
    let output = common::finish(command.env("PATH", ""));
    let mut table = Table::default();
    table.case(
        "no valgrind",
        &output,
        1,
        &["`valgrind` is not installed", "apt-get install"],
    );
    table.end(1);
    assert!(!out.exists());
}

/// Bytes of a `.cxlt` footer (docs/guide/traces.md): tag, records, blocks, checksums.
const FOOTER: usize = 25;

/// A trace of a few records, as `.cxlt`.
fn good_trace(folder: &Folder) -> Vec<u8> {
    let rows: String = (0..200)
        .map(|row| format!("{:#x} R {row}\n", row * 64))
        .collect();
    let text = folder.file("good.trace", rows.as_bytes());
    let out = folder.path("good.cxlt");
    let output = cxlab(&[&"trace", &"import", &text, &"-o", &out]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    std::fs::read(out).unwrap()
}

#[test]
fn a_broken_trace_is_one_report_with_file_place_field_value_and_what_is_allowed() {
    let folder = Folder::new("bad-traces");
    let good = good_trace(&folder);
    let changed = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        bytes
    };
    let cases: &[(&str, Vec<u8>, &[&str])] = &[
        ("empty.cxlt", Vec::new(), &["empty.cxlt", "truncated"]),
        ("empty.trace", Vec::new(), &["empty.trace", "0", "records"]),
        (
            "magic.cxlt",
            changed(0),
            &["magic.cxlt: at byte 0", "`magic`", "found [", "allowed: ["],
        ),
        (
            "version.cxlt",
            changed(8),
            &["at byte 8", "`version`", "found 84", "allowed: 1"],
        ),
        (
            "header.cxlt",
            changed(20),
            &["`checksum`", "does not match"],
        ),
        (
            "short.cxlt",
            good[..good.len() - 3].to_vec(),
            &["short.cxlt: block", "truncated"],
        ),
        (
            "half.cxlt",
            good[..good.len() / 2].to_vec(),
            &["half.cxlt", "truncated"],
        ),
        (
            "size.cxlt",
            changed(good.len() - 60),
            &["block 0", "`time bytes`", "allowed: 200 to 2000"],
        ),
        (
            "flipped.cxlt",
            changed(good.len() - FOOTER - 2),
            &["flipped.cxlt: block 0", "`checksum`"],
        ),
        (
            "longer.cxlt",
            [good.as_slice(), b"x"].concat(),
            &["`footer`", "goes on"],
        ),
        (
            "op.trace",
            b"0x40 R 0\n0x80 X 1\n".to_vec(),
            &["op.trace:2", "found `X`", "allowed: R, W"],
        ),
        (
            "hex.trace",
            b"0x40 R 0\n\n0xzz R 1\n".to_vec(),
            &["hex.trace:3", "`0xzz`", "hexadecimal"],
        ),
        (
            "time.trace",
            b"0x40 R soon\n".to_vec(),
            &["time.trace:1", "`soon`", "nanoseconds"],
        ),
        (
            "more.trace",
            b"0x40 R 1 2\n".to_vec(),
            &["more.trace:1", "found `2`", "three fields"],
        ),
        (
            "big.trace",
            b"0x11111111111111111 R 1\n".to_vec(),
            &["big.trace:1", "0x11111111111111111", "below 2^64"],
        ),
        (
            "column.csv",
            b"adress,op\n1,R\n".to_vec(),
            &["column.csv:1", "adress", "address"],
        ),
        (
            "op.csv",
            b"address,op\n0x40,Q\n".to_vec(),
            &["op.csv:2", "`Q`", "R"],
        ),
        ("few.csv", b"address,op\n0x40\n".to_vec(), &["few.csv:2"]),
        (
            "garbage.lackey",
            b"hello, world\n".to_vec(),
            &["garbage.lackey:1", "hello"],
        ),
        (
            "size.lackey",
            b" L 1000,8\n L 1000,x\n".to_vec(),
            &["size.lackey:2", "`x`"],
        ),
        (
            "odd.champsimtrace",
            vec![0; 65],
            &["odd.champsimtrace", "64"],
        ),
        (
            "noise.bin",
            vec![1, 2, 3, 4],
            &["noise.bin", "`format`", "champsim"],
        ),
        (
            "packed.xz",
            b"\xfd7zXZ\0....".to_vec(),
            &["packed.xz", "xz", "gzip"],
        ),
        (
            "cut.trace.gz",
            b"\x1f\x8b\x08\x00\x00".to_vec(),
            &["cut.trace.gz"],
        ),
    ];
    let mut table = Table::default();
    for (name, bytes, says) in cases {
        let path = folder.file(name, bytes);
        let out = folder.path("out.cxlt");
        let output = cxlab(&[&"trace", &"import", &path, &"-o", &out]);
        table.case(&format!("import {name}"), &output, 1, says);
        assert!(!out.exists(), "{name} leaves a file");
        // The same file as the workload of a scenario.
        let edit = format!("kind = \"trace\"\npath = \"{name}\"");
        let scenario = BASE.replace("kind = \"uniform\"\nread_ratio = 0.5", &edit);
        let scenario = folder.file("scenario.toml", scenario.as_bytes());
        let line = format!(
            "scenario.toml:{}:",
            line_of(&std::fs::read_to_string(&scenario).unwrap(), "path = ")
        );
        let says: Vec<&str> = says
            .iter()
            .copied()
            .chain(["hosts[0].workload.path", &line])
            .collect();
        table.case(
            &format!("replay {name}"),
            &cxlab(&[&"run", &scenario]),
            1,
            &says,
        );
    }
    let good = folder.path("good.cxlt");
    let missing = folder.path("missing.cxlt");
    let base = BASE.replace("kind = \"uniform\"\nread_ratio = 0.5", "kind = \"trace\"");
    let base = folder.file("base.toml", base.as_bytes());
    let out = folder.path("out.cxlt");
    table.case(
        "missing",
        &cxlab(&[&"trace", &"info", &missing]),
        1,
        &["missing.cxlt", "No such file"],
    );
    table.case(
        "folder",
        &cxlab(&[&"trace", &"head", &folder.path("")]),
        1,
        &["is a folder"],
    );
    table.case(
        "format",
        &cxlab(&[
            &"trace",
            &"import",
            &good,
            &"-o",
            &out,
            &"--format",
            &"lackei",
        ]),
        1,
        &["--format", "`lackei`", "champsim", "did you mean `lackey`?"],
    );
    table.case(
        "wrong format",
        &cxlab(&[
            &"trace",
            &"import",
            &good,
            &"-o",
            &out,
            &"--format",
            &"text",
        ]),
        1,
        &["good.cxlt:1", "`address`"],
    );
    table.case(
        "given on the command line",
        &cxlab(&[&"run", &base, &"--trace-file", &missing]),
        1,
        &["--trace-file", "missing.cxlt", "No such file"],
    );
    let exact = std::fs::read_to_string(&base).unwrap();
    let exact = exact.replace(
        "kind = \"trace\"",
        "kind = \"trace\"\naddresses = \"exact\"",
    );
    let exact = folder.file("exact.toml", exact.as_bytes());
    let far = folder.file("far.trace", b"0xffffffffffffffc0 R 0\n");
    table.case(
        "beyond memory",
        &cxlab(&[&"run", &exact, &"--trace-file", &far]),
        1,
        &["far.trace", "`address`", "0xffffffffffffffc0", "32 GiB"],
    );
    table.end(50);
    assert!(!out.exists());
}

#[test]
fn check_json_names_every_mistake_for_programs() {
    let folder = Folder::new("bad-json");
    let text = edited(&[("lanes = 16", "lanes = 3"), ("seed = 7", "sede = 7")]);
    let path = folder.file("bad.toml", text.as_bytes());
    let output = cxlab(&[&"check", &"--json", &path]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(2), ""));
    let found: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0]["path"], "sede");
    assert_eq!(found[0]["line"], 2);
    assert_eq!(found[1]["path"], "fabric.link.lanes");
    assert_eq!(found[1]["value"], 3);
}

/// In linear time, and no more than anybody reads.
#[test]
fn of_a_hundred_thousand_mistakes_a_hundred_are_told() {
    let folder = Folder::new("many-mistakes");
    let unknown: String = (0..100_000).map(|key| format!("k{key} = 1\n")).collect();
    let path = folder.file("many.toml", (unknown + BASE).as_bytes());
    let Output { code, stderr, .. } = cxlab(&[&"check", &path]);
    assert_eq!(code, Some(2));
    assert_eq!(
        stderr.matches("error: unknown key").count(),
        100,
        "{stderr:.2000}"
    );
    assert!(
        stderr.contains("99900 more are not shown"),
        "{stderr:.2000}"
    );
    let output = cxlab(&[&"check", &"--json", &path]);
    let told: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(told.as_array().unwrap().len(), 101);
}

/// Neither in messages nor in tables.
#[test]
fn a_terminal_obeys_nothing_of_a_scenario() {
    let folder = Folder::new("escapes");
    let evil = "\\u001b[2J\\u0007\\u009b31m";
    let named = BASE
        .replace("name = \"bad-input\"", &format!("name = \"{evil}\""))
        .replace("name = \"host\"", &format!("name = \"h{evil}\""));
    let wrong = BASE.replace("kind = \"ring\"", &format!("kind = \"{evil}\""));
    for (number, text) in [named, wrong].iter().enumerate() {
        let path = folder.file(&format!("{number}.toml"), text.as_bytes());
        let out = folder.path("out");
        for arguments in [
            vec![&"check" as &dyn AsRef<std::ffi::OsStr>, &path],
            vec![&"plan", &path],
            vec![&"run", &path, &"--out", &out],
        ] {
            let output = cxlab(&arguments);
            let obeyed = |text: &str| text.contains(['\u{1b}', '\u{7}', '\u{9b}']);
            assert!(
                !obeyed(&output.stdout) && !obeyed(&output.stderr),
                "{}{}",
                output.stdout,
                output.stderr
            );
        }
    }
}
