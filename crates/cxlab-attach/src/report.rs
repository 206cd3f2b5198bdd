//! The report of an attached run.

use serde::{Deserialize, Serialize};

use crate::ledger::Accounts;
use crate::model::Overlap;

/// The tier of a run: how it found misses, and how good that method is.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq, Debug)]
pub struct Tier {
    /// Rank of the tier, from 1 (best) to 4.
    pub number: u8,
    /// Name of the method.
    pub name: String,
    /// What accuracy to expect.
    pub error_class: String,
    /// Why no better tier was used, one line each.
    pub refused: Vec<String>,
}

/// How the program ended.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The program exited with this code.
    Exited(i32),
    /// This signal killed the program.
    Killed(i32),
    /// cxlab detached, and the program runs on.
    Detached,
}

/// Estimated use of a pool.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct PoolReport {
    /// Name of the pool.
    pub name: String,
    /// Share of all misses, from 0 to 1.
    pub share: f64,
    /// Number of misses: lines read or written.
    pub lines: f64,
    /// Number of latencies that the program waited for, one after another.
    pub waits: f64,
    /// Mean latency over these waits. For the program's local memory it is
    /// this machine's own latency.
    pub latency_ns: f64,
}

/// Report of an attached run.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct AttachReport {
    /// Kind of the report: always "attach".
    pub mode: String,
    /// Method that found the misses.
    pub tier: Tier,
    /// How addresses were assigned to pools.
    pub placement: String,
    /// Number of processes that were followed.
    pub processes: u64,
    /// Number of threads that were followed.
    pub threads: u64,
    /// How the program, or the process attached to, ended.
    pub end: End,
    /// Real time from the first instruction to the end.
    pub real_s: f64,
    /// CPU time of all threads, without the time of windows.
    pub cpu_s: f64,
    /// CPU time whose number of instructions is known from registers.
    pub counted_s: f64,
    /// CPU time whose instructions follow from the pace at which registers
    /// counted the same code.
    pub paced_s: f64,
    /// User CPU time whose instructions follow from the model's own time for them.
    pub priced_s: f64,
    /// Time that the model gives for all priced code with all memory being this machine's own. The
    /// delay is compared with it. It is of the machine that the model describes, without page
    /// tables, kernel and neighbours.
    pub modelled_s: f64,
    /// Extra CPU time that counted code took after holds compared with elsewhere. It is part of the
    /// time taken by attaching.
    pub slowed_s: f64,
    /// Delay of all threads: requested, charged, held, and taken by attaching itself. The taken
    /// time counts as charged as far as delay was requested.
    pub delay: Accounts,
    /// `charged / asked - 1`, in per cent. 0 if no delay was requested.
    pub delay_error_percent: f64,
    /// Real time without holds: what the program takes here, with the cost of attaching. With
    /// several threads, the longest hold of one thread is subtracted.
    pub undelayed_s: f64,
    /// Number of exact windows.
    pub windows: u64,
    /// Number of instructions in exact windows.
    pub window_instructions: u64,
    /// Time that threads were stopped for windows.
    pub window_s: f64,
    /// Latency of this machine's memory that the estimate used.
    pub local_latency_ns: f64,
    /// Bytes of last level cache that the program is assumed to have.
    pub llc_bytes: u64,
    /// Overlap of misses that the estimate used.
    pub overlap: Overlap,
    /// Use of each pool.
    pub pools: Vec<PoolReport>,
    /// Assumptions and limits of this run that the user should know.
    pub notes: Vec<String>,
}
