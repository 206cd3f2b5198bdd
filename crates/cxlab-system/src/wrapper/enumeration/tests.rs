#![allow(clippy::unwrap_used)]

use cxlab_engine::{Monitor, Stop};
use cxlab_plan::{Files, Plan};
use cxlab_protocol::io::enumerate::enumerate;
use cxlab_scenario::Scenario;
use cxlab_scenario::diagnostics::Document;

use crate::system::{RecordOptions, System};

fn planned(text: &str) -> Result<Plan, Vec<cxlab_plan::Problem>> {
    let document = Document::parse("test.toml", text).ok().unwrap();
    let scenario = Scenario::from_value(document.value().clone()).unwrap();
    Plan::new(scenario, Files::default())
}

fn plan(ways: u32) -> Plan {
    let text = format!(
        r#"
name = "test"
enumeration = {{}}
address_map = {{ ways = {ways} }}
[fabric]
topology = {{ kind = "chain", switches = 1 }}
[[hosts]]
name = "host"
workload = {{ kind = "uniform" }}
[[devices]]
name = "mem"
count = 2
capacity = "1 GiB"
"#
    );
    planned(&text).ok().unwrap()
}

/// A host with a link to each of `devices` devices, and `host_bridges` host bridges.
fn direct(devices: u32, host_bridges: u32, map: &str) -> Result<Plan, Vec<cxlab_plan::Problem>> {
    planned(&format!(
        r#"
name = "test"
enumeration = {{ host_bridges = {host_bridges} }}
address_map = {{ {map} }}
[fabric]
topology = {{ kind = "direct" }}
[[hosts]]
name = "host"
workload = {{ kind = "uniform" }}
[[devices]]
name = "mem"
count = {devices}
capacity = "768 MiB"
"#
    ))
}

#[test]
fn windows_over_host_bridges_are_programmed_as_planned() {
    let arithmetics = ["", "arithmetic = \"xor\"", "granularity = \"1 KiB\""];
    for (devices, host_bridges) in [
        (2, 2),
        (4, 2),
        (4, 4),
        (8, 2),
        (8, 4),
        (16, 2),
        (16, 8),
        (3, 3),
        (6, 3),
        (6, 6),
        (12, 3),
        (12, 6),
        (12, 12),
        (5, 5),
    ] {
        for map in arithmetics {
            let case = format!("{devices} over {host_bridges}, {map}");
            let plan = direct(devices, host_bridges, map);
            let plan = plan.unwrap_or_else(|problems| panic!("{case}: {problems:?}"));
            let root = &plan.hierarchies[0].root;
            assert_eq!(root.bridges.len(), host_bridges as usize, "{case}");
            assert_eq!(judged(&plan, &plan), Ok(()), "{case}");
        }
    }
}

#[test]
fn another_order_of_host_bridges_in_a_window_breaks_a_law() {
    let mut wrong = direct(4, 2, "").unwrap();
    let hierarchy = &mut wrong.hierarchies[0];
    hierarchy.root.windows[0].host_bridges.swap(0, 1);
    let error = enumerate(&mut hierarchy.root.clone(), &hierarchy.goal).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("takes the host bridges"), "{error}");
    let why = judged(&wrong, &direct(4, 2, "").unwrap()).unwrap_err();
    assert!(why.contains("did not enumerate"), "{why}");
}

#[test]
fn what_a_driver_refuses_of_host_bridges_is_refused_with_the_field() {
    // Six devices behind two host bridges: a window interleaved over two bridges with three root ports each.
    for (devices, host_bridges, map, path, words) in [
        (
            2,
            4,
            "",
            "enumeration.host_bridges",
            &["found 4", "2 root port(s)"][..],
        ),
        (6, 2, "", "address_map", &["times a power of two"]),
        (
            16,
            16,
            "granularity = \"4 KiB\"",
            "address_map",
            &["ends at 16 KiB"],
        ),
        (16, 1, "", "address_map", &["8 places"]),
    ] {
        let problems = direct(devices, host_bridges, map).err().unwrap();
        let case = format!("{devices} over {host_bridges}: {problems:?}");
        assert_eq!(problems.len(), 1, "{case}");
        assert_eq!(problems[0].path, path, "{case}");
        assert!(
            words.iter().all(|word| problems[0].message.contains(word)),
            "{case}"
        );
    }
}

/// The check's result for software that follows one plan, against another plan.
fn judged(software: &Plan, judge: &Plan) -> Result<(), String> {
    let mut system = System::build(software, 1, RecordOptions::default())
        .ok()
        .unwrap();
    let outcome = system.enumerate(judge, 1.into(), &Monitor::default())?;
    assert!(outcome.is_some());
    assert_eq!(system.enumerated.len(), 1);
    Ok(())
}

#[test]
fn software_that_follows_the_plan_is_right() {
    assert_eq!(judged(&plan(2), &plan(2)), Ok(()));
}

#[test]
fn another_order_of_targets_is_not_what_the_same_software_does_without_a_clock() {
    let mut wrong = plan(2);
    wrong.hierarchies[0].goal.regions[0].targets.swap(0, 1);
    let why = judged(&wrong, &plan(2)).unwrap_err();
    assert!(why.contains("without a clock"), "{why}");
}

#[test]
fn decoders_that_take_an_address_elsewhere_than_the_plan_break_a_law() {
    let mut wrong = plan(2);
    let hierarchy = &mut wrong.hierarchies[0];
    hierarchy.goal.regions[0].targets.swap(0, 1);
    // The plan is unchanged, and the log is that of the wrong software.
    let mut judge = plan(2);
    let log = enumerate(&mut hierarchy.root.clone(), &hierarchy.goal).unwrap();
    judge.hierarchies[0].log = log;
    let why = judged(&wrong, &judge).unwrap_err();
    assert!(why.contains("elsewhere than the plan"), "{why}");
    assert!(why.contains("host"), "{why}");
}

#[test]
fn regions_that_are_not_the_plans_windows_break_a_law() {
    let mut wrong = plan(1);
    let hierarchy = &mut wrong.hierarchies[0];
    let base = |region: usize| hierarchy.goal.regions[region].base;
    let (first, second) = (base(0), base(1));
    hierarchy.goal.regions[0].base = second;
    hierarchy.goal.regions[1].base = first;
    let log = enumerate(&mut hierarchy.root.clone(), &hierarchy.goal).unwrap();
    hierarchy.log = log;
    let why = judged(&wrong, &wrong).unwrap_err();
    assert!(why.contains("not the plan's window"), "{why}");
}

#[test]
fn a_system_without_enumeration_does_nothing_before_its_run() {
    let mut plan = plan(2);
    plan.scenario.enumeration = None;
    let mut system = System::build(&plan, 1, RecordOptions::default())
        .ok()
        .unwrap();
    let outcome = system.enumerate(&plan, 1.into(), &Monitor::default());
    assert_eq!(outcome, Ok(None));
    assert_eq!(system.simulation.next_event(), None);
}

#[test]
fn after_an_interruption_the_components_are_what_was_wrapped() {
    let plan = plan(2);
    let mut system = System::build(&plan, 1, RecordOptions::default())
        .ok()
        .unwrap();
    assert_eq!(system.issuers().count(), 0, "all are wrapped");
    let monitor = Monitor::default();
    monitor.interrupt();
    let outcome = system.enumerate(&plan, 2.into(), &monitor);
    let outcome = outcome.unwrap().unwrap();
    assert_eq!(outcome.stop, Stop::Interrupted);
    assert_eq!(system.issuers().count(), 1);
    assert!(system.enumerated.is_empty());
}
