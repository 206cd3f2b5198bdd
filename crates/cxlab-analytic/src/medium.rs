//! A medium, characterised by measurement: its own model runs alone on the addresses that
//! the hosts use.
//!
//! The model of a medium is passive and needs no engine, so its behaviour without load, half full
//! and full can be measured directly. A constant latency comes out exact. State (caches, open rows,
//! flash) is that of the first accesses of the run.

use crate::flow::MessageClass;
use crate::wire::ClassRates;
use cxlab_cache::{Completion, MemoryBackend, MemoryRequest};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Dpa, SimTime};

/// An access to a device, as input of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeAccess {
    /// Device physical address.
    pub dpa: Dpa,
    /// `true` for a write.
    pub write: bool,
}

/// The measured behaviour of a medium under a stream of accesses. Times in picoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MediumModel {
    /// Mean latency of a read without load, rounded.
    pub read_ps: u64,
    /// Mean latency of a write without load, rounded.
    pub write_ps: u64,
    /// Whether all reads had the same latency without load, and all writes too.
    pub constant: bool,
    /// Mean time between two accesses when the medium is full.
    pub service_ps: f64,
    /// Mean wait when the medium is half full; waits at other loads are scaled from this value.
    pub half_wait_ps: f64,
    /// Accesses that the medium holds, at once or at its full rate; further accesses wait in the buffers of its
    /// device.
    pub places: f64,
}

/// Why a medium could not be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeError {
    /// The list of accesses is too short, or empty.
    NoAccess,
    /// The medium holds accesses, but names no time of a next event or completion.
    Stuck,
}

impl std::fmt::Display for ProbeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ProbeError::NoAccess => "no access to measure the medium with",
            ProbeError::Stuck => "the medium never answered an access",
        })
    }
}

impl std::error::Error for ProbeError {}

/// Time from the completion of an access without load to the next access (*assumed*: a round trip
/// through a fabric).
const GAP_PS: u64 = 200_000;
/// Least wait at half load, as a part of the service time: a full medium makes accesses wait
/// however evenly they arrive (*assumed*; it decides only how close to full the rates get).
const LEAST_WAIT: f64 = 0.01;
/// The load at which the wait is measured.
const HALF: f64 = 0.5;

/// Measures a medium. `fresh` makes a new one; `contexts` is the most accesses that its device
/// keeps outstanding in it.
///
/// # Errors
/// [`ProbeError`].
pub fn probe(
    fresh: impl Fn() -> Box<dyn MemoryBackend>,
    accesses: &[ProbeAccess],
    contexts: u32,
) -> Result<MediumModel, ProbeError> {
    let read = alone(fresh(), accesses, false)?;
    let write = alone(fresh(), accesses, true)?;
    let bench = || MediumBench::new(fresh(), contexts);
    let (service_ps, _) = bench().run(accesses, &mut |_| SimTime::ZERO)?;
    let mut arrivals = poisson(service_ps / HALF);
    let (_, loaded) = bench().run(accesses, &mut |_| arrivals())?;
    // The mean of both latencies, weighted by the mix of the loaded measurement.
    let writes = accesses.iter().filter(|access| access.write).count() as f64;
    let share = writes / accesses.len() as f64;
    let idle = (1.0 - share) * read.mean + share * write.mean;
    let known = |one: &UnloadedLatency| one.mean.round() as u64;
    Ok(MediumModel {
        read_ps: known(&read),
        write_ps: known(&write),
        constant: read.constant && write.constant,
        service_ps,
        half_wait_ps: (loaded - idle).max(LEAST_WAIT * service_ps),
        // A medium that takes accesses one after the other holds more at its full rate than at one instant.
        places: places(fresh(), accesses, contexts).max(idle / service_ps),
    })
}

/// The number of accesses that a medium holds at once.
fn places(backend: Box<dyn MemoryBackend>, accesses: &[ProbeAccess], contexts: u32) -> f64 {
    let mut bench = MediumBench::new(backend, contexts);
    let entered = accesses
        .iter()
        .map(|access| bench.enter(SimTime::ZERO, *access));
    entered.take_while(|entered| *entered).count() as f64
}

