//! Error injection.

use std::collections::VecDeque;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;

use crate::params::{LinkParams, Transmission};

/// Error injection: which flits (or packets) arrive broken. Each is sent again until it arrives whole; everything
/// behind it waits, as the receiver discards it (go-back-N). Of a latency-optimised flit one half is broken, either as
/// likely; the receiver has then used the messages of a first half that arrived whole (CXL 3.1 section 6.2.3.1.2).
#[derive(Clone, Debug)]
pub(crate) struct Errors {
    rng: StreamRng,
    probability: f64,
    /// Flits that have begun.
    begun: u64,
    /// Transmissions of theirs that broke since measurement began.
    retries: u64,
    /// Transmissions to come that break, in order, as many as were asked for: twice the number of the flit, and one
    /// more where its second half breaks.
    broken: VecDeque<u64>,
    /// The flit whose next transmission is drawn next.
    drawn: u64,
    /// Whether either half of a flit may break alone.
    halves: bool,
    /// From the end of a broken flit to the start of its next transmission.
    round_trip: u64,
}

save_state!(Errors {
    values: begun, retries, broken, drawn;
    states: rng;
    built: probability, halves, round_trip;
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
            halves: params.transmission == Transmission::Flit && params.flit_format().halves() > 1,
            round_trip: params.retry_round_trip_ps(),
        })
    }

    /// What so many broken transmissions cost that take `flit_ps` each: the time to hear of it, and the next
    /// transmission.
    pub(crate) fn delay(&self, broken: u64, flit_ps: u64) -> u64 {
        broken * (self.round_trip + flit_ps)
    }

    /// How many transmissions break before the receiver has the next `flits` flits: the last one whole, or its first
    /// half.
    pub(crate) fn among_next(&mut self, flits: u64, whole: bool) -> u64 {
        let last = self.begun + flits;
        while self.drawn < last {
            // Not the platform's logarithm: every machine draws the same distances.
            let distance = libm::log(self.rng.unit()) / libm::log1p(-self.probability);
            let distance = if distance < 1e18 {
                distance as u64
            } else {
                u64::MAX / 4
            };
            // The transmission after a broken one is that of the same flit, and as likely to break.
            self.drawn = self.drawn.saturating_add(distance);
            let second = self.halves && self.rng.chance(0.5);
            self.broken.push_back(2 * self.drawn + u64::from(second));
        }
        let end = 2 * last - u64::from(!whole);
        self.broken
            .iter()
            .take_while(|number| **number < end)
            .count() as u64
    }

    /// The next `flits` flits begin; returns how many transmissions of theirs break.
    pub(crate) fn begin(&mut self, flits: u64) -> u64 {
        let count = self.among_next(flits, true);
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
