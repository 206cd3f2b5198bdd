//! What an attached run reports.

use serde::{Deserialize, Serialize};

use crate::ledger::Accounts;
use crate::model::Overlap;

/// How misses were found, and how good that is.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq, Debug)]
pub struct Tier {
    /// 1 (best) to 4.
    pub number: u8,
    /// What it is.
    pub name: String,
    /// What to expect of its numbers.
    pub error_class: String,
    /// Why no better one: one line each.
    pub refused: Vec<String>,
}

/// How the program ended.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It runs on without us.
    Detached,
}

/// What a pool was used for. Estimates.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// Part of all misses.
    pub share: f64,
    /// Misses: lines read or written.
    pub lines: f64,
    /// Latencies waited for.
    pub waits: f64,
    /// Mean latency while they were waited for; this machine's own, for its memory.
    pub latency_ns: f64,
}

/// What an attached run reports.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct AttachReport {
    /// "attach".
    pub mode: String,
    /// How misses were found.
    pub tier: Tier,
    /// How addresses got their places.
    pub placement: String,
    /// Processes and threads that were followed.
    pub processes: u64,
    /// Threads that were followed.
    pub threads: u64,
    /// How the program (or the process attached to) ended.
    pub end: End,
    /// Real time from the first instruction to the end.
    pub real_s: f64,
    /// CPU time of all threads, without what windows took.
    pub cpu_s: f64,
    /// CPU time of which registers told how many instructions it was; of which the pace did at which registers had
    /// counted the same code; and, in user space, of which the model's own time for them did.
    pub counted_s: f64,
    /// By the pace.
    pub paced_s: f64,
    /// By the model's time.
    pub priced_s: f64,
    /// Time that the model says for what had a price, with all memory being this machine's own: what the delay is
    /// compared with on the machine that the model describes (no tables of pages, no kernel, no neighbours).
    pub modelled_s: f64,
    /// CPU time that counted code took longer behind holds than elsewhere: a part of what was taken by attaching.
    pub slowed_s: f64,
    /// Delay asked for and charged, all threads; held, and taken by attaching itself, which counts as charged as
    /// far as delay was asked for.
    pub delay: Accounts,
    /// `charged / asked - 1`, in per cent; 0 where nothing was asked for.
    pub delay_error_percent: f64,
    /// Real time without the time that the program was held: what it takes here, with our cost.
    /// With several threads this is real time less the longest hold of one.
    pub undelayed_s: f64,
    /// Exact windows, and instructions in them.
    pub windows: u64,
    /// Instructions in them.
    pub window_instructions: u64,
    /// Time that threads stood still for windows.
    pub window_s: f64,
    /// Latency of this machine's memory, as used.
    pub local_latency_ns: f64,
    /// Bytes of last level cache that the program is taken to have.
    pub llc_bytes: u64,
    /// What overlaps, as used.
    pub overlap: Overlap,
    /// By pool.
    pub pools: Vec<PoolReport>,
    /// What a careful user would want to know.
    pub notes: Vec<String>,
}