/// The number of accesses that fill a medium.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Saturation {
    /// Mean time between two accesses when the medium is full, in picoseconds.
    pub service_ps: f64,
    /// The fewest outstanding accesses with which the medium is as good as full.
    pub inside: u32,
    /// At 90 % of the full rate with random arrivals, 5 % of the accesses find more than this
    /// number in the medium or queued for it.
    pub busy: u32,
}

/// A medium is as good as full if it carries this part of its rate with all contexts in use
/// (*assumed*: each further access makes a DRAM slightly faster).
const AS_GOOD_AS_FULL: f64 = 0.95;

/// The load for which [`Saturation::busy`] is measured, and the part of arrivals that may
/// find more (*assumed*).
const BUSY: f64 = 0.9;
const RARELY: f64 = 0.05;
/// The divisor of the number of accesses for each guess of [`Saturation::inside`]. [`Saturation::busy`] is
/// measured with all accesses, as a DRAM refreshes rarely.
const FEWER: usize = 4;

/// Measures in a closed loop how many outstanding accesses fill a medium. `contexts` is the most
/// that its device keeps outstanding. A medium that is faster than one access in `least_ps` counts
/// as that slow, because its device cannot use more.
///
/// # Errors
/// [`ProbeError`].
pub fn fill(
    fresh: impl Fn() -> Box<dyn MemoryBackend>,
    accesses: &[ProbeAccess],
    contexts: u32,
    least_ps: f64,
) -> Result<Saturation, ProbeError> {
    let fewer = &accesses[..accesses.len() / FEWER];
    let with = |inside: u32| {
        let bench = MediumBench::new(fresh(), inside);
        let (_, done) = bench.times(fewer, &mut |_| SimTime::ZERO)?;
        // The beginning and the end are left out, because fewer accesses are outstanding there.
        let (from, to) = (done.len() / 4, done.len() * 3 / 4);
        if from == to {
            return Err(ProbeError::NoAccess);
        }
        let service_ps = (done[to] - done[from]) as f64 / (to - from) as f64;
        Ok(service_ps.max(least_ps))
    };
    let service_ps = with(contexts)?;
    let enough = service_ps / AS_GOOD_AS_FULL;
    // Bisection: `few` do not fill the medium, `inside` do.
    let (mut few, mut inside) = (0, contexts);
    while few + 1 < inside {
        // Guesses double as long as possible, because few accesses fill most media.
        let between = (2 * few + 1).min(few + (inside - few) / 2);
        match with(between)? <= enough {
            true => inside = between,
            false => few = between,
        }
    }
    let mut arrivals = poisson(service_ps / BUSY);
    let bench = MediumBench::new(fresh(), contexts);
    let busy = bench.found_by(accesses, &mut |_| arrivals())?;
    Ok(Saturation {
        service_ps,
        inside,
        busy,
    })
}

/// Poisson arrivals with this mean distance in picoseconds.
fn poisson(mean: f64) -> impl FnMut() -> SimTime {
    let mut rng = StreamRng::new(0, "analytic/medium");
    let mut at = 0.0;
    move || {
        at -= mean * libm::log(rng.unit());
        SimTime(at as u64)
    }
}

struct UnloadedLatency {
    mean: f64,
    constant: bool,
}

/// The mean latency of accesses one by one, all as reads or all as writes.
fn alone(
    backend: Box<dyn MemoryBackend>,
    accesses: &[ProbeAccess],
    write: bool,
) -> Result<UnloadedLatency, ProbeError> {
    let mut bench = MediumBench::new(backend, 1);
    let (mut sum, mut count) = (0u128, 0u128);
    let (mut least, mut most) = (u64::MAX, 0);
    let skip = accesses.len() / 2;
    for (at, access) in accesses.iter().enumerate() {
        let begun = SimTime(bench.now.0 + GAP_PS);
        let access = ProbeAccess { write, ..*access };
        let took = bench.one(begun, access)?;
        if at >= skip {
            sum += u128::from(took);
            count += 1;
            least = least.min(took);
            most = most.max(took);
        }
    }
    if count == 0 {
        return Err(ProbeError::NoAccess);
    }
    Ok(UnloadedLatency {
        mean: sum as f64 / count as f64,
        constant: least == most,
    })
}

