//! The fabric manager's part in pooling: blocks of memory that are one host's at a time, and the
//! policies by which hosts are granted them. No time and no messages: who calls says when.

#[cfg(test)]
mod laws;
mod policy;
mod pool;

pub use policy::{Ask, CATALOG, GrantPolicy, GrantPolicyChoice};
pub use pool::{Block, Pool, Run};
