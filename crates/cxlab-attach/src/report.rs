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
    /// Number of misses: lines read from the pool, for loads and for stores.
    pub misses: f64,
    /// Number of lines written back to the pool.
    pub write_backs: f64,
    /// Number of latencies that the program waited for, one after another.
    pub waits: f64,
    /// Mean latency over these waits. For the program's local memory it is
    /// this machine's own latency. `None` without waits.
    pub latency_ns: Option<f64>,
}

/// How much longer a program takes with CXL memory. Times are CPU times of all threads, in seconds.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Debug)]
pub struct Slowdown {
    /// Time without delay.
    pub native_s: f64,
    /// Time with the delay that the model requested.
    pub with_cxl_s: f64,
    /// `with_cxl_s / native_s`.
    pub factor: f64,
    /// Least factor that the error class allows, or that so few watched lines do not speak against.
    pub least: f64,
    /// Largest such factor.
    pub most: f64,
}

/// Factor by which the requested delay may be wrong either way: the error class of tier 3.
const WRONG_BY: f64 = 2.0;
/// Largest ratio of the model's time to the CPU time that it is of. A larger one is impossible on
/// this machine (*assumed*: how far measured latencies vary on a busy machine).
const MOST_MODELLED: f64 = 1.25;

/// CPU times of a run, in seconds.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Times {
    /// All CPU time.
    pub cpu_s: f64,
    /// The part that has a price.
    pub priced_s: f64,
    /// The part in user space that has no price.
    pub unpriced_s: f64,
    /// The model's time for the priced part with all memory local.
    pub modelled_s: f64,
    /// Delay that the model requested.
    pub asked_s: f64,
    /// The same with as few and as many misses as watched lines allow.
    pub bounds_s: [f64; 2],
    /// Whether the model's machine is this one.
    pub own: bool,
}

impl Slowdown {
    /// The slowdown of a run.
    ///
    /// # Errors
    /// Why there is none: nothing had a price, or the result is impossible.
    pub fn of(times: &Times) -> Result<Slowdown, String> {
        let Times {
            cpu_s,
            priced_s,
            unpriced_s,
            modelled_s,
            asked_s,
            bounds_s: [least_s, most_s],
            own,
        } = *times;
        if priced_s <= 0.0 || cpu_s <= 0.0 {
            return Err(format!(
                "none of the {cpu_s:.3} s of CPU time had a price, because no window saw the code (too short, \
                 not 64-bit, or in the kernel)"
            ));
        }
        if own && modelled_s > MOST_MODELLED * priced_s {
            return Err(format!(
                "the result is impossible: the model's time with all memory local, {modelled_s:.3} s, is longer \
                 than the CPU time that it is of, {priced_s:.3} s, so more misses were charged than there were; \
                 measure this machine again (--recalibrate), or say what it is like (--llc, --overlap)"
            ));
        }
        // Where the user described another machine, the program takes the model's time there.
        let native_s = match own {
            true => cpu_s,
            false => cpu_s.max(modelled_s),
        };
        let factor = |delay_s: f64| 1.0 + delay_s / native_s;
        // Code without a price may ask for as much as code with one.
        let unknown = 1.0 + unpriced_s / priced_s;
        Ok(Slowdown {
            native_s,
            with_cxl_s: native_s + asked_s,
            factor: factor(asked_s),
            least: factor(least_s.min(asked_s / WRONG_BY)),
            most: factor(unknown * most_s.max(WRONG_BY * asked_s)),
        })
    }
}

/// CPU time by how its number of instructions is known, and what else is known of it, in seconds.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct CpuParts {
    /// CPU time whose number of instructions is known from registers.
    pub counted_s: f64,
    /// CPU time whose instructions follow from the pace at which registers
    /// counted the same code.
    pub paced_s: f64,
    /// User CPU time whose instructions follow from the model's own time for them.
    pub priced_s: f64,
    /// CPU time without a price: in the kernel, whose memory stays local.
    pub kernel_s: f64,
    /// User CPU time without a price: of code that no window saw.
    pub unpriced_s: f64,
    /// Time that the model gives for all priced code with all memory being this machine's own. The
    /// delay is compared with it. It is of the machine that the model describes, without page
    /// tables, kernel and neighbours.
    pub modelled_s: f64,
    /// Extra CPU time that counted code took after holds compared with elsewhere. It is part of the
    /// time taken by attaching.
    pub slowed_s: f64,
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
    /// Slowdown by CXL memory. `None` where `no_slowdown` says why.
    pub slowdown: Option<Slowdown>,
    /// Why there is no slowdown.
    pub no_slowdown: Option<String>,
    /// Real time from the first instruction to the end.
    pub real_s: f64,
    /// CPU time of all threads, without the time of windows.
    pub cpu_s: f64,
    /// Parts of the CPU time.
    #[serde(flatten)]
    pub parts: CpuParts,
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

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times {
        cpu_s: 2.0,
        priced_s: 1.6,
        unpriced_s: 0.16,
        modelled_s: 1.5,
        asked_s: 1.0,
        bounds_s: [0.9, 1.5],
        own: true,
    };

    #[test]
    fn the_interval_is_what_the_error_class_allows() {
        let found = Slowdown::of(&TIMES).unwrap();
        assert_eq!((found.native_s, found.with_cxl_s), (2.0, 3.0));
        assert_eq!((found.factor, found.least), (1.5, 1.25));
        // Twice the delay, and a tenth more for code without a price.
        assert!((found.most - 2.1).abs() < 1e-12, "{found:?}");
        let none = Times {
            asked_s: 0.0,
            bounds_s: [0.0; 2],
            ..TIMES
        };
        let found = Slowdown::of(&none).unwrap();
        assert_eq!((found.factor, found.least, found.most), (1.0, 1.0, 1.0));
    }

    #[test]
    fn few_watched_lines_make_the_interval_wider() {
        let few = Times {
            bounds_s: [0.2, 3.0],
            ..TIMES
        };
        let found = Slowdown::of(&few).unwrap();
        assert!((found.least - 1.1).abs() < 1e-12, "{found:?}");
        assert!((found.most - 2.65).abs() < 1e-12, "{found:?}");
        // None of them misses, which is known of few.
        let none = Times {
            asked_s: 0.0,
            bounds_s: [0.0, 0.4],
            ..TIMES
        };
        let found = Slowdown::of(&none).unwrap();
        assert_eq!((found.factor, found.least), (1.0, 1.0));
        assert!((found.most - 1.22).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn impossible_results_are_refused() {
        let impossible = Times {
            modelled_s: 2.86,
            priced_s: 0.91,
            ..TIMES
        };
        let why = Slowdown::of(&impossible).unwrap_err();
        assert!(why.contains("impossible") && why.contains("2.860"), "{why}");
        // On another machine than this one the program may take longer.
        let other = Times {
            own: false,
            ..impossible
        };
        assert_eq!(Slowdown::of(&other).unwrap().native_s, 2.86);
        let nothing = Times {
            priced_s: 0.0,
            ..TIMES
        };
        let why = Slowdown::of(&nothing).unwrap_err();
        assert!(why.contains("no window"), "{why}");
    }
}
