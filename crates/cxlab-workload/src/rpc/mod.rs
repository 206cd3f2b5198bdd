//! Remote procedure calls: Protocol Buffers on the wire and as objects in memory, and messages
//! shaped like those of HyperProtoBench.
//!
//! [`schema`] describes messages, [`message`] encodes and decodes them, [`layout`] defines where
//! their fields are stored in memory, and [`shapes`] generates those of the benchmark. There is no
//! time and there are no threads here: the kernel [`Rpc`](crate::kernel::Rpc) adds them.

pub mod layout;
pub mod message;
pub mod schema;
pub mod shapes;

pub use layout::{Layout, Object, Piece, PieceKind};
pub use message::{Message, Value, WireError};
pub use schema::{Field, Kind, MessageType, Schema};
pub use shapes::{Bench, Shape};
