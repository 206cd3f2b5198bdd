//! Fabrics in parts that no path joins: allowed where regions keep to one part each, refused otherwise.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, check_cases};
use cxlab_engine::Monitor;
use cxlab_plan::load::{self, Loaded, Mistakes};
use cxlab_plan::{Externals, Files};
use cxlab_system::report::{HostReport, Report};
use cxlab_system::run::{RunOptions, run};

/// Two islands of a host, two switches and a device each.
const ISLANDS: &str = r#"name = "islands"
[measure]
requests = 4000
warmup_requests = 0
[fabric.topology]
kind = "custom"
switches = ["a", "b", "c", "d"]
links = [["h0", "a"], ["a", "b"], ["b", "d0"], ["h1", "c"], ["c", "d"], ["d", "d1"]]
[[hosts]]
name = "h"
count = 2
requests = 2000
workload = { kind = "uniform" }
issue = { outstanding = 8 }
[[devices]]
name = "d"
count = 2
capacity = "4 GiB"
[[regions]]
name = "left"
capacity = "1 GiB"
hosts = ["h0"]
devices = ["d0"]
[[regions]]
name = "right"
capacity = "1 GiB"
hosts = ["h1"]
devices = ["d1"]
"#;

fn resolved(text: &str) -> Result<Loaded, Mistakes> {
    let document = load::read("s.toml", text, &[])?;
    load::resolve(document, Files::default(), &Externals::new())
}

fn report(text: &str, threads: usize) -> Report {
    let plan = resolved(text).unwrap().plan;
    let options = RunOptions {
        seed: 1,
        threads: threads.into(),
        monitor: &Monitor::default(),
        rows: None,
    };
    run(&plan, options).unwrap()
}

#[test]
fn an_island_is_as_it_would_be_alone() {
    let both = report(ISLANDS, 1);
    assert_eq!(both.requests.completed, 4000);
    assert_eq!(report(ISLANDS, 2).provenance.digest, both.provenance.digest);
    // The left island by itself, under the same names.
    let alone = ISLANDS
        .replace(
            "switches = [\"a\", \"b\", \"c\", \"d\"]",
            "switches = [\"a\", \"b\"]",
        )
        .replace(", [\"h1\", \"c\"], [\"c\", \"d\"], [\"d\", \"d1\"]", "")
        .replace("name = \"h\"\ncount = 2", "name = \"h0\"")
        .replace("name = \"d\"\ncount = 2", "name = \"d0\"");
    let alone = report(&alone[..alone.rfind("[[regions]]").unwrap()], 1);
    let of = |host: &HostReport| (host.reads, host.writes, host.latency_ns.clone());
    assert_eq!(of(&both.hosts[0]), of(&alone.hosts[0]));
}

const CASES: &[Case] = &[
    (
        "devices = [\"d0\"]",
        "devices = [\"d0\", \"d1\"]",
        "hosts = [\"h0\"]",
        &[
            "regions[0]",
            "host `h0`, which does not reach device `d1` of the region",
        ],
    ),
    (
        "hosts = [\"h1\"]\n",
        "",
        "[[regions]]\nname = \"right\"",
        &["regions[1]", "`h0`", "`d1`"],
    ),
];

#[test]
fn a_region_across_the_gap_is_refused() {
    check_cases("islands", ISLANDS, CASES);
}

#[test]
fn without_regions_every_host_reaches_every_device() {
    let text = &ISLANDS[..ISLANDS.find("[[regions]]").unwrap()];
    let mistakes = resolved(text).err().unwrap();
    let said = mistakes.render(false);
    for part in [
        "`fabric.topology`: no path leads from requester `h0` to device `d1`",
        "or [[regions]] that no gap crosses",
    ] {
        assert!(said.contains(part), "{said}");
    }
}
