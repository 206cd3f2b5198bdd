//! The confidence intervals of a report, from the batches of its measurement.

use cxlab_engine::units::PartsPerMillion;
use cxlab_host::STAGE_NAMES;
use serde_json::Value;

use crate::batches::{
    Batches, CounterSnapshot, DeviceCounters, HopCounters, IssuerCounters, LinkCounters,
};
use crate::report::{DeviceCi95, HopsCi95, HostCi95, LinkCi95, ReportCi95};
use crate::samples::Samples;
use crate::statistics::{self, FEWEST_BATCHES, NoInterval};

/// The data that the intervals of a report are computed from.
#[derive(Clone, Copy)]
pub(crate) enum Parts<'a> {
    /// Successive batches of one window.
    Batches(&'a Batches),
    /// The measured windows of a sampled run.
    Samples(&'a Samples),
}

impl Parts<'_> {
    fn count(&self) -> usize {
        match self {
            Parts::Batches(batches) => batches.count(),
            Parts::Samples(samples) => samples.count(),
        }
    }

    /// Mean length of a batch or measured window in nanoseconds.
    fn width_ns(&self) -> f64 {
        match self {
            Parts::Batches(batches) => batches.width_ns(),
            Parts::Samples(samples) => {
                samples.spans_ns().iter().sum::<f64>() / samples.count().max(1) as f64
            }
        }
    }

    fn column(&self, of: impl Fn(&CounterSnapshot) -> u64) -> Vec<f64> {
        match self {
            Parts::Batches(batches) => batches.column(of),
            Parts::Samples(samples) => samples.column(of),
        }
    }

    /// Half-width of the interval of a rate per nanosecond.
    fn rate(&self, of: impl Fn(&CounterSnapshot) -> u64) -> Result<f64, NoInterval> {
        let column = self.column(of);
        match self {
            Parts::Batches(batches) => {
                statistics::half_width(&column).map(|width| width / batches.width_ns())
            }
            Parts::Samples(samples) => statistics::sampled_half_width(&column, &samples.spans_ns()),
        }
    }

    /// Half-width of the interval of a ratio of two sums.
    fn ratio(&self, above: &[f64], below: &[f64]) -> Result<f64, NoInterval> {
        match self {
            Parts::Batches(_) => statistics::ratio_half_width(above, below),
            Parts::Samples(_) => statistics::sampled_half_width(above, below),
        }
    }
}

pub(crate) struct Intervals<'a> {
    batches: Option<Parts<'a>>,
    /// Reason if no value has an interval.
    none: Option<String>,
}

