//! Several runs of one plan that differ in their seeds: means over the runs and intervals between them.
//!
//! Runs with different seeds are independent, so the mean of a quantity over them has Student's interval without any
//! correction for correlation, and every quantity has one: percentiles, maxima, and whole programs too, for which one run
//! gives none (`docs/guide/error-bars.md`).

use cxlab_scenario::Note;
use serde::{Deserialize, Serialize};

use crate::chart::{Chart, Series, Style, page};
use crate::layout::{SHOWN, cells, nanos, plus_minus, plus_minus_nanos, row, table};
use crate::output::run_id;
use crate::report::{Bandwidth, HostReport, Latency, Report};
use crate::statistics;

/// Fewest and most seeds of a command.
pub const SEEDS: std::ops::RangeInclusive<u32> = 2..=1_000;

/// The runs of several seeds: the contents of `seeds.json`.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct SeedsReport {
    /// Version of cxlab.
    pub version: String,
    /// The scenario's name.
    pub scenario: String,
    /// Hash of everything that can change the results but the seeds.
    pub plan_hash: String,
    /// ID of all runs together, in all files; empty in reports of older versions.
    #[serde(default)]
    pub run: String,
    /// Number of seeds asked for.
    pub asked: u64,
    /// Whether the command was interrupted: runs of some seeds are missing.
    pub partial: bool,
    /// Runs, in order of their seeds.
    pub runs: Vec<SeedRun>,
    /// Numbers of the reports, with their means and intervals over the seeds.
    pub quantities: Vec<Quantity>,
}

/// The run of one seed.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct SeedRun {
    /// Seed of the run.
    pub seed: u64,
    /// Digest of the run's report.
    pub digest: String,
    /// Whether the run was interrupted. Its values do not count then.
    pub partial: bool,
    /// Simulated time of the whole run.
    pub sim_time_ns: f64,
    /// Length of the measured window.
    pub window_ns: f64,
    /// Requests completed in the window.
    pub completed: u64,
    /// Notes of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// A number of the report, over the runs that were not interrupted.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct Quantity {
    /// Path in `report.json`, such as `hosts[0].latency_ns.p99`.
    pub name: String,
    /// Value in each run, by seed.
    pub values: Vec<f64>,
    /// Mean over the runs; 0 without a whole run.
    pub mean: f64,
    /// Half-width of the 95 % confidence interval of the mean (Student's t); `null` below two runs.
    pub ci95: Option<f64>,
    /// Smallest value of a run.
    pub min: f64,
    /// Largest value of a run.
    pub max: f64,
}

impl Quantity {
    fn of(name: String, values: Vec<f64>) -> Quantity {
        let (mean, ci95) = interval(&values);
        let ends = values.iter().copied().reduce(f64::min);
        let (min, max) = ends.map_or((0.0, 0.0), |min| {
            (min, values.iter().copied().fold(min, f64::max))
        });
        Quantity {
            name,
            values,
            mean,
            ci95,
            min,
            max,
        }
    }
}

/// Mean of independent values, and half of its 95 % confidence interval by Student's t; `None` below two values.
pub fn interval(values: &[f64]) -> (f64, Option<f64>) {
    statistics::independent_interval(values)
}

/// The parts of a run's report that are kept, because a whole report may be large.
#[derive(Clone, Debug)]
pub struct KeptReport {
    version: String,
    scenario: String,
    plan_hash: String,
    run: SeedRun,
    values: Vec<(String, f64)>,
}

impl From<&Report> for KeptReport {
    fn from(report: &Report) -> KeptReport {
        KeptReport {
            version: report.provenance.version.clone(),
            scenario: report.provenance.scenario.clone(),
            plan_hash: report.provenance.plan_hash.clone(),
            run: SeedRun {
                seed: report.provenance.seed,
                digest: report.provenance.digest.clone(),
                partial: report.provenance.partial,
                sim_time_ns: report.extent.sim_time_ns,
                window_ns: report.extent.window_ns,
                completed: report.requests.completed,
                notes: report.provenance.notes.clone(),
            },
            values: values(report),
        }
    }
}

fn percentiles(name: &str, latency: &Latency) -> Vec<(String, f64)> {
    let all = [
        ("mean", latency.mean),
        ("p50", latency.p50),
        ("p90", latency.p90),
        ("p99", latency.p99),
        ("p999", latency.p999),
        ("max", latency.max),
    ];
    let named = |(part, value)| (format!("{name}.{part}"), value);
    all.into_iter().map(named).collect()
}

