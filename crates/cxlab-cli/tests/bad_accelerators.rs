//! Broken scenarios with processors and accelerators: each is one report with file, line, key, value and
//! what is allowed, and exit code 2.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, Folder, check_cases, cxlab};

/// A scenario without a mistake, one value a line.
const BASE: &str = r#"name = "accelerators"
[fabric]
topology = { kind = "direct" }
[[hosts]]
name = "host"
[hosts.workload]
kind = "circus-tent"
memory = "1 MiB"
[hosts.processor]
cores = 2
misses = 8
[[hosts.nodes]]
capacity = "1 GiB"
[[accelerators]]
name = "nic"
host = "host"
[accelerators.device]
cycle = "2.5 ns"
elements = 2
[accelerators.device.cache]
size = "128 KiB"
"#;

const CASES: &[Case] = &[
    (
        "host = \"host\"",
        "host = \"host\"\nmemory = { capacity = \"256 MiB\", class = \"hdm-h\" }",
        "memory = {",
        &["accelerators[0].memory.class", "hdm-h", "hdm-d", "hdm-db"],
    ),
    (
        "size = \"128 KiB\"",
        "size = \"128 KiB\"\n[accelerators.memory]\ncapacity = \"256 MiB\"\nclass = \"hdm-db\"\n[fabric.link]\ngeneration = \"5\"",
        "class",
        &["accelerators[0].memory.class", "68 B flits", "256 B flits"],
    ),
    (
        "host = \"host\"",
        "host = \"hots\"",
        "host = \"hots\"",
        &["accelerators[0].host", "hots", "did you mean `host`?"],
    ),
    (
        "cores = 2",
        "cores = 65",
        "cores = 65",
        &["hosts[0].processor.cores", "65", "64"],
    ),
    (
        "cores = 2",
        "cores = 0",
        "cores = 0",
        &["hosts[0].processor.cores", "0"],
    ),
    (
        "misses = 8",
        "misses = 8\ncycle = \"0 ps\"",
        "cycle = \"0 ps\"",
        &["hosts[0].processor.cycle", "1 ps"],
    ),
    (
        "misses = 8",
        "misses = 8\nllc = { size = \"1 MiB\", ways = 16 }",
        "llc = ",
        &[
            "hosts[0].processor.llc.size",
            "at least 4 MiB",
            "non-inclusive",
        ],
    ),
    (
        "misses = 8",
        "misses = 8\nllc = { inclusion = \"exclusive\" }",
        "llc = ",
        &[
            "hosts[0].processor.llc.inclusion",
            "exclusive",
            "non-inclusive",
        ],
    ),
    (
        "misses = 8",
        "misses = 8\nllc = { misses = 0 }",
        "llc = ",
        &["hosts[0].processor.llc.misses", "0", "1 to 4096"],
    ),
    (
        "misses = 8",
        "misses = 8\nllc = { misses = 4097 }",
        "llc = ",
        &["hosts[0].processor.llc.misses", "4097", "4096"],
    ),
    (
        "misses = 8",
        "misses = 8\nllc = { write_buffer = 1 }",
        "llc = ",
        &["hosts[0].processor.llc.write_buffer", "1", "2 to 65536"],
    ),
    (
        "cycle = \"2.5 ns\"",
        "cycle = \"2.5 ns\"\ndmc = { write_buffer = 0 }",
        "dmc",
        &["accelerators[0].device.dmc.write_buffer", "0", "1 to 65536"],
    ),
    (
        "misses = 8",
        "misses = 8\nio_writes = 4096",
        "io_writes",
        &["hosts[0].processor.io_writes", "4096", "1 to 2048"],
    ),
    (
        "misses = 8",
        "misses = 8\nllc = { directory = { entries = 24 } }",
        "llc = ",
        &["hosts[0].processor.llc.directory", "beside its tags"],
    ),
    (
        "misses = 8",
        "misses = 8\nllc = { inclusion = \"non-inclusive\", directory = { entries = 25 } }",
        "llc = ",
        &[
            "hosts[0].processor.llc.directory.entries",
            "25",
            "multiples of 12",
        ],
    ),
    (
        "misses = 8",
        "misses = 8\nllc = { inclusion = \"non-inclusive\", directory = { ways = 0 } }",
        "llc = ",
        &["hosts[0].processor.llc.directory.ways", "1 to 65536"],
    ),
    (
        "misses = 8",
        "misses = 8\nl2 = { size = \"16 KiB\", ways = 16, access_time = \"1 ns\" }",
        "l2 = ",
        &["hosts[0].processor.l2.size", "at least 48 KiB"],
    ),
    (
        "misses = 8",
        "misses = 8\npayload = \"100 B\"",
        "payload",
        &["hosts[0].processor.payload", "powers of two"],
    ),
    (
        "misses = 8",
        "misses = 8\nsokcet_time = \"1 ns\"",
        "sokcet",
        &["did you mean `socket_time`?"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1000 B\"",
        "capacity",
        &["hosts[0].nodes[0].capacity", "multiples of 4 KiB"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"64 KiB\"",
        "memory = \"1 MiB\"",
        &["hosts[0].workload.memory", "64 KiB"],
    ),
    (
        "[[hosts.nodes]]\ncapacity = \"1 GiB\"\n",
        "",
        "[[hosts]]",
        &["hosts[0].nodes", "at least one"],
    ),
    (
        "[hosts.processor]",
        "[hosts.issue]\noutstanding = 4\n[hosts.processor]",
        "[hosts.issue]",
        &["hosts[0].issue", "one of them"],
    ),
    (
        "misses = 8",
        "misses = 8\nreorder = 0",
        "reorder = 0",
        &["hosts[0].processor.reorder", "1 to 65536"],
    ),
    (
        "name = \"host\"",
        "name = \"host\"\nrequests = 10",
        "requests = 10",
        &["hosts[0].requests", "end by themselves"],
    ),
    (
        "name = \"host\"",
        "name = \"host\"\nspan = \"local\"",
        "span = \"local\"",
        &["hosts[0].span", "circus-tent", "patterns and traces"],
    ),
    (
        "name = \"host\"",
        "name = \"host\"\nspan = \"locl\"",
        "span = \"locl\"",
        &["hosts[0].span", "local"],
    ),
    (
        "name = \"host\"",
        "name = \"host\"\nbeside = { workload = { kind = \"uniform\" }, cores = 2 }",
        "beside = ",
        &["hosts[0].beside.cores", "found 2", "1 to 1"],
    ),
    (
        "name = \"host\"",
        "name = \"host\"\nbeside = { workload = { kind = \"circus-tent\" } }",
        "beside = ",
        &["hosts[0].beside.workload.kind", "made of threads"],
    ),
    (
        "name = \"host\"",
        "name = \"host\"\nbeside = { workload = { kind = \"uniform\", footprint = \"1 TiB\" }, span = \"local\" }",
        "beside = ",
        &["hosts[0].beside.workload.footprint", "1 GiB"],
    ),
    (
        "name = \"host\"",
        "name = \"host\"\nbeside = { workload = { kind = \"uniform\" }, span = \"cxl\" }",
        "beside = ",
        &["hosts[0].beside.span", "reaches no CXL memory"],
    ),
    (
        "name = \"host\"",
        "name = \"host\"\nbeside = { workload = { kind = \"trace\", path = \"none.cxlt\" } }",
        "beside = ",
        &["hosts[0].beside.workload", "none.cxlt"],
    ),
    (
        "[hosts.workload]\nkind = \"circus-tent\"\nmemory = \"1 MiB\"",
        "workload = { kind = \"uniform\" }\nbeside = { workload = { kind = \"uniform\" } }",
        "beside = ",
        &["hosts[0].beside", "runs on every core"],
    ),
    (
        "[hosts.workload]\nkind = \"circus-tent\"\nmemory = \"1 MiB\"",
        "workload = { kind = \"stream-kernels\" }\nspan = \"local\"",
        "span = ",
        &["hosts[0].span", "says itself where its data lie"],
    ),
    (
        "[hosts.processor]\ncores = 2\nmisses = 8\n[[hosts.nodes]]\ncapacity = \"1 GiB\"\n",
        "",
        "kind = \"circus-tent\"",
        &["hosts[0].workload.kind", "processor = {}"],
    ),
    (
        "[hosts.workload]\nkind = \"circus-tent\"\nmemory = \"1 MiB\"",
        "workload = { kind = \"gapbs\", algorithm = \"dfs\" }",
        "workload = ",
        &["hosts[0].workload.algorithm", "dfs", "bfs"],
    ),
    (
        "[hosts.workload]\nkind = \"circus-tent\"\nmemory = \"1 MiB\"",
        "workload = { kind = \"gapbs\", graph = \"local\", scale = 0 }",
        "workload = ",
        &["hosts[0].workload.scale", "found 0", "1 to 24"],
    ),
    (
        "[hosts.workload]\nkind = \"circus-tent\"\nmemory = \"1 MiB\"",
        "workload = { kind = \"gapbs\", graph = \"local\", scale = 24 }",
        "workload = ",
        &["hosts[0].workload.scale", "1 GiB"],
    ),
    (
        "[hosts.workload]\nkind = \"circus-tent\"\nmemory = \"1 MiB\"",
        "workload = { kind = \"gapbs\" }",
        "workload = ",
        &["hosts[0].workload.scale", "within the 0 B"],
    ),
    (
        "[hosts.workload]\nkind = \"circus-tent\"\nmemory = \"1 MiB\"",
        "workload = { kind = \"gapbs\", graph = \"local\", loading = \"reader\" }",
        "workload = ",
        &["hosts[0].workload.data", "allowed: the other"],
    ),
    (
        "[hosts.workload]\nkind = \"circus-tent\"\nmemory = \"1 MiB\"",
        "workload = { kind = \"nas\", shrink = 12 }",
        "workload = ",
        &["hosts[0].workload.shrink", "found 12", "powers of two"],
    ),
    (
        "[hosts.workload]\nkind = \"circus-tent\"\nmemory = \"1 MiB\"",
        "workload = { kind = \"nas\", benchmark = \"lu\" }",
        "workload = ",
        &["hosts[0].workload.benchmark", "lu", "cg"],
    ),
    (
        "[hosts.workload]\nkind = \"circus-tent\"\nmemory = \"1 MiB\"",
        "workload = { kind = \"nas\", benchmark = \"ft\", shrink = 4 }",
        "workload = ",
        &["hosts[0].workload.shrink", "1 GiB"],
    ),
    (
        "cycle = \"2.5 ns\"",
        "cycle = \"2 us\"",
        "cycle = \"2 us\"",
        &["accelerators[0].device.cycle", "1 us"],
    ),
    (
        "elements = 2",
        "elements = 0",
        "elements = 0",
        &["accelerators[0].device.elements"],
    ),
    (
        "size = \"128 KiB\"",
        "size = \"100 B\"",
        "size = \"100 B\"",
        &["accelerators[0].device.cache.size", "multiples of 256 B"],
    ),
    (
        "size = \"128 KiB\"",
        "prefetch = { kind = \"strid\" }",
        "prefetch",
        &[
            "accelerators[0].device.cache.prefetch",
            "did you mean `stride`?",
        ],
    ),
    (
        "elements = 2",
        "elements = 2\ndma = { tags = 0 }",
        "dma = ",
        &["accelerators[0].device.dma.tags"],
    ),
    (
        "elements = 2",
        "elements = 2\ndma = { read_request = \"96 B\" }",
        "dma = ",
        &["accelerators[0].device.dma.read_request", "powers of two"],
    ),
    (
        "host = \"host\"",
        "memory = { capacity = \"1 MiB\" }",
        "memory = { cap",
        &["accelerators[0].memory.capacity", "256 MiB"],
    ),
    (
        "name = \"nic\"",
        "name = \"host\"",
        "name = \"host\"\nhost",
        &["accelerators[0].name", "already"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\nplacment = { kind = \"local\" }",
        "placment",
        &["hosts[0].os", "placment", "did you mean `placement`?"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\nplacement = { kind = \"prefered\" }",
        "placement",
        &["hosts[0].os.placement", "prefered", "preferred"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\nplacement = { kind = \"bind\", nodes = [3] }",
        "placement",
        &["hosts[0].os.placement.nodes", "node 3 is none of 0"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\nmappings = [{ kind = \"bind\", nodes = [] }]",
        "mappings",
        &["hosts[0].os.mappings[0].nodes", "at least one node"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\nmigration = { kind = \"tpp\", scan_period = \"0 ns\" }",
        "migration",
        &["hosts[0].os.migration.scan_period", "0"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\nheap = \"17 TiB\"",
        "heap",
        &["hosts[0].os.heap", "17 TiB", "up to 16 TiB"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\nwalkers = 65",
        "walkers",
        &["hosts[0].os.walkers", "65", "64"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\ntlb = { entries = 100, ways = 16 }",
        "tlb",
        &["hosts[0].os.tlb.entries"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1028 KiB\"\n[hosts.os]",
        "capacity",
        &["hosts[0].nodes[0].capacity", "multiples of 2 MiB"],
    ),
    (
        "elements = 2",
        "elements = 2\nbias_page = \"8 KiB\"",
        "bias_page",
        &["accelerators[0].device.bias_page", "64 B to 4 KiB"],
    ),
    (
        "elements = 2",
        "elements = 2\natc = { requests = 0 }",
        "atc",
        &["accelerators[0].device.atc.requests", "0"],
    ),
    (
        "elements = 2",
        "elements = 2\natc = { cache = { entries = 63, ways = 2 } }",
        "atc",
        &["accelerators[0].device.atc.cache.entries"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\niommu = { iotlb = { entries = 8, ways = 8, replacement = \"last\" } }",
        "iommu",
        &["hosts[0].os.iommu.iotlb.replacement", "last"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\nprocesses = [{ cores = [] }]",
        "processes",
        &["hosts[0].os.processes[0].cores"],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\nprocesses = [{ cores = [2] }]",
        "processes",
        &[
            "hosts[0].os.processes[0].cores[0]",
            "found 2",
            "less than 2",
        ],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.os]\nprocesses = [{ cores = [1] }]",
        "processes",
        &[
            "hosts[0].os.processes[0].cores[0]",
            "found 1",
            "runs threads",
        ],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.beside]\nworkload = { kind = \"uniform\" }\n[hosts.os]\nprocesses = [{ cores = [1], heap = \"5 KiB\" }]",
        "processes",
        &[
            "hosts[0].os.processes[0].heap",
            "5 KiB",
            "multiples of 4 KiB",
        ],
    ),
    (
        "capacity = \"1 GiB\"",
        "capacity = \"1 GiB\"\n[hosts.beside]\nworkload = { kind = \"uniform\" }\n[hosts.os]\nprocesses = [{ cores = [1], placement = { kind = \"bind\", nodes = [4] } }]",
        "processes",
        &["hosts[0].os.processes[0].placement.nodes", "node 4"],
    ),
    (
        "misses = 8",
        "preset = \"gem5-arn\"",
        "preset",
        &[
            "hosts[0].processor.preset",
            "gem5-arn",
            "did you mean",
            "gem5-arm",
            "gem5-riscv",
            "gem5-x86",
        ],
    ),
    (
        "misses = 8",
        "preset = \"gem5-arm\"\nllc = { size = \"512 KiB\" }",
        "llc",
        &["hosts[0].processor.llc.size", "at least 1 MiB", "2 cores"],
    ),
];

#[test]
fn the_base_has_no_mistake() {
    let folder = Folder::new("bad-accelerators-base");
    let path = folder.file("base.toml", BASE.as_bytes());
    let output = cxlab(&[&"check", &path]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_broken_system_is_one_report_with_file_line_key_value_and_what_is_allowed() {
    check_cases("bad-accelerators", BASE, CASES);
}
