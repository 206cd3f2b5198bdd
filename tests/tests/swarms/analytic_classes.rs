//! Checks the error classes of the analytic form against the event engine on random systems.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cxlab_engine::Monitor;
use cxlab_plan::Plan;
use cxlab_system::analytic::compare::{ComparedNumber, compare};
use cxlab_system::analytic::{AnalyticReport, analyze, calibrate};
use cxlab_system::report::Report;
use cxlab_system::run::RunError;
use cxlab_tests::swarm::Swarm;
use cxlab_tests::{plan, root, shipped, systems, try_run};

/// Least length of a host's window in latencies, for its numbers to be of a steady state.
const STEADY: f64 = 20.0;

/// Whether the engine's numbers of a host, or of all hosts, are of a steady state. A
/// note in the report says if they are not.
fn is_steady(engine: &Report, of: &str) -> bool {
    let settled = engine
        .provenance
        .notes
        .iter()
        .all(|note| !note.message.contains("had not settled"));
    let mut asked = (engine.hosts.iter()).filter(|host| of == "all" || host.name == of);
    settled && asked.all(|host| engine.extent.window_ns >= STEADY * host.latency_ns.mean)
}

/// Errors in per cent by family, by whether they are of the whole system, and by class.
#[derive(Default)]
struct Table(BTreeMap<(usize, bool, String), Vec<f64>>);

impl Table {
    fn note(&mut self, seed: u64, number: &ComparedNumber) {
        let family = seed as usize % systems::FAMILIES.len();
        let key = (family, number.of != "all", number.error_class.to_string());
        let error = number.error.map_or(0.0, |error| 100.0 * error.abs());
        self.0.entry(key).or_default().push(error);
    }

    fn print(&mut self) -> String {
        let mut text = String::from(
            "| systems | numbers of | class | numbers | half below | 90 % below | largest |\n|---|---|---|---|---|---|---|\n",
        );
        for ((family, of_host, class), errors) in &mut self.0 {
            errors.sort_by(f64::total_cmp);
            let last = errors.len() - 1;
            let at = |part: f64| errors[(part * last as f64).round() as usize];
            let of = if *of_host { "hosts" } else { "all" };
            let _ = writeln!(
                text,
                "| {} | {of} | {class} | {} | {:.1} % | {:.1} % | {:.1} % |",
                systems::FAMILIES[*family],
                errors.len(),
                at(0.5),
                at(0.9),
                at(1.0)
            );
        }
        text
    }
}

/// A table that is printed when dropped, also if a system fails.
struct Printed(Table);

impl Drop for Printed {
    fn drop(&mut self) {
        println!("{}", self.0.print());
    }
}

/// The analytic form alone.
fn alone(plan: &Plan) -> Option<AnalyticReport> {
    match analyze(plan, plan.scenario.seed) {
        Ok(form) => Some(form),
        Err(problems) => panic!("{problems:?}"),
    }
}

