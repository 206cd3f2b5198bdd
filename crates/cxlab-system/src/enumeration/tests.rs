#![allow(clippy::unwrap_used)]

use cxlab_engine::{Monitor, Stop};
use cxlab_protocol::io::enumerate::enumerate;

use crate::plan::{Files, Plan};
use crate::scenario::Scenario;
use crate::system::{Notes, System};

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
    let document = crate::diagnostics::Document::parse("test.toml", &text)
        .ok()
        .unwrap();
    let scenario: Scenario = serde_json::from_value(document.value().clone()).unwrap();
    Plan::new(scenario, Files::default()).ok().unwrap()
}

/// What comes of software that follows one plan, judged by another.
fn judged(software: &Plan, judge: &Plan) -> Result<(), String> {
    let mut system = System::build(software, 1, Notes::default()).ok().unwrap();
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
    // The plan is as before, and the log is that of the wrong software.
    let mut judge = plan(2);
    let log = enumerate(&mut hierarchy.bridge.clone(), &hierarchy.goal).unwrap();
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
    let log = enumerate(&mut hierarchy.bridge.clone(), &hierarchy.goal).unwrap();
    hierarchy.log = log;
    let why = judged(&wrong, &wrong).unwrap_err();
    assert!(why.contains("not the plan's window"), "{why}");
}

#[test]
fn a_system_without_enumeration_does_nothing_before_its_run() {
    let mut plan = plan(2);
    plan.scenario.enumeration = None;
    let mut system = System::build(&plan, 1, Notes::default()).ok().unwrap();
    let outcome = system.enumerate(&plan, 1.into(), &Monitor::default());
    assert_eq!(outcome, Ok(None));
    assert_eq!(system.simulation.next_event(), None);
}

#[test]
fn after_an_interruption_the_components_are_what_was_wrapped() {
    let plan = plan(2);
    let mut system = System::build(&plan, 1, Notes::default()).ok().unwrap();
    assert_eq!(system.issuers().count(), 0, "all are wrapped");
    let monitor = Monitor::default();
    monitor.interrupt();
    let outcome = system
        .enumerate(&plan, 2.into(), &monitor)
        .unwrap()
        .unwrap();
    assert_eq!(outcome.stop, Stop::Interrupted);
    assert_eq!(system.issuers().count(), 1);
    assert!(system.enumerated.is_empty());
}
