//! The fabric manager's part in memory pooling: blocks of memory that belong to one host at a time, and the
//! policies by which they are granted to hosts. The module has no time and no messages; its caller decides
//! when each step happens.

#[cfg(test)]
mod laws;
mod policy;
mod pool;

pub use policy::{BlockDemand, CATALOG, GrantPolicy, GrantPolicyChoice};
pub use pool::{BlockRun, Pool, PoolBlock};
