//! Counters of each measured window of a sampled run, from which its confidence intervals are computed.

use crate::batches::{CounterSnapshot, IssuerCounters};

/// The measured window of one sampling unit.
pub(crate) struct Sample {
    /// Length of the window and of the half with its first requests, in picoseconds.
    pub(crate) spans: [u64; 2],
    /// Counters of the window.
    pub(crate) tally: CounterSnapshot,
    /// Counters of all hosts in the first half.
    pub(crate) first: IssuerCounters,
}

/// The measured windows of a sampled run.
#[derive(Default)]
pub(crate) struct Samples(Vec<Sample>);

impl Samples {
    pub(crate) fn add(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Length of each window in nanoseconds.
    pub(crate) fn spans_ns(&self) -> Vec<f64> {
        let spans = self.0.iter().map(|sample| sample.spans[0] as f64 / 1e3);
        spans.collect()
    }

    /// Value of a counter in each window.
    pub(crate) fn column(&self, of: impl Fn(&CounterSnapshot) -> u64) -> Vec<f64> {
        let counts = self.0.iter().map(|sample| of(&sample.tally) as f64);
        counts.collect()
    }

    /// By half of each window, in requests: time, lines, summed latency, and requests.
    pub(crate) fn halves(&self) -> [[Vec<f64>; 4]; 2] {
        let of = |span: u64, one: &IssuerCounters| {
            [span, one.reads + one.writes, one.latency, one.requests].map(|value| value as f64)
        };
        let mut halves: [[Vec<f64>; 4]; 2] = Default::default();
        for sample in &self.0 {
            let first = of(sample.spans[1], &sample.first);
            let whole = of(sample.spans[0], &sample.tally.total());
            for column in 0..first.len() {
                halves[0][column].push(first[column]);
                halves[1][column].push(whole[column] - first[column]);
            }
        }
        halves
    }
}