fn of_issuers(name: &str, issuers: &[HostReport]) -> Vec<(String, f64)> {
    let issuers = issuers.iter().enumerate();
    let all = issuers.flat_map(|(number, issuer)| {
        let name = format!("{name}[{number}]");
        let bandwidth = issuer.bandwidth_gb_per_s.total;
        let mut all = vec![(format!("{name}.bandwidth_gb_per_s.total"), bandwidth)];
        all.extend(percentiles(
            &format!("{name}.latency_ns"),
            &issuer.latency_ns,
        ));
        all.push((format!("{name}.in_flight"), issuer.in_flight));
        all
    });
    all.collect()
}

/// The main numbers of a report, by their path in it. Reports of one plan have the same paths.
fn values(report: &Report) -> Vec<(String, f64)> {
    let Bandwidth { total, read, write } = report.bandwidth_gb_per_s;
    let rates = [("total", total), ("read", read), ("write", write)];
    let rates = rates.map(|(part, value)| (format!("bandwidth_gb_per_s.{part}"), value));
    let mut all: Vec<(String, f64)> = rates.into();
    all.extend(percentiles("latency_ns", &report.latency_ns));
    all.extend(percentiles("read_latency_ns", &report.read_latency_ns));
    let in_flight = report.littles_law.in_flight;
    all.push(("littles_law.in_flight".to_owned(), in_flight));
    all.extend(of_issuers("hosts", &report.hosts));
    all.extend(of_issuers("accelerators", &report.accelerators));
    let devices = report.devices.iter().enumerate();
    all.extend(devices.map(|(number, device)| {
        let name = format!("devices[{number}].bandwidth_gb_per_s.total");
        (name, device.bandwidth_gb_per_s.total)
    }));
    all
}

/// How a value and the half-width of its interval are shown.
type Shown = (fn(f64) -> String, fn(Option<f64>) -> String);

impl SeedsReport {
    /// The report of `runs` of one plan, by seed, of `asked` ones; `None` without a run.
    pub fn new(asked: u64, runs: Vec<KeptReport>) -> Option<SeedsReport> {
        let first = runs.first()?;
        let (version, plan_hash) = (first.version.clone(), first.plan_hash.clone());
        let names: Vec<String> = first.values.iter().map(|(name, _)| name.clone()).collect();
        let whole = || runs.iter().filter(|run| !run.run.partial);
        let quantities = names.into_iter().enumerate().map(|(at, name)| {
            let values = whole().filter_map(|run| run.values.get(at));
            Quantity::of(name, values.map(|(_, value)| *value).collect())
        });
        let quantities = quantities.collect();
        let parts = runs.iter().flat_map(|KeptReport { run, .. }| {
            let seed = run.seed.to_string();
            [seed, run.digest.clone(), run.sim_time_ns.to_string()]
        });
        let own = [version.clone(), plan_hash.clone(), asked.to_string()];
        let parts: Vec<String> = own.into_iter().chain(parts).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Some(SeedsReport {
            run: run_id(&parts),
            version,
            scenario: first.scenario.clone(),
            plan_hash,
            asked,
            partial: whole().count() as u64 != asked,
            quantities,
            runs: runs.into_iter().map(|run| run.run).collect(),
        })
    }

    fn quantity(&self, name: &str) -> Option<&Quantity> {
        self.quantities.iter().find(|one| one.name == name)
    }

    /// Number of runs that were not interrupted.
    pub fn whole(&self) -> usize {
        self.runs.iter().filter(|run| !run.partial).count()
    }

    /// The report as tables to read. `hosts` names the hosts, then the accelerators.
    pub fn text(&self, hosts: &[&str]) -> String {
        let seeds = match (self.runs.first(), self.runs.last()) {
            (Some(first), Some(last)) => format!("seeds {} to {}", first.seed, last.seed),
            _ => String::new(),
        };
        let (whole, asked) = (self.whole(), self.asked);
        let partial = match self.partial {
            true => format!(" (interrupted: {whole} of {asked} runs are whole)"),
            false => String::new(),
        };
        let head = format!(
            "{}: {} runs, {seeds}{partial}\n  +-: half of the 95 % confidence interval of the mean over the runs\n\n",
            self.scenario,
            self.runs.len()
        );
        head + &table(&self.rows()) + "\n" + &self.issuers(hosts)
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![cells(["", "mean", "95 %", "least", "largest"])];
        let rate: Shown = (|value| format!("{value:.3}"), |width| plus_minus(width, 3));
        let time: Shown = (nanos, plus_minus_nanos);
        for (shown, name, (value, width)) in [
            ("bandwidth, GB/s", "bandwidth_gb_per_s.total", rate),
            ("  read", "bandwidth_gb_per_s.read", rate),
            ("  write", "bandwidth_gb_per_s.write", rate),
            ("latency, ns: mean", "latency_ns.mean", time),
            ("  p50", "latency_ns.p50", time),
            ("  p90", "latency_ns.p90", time),
            ("  p99", "latency_ns.p99", time),
            ("  p99.9", "latency_ns.p999", time),
            ("  max", "latency_ns.max", time),
        ] {
            if let Some(one) = self.quantity(name) {
                rows.push(vec![
                    shown.to_owned(),
                    value(one.mean),
                    width(one.ci95),
                    value(one.min),
                    value(one.max),
                ]);
            }
        }
        rows
    }

