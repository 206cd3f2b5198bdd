//! A swarm of small random systems whose hosts enumerate first. Enumeration must
//! program the decoders as the plan says if registers can express that, and refuse
//! the system otherwise. Workloads must measure the same with and without
//! enumeration. Few credits for CXL.io stall accesses.
#![allow(clippy::unwrap_used)]

use cxlab_plan::{Files, Plan, Problem};
use cxlab_scenario::Scenario;
use cxlab_scenario::diagnostics::Document;
use cxlab_tests::checkpoint::timeless;
use cxlab_tests::swarm::{Draw, LinkRules, Swarm, assert_every_topology, link, shape};
use cxlab_tests::{measured_by_workloads, try_run};

/// Start of the line that makes hosts enumerate.
const ENUMERATION: &str = "enumeration = ";

fn scenario(seed: u64) -> String {
    let mut draw = Draw::new(seed, "enumeration");
    let (hosts, devices) = (draw.between(1, 3), draw.between(1, 6));
    let shape = shape(&mut draw, hosts, devices);
    draw.line(format!("name = \"enumeration-{seed}\"\nseed = {seed}"));
    let [software, register] = [(); 2].map(|()| draw.pick(&["0 ns", "1 ps", "100 ns"]).to_owned());
    draw.line(format!(
        "{ENUMERATION}{{ software_time = \"{software}\", register_time = \"{register}\" }}"
    ));
    let (granularity, ways) = (draw.pick(&["256 B", "4 KiB"]).to_owned(), draw.below(4));
    match ways {
        0 => draw.line(format!(
            "address_map = {{ granularity = \"{granularity}\" }}"
        )),
        1 => draw.line("address_map = { ways = 2 }"),
        _ => draw.line("address_map = { ways = 1 }"),
    }
    shape.write(&mut draw);
    let rules = LinkRules {
        half: shape.acyclic,
        errors: false,
        snoops: false,
        pbr: shape.has_pbr_links(),
    };
    link(&mut draw, "fabric.link", rules);
    for host in 0..shape.hosts {
        let (requests, ratio) = (draw.between(1, 40), draw.pick(&["1.0", "0.5"]).to_owned());
        draw.line(format!(
            "\n[[hosts]]\nname = \"h{host}\"\nrequests = {requests}\n\
             workload = {{ kind = \"uniform\", read_ratio = {ratio} }}"
        ));
    }
    for device in 0..shape.devices {
        let capacity = draw.pick(&["256 MiB", "1 GiB"]).to_owned();
        draw.line(format!(
            "\n[[devices]]\nname = \"d{device}\"\ncapacity = \"{capacity}\""
        ));
    }
    // Register reads stay behind writes only on a single path. Few credits stall them.
    let mut text = draw.text.clone();
    for routing in ["oblivious", "random", "adaptive"] {
        text = text.replace(
            &format!("routing = \"{routing}\""),
            "routing = \"shortest\"",
        );
    }
    // Links without a switch may have host bridges of their own.
    let host_bridges = draw.between(1, 3);
    if text.contains("kind = \"direct\"") {
        let some = format!("{ENUMERATION}{{ host_bridges = {host_bridges}, ");
        text = text.replace(&format!("{ENUMERATION}{{ "), &some);
    }
    let few = "credits = { io_posted = 1, io_non_posted = 1, io_completion = 2, ";
    text.replace("credits = { ", few)
}

fn planned(text: &str) -> Result<Plan, Vec<Problem>> {
    let document = Document::parse("swarm.toml", text).ok().unwrap();
    let scenario: Scenario = serde_json::from_value(document.value().clone()).unwrap();
    Plan::new(scenario, Files::default())
}

/// Whether the system could be planned. Panics if a law is broken.
fn check(text: &str) -> bool {
    let plan = match planned(text) {
        Ok(plan) => plan,
        Err(problems) => {
            let paths = problems.iter().map(|problem| problem.path.as_str());
            let ours = paths.clone().all(|path| path == "address_map");
            let ways = paths.clone().all(|path| path == "address_map.ways");
            let bridges = paths.clone().all(|path| path == "enumeration.host_bridges");
            assert!(ours || ways || bridges, "{problems:?}");
            return false;
        }
    };
    let run = |plan: &Plan, threads| match try_run(plan, threads) {
        Ok(report) => report,
        Err(error) => panic!("{error}"),
    };
    let [one, two] = [1, 2].map(|threads| run(&plan, threads));
    assert_eq!(
        (&one.provenance.digest, one.extent.events),
        (&two.provenance.digest, two.extent.events)
    );
    if one.extent.events % 4 == 0 {
        cxlab_tests::checkpoint::check(&plan, &timeless(one.clone()), one.extent.events);
    }
    for (host, other) in one.hosts.iter().zip(&two.hosts) {
        let found = host.enumeration.as_ref().unwrap();
        assert!(found.devices > 0 && found.duration_ns > 0.0);
        assert_eq!(host.enumeration, other.enumeration);
    }
    let lines = text.lines().filter(|line| !line.starts_with(ENUMERATION));
    let text: Vec<&str> = lines.collect();
    let without = run(&planned(&text.join("\n")).ok().unwrap(), 1);
    assert!(without.hosts[0].enumeration.is_none());
    let [with, without] = [one, without].map(measured_by_workloads);
    // Enumeration leaves a half-duplex bus in one direction, so it may have to turn around.
    let turned = text.iter().any(|line| line.contains("\"half\""));
    assert!(turned || with == without, "{with:?}\n{without:?}");
    true
}

fn swarm(test: &str, seeds: std::ops::Range<u64>) {
    let swarm = Swarm {
        module: "enumeration",
        scenario,
    };
    let (mut all, mut run, mut texts) = (0, 0, String::new());
    let whole = swarm.run(test, seeds, |_, text| {
        all += 1;
        run += usize::from(check(text));
        texts.push_str(text);
    });
    if whole {
        assert!(2 * run > all, "{run} of {all} systems could be planned");
        assert_every_topology(&texts);
    }
}

#[test]
fn hosts_of_random_systems_program_what_the_plan_says() {
    swarm("hosts_of_random_systems_program_what_the_plan_says", 0..100);
}

#[test]
#[ignore = "slow: make test-all"]
fn hosts_of_many_random_systems_program_what_the_plan_says() {
    swarm(
        "hosts_of_many_random_systems_program_what_the_plan_says",
        100..2000,
    );
}
