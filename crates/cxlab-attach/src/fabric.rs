//! What the CXL system costs: the seam to the analytic form of the fabric model.

/// What a program asks of a pool.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Demand {
    /// Lines read, per nanosecond.
    pub reads_per_ns: f64,
    /// Lines written, per nanosecond.
    pub writes_per_ns: f64,
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