/// A test bench: a medium, its clock, and the outstanding accesses.
struct MediumBench {
    backend: Box<dyn MemoryBackend>,
    now: SimTime,
    contexts: usize,
    /// Arrival time of each outstanding access, by its number.
    came: Vec<SimTime>,
    free: Vec<u32>,
    held: usize,
    /// Completions that the medium announced when it took the access, in order.
    told: std::collections::VecDeque<Completion>,
    done: Vec<Completion>,
}

impl MediumBench {
    fn new(backend: Box<dyn MemoryBackend>, contexts: u32) -> MediumBench {
        MediumBench {
            backend,
            now: SimTime::ZERO,
            contexts: contexts as usize,
            came: vec![SimTime::ZERO; contexts as usize],
            free: (0..contexts).rev().collect(),
            held: 0,
            told: std::collections::VecDeque::new(),
            done: Vec::new(),
        }
    }

    /// Runs one access that arrives at `at`, and returns its latency.
    fn one(&mut self, at: SimTime, access: ProbeAccess) -> Result<u64, ProbeError> {
        let mut took = 0;
        self.until(at, &mut |_, span| took = span);
        while !self.enter(at, access) {
            self.step(&mut |_, _| {})?;
        }
        while self.held > 0 {
            self.step(&mut |_, span| took = span)?;
        }
        Ok(took)
    }

    /// Runs all accesses, each at its arrival or as soon as the medium accepts it. `note` gets the
    /// time of each completion and its latency.
    fn pass(
        mut self,
        accesses: &[ProbeAccess],
        comes: &mut dyn FnMut(usize) -> SimTime,
        note: &mut dyn FnMut(SimTime, u64),
    ) -> Result<(), ProbeError> {
        for (number, access) in accesses.iter().enumerate() {
            let at = comes(number);
            self.until(at, note);
            while !self.enter(at, *access) {
                self.step(note)?;
            }
        }
        while self.held > 0 {
            self.step(note)?;
        }
        Ok(())
    }

    /// The arrival times and the completion times of accesses in picoseconds, each list sorted.
    fn times(
        self,
        accesses: &[ProbeAccess],
        comes: &mut dyn FnMut(usize) -> SimTime,
    ) -> Result<(Vec<u64>, Vec<u64>), ProbeError> {
        let (mut came, mut done) = (Vec::new(), Vec::new());
        self.pass(accesses, comes, &mut |at, span| {
            came.push(at.0 - span);
            done.push(at.0);
        })?;
        came.sort_unstable();
        done.sort_unstable();
        Ok((came, done))
    }

    /// The number of accesses in the medium or queued for it, itself included, that an arriving
    /// access finds. Only the part [`RARELY`] of the second half of the accesses finds more.
    fn found_by(
        self,
        accesses: &[ProbeAccess],
        comes: &mut dyn FnMut(usize) -> SimTime,
    ) -> Result<u32, ProbeError> {
        let (came, done) = self.times(accesses, comes)?;
        let (mut gone, mut found) = (0, Vec::with_capacity(came.len()));
        for (before, at) in came.iter().enumerate() {
            gone += done[gone..].iter().take_while(|done| *done <= at).count();
            // An access without latency, and others that arrive with it, may be done at its
            // arrival; the access itself counts.
            found.push((before + 1).saturating_sub(gone).max(1) as u32);
        }
        let mut found = found.split_off(came.len() / 2);
        found.sort_unstable();
        let rarely = (found.len() as f64 * RARELY) as usize;
        let most = found.iter().rev().nth(rarely).copied();
        most.ok_or(ProbeError::NoAccess)
    }