    /// Hosts and accelerators, at most [`SHOWN`] of each.
    fn issuers(&self, names: &[&str]) -> String {
        let mut rows = vec![row("host | GB/s | 95 % | mean, ns | 95 % | p99, ns | 95 %")];
        let mut names = names.iter();
        for kind in ["hosts", "accelerators"] {
            for number in 0.. {
                let of = |part: &str| self.quantity(&format!("{kind}[{number}].{part}"));
                let parts = [
                    "bandwidth_gb_per_s.total",
                    "latency_ns.mean",
                    "latency_ns.p99",
                ]
                .map(of);
                let [Some(rate), Some(mean), Some(p99)] = parts else {
                    break;
                };
                let name = names.next().map_or(kind, |name| name);
                if number >= SHOWN {
                    continue;
                }
                rows.push(vec![
                    name.to_owned(),
                    format!("{:.3}", rate.mean),
                    plus_minus(rate.ci95, 3),
                    nanos(mean.mean),
                    plus_minus_nanos(mean.ci95),
                    nanos(p99.mean),
                    plus_minus_nanos(p99.ci95),
                ]);
            }
        }
        table(&rows)
    }

    /// The notes of all runs, each once, with the number of runs that have it; in the order of the seeds. Notes that
    /// differ in numbers alone are one.
    pub fn notes(&self) -> Vec<(&Note, usize)> {
        fn is_alike(one: &Note, other: &Note) -> bool {
            let digits = |c: char| c.is_ascii_digit() || c == '.';
            let words = |note: &Note| note.message.replace(digits, "");
            one.path == other.path && words(one) == words(other)
        }
        let mut notes: Vec<(&Note, usize)> = Vec::new();
        for note in self.runs.iter().flat_map(|run| &run.notes) {
            match notes.iter_mut().find(|(known, _)| is_alike(known, note)) {
                Some((_, count)) => *count += 1,
                None => notes.push((note, 1)),
            }
        }
        notes
    }

    /// Bandwidth, mean latency and 99th percentile of each run, with the means and their intervals.
    pub fn svg(&self) -> String {
        let charts = [
            ("Total bandwidth", "GB/s", "bandwidth_gb_per_s.total"),
            ("Mean latency", "ns", "latency_ns.mean"),
            ("99th percentile of latency", "ns", "latency_ns.p99"),
        ];
        let charts = charts.map(|(title, unit, name)| self.chart(title, unit, name));
        let title = format!("{}: {} seeds", self.scenario, self.whole());
        page(&title, &charts, charts.len())
    }

    fn chart(&self, title: &str, unit: &str, name: &str) -> Chart {
        let whole: Vec<&SeedRun> = self.runs.iter().filter(|run| !run.partial).collect();
        let first = self.runs.first().map_or(0, |run| run.seed);
        // A report of another program may have its runs in any order.
        let at = |run: &&SeedRun| (i128::from(run.seed) - i128::from(first) + 1) as f64;
        let (left, right) = (1.0, self.asked as f64);
        let line = |name: &str, y: f64, style| Series {
            name: name.to_owned(),
            points: vec![(left, y), (right, y)],
            style,
            colour: 0,
        };
        let mut series = Vec::new();
        if let Some(quantity) = self.quantity(name) {
            if let Some(width) = quantity.ci95 {
                series.push(line("", quantity.mean - width, Style::Band));
                series.push(line("", quantity.mean + width, Style::Band));
            }
            series.push(line("mean, 95 % interval", quantity.mean, Style::Line));
            let places = whole.iter().map(at);
            series.push(Series {
                name: "run".to_owned(),
                points: places.zip(quantity.values.iter().copied()).collect(),
                style: Style::Points,
                colour: 1,
            });
        }
        Chart {
            title: title.to_owned(),
            x: format!("run (1 has seed {first})"),
            y: unit.to_owned(),
            series,
            ..Chart::default()
        }
    }
}