impl<'a> Intervals<'a> {
    /// Intervals from the batches or samples of a measurement; `None` where the run ended by itself.
    pub(crate) fn new(batches: Option<Parts<'a>>) -> Intervals<'a> {
        let none = match batches.map_or(0, |parts| parts.count()) {
            count if matches!(batches, Some(Parts::Samples(_))) && count < FEWEST_BATCHES => {
                Some(format!(
                    "the run has {count} sampling units; an interval needs {FEWEST_BATCHES} or more"
                ))
            }
            _ if batches.is_none() => Some(
                "the run ended by itself: the window is a whole program, not a sample of a \
                 steady state"
                    .to_owned(),
            ),
            count if count < FEWEST_BATCHES => Some(format!(
                "the window has {count} batches; an interval needs {FEWEST_BATCHES} or more"
            )),
            _ => None,
        };
        Intervals { batches, none }
    }

    pub(crate) fn of_report(&self) -> ReportCi95 {
        let mut group = Group::of(self);
        let all =
            |of: fn(&IssuerCounters) -> u64| move |tally: &CounterSnapshot| of(&tally.total());
        let [total_gb_per_s, read_gb_per_s, write_gb_per_s, in_flight] = [
            group.lines(all(|one| one.reads + one.writes)),
            group.lines(all(|one| one.reads)),
            group.lines(all(|one| one.writes)),
            group.level(all(|one| one.in_flight)),
        ];
        let requests = all(|one| one.requests);
        let latency_ns = group.mean_ns(all(|one| one.latency), requests);
        let read_latency_ns = group.mean_ns(|tally| tally.read_latency, |tally| tally.reads);
        let stages = STAGE_NAMES.iter().enumerate();
        let stages_ns = stages.map(|(at, name)| {
            let stage = |tally: &CounterSnapshot| tally.stages.get(at).copied().unwrap_or(0);
            let width = group.mean_ns(stage, requests);
            ((*name).to_owned(), width.map_or(Value::Null, Value::from))
        });
        let stages_ns = stages_ns.collect();
        ReportCi95 {
            batches: self.batches.map_or(0, |parts| parts.count()) as u64,
            batch_ns: self.batches.map_or(0.0, |parts| parts.width_ns()),
            reason: self.none.clone().or(group.reason()),
            total_gb_per_s,
            read_gb_per_s,
            write_gb_per_s,
            latency_ns,
            read_latency_ns,
            in_flight,
            stages_ns,
        }
    }

    /// Intervals of the host or accelerator with this number among all of them.
    pub(crate) fn of_issuer(&self, number: usize) -> HostCi95 {
        let mut group = Group::of(self);
        let one = |of: fn(&IssuerCounters) -> u64| {
            move |tally: &CounterSnapshot| tally.issuers.get(number).map_or(0, of)
        };
        HostCi95 {
            total_gb_per_s: group.lines(one(|one| one.reads + one.writes)),
            read_gb_per_s: group.lines(one(|one| one.reads)),
            write_gb_per_s: group.lines(one(|one| one.writes)),
            latency_ns: group.mean_ns(one(|one| one.latency), one(|one| one.requests)),
            in_flight: group.level(one(|one| one.in_flight)),
            reason: group.reason(),
        }
    }

    pub(crate) fn of_device(&self, number: usize) -> DeviceCi95 {
        let mut group = Group::of(self);
        let one = |of: fn(&DeviceCounters) -> u64| {
            move |tally: &CounterSnapshot| tally.devices.get(number).map_or(0, of)
        };
        DeviceCi95 {
            total_gb_per_s: group.lines(one(|one| one.reads + one.writes)),
            read_gb_per_s: group.lines(one(|one| one.reads)),
            write_gb_per_s: group.lines(one(|one| one.writes)),
            reason: group.reason(),
        }
    }

    /// Intervals of a link's direction. Directions are numbered forward and backward of each link in turn.
    pub(crate) fn of_link(&self, number: usize) -> LinkCi95 {
        let mut group = Group::of(self);
        let one = |of: fn(&LinkCounters) -> u64| {
            move |tally: &CounterSnapshot| tally.links.get(number).map_or(0, of)
        };
        LinkCi95 {
            utilization: group.level(one(|one| one.busy)),
            efficiency: group.ratio(one(|one| one.payload), one(|one| one.bytes)),
            payload_gb_per_s: group.rate(one(|one| one.payload)),
            reason: group.reason(),
        }
    }

    pub(crate) fn of_hops(&self, hops: usize) -> HopsCi95 {
        let mut group = Group::of(self);
        let one = |of: fn(&HopCounters) -> u64| {
            move |tally: &CounterSnapshot| tally.hops.get(hops).map_or(0, of)
        };
        HopsCi95 {
            mean_ns: group.mean_ns(one(|one| one.latency), one(|one| one.requests)),
            queue_ns: group.mean_ns(one(|one| one.queue), one(|one| one.requests)),
            reason: group.reason(),
        }
    }
}

/// A group of values, with one common reason for those that have no interval.
struct Group<'a> {
    batches: Option<Parts<'a>>,
    why: Option<NoInterval>,
}

