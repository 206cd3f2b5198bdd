//! What the CXL system costs: the seam to the analytic form of the fabric model.

/// What a program asks of a pool.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Demand {
    /// Lines read, per nanosecond.
    pub reads_per_ns: f64,
    /// Lines written, per nanosecond.
    pub writes_per_ns: f64,
}

/// Lines under way at once of a program that reads so many: what it writes back is under way beside them, in
/// buffers of its own.
pub fn under_way(demand: &[Demand], reads: f64) -> f64 {
    let sum = |of: fn(&Demand) -> f64| demand.iter().map(of).sum::<f64>();
    let (read, written) = (sum(|one| one.reads_per_ns), sum(|one| one.writes_per_ns));
    match read > 0.0 {
        true => reads * (1.0 + written / read),
        false => reads,
    }
}

/// What a pool gives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer {
    /// Latency of a read, from the core, at that demand.
    pub latency_ns: f64,
    /// Time that the fabric needs for the lines over the time in which they were asked for, at
    /// least 1.
    pub stretch: f64,
}

/// The pools of a CXL system, as the program's host sees them. Pool 0 is the host's own memory;
/// others are devices.
pub trait Fabric {
    /// Their names.
    fn pools(&self) -> Vec<String>;
    /// The pool of so many bytes into CXL memory (taken modulo its size).
    fn pool_of(&self, offset: u64) -> usize;
    /// What the pools give at a demand, by pool, to a program that has at most so many lines
    /// under way at once. The demand of pool 0 is not looked at.
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
