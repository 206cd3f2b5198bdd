//! The time that a wire is promised.

use cxlab_engine::save_state;

/// Times of a transmitter are kept to 2^-16 ps so that rates are exact in the long run.
const FRACTION: u32 = u16::BITS;

/// Until when a wire is promised, and how long it was busy.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Timeline {
    /// In picoseconds.
    free: u64,
    /// Busy since measurement began, in picoseconds.
    busy: u64,
    /// While less than so much is promised (picoseconds, at least 1), the next packet may join.
    staging: u32,
    /// What is promised beyond `free`, in 2^-16 ps.
    fraction: u16,
    /// Whether all that is sent arrives whole. It lies here because it is looked at with the rest.
    pub(crate) faultless: bool,
}

save_state!(Timeline {
    values: free, fraction, busy;
    built: staging, faultless;
});

impl Timeline {
    pub(crate) fn new(staging: u32, faultless: bool) -> Self {
        Timeline {
            free: 0,
            busy: 0,
            staging: staging.max(1),
            fraction: 0,
            faultless,
        }
    }

    /// The time of so many bytes at a rate (bytes per second), in 2^-16 ps.
    pub(crate) fn of(bytes: u64, rate: u64) -> u64 {
        let time = (u128::from(bytes) * 1_000_000_000_000) << FRACTION;
        u64::try_from(time.div_ceil(u128::from(rate.max(1)))).unwrap_or(u64::MAX >> 1)
    }

    /// Such a time in whole picoseconds.
    #[inline]
    pub(crate) fn picos(time: u64) -> u64 {
        time >> FRACTION
    }

    /// The wire is promised until then, in picoseconds.
    #[inline]
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// How far the wire is promised beyond `now`, in picoseconds.
    #[inline(always)]
    pub(crate) fn backlog(&self, now: u64) -> u64 {
        self.free.saturating_sub(now)
    }

    /// Whether the next packet has to wait. One comparison, because nobody can predict whether the
    /// wire is free before now.
    #[inline(always)]
    pub(crate) fn is_full(&self, now: u64) -> bool {
        self.backlog(now) >= u64::from(self.staging)
    }

    /// Whole picoseconds after [`Timeline::free`] when so much more (2^-16 ps) has passed.
    #[inline]
    pub(crate) fn elapsed(&self, time: u64) -> u64 {
        (u64::from(self.fraction) + time) >> FRACTION
    }

    /// Where the wire is free before `now`, nothing is promised up to `now`.
    #[inline]
    pub(crate) fn idle_until(&mut self, now: u64) {
        if self.free < now {
            self.free = now;
            self.fraction = 0;
        }
    }

    /// Promises the wire for so much more (2^-16 ps) from `now` on, or from when it is free. Returns
    /// when that begins. Nobody can predict which of the two is later, so there is no branch.
    #[inline(always)]
    pub(crate) fn promise(&mut self, now: u64, time: u64) -> u64 {
        let idle = self.free < now;
        let start = if idle { now } else { self.free };
        let fraction = if idle { 0 } else { self.fraction };
        let elapsed = u64::from(fraction) + time;
        self.free = start + (elapsed >> FRACTION);
        self.busy += elapsed >> FRACTION;
        self.fraction = elapsed as u16;
        start
    }

    /// The wire is busy for so much more, in 2^-16 ps.
    #[inline]
    pub(crate) fn spend(&mut self, time: u64) {
        let elapsed = u64::from(self.fraction) + time;
        self.free += elapsed >> FRACTION;
        self.busy += elapsed >> FRACTION;
        self.fraction = elapsed as u16;
    }

    /// The wire is held for so many picoseconds more, for what was sent before.
    pub(crate) fn hold(&mut self, picos: u64) {
        self.free += picos;
    }

    /// Busy since measurement began, in picoseconds.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }

    /// Measurement begins.
    pub(crate) fn reset(&mut self) {
        self.busy = 0;
    }
}
