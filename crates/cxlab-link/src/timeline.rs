//! The time until which a wire is reserved, and when a message leaves on it.

use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;

/// Bits of fraction: times of a transmitter are kept in units of 2^-16 ps, so that rates are
/// exact in the long run.
const FRACTION: u32 = u16::BITS;

/// When a message leaves its transmitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// Start of the message's flit or packet, until which the message waits.
    pub start: SimTime,
    /// When the last byte of the message leaves the transmitter (retries included).
    pub end: SimTime,
}

/// Until when a wire is reserved, and how long it was busy.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct WireTimeline {
    /// The wire is reserved until this time, in picoseconds.
    free_ps: u64,
    /// Time that the wire was busy since measurement began, in picoseconds.
    busy_ps: u64,
    /// While the reserved time beyond now is shorter than this (in picoseconds, at least 1),
    /// the next packet may join.
    staging: u32,
    /// Fraction of a picosecond reserved beyond `free_ps`, in 2^-16 ps.
    fraction: u16,
    /// Whether the link injects no errors. Stored here because every send reads it with the other fields.
    pub(crate) faultless: bool,
}

save_state!(WireTimeline {
    values: free_ps, fraction, busy_ps;
    built: staging, faultless;
});

impl WireTimeline {
    pub(crate) fn new(staging: u32, faultless: bool) -> Self {
        WireTimeline {
            free_ps: 0,
            busy_ps: 0,
            staging: staging.max(1),
            fraction: 0,
            faultless,
        }
    }

    /// Time of `bytes` at `rate` (bytes per second), in 2^-16 ps.
    pub(crate) fn time_of(bytes: u64, rate: u64) -> u64 {
        let time = (u128::from(bytes) * 1_000_000_000_000) << FRACTION;
        u64::try_from(time.div_ceil(u128::from(rate.max(1)))).unwrap_or(u64::MAX >> 1)
    }

    /// Converts a time in 2^-16 ps to picoseconds, without the fraction.
    #[inline]
    pub(crate) fn picos(time: u64) -> u64 {
        time >> FRACTION
    }

    /// Time until which the wire is reserved, in picoseconds.
    #[inline]
    pub(crate) fn free(&self) -> u64 {
        self.free_ps
    }

    /// How far beyond `now` the wire is reserved, in picoseconds.
    #[inline(always)]
    pub(crate) fn backlog(&self, now: u64) -> u64 {
        self.free_ps.saturating_sub(now)
    }

    /// Whether the next packet has to wait. This is a single comparison, because branch prediction cannot
    /// tell whether the wire is free before `now`.
    #[inline(always)]
    pub(crate) fn is_full(&self, now: u64) -> bool {
        self.backlog(now) >= u64::from(self.staging)
    }

    /// Whole picoseconds after [`WireTimeline::free`] when another `time` (2^-16 ps) has passed.
    #[inline]
    pub(crate) fn elapsed(&self, time: u64) -> u64 {
        (u64::from(self.fraction) + time) >> FRACTION
    }

    /// If the wire is free before `now`, leaves it idle until `now`.
    #[inline]
    pub(crate) fn idle_until(&mut self, now: u64) {
        if self.free_ps < now {
            self.free_ps = now;
            self.fraction = 0;
        }
    }

    /// Reserves the wire for `time` (2^-16 ps), from `now` or from when the wire is free, whichever
    /// is later. Returns the start. The code has no branch, because branch prediction cannot tell
    /// which of the two is later.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, now: u64, time: u64) -> u64 {
        let idle = self.free_ps < now;
        let start = if idle { now } else { self.free_ps };
        let fraction = if idle { 0 } else { self.fraction };
        let elapsed = u64::from(fraction) + time;
        self.free_ps = start + (elapsed >> FRACTION);
        self.busy_ps += elapsed >> FRACTION;
        self.fraction = elapsed as u16;
        start
    }

    /// Extends the reservation by `time`, in 2^-16 ps, as busy time.
    #[inline]
    pub(crate) fn occupy(&mut self, time: u64) {
        let elapsed = u64::from(self.fraction) + time;
        self.free_ps += elapsed >> FRACTION;
        self.busy_ps += elapsed >> FRACTION;
        self.fraction = elapsed as u16;
    }

    /// Extends the reservation by `picos` for retries of earlier flits. This time does not count as busy.
    pub(crate) fn extend_for_retries(&mut self, picos: u64) {
        self.free_ps += picos;
    }

    /// Time that the wire was busy since measurement began, in picoseconds.
    pub(crate) fn busy(&self) -> u64 {
        self.busy_ps
    }

    /// Resets the busy time at the start of measurement.
    pub(crate) fn reset(&mut self) {
        self.busy_ps = 0;
    }
}