impl<'a> Group<'a> {
    fn of(intervals: &Intervals<'a>) -> Group<'a> {
        Group {
            batches: intervals.batches.filter(|_| intervals.none.is_none()),
            why: None,
        }
    }

    fn keep(&mut self, width: Result<f64, NoInterval>) -> Option<f64> {
        self.why = self.why.or(width.as_ref().err().copied());
        width.ok()
    }

    /// Half-width of a rate in GB/s, from a counter of bytes.
    fn rate(&mut self, bytes: impl Fn(&CounterSnapshot) -> u64) -> Option<f64> {
        let width = self.batches?.rate(bytes);
        self.keep(width)
    }

    /// Half-width of a rate in GB/s, from a counter of 64-byte lines.
    fn lines(&mut self, lines: impl Fn(&CounterSnapshot) -> u64) -> Option<f64> {
        self.rate(lines).map(|width| width * 64.0)
    }

    /// Half-width of a mean over time, from its integral in picoseconds.
    fn level(&mut self, integral: impl Fn(&CounterSnapshot) -> u64) -> Option<f64> {
        self.rate(integral).map(|width| width / 1e3)
    }

    fn ratio(
        &mut self,
        above: impl Fn(&CounterSnapshot) -> u64,
        below: impl Fn(&CounterSnapshot) -> u64,
    ) -> Option<f64> {
        let batches = self.batches?;
        let (above, below) = (batches.column(above), batches.column(below));
        if below.iter().all(|value| *value == 0.0) {
            // Without samples there is no mean.
            return None;
        }
        self.keep(batches.ratio(&above, &below))
    }

    /// Half-width of a mean time in nanoseconds, from a sum in picoseconds and the number of summands.
    fn mean_ns(
        &mut self,
        picos: impl Fn(&CounterSnapshot) -> u64,
        count: impl Fn(&CounterSnapshot) -> u64,
    ) -> Option<f64> {
        self.ratio(picos, count).map(|width| width / 1e3)
    }

    fn reason(&self) -> Option<String> {
        let why = match self.why? {
            NoInterval::FewBatches => "the window has too few batches",
            NoInterval::FewRequests => "too few batches completed a request",
            NoInterval::Correlated => {
                "successive batches are too strongly correlated: the window is too short"
            }
        };
        Some(why.to_owned())
    }
}

/// Whether total bandwidth or mean latency drifts over these batches, or within the windows of these samples.
pub(crate) fn drifts(parts: Parts<'_>) -> [bool; 2] {
    match parts {
        Parts::Batches(batches) => drifts_over(batches),
        Parts::Samples(samples) => {
            let [first, second] = &samples.halves();
            [[0, 1], [2, 3]].map(|columns| {
                statistics::drifts_within(
                    columns.map(|column| first[column].as_slice()),
                    columns.map(|column| second[column].as_slice()),
                )
            })
        }
    }
}

fn drifts_over(batches: &Batches) -> [bool; 2] {
    let total = |of: fn(&IssuerCounters) -> u64| batches.column(move |tally| of(&tally.total()));
    let lines = total(|one| one.reads + one.writes);
    let (latency, requests) = (total(|one| one.latency), total(|one| one.requests));
    let all = latency.iter().sum::<f64>();
    let mean = all / requests.iter().sum::<f64>().max(1.0);
    let residuals: Vec<f64> = (latency.iter().zip(&requests))
        .map(|(latency, requests)| latency - mean * requests)
        .collect();
    let count = lines.len().max(1) as f64;
    let rate = lines.iter().sum::<f64>() / count;
    [
        statistics::drifts(&lines, rate),
        statistics::drifts(&residuals, all / count),
    ]
}

/// A percentage as a fraction of one.
pub(crate) fn fraction(percent: PartsPerMillion) -> f64 {
    percent.0 as f64 / 1e6
}

/// Whether total bandwidth and mean latency are at least as precise as `wanted`.
pub(crate) fn is_precise(parts: Parts<'_>, wanted: PartsPerMillion) -> bool {
    relative(parts).is_some_and(|reached| reached <= fraction(wanted))
}

/// The larger relative half-width of total bandwidth and mean latency; `None` where one of them has no interval.
pub(crate) fn relative(batches: Parts<'_>) -> Option<f64> {
    let report = Intervals::new(Some(batches)).of_report();
    let total = |of: fn(&IssuerCounters) -> u64| -> f64 {
        batches.column(move |tally| of(&tally.total())).iter().sum()
    };
    let span = batches.count() as f64 * batches.width_ns();
    let rate = total(|one| one.reads + one.writes) * 64.0 / span;
    let latency = total(|one| one.latency) / 1e3 / total(|one| one.requests);
    let relative = [report.total_gb_per_s? / rate, report.latency_ns? / latency];
    Some(relative[0].max(relative[1]))
}

/// Simulated nanoseconds of `requests` requests at the samples' mean time per request, and the half-width
/// of its interval.
pub(crate) fn time_of(samples: &Samples, requests: u64) -> (Option<f64>, Option<f64>) {
    let spans = samples.spans_ns();
    let count = samples.column(|tally| tally.total().requests);
    let all: f64 = count.iter().sum();
    if all <= 0.0 {
        return (None, None);
    }
    let time = spans.iter().sum::<f64>() / all * requests as f64;
    let width = statistics::sampled_half_width(&spans, &count).ok();
    (Some(time), width.map(|width| width * requests as f64))
}
