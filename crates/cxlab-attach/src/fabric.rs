//! Interface to the analytic form of the fabric model, which gives latency and bandwidth
//! of the CXL system.

/// Traffic that a program demands of one pool.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Demand {
    /// Lines read, per nanosecond.
    pub reads_per_ns: f64,
    /// Lines written, per nanosecond.
    pub writes_per_ns: f64,
}

/// Number of lines in flight for a program with `reads` outstanding reads. Its write-backs are in
/// flight beside the reads, in buffers of their own.
pub fn under_way(demand: &[Demand], reads: f64) -> f64 {
    let sum = |of: fn(&Demand) -> f64| demand.iter().map(of).sum::<f64>();
    let (read, written) = (sum(|one| one.reads_per_ns), sum(|one| one.writes_per_ns));
    match read > 0.0 {
        true => reads * (1.0 + written / read),
        false => reads,
    }
}

/// Response of a pool to a demand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer {
    /// Latency of a read at that demand, measured at the core.
    pub latency_ns: f64,
    /// Time that the fabric needs for the lines, divided by the time in which the program requested
    /// them. At least 1.
    pub stretch: f64,
}

/// The pools of a CXL system, as the program's host sees them. Pool 0 is the host's own memory;
/// others are devices.
pub trait Fabric {
    /// Names of the pools, in order of their numbers.
    fn pools(&self) -> Vec<String>;
    /// Number of the pool that holds byte `offset` of CXL memory (taken modulo the
    /// size of CXL memory).
    fn pool_of(&self, offset: u64) -> usize;
    /// Response of each pool at a demand, for a program with at most `under_way` lines in flight.
    /// The demand of pool 0 is ignored.
    fn answer(&mut self, demand: &[Demand], under_way: f64) -> Vec<Answer>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_back_takes_no_place_of_what_is_read() {
        let demand = |reads_per_ns, writes_per_ns| Demand {
            reads_per_ns,
            writes_per_ns,
        };
        assert_eq!(under_way(&[demand(0.2, 0.0)], 16.0), 16.0);
        assert_eq!(under_way(&[demand(0.1, 0.1), demand(0.1, 0.1)], 16.0), 32.0);
        assert_eq!(under_way(&[demand(0.0, 0.0)], 16.0), 16.0);
    }
}
