//! Analytic form and event engine of one plan, side by side.

use cxlab_analytic::ErrorClass;
use serde::{Deserialize, Serialize};

use super::AnalyticReport;
use crate::layout::table;
use crate::report::Report;

/// One number from the event engine and from the analytic form.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct ComparedNumber {
    /// Subject of the number: `all`, or the name of a host.
    pub of: String,
    /// `bandwidth_gb_per_s` or `latency_ns`.
    pub what: String,
    /// Value of the event engine.
    pub engine: f64,
    /// Half-width of the engine value's 95 % confidence interval, where the window is long enough for one.
    pub engine_ci95: Option<f64>,
    /// Value of the analytic form.
    pub form: f64,
    /// Relative error of the form against the engine; absent where the engine measured nothing.
    pub error: Option<f64>,
    /// Error class that the form predicted for this number.
    pub error_class: ErrorClass,
    /// Whether the error is within the class or within the engine's own interval. Always true where the class
    /// is `do not use`.
    pub holds: bool,
}

/// Comparison of analytic form and event engine for one plan.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct Comparison {
    /// Version of cxlab.
    pub version: String,
    /// The scenario's name.
    pub scenario: String,
    /// Identifies everything that can change the result but the seed.
    pub plan_hash: String,
    /// Seed of the workloads.
    pub seed: u64,
    /// Reason for the error class of the whole system's numbers.
    pub why: String,
    /// The numbers: of the whole system, then of each host.
    pub numbers: Vec<ComparedNumber>,
}

/// Compares the reports of one plan.
pub fn compare(form: &AnalyticReport, engine: &Report) -> Comparison {
    let mut numbers = Vec::with_capacity(2 + 2 * form.hosts.len());
    let classes = &form.error_class;
    let mut add =
        |of: &str, what: &str, (form, engine): (f64, f64), ci95: Option<f64>, error_class| {
            let error = (engine != 0.0).then(|| form / engine - 1.0);
            numbers.push(ComparedNumber {
                of: of.to_owned(),
                what: what.to_owned(),
                engine,
                engine_ci95: ci95,
                form,
                error,
                error_class,
                holds: holds((form, engine), ci95, error_class),
            });
        };
    let ci95 = &engine.ci95;
    let both = (
        form.bandwidth_gb_per_s.total,
        engine.bandwidth_gb_per_s.total,
    );
    add(
        "all",
        "bandwidth_gb_per_s",
        both,
        ci95.total_gb_per_s,
        classes.bandwidth,
    );
    let both = (form.latency_ns.mean, engine.latency_ns.mean);
    add("all", "latency_ns", both, ci95.latency_ns, classes.latency);
    for (form, engine) in form.hosts.iter().zip(&engine.hosts) {
        let (classes, ci95) = (&form.error_class, &engine.ci95);
        let both = (
            form.bandwidth_gb_per_s.total,
            engine.bandwidth_gb_per_s.total,
        );
        add(
            &form.name,
            "bandwidth_gb_per_s",
            both,
            ci95.total_gb_per_s,
            classes.bandwidth,
        );
        let both = (form.latency_ns.mean, engine.latency_ns.mean);
        add(
            &form.name,
            "latency_ns",
            both,
            ci95.latency_ns,
            classes.latency,
        );
    }
    Comparison {
        version: form.version.clone(),
        scenario: form.scenario.clone(),
        plan_hash: form.plan_hash.clone(),
        seed: form.seed,
        why: classes.why.clone(),
        numbers,
    }
}

/// Rounding of an engine's mean of whole picoseconds.
const ROUNDING: f64 = 1e-9;

fn holds((form, engine): (f64, f64), ci95: Option<f64>, class: ErrorClass) -> bool {
    let Some(bound) = class.bound() else {
        return true;
    };
    let allowed = (bound + ROUNDING) * engine.abs() + ci95.unwrap_or(0.0);
    (form - engine).abs() <= allowed
}

impl Comparison {
    /// Whether every number is within its class.
    pub fn holds(&self) -> bool {
        self.numbers.iter().all(|number| number.holds)
    }

    /// The comparison as text for the user.
    pub fn summary(&self) -> String {
        let head = ["", "event engine", "+-", "analytic", "error", "class", ""];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for number in &self.numbers {
            let unit = match number.what.as_str() {
                "latency_ns" => "latency, ns",
                _ => "bandwidth, GB/s",
            };
            rows.push(vec![
                format!("{} {unit}", number.of),
                format!("{:.3}", number.engine),
                number
                    .engine_ci95
                    .map_or("-".to_owned(), |half| format!("{half:.3}")),
                format!("{:.3}", number.form),
                (number.error).map_or("-".to_owned(), |error| format!("{:+.1} %", 100.0 * error)),
                number.error_class.to_string(),
                if number.holds { "" } else { "outside" }.to_owned(),
            ]);
        }
        format!(
            "{}: both forms (analytic: {})\n\n{}",
            self.scenario,
            self.why,
            table(&rows)
        )
    }
}
