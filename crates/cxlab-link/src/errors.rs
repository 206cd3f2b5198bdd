//! Error injection.

use std::collections::VecDeque;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;

use crate::params::LinkParams;

/// Error injection: which flits (or packets) arrive broken. Each is sent a second time, which
/// succeeds; everything behind it waits, as the receiver discards it (go-back-N).
#[derive(Clone, Debug)]
pub(crate) struct Errors {
    rng: StreamRng,
    probability: f64,
    /// Flits that have begun.
    begun: u64,
    /// Broken ones among them since measurement began.
    retries: u64,
    /// Numbers of the broken flits to come, in order: as many as were asked for.
    broken: VecDeque<u64>,
    /// The number from which on none has been drawn.
    drawn: u64,
    /// From the end of a broken flit to the start of its second transmission.
    round_trip: u64,
}

save_state!(Errors {
    values: begun, retries, broken, drawn;
    states: rng;
    built: probability, round_trip;
});

impl Errors {
    /// The errors of a link, if it has any. `name` keys their random stream.
    pub(crate) fn of(params: &LinkParams, seed: u64, name: &str) -> Option<Errors> {
        let probability = params.flit_error_rate.0;
        (probability > 0.0).then(|| Errors {
            rng: StreamRng::new(seed, name),
            probability,
            begun: 0,
            retries: 0,
            broken: VecDeque::new(),
            drawn: 0,
            round_trip: params.retry_round_trip_ps(),
        })
    }

    /// What so many broken flits cost that take `flit_ps` each: the time to hear of it, and the
    /// second transmission.
    pub(crate) fn delay(&self, broken: u64, flit_ps: u64) -> u64 {
        broken * (self.round_trip + flit_ps)
    }

    /// How many of the next `flits` flits arrive broken.
    pub(crate) fn among_next(&mut self, flits: u64) -> u64 {
        let end = self.begun + flits;
        while self.drawn < end {
            // Not the platform's logarithm: every machine draws the same distances.
            let distance = libm::log(self.rng.unit()) / libm::log1p(-self.probability);
            let distance = if distance < 1e18 {
                distance as u64
            } else {
                u64::MAX / 4
            };
            self.broken.push_back(self.drawn.saturating_add(distance));
            self.drawn = self.drawn.saturating_add(distance).saturating_add(1);
        }
        self.broken
            .iter()
            .take_while(|number| **number < end)
            .count() as u64
    }

    /// The next `flits` flits begin; returns how many of them arrive broken.
    pub(crate) fn begin(&mut self, flits: u64) -> u64 {
        let count = self.among_next(flits);
        self.broken.drain(..count as usize);
        self.begun += flits;
        self.retries += count;
        count
    }

    /// How many were broken since measurement began.
    pub(crate) fn retries(&self) -> u64 {
        self.retries
    }

    /// Measurement begins.
    pub(crate) fn reset(&mut self) {
        self.retries = 0;
    }
}
