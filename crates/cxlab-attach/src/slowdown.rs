//! How much slower a program is with CXL memory, and what it asks of each pool.

use serde::{Deserialize, Serialize};

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

/// Slowdown of a program by CXL memory. Times are CPU times of all threads, in seconds.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Debug)]
pub struct Slowdown {
    /// Time without delay.
    pub native_s: f64,
    /// Time with the delay that the model requested.
    pub with_cxl_s: f64,
    /// `with_cxl_s / native_s`.
    pub factor: f64,
    /// Least factor by the error class and by the interval of watched lines.
    pub least: f64,
    /// Largest factor by the error class and by the interval of watched lines.
    pub most: f64,
}

/// Factor by which the requested delay may be wrong either way: the error class of tier 3.
const ERROR_FACTOR: f64 = 2.0;
/// Largest ratio of the model's time to the priced CPU time. A larger ratio is impossible on
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
    /// Delay with the least and the largest miss rate of the watched lines' interval.
    pub bounds_s: [f64; 2],
    /// Whether the model's machine is this one.
    pub own: bool,
}

impl Slowdown {
    /// The slowdown of a run.
    ///
    /// # Errors
    /// Reason for no slowdown: no CPU time had a price, or the result is impossible.
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
        let native_s = if own { cpu_s } else { cpu_s.max(modelled_s) };
        let factor = |delay_s: f64| 1.0 + delay_s / native_s;
        // Code without a price may need as much delay as code with one.
        let unknown = 1.0 + unpriced_s / priced_s;
        Ok(Slowdown {
            native_s,
            with_cxl_s: native_s + asked_s,
            factor: factor(asked_s),
            least: factor(least_s.min(asked_s / ERROR_FACTOR)),
            most: factor(unknown * most_s.max(ERROR_FACTOR * asked_s)),
        })
    }
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
