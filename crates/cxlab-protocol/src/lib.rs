//! The vocabulary of CXL: messages and opcodes, flit packing, HDM decoders, coherence tables. Pure
//! data: no clock, no input or output.

/// Defines an enum whose values are also listed in `ALL`, in the order of the enum.
macro_rules! listed {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$about:meta])* $value:ident $(= $code:literal)?,)*
    }) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[$about])* $value $(= $code)?,)*
        }

        impl $name {
            /// All values, in the order of the enum.
            pub const ALL: [$name; [$($name::$value),*].len()] = [$($name::$value),*];
        }
    };
}

pub mod coherence;
pub mod coverage;
mod decoder_table;
pub mod flit;
pub mod hdm;
pub mod io;
pub mod message;
pub mod opcode;
mod qos;
mod stages;
mod wire_space;

pub use decoder_table::{DecoderTable, DeviceDecoder};
pub use io::packet::IoPacket;
pub use message::{CacheMeta, MemMeta, Message, PortId};
pub use opcode::{Channel, Opcode};
pub use qos::DevLoad;
pub use stages::{LatencyStages, LongStage};
pub use wire_space::WireSpace;
