//! Interface to the analytic form of the fabric model, which gives latency and bandwidth of the CXL system.

/// Traffic that a program demands of one pool.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Demand {
    /// Lines read, per nanosecond.
    pub reads_per_ns: f64,
    /// Lines written, per nanosecond.
    pub writes_per_ns: f64,
}

impl Demand {
    /// Demand if the lines that `self` counts per nanosecond take `time_ns`.
    pub(crate) fn over(self, time_ns: f64) -> Demand {
        Demand {
            reads_per_ns: self.reads_per_ns / time_ns,
            writes_per_ns: self.writes_per_ns / time_ns,
        }
    }
}

/// Number of lines in flight for a program with `reads` outstanding reads. Its write-backs are in
/// flight beside the reads, in buffers of their own.
pub fn in_flight(demand: &[Demand], reads: f64) -> f64 {
    let sum = |of: fn(&Demand) -> f64| demand.iter().map(of).sum::<f64>();
    let (read, written) = (sum(|one| one.reads_per_ns), sum(|one| one.writes_per_ns));
    match read > 0.0 {
        true => reads * (1.0 + written / read),
        false => reads,
    }
}

/// Response of a pool to a demand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PoolResponse {
    /// Latency of a read at that demand, measured at the core.
    pub latency_ns: f64,
    /// Time that the fabric needs for the lines, divided by the time in which the program requested them. At least 1.
    pub stretch: f64,
}

/// The pools of a CXL system, as the program's host sees them. Pool 0 is the host's own memory; others are devices.
pub trait Fabric {
    /// Names of the pools, in order of their numbers.
    fn pools(&self) -> Vec<String>;
    /// Number of the pool that holds byte `offset` of CXL memory (taken modulo the size of CXL memory).
    fn pool_of(&self, offset: u64) -> usize;
    /// Response of each pool at a demand, for a program with at most `in_flight` lines in flight.
    /// The demand of pool 0 is ignored.
    fn answer(&mut self, demand: &[Demand], in_flight: f64) -> Vec<PoolResponse>;
}

/// Rounds in which load and delay are made to agree.
const ROUNDS: usize = 4;

/// Response of the fabric at the load of a program that is slowed down by that response (a fixed point). Without delay
/// the program takes `running_ns` for `lines`, which are totals of the run, in `threads` threads, each with at most
/// `reads` reads in flight. `delay` returns the delay of all threads. The stretch is relative to the time without delay.
pub(crate) fn settled(
    fabric: &mut dyn Fabric,
    lines: &[Demand],
    (reads, threads): (f64, f64),
    running_ns: f64,
    delay: &dyn Fn(&[PoolResponse]) -> f64,
) -> Vec<PoolResponse> {
    let mut at = |time_ns: f64| {
        let time_ns = time_ns.max(1.0);
        let demand: Vec<Demand> = lines.iter().map(|lines| lines.over(time_ns)).collect();
        let lines_in_flight = in_flight(&demand, reads * threads);
        fabric.answer(&demand, lines_in_flight)
    };
    let undelayed = at(running_ns);
    let mut answers = undelayed.clone();
    for _ in 0..ROUNDS {
        answers = at(running_ns + delay(&answers) / threads);
        for (answer, undelayed) in answers.iter_mut().zip(&undelayed) {
            answer.stretch = undelayed.stretch;
        }
    }
    answers
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Pools of these latencies in nanoseconds: local memory, and devices of 1 MiB in turn. The fabric needs `stretch`
    /// times as long for the lines as the program.
    pub(crate) struct Fixed(pub(crate) &'static [f64], pub(crate) f64);

    impl Fabric for Fixed {
        fn pools(&self) -> Vec<String> {
            (0..self.0.len())
                .map(|pool| format!("pool {pool}"))
                .collect()
        }

        fn pool_of(&self, offset: u64) -> usize {
            1 + (offset >> 20) as usize % (self.0.len() - 1)
        }

        fn answer(&mut self, _demand: &[Demand], _in_flight: f64) -> Vec<PoolResponse> {
            let answer = |latency_ns: &f64| PoolResponse {
                latency_ns: *latency_ns,
                stretch: self.1,
            };
            self.0.iter().map(answer).collect()
        }
    }

    /// Latencies of local memory and of two devices.
    pub(crate) const LATENCY_NS: [f64; 3] = [100.0, 200.0, 500.0];

    /// A fabric of these.
    pub(crate) fn two() -> Fixed {
        Fixed(&LATENCY_NS, 1.0)
    }

    #[test]
    fn what_is_written_back_takes_no_place_of_what_is_read() {
        let demand = |reads_per_ns, writes_per_ns| Demand {
            reads_per_ns,
            writes_per_ns,
        };
        assert_eq!(in_flight(&[demand(0.2, 0.0)], 16.0), 16.0);
        assert_eq!(in_flight(&[demand(0.1, 0.1), demand(0.1, 0.1)], 16.0), 32.0);
        assert_eq!(in_flight(&[demand(0.0, 0.0)], 16.0), 16.0);
    }
}
