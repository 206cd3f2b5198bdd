//! Unmodified programs under a scenario: `cxlab attach`.
//!
//! Unmodified programs run natively, and cxlab traces their threads. Now and then a thread is single-stepped
//! over a few thousand instructions, every address of which is decoded ([`model`]). Such a window says how
//! long the program waits for memory and for which pool ([`placement`]), how it goes on from there
//! ([`extrapolation`]), and how many lines it uses of the pages that it touches ([`density`]). The program's
//! progress is read from its registers ([`progress`]), or else from its CPU time. Latency and bandwidth come from the analytic form of the fabric ([`fabric`]). Together they give the delay
//! that CXL memory would have added ([`estimate`]). The thread that used the time is held for that delay,
//! which is accounted to the nanosecond ([`ledger`]).
//!
//! # Invariants
//!
//! * Delay is never clipped: the charged delay equals the requested delay, up to the last hold.
//! * Memory that is no slower than this machine's adds no delay.
//! * A higher latency never requests less delay.
//! * When cxlab ends, for whatever reason, the program runs on.
//!
//! The modules that trace a program need Linux on x86-64. The others build everywhere.

pub mod density;
pub mod estimate;
pub mod extrapolation;
pub mod fabric;
pub mod ledger;
pub mod locality;
pub mod located;
pub mod model;
pub mod placement;
pub mod profile;
pub mod progress;
pub mod recording;
pub mod replay;
pub mod report;
pub mod reuse;
pub mod reuse_time;
pub mod schedule;
pub mod slowdown;

cfg_if::cfg_if! {
    if #[cfg(all(target_os = "linux", target_arch = "x86_64"))] {
        pub mod calibrate;
        pub mod decode;
        pub mod doctor;
        mod guard;
        mod images;
        mod measurement_cache;
        mod maps;
        pub mod meter;
        mod prices;
        mod process;
        mod recorder;
        mod relay;
        mod sites;
        mod stack;
        pub mod symbols;
        mod sys;
        mod thread;
        mod tracer;
        mod window;

        pub use guard::{AttachError, AttachOutcome, Options, attach};
        pub use images::to_addresses;
        pub use measurement_cache::{is_this_machine, this_machine};
        pub use sys::die_by;
    }
}

/// The share of a part in a whole, and 0 if there is no whole.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Increment of the state of SplitMix64.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The random number that SplitMix64 has for a state.
pub(crate) fn drawn(state: u64) -> u64 {
    let value = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The next number of Knuth's congruential generator, whose high bits are random.
#[cfg(test)]
pub(crate) fn knuth(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    *state
}

/// The program that `cxlab attach` follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A command and its arguments, which cxlab starts.
    Command(Vec<std::ffi::OsString>),
    /// A running process with all its threads, and the processes that it starts from now on.
    Pid(i32),
}