    /// Runs all accesses as `pass` does. Returns the mean time between completions and the mean
    /// latency, both of the second half.
    fn run(
        self,
        accesses: &[ProbeAccess],
        comes: &mut dyn FnMut(usize) -> SimTime,
    ) -> Result<(f64, f64), ProbeError> {
        let skip = accesses.len() / 2;
        let (mut done, mut sum, mut from, mut to) = (0usize, 0u128, SimTime::ZERO, SimTime::ZERO);
        let mut note = |at: SimTime, span: u64| {
            done += 1;
            if done == skip {
                from = at;
            } else if done > skip {
                sum += u128::from(span);
                to = at;
            }
        };
        self.pass(accesses, comes, &mut note)?;
        let count = accesses.len() - skip;
        if count < 2 {
            return Err(ProbeError::NoAccess);
        }
        let span = to.0.saturating_sub(from.0).max(1) as f64;
        Ok((span / count as f64, sum as f64 / count as f64))
    }

    /// Offers the medium an access that arrived at `came`, and returns whether it was accepted.
    fn enter(&mut self, came: SimTime, access: ProbeAccess) -> bool {
        if self.held == self.contexts || !self.backend.can_accept(self.now, access.write) {
            return false;
        }
        let Some(id) = self.free.pop() else {
            return false;
        };
        self.came[id as usize] = came;
        self.held += 1;
        let request = MemoryRequest {
            id,
            dpa: access.dpa,
            lines: 1,
            write: access.write,
        };
        if let Some(at) = self.backend.enqueue(self.now, request) {
            self.told.push_back(Completion { id, at });
        }
        true
    }

    /// Advances the medium to `at`, if that is in the future.
    fn until(&mut self, at: SimTime, note: &mut dyn FnMut(SimTime, u64)) {
        while let Some(next) = self.next().filter(|next| *next <= at) {
            self.advance(next, note);
        }
        self.now = self.now.max(at);
    }

    /// Advances to the next event or completion.
    fn step(&mut self, note: &mut dyn FnMut(SimTime, u64)) -> Result<(), ProbeError> {
        let next = self.next().ok_or(ProbeError::Stuck)?;
        self.advance(next, note);
        Ok(())
    }

    fn next(&self) -> Option<SimTime> {
        let told = self.told.front().map(|first| first.at);
        match (told, self.backend.next_event()) {
            (Some(told), Some(event)) => Some(told.min(event)),
            (told, event) => told.or(event),
        }
    }

    fn advance(&mut self, at: SimTime, note: &mut dyn FnMut(SimTime, u64)) {
        self.now = self.now.max(at);
        let mut done = std::mem::take(&mut self.done);
        self.backend.advance(self.now, &mut done);
        while self.told.front().is_some_and(|first| first.at <= self.now) {
            done.extend(self.told.pop_front());
        }
        for completion in done.drain(..) {
            let came = self.came[completion.id as usize];
            self.free.push(completion.id);
            self.held -= 1;
            note(completion.at, completion.at.0 - came.0);
        }
        self.done = done;
    }
}

impl MediumModel {
    /// Used part of the capacity at a rate per picosecond: 1 is full.
    pub(crate) fn used(&self, rate: f64) -> f64 {
        rate * self.service_ps
    }

    /// Used part of the medium's places: 1 is all. `waiting` is the rate of the responses times
    /// their mean wait before they leave.
    pub(crate) fn held(&self, rates: &ClassRates, waiting: f64) -> f64 {
        let reads = rates[MessageClass::Req as usize] * self.read_ps as f64;
        let writes = rates[MessageClass::Rwd as usize] * self.write_ps as f64;
        (reads + writes + waiting) / self.places
    }

