//! One study with several seeds: main numbers with their intervals.

use cxlab_fleet::stats::CORE_BINS;
use serde::{Deserialize, Serialize};

use super::report::{Dram, FleetReport, OutcomeReport};
use crate::layout::{cells, table};
use crate::seeds::interval;

/// A study with several seeds.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct SeedsReport {
    /// The scenario's name.
    pub scenario: String,
    /// `fleet-seeds`.
    pub mode: String,
    /// Hash of all else that can change the result.
    pub plan: String,
    /// Version of the program.
    pub version: String,
    /// The run's ID, which all its files carry.
    #[serde(default)]
    pub run: String,
    /// Whether it was interrupted: the studies of some seeds are missing.
    pub partial: bool,
    /// Seeds whose studies were finished.
    pub seeds: Vec<u64>,
    /// Main numbers of the studies.
    pub numbers: Vec<Number>,
    /// Notes of the studies, each once.
    pub notes: Vec<String>,
    /// Seconds that all took; the only field that depends on the machine.
    pub wall_seconds: f64,
}

/// A number over seeds.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Number {
    /// Name of the number; the name ends with the unit.
    pub name: String,
    /// Mean over the seeds that have a value.
    pub mean: f64,
    /// Half-width of its 95 % confidence interval by Student's t; absent with one value.
    pub half_width: Option<f64>,
    /// How many seeds have a value.
    pub seeds: u64,
    /// Value by seed; absent where the study has none, as for an empty group of clusters.
    pub values: Vec<Option<f64>>,
}

fn main_numbers(report: &FleetReport) -> Vec<(String, Option<f64>)> {
    let mut numbers: Vec<(String, Option<f64>)> = Vec::new();
    let mut add = |name: &str, value: Option<f64>| numbers.push((name.to_owned(), value));
    let (needed, peaks) = (report.needed.as_ref(), report.peaks.as_ref());
    let (alone, pooled) = (&report.alone, report.pooled.as_ref());
    let of = |dram: Option<&Dram>, of: fn(&Dram) -> f64| dram.map(of);
    add("saved_percent", needed.and_then(|dram| dram.saved_percent));
    add("needed_alone_gib", of(needed, |dram| dram.alone_gib));
    add("needed_local_gib", of(needed, |dram| dram.local_gib));
    add("needed_pool_gib", of(needed, |dram| dram.pool_gib));
    add(
        "peaks_saved_percent",
        peaks.and_then(|dram| dram.saved_percent),
    );
    add("peaks_local_gib", of(peaks, |dram| dram.local_gib));
    add("peaks_pool_gib", of(peaks, |dram| dram.pool_gib));
    add("cores_percent", Some(alone.cores_percent));
    add("rejected_alone_percent", Some(alone.rejected_core_percent));
    let with = |of: fn(&OutcomeReport) -> f64| pooled.map(of);
    add(
        "rejected_pooled_percent",
        with(|one| one.rejected_core_percent),
    );
    add("stranded_alone_percent", Some(alone.stranded_percent));
    add("stranded_pooled_percent", with(|one| one.stranded_percent));
    let memory = |one: &OutcomeReport| {
        let local = one.local_gib * one.local_percent;
        let pool = one.pool_gib * one.pool_percent;
        100.0 * pool / (local + pool).max(f64::MIN_POSITIVE)
    };
    add("memory_in_pool_percent", with(memory));
    add("pool_latency_ns", with(|one| one.pool_latency_ns));
    let running = pooled.map(|one| &one.slowdown_running);
    add("slowdown_mean_percent", running.map(|one| one.mean));
    add("slowdown_over_1_percent", running.map(|one| one.over_1));
    add("slowdown_over_5_percent", running.map(|one| one.over_5));
    add("mitigated_percent", with(|one| one.mitigated_percent));
    let width = 100 / CORE_BINS;
    for from in (0..100).step_by(width) {
        let group = (alone.stranding.iter()).find(|group| group.cores_from == from as f64);
        let name = format!("stranded_at_{from}_to_{}_cores", from + width);
        add(
            &format!("{name}_mean_percent"),
            group.map(|group| group.mean),
        );
        add(&format!("{name}_p95_percent"), group.map(|group| group.p95));
    }
    numbers
}

/// Combines studies that differ in the seed alone; `None` without a study.
pub fn over_seeds(reports: &[FleetReport], partial: bool) -> Option<SeedsReport> {
    let first = reports.first()?;
    let all: Vec<Vec<(String, Option<f64>)>> = reports.iter().map(main_numbers).collect();
    let number = |at: usize| {
        let values: Vec<Option<f64>> = all.iter().map(|one| one[at].1).collect();
        let found: Vec<f64> = values.iter().flatten().copied().collect();
        let (mean, half_width) = interval(&found);
        (!found.is_empty()).then(|| Number {
            name: all[0][at].0.clone(),
            mean,
            half_width,
            seeds: found.len() as u64,
            values,
        })
    };
    let mut notes: Vec<String> = Vec::new();
    for note in reports.iter().flat_map(|report| &report.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    Some(SeedsReport {
        scenario: first.scenario.clone(),
        mode: "fleet-seeds".to_owned(),
        plan: first.plan.clone(),
        version: first.version.clone(),
        run: String::new(),
        partial,
        seeds: reports.iter().map(|report| report.seed).collect(),
        numbers: (0..all[0].len()).filter_map(number).collect(),
        notes,
        wall_seconds: 0.0,
    })
}

/// As a table to read.
pub fn seeds_text(report: &SeedsReport) -> String {
    let mut text = format!(
        "{} (fleet): {} seeds from {}{}\n\n",
        report.scenario,
        report.seeds.len(),
        report.seeds.first().copied().unwrap_or_default(),
        if report.partial { ", interrupted" } else { "" }
    );
    let mut rows = vec![cells(["", "mean", "95 % interval", "seeds"])];
    for number in &report.numbers {
        let half_width = number.half_width;
        rows.push(vec![
            number.name.clone(),
            format!("{:.2}", number.mean),
            half_width.map_or("-".to_owned(), |half| format!("+- {half:.2}")),
            number.seeds.to_string(),
        ]);
    }
    text.push_str(&table(&rows));
    for note in &report.notes {
        text.push_str(&format!("\n  note: {note}\n"));
    }
    text
}

/// As CSV: a line for each number, with its interval and the value of each seed.
pub fn seeds_csv(report: &SeedsReport) -> String {
    let mut text = "number,mean,half_width,seeds".to_owned();
    for seed in &report.seeds {
        text.push_str(&format!(",seed_{seed}"));
    }
    text.push('\n');
    let some = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for number in &report.numbers {
        text.push_str(&format!(
            "{},{},{},{}",
            number.name,
            number.mean,
            some(number.half_width),
            number.seeds
        ));
        for value in &number.values {
            text.push_str(&format!(",{}", some(*value)));
        }
        text.push('\n');
    }
    text
}