/// The form corrected by short event runs, with other seeds than the run for the comparison.
/// `None` if they are not possible.
fn corrected(plan: &Plan) -> Option<AnalyticReport> {
    match calibrate(plan, plan.scenario.seed + 100, None, &Monitor::default()) {
        Ok(Some(form)) => Some(form),
        Ok(None) => panic!("nobody interrupts it"),
        Err(RunError::Problems(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Checks the classes on the systems of these seeds, and prints the errors.
fn hold(test: &str, seeds: std::ops::Range<u64>, form: fn(&Plan) -> Option<AnalyticReport>) {
    let mut table = Printed(Table::default());
    let (mut numbers, mut bounded, mut unsteady, mut refused) = (0, 0, 0, 0);
    let swarm = Swarm {
        module: "analytic_classes",
        scenario: systems::scenario,
    };
    let whole = swarm.run(test, seeds, |seed, text| {
        let plan = plan(text, &[]);
        let Some(form) = form(&plan) else {
            refused += 1;
            return;
        };
        let engine = match try_run(&plan, 1) {
            Ok(engine) => engine,
            Err(error) => panic!("{error}"),
        };
        let comparison = compare(&form, &engine);
        for number in &comparison.numbers {
            if is_steady(&engine, &number.of) {
                table.0.note(seed, number);
            }
            numbers += 1;
            bounded += usize::from(number.error_class.bound().is_some());
        }
        let outside: Vec<&ComparedNumber> = comparison
            .numbers
            .iter()
            .filter(|number| !number.holds)
            .filter(|number| {
                let steady = is_steady(&engine, &number.of);
                unsteady += usize::from(!steady);
                steady
            })
            .collect();
        assert!(outside.is_empty(), "{}: {outside:?}", systems::family(seed));
    });
    println!(
        "{bounded} of {numbers} numbers have a bound; {unsteady} outside theirs that the engine calls unsteady; {refused} \
         systems are refused"
    );
    // A form that never states a bound would never be wrong.
    assert!(!whole || 2 * bounded > numbers, "{bounded} of {numbers}");
}

#[test]
fn a_hundred_random_systems_are_within_their_error_classes() {
    hold(
        "a_hundred_random_systems_are_within_their_error_classes",
        0..100,
        alone,
    );
}

#[test]
#[ignore = "slow: 2,000 systems"]
fn two_thousand_random_systems_are_within_their_error_classes() {
    hold(
        "two_thousand_random_systems_are_within_their_error_classes",
        0..2000,
        alone,
    );
}

#[test]
fn thirty_random_systems_are_within_the_classes_of_the_corrected_form() {
    hold(
        "thirty_random_systems_are_within_the_classes_of_the_corrected_form",
        0..30,
        corrected,
    );
}

#[test]
#[ignore = "slow: 2,000 systems"]
fn two_thousand_random_systems_are_within_the_classes_of_the_corrected_form() {
    hold(
        "two_thousand_random_systems_are_within_the_classes_of_the_corrected_form",
        0..2000,
        corrected,
    );
}

/// With `--nocapture` this prints the table of `docs/explain/analytic.md`.
#[test]
#[ignore = "slow: every shipped scenario as it is, in both forms"]
fn shipped_scenarios_are_within_their_error_classes_or_refused() {
    let folder = std::fs::read_dir(root().join("scenarios")).expect("scenarios/ is there");
    let mut names: Vec<String> = folder
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    let mut outside = Vec::new();
    println!("| scenario | bandwidth | class | latency | class | furthest host | its class |");
    println!("|---|---|---|---|---|---|---|");
    for name in names {
        let plan = plan(&shipped(&name), &[]);
        let form = match analyze(&plan, plan.scenario.seed) {
            Ok(form) => form,
            Err(problems) => {
                println!("| `{name}` | refused: {} |", problems[0].path);
                continue;
            }
        };
        let engine = match try_run(&plan, 1) {
            Ok(engine) => engine,
            Err(error) => panic!("{name}: {error}"),
        };
        let numbers = compare(&form, &engine).numbers;
        let shown = |number: &ComparedNumber| {
            let error = number
                .error
                .map_or("-".to_owned(), |error| format!("{:+.1} %", 100.0 * error));
            format!("{error} | {}", number.error_class)
        };
        let size = |number: &&ComparedNumber| number.error.unwrap_or(0.0).abs();
        let hosts = numbers.iter().filter(|number| number.of != "all");
        let furthest = hosts
            .max_by(|a, b| size(a).total_cmp(&size(b)))
            .map_or_else(String::new, shown);
        println!(
            "| `{name}` | {} | {} | {furthest} |",
            shown(&numbers[0]),
            shown(&numbers[1])
        );
        let wrong = numbers
            .into_iter()
            .filter(|number| !number.holds && is_steady(&engine, &number.of));
        outside.extend(wrong.map(|number| format!("{name}: {number:?}")));
    }
    assert!(outside.is_empty(), "{outside:#?}");
}
