//! Error injection: which transmissions of flits or packets break, and what their retries cost.

use std::collections::VecDeque;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;

use crate::params::{LinkParams, Transmission};

/// Decides which flits (or packets) arrive broken. A broken flit is sent again until it arrives whole.
/// Everything after it waits, because the receiver discards what follows a broken flit (go-back-N). Of a
/// latency-optimised flit one half breaks, each with the same probability. If the second half breaks, the
/// receiver has already used the messages of the first (CXL 3.1 section 6.2.3.1.2).
#[derive(Clone, Debug)]
pub(crate) struct FlitErrors {
    rng: StreamRng,
    probability: f64,
    /// Number of flits that have begun.
    begun: u64,
    /// Broken transmissions of the flits that have begun, since measurement began.
    retries: u64,
    /// Future transmissions that break, in order, as far as they have been drawn. An entry is twice the
    /// number of the flit, plus one if its second half breaks.
    broken: VecDeque<u64>,
    /// The flit whose next transmission is drawn next.
    drawn: u64,
    /// Whether either half of a flit may break alone.
    halves: bool,
    /// Time from the end of a broken flit to the start of its next transmission, in picoseconds.
    round_trip: u64,
}

save_state!(FlitErrors {
    values: begun, retries, broken, drawn;
    states: rng;
    built: probability, halves, round_trip;
});

impl FlitErrors {
    /// The error injection of a link, if its error rate is above 0. `name` keys the random stream.
    pub(crate) fn of(params: &LinkParams, seed: u64, name: &str) -> Option<FlitErrors> {
        let probability = params.flit_error_rate.0;
        (probability > 0.0).then(|| FlitErrors {
            rng: StreamRng::new(seed, name),
            probability,
            begun: 0,
            retries: 0,
            broken: VecDeque::new(),
            drawn: 0,
            halves: params.transmission == Transmission::Flit && params.flit_format().halves() > 1,
            round_trip: params.retry_round_trip_ps(),
        })
    }

    /// Time that `broken` failed transmissions of `flit_ps` each cost, in picoseconds: a retry round trip
    /// and another transmission for each.
    pub(crate) fn delay(&self, broken: u64, flit_ps: u64) -> u64 {
        broken * (self.round_trip + flit_ps)
    }

    /// Number of transmissions that break before the receiver has the next `flits` flits. Of the last flit
    /// the receiver needs both halves if `both_halves`, or else the first half.
    pub(crate) fn among_next(&mut self, flits: u64, both_halves: bool) -> u64 {
        let last = self.begun + flits;
        while self.drawn < last {
            // `libm` and not the platform's logarithm: every machine must draw the same distances.
            let distance = libm::log(self.rng.unit()) / libm::log1p(-self.probability);
            // No run has so many flits. The bound keeps the sums below from overflowing.
            let distance = if distance < 1e18 {
                distance as u64
            } else {
                u64::MAX / 4
            };
            // The transmission after a broken one repeats the same flit, and breaks
            // with the same probability.
            self.drawn = self.drawn.saturating_add(distance);
            let second = self.halves && self.rng.chance(0.5);
            self.broken.push_back(2 * self.drawn + u64::from(second));
        }
        let end = 2 * last - u64::from(!both_halves);
        self.broken
            .iter()
            .take_while(|number| **number < end)
            .count() as u64
    }

    /// Starts the next `flits` flits; returns how many of their transmissions break.
    pub(crate) fn begin(&mut self, flits: u64) -> u64 {
        let count = self.among_next(flits, true);
        self.broken.drain(..count as usize);
        self.begun += flits;
        self.retries += count;
        count
    }

    /// Transmissions that broke since measurement began.
    pub(crate) fn retries(&self) -> u64 {
        self.retries
    }

    /// Resets the statistics at the start of measurement.
    pub(crate) fn reset(&mut self) {
        self.retries = 0;
    }
}