    /// Wait for the accesses inside, if others arrive at this rate. With it the wait grows with the
    /// load as 1 / (1 - load), through the wait measured at half load.
    pub(crate) fn residual(&self, others: f64) -> f64 {
        self.used(others).min(1.0) * self.half_wait_ps
    }
}

#[cfg(test)]
mod tests {
    use cxlab_engine::units::{Bytes, BytesPerSec, Picos};
    use cxlab_memory::fixed::FixedParams;
    use cxlab_memory::{Medium as _, MediumSite};

    use super::*;

    fn measured(params: &FixedParams) -> MediumModel {
        let mut rng = StreamRng::new(1, "test");
        let accesses = (0..8000).map(|_| ProbeAccess {
            dpa: Dpa(rng.below(1 << 20) * 64),
            write: rng.chance(0.5),
        });
        probe(media(params), &accesses.collect::<Vec<_>>(), 256).unwrap()
    }

    fn media(params: &FixedParams) -> impl Fn() -> Box<dyn MemoryBackend> {
        move || params.backend(MediumSite::alone(Bytes(1 << 30), 1))
    }

    fn assert_near(medium: &impl std::fmt::Debug, found: f64, expected: f64, error: f64) {
        assert!((found / expected - 1.0).abs() < error, "{medium:?}");
    }

    #[test]
    fn a_constant_latency_is_found_exactly() {
        let medium = measured(&FixedParams {
            latency: Picos(46_123),
            write_latency: Some(Picos(7_001)),
            ..FixedParams::default()
        });
        assert!(medium.constant);
        assert_eq!((medium.read_ps, medium.write_ps), (46_123, 7_001));
    }

    /// The service time follows from the bandwidth, and at half load an M/D/1 queue waits
    /// half of it.
    #[test]
    fn a_bandwidth_is_found_with_the_wait_of_its_queue() {
        let medium = measured(&FixedParams {
            bandwidth: Some(BytesPerSec(6_400_000_000)),
            ..FixedParams::default()
        });
        assert_near(&medium, medium.service_ps, 10_000.0, 0.02);
        assert_near(&medium, medium.half_wait_ps, 5_000.0, 0.15);
    }

    /// With a latency of 46 ns, 5.75 lines are outstanding at one line each 8 ns, and 11.5 at one
    /// each 4 ns. At a load of 90 % 0.9 of them are served, and 13 or fewer wait in 95 % of an
    /// M/D/1 queue (its tail falls by a factor of exp(-0.207) a request).
    #[test]
    fn what_fills_a_medium_is_its_bandwidth_times_its_latency() {
        for (bandwidth, least_ps, service_ps, inside, busy) in [
            (8, 0.0, 8_000.0, 6, 15..=22),
            (16, 0.0, 4_000.0, 11, 20..=28),
            // The device needs only half of the bandwidth.
            (16, 8_000.0, 8_000.0, 6, 7..=10),
            // 64 contexts of 46 ns: 0.72 ns a line.
            (1000, 0.0, 718.75, 61, 62..=90),
        ] {
            let params = FixedParams {
                bandwidth: Some(BytesPerSec(bandwidth * 1_000_000_000)),
                ..FixedParams::default()
            };
            let accesses = (0..16_000).map(|line| ProbeAccess {
                dpa: Dpa(line * 64),
                write: false,
            });
            let accesses: Vec<ProbeAccess> = accesses.collect();
            let found = fill(media(&params), &accesses, 64, least_ps).unwrap();
            assert_near(&found, found.service_ps, service_ps, 0.02);
            // Completions come in bursts, and the measured middle half may cut one.
            let is_near = found.inside.abs_diff(inside) <= 1;
            assert!(is_near, "{bandwidth} GB/s: {found:?}");
            assert!(busy.contains(&found.busy), "{bandwidth} GB/s: {found:?}");
        }
    }

    #[test]
    fn without_accesses_there_is_nothing_to_measure() {
        let found = probe(media(&FixedParams::default()), &[], 8);
        assert_eq!(found, Err(ProbeError::NoAccess));
    }
}
