//! Remote procedure calls: Protocol Buffers on the wire and as objects in memory, and messages
//! shaped as those of HyperProtoBench.
//!
//! [`schema`] describes messages, [`message`] encodes and decodes them, [`layout`] says where
//! their fields lie in memory, [`shapes`] makes those of the benchmark. No time, no threads: the
//! kernel [`Rpc`](crate::kernel::Rpc) has them.

pub mod layout;
pub mod message;
pub mod schema;
pub mod shapes;

pub use layout::{Layout, Object, Part, Piece};
pub use message::{Message, Value, WireError};
pub use schema::{Field, Kind, MessageType, Schema};
pub use shapes::{Bench, Shape};
