//! The fields of CXL.mem and CXL.cache messages that determine what a request does to cached copies.
//!
//! Codes are those of CXL 3.1, tables 3-36, 3-37 and 3-38, and 3-20 for CXL.cache.

use serde::{Deserialize, Serialize};

/// Which metadata a message carries (table 3-36).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[repr(u8)]
pub enum MetaField {
    /// `MetaValue` holds the state of the line in the host.
    Meta0State = 0b00,
    /// No metadata; `MetaValue` is reserved.
    NoOp = 0b11,
}

/// The state the host will hold the line in (table 3-37).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[repr(u8)]
pub enum MetaValue {
    /// The host has no cacheable copy.
    Invalid = 0b00,
    /// The host may have a shared, exclusive or modified copy.
    Any = 0b10,
    /// The host has at most a shared copy.
    Shared = 0b11,
}

/// What other copies must become (table 3-38).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[repr(u8)]
pub enum SnpType {
    /// No snoop is requested.
    NoOp = 0b000,
    /// The requester needs at least a shared copy.
    SnpData = 0b001,
    /// The requester needs the current value and will not cache it.
    SnpCur = 0b010,
    /// The requester needs an exclusive copy.
    SnpInv = 0b011,
}

/// The state that a `GO` of CXL.cache gives the device (table 3-20).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
#[repr(u8)]
pub enum GoState {
    /// Use the data at most once.
    Invalid = 0b0011,
    /// A shared copy.
    Shared = 0b0001,
    /// The only copy, clean.
    Exclusive = 0b0010,
    /// The only copy, which the device must write back.
    Modified = 0b0110,
    /// The request failed.
    Error = 0b0100,
}

/// The agent that keeps a region of host-managed device memory coherent (section 2.2 and 3.3.1).
///
/// HDM-D, which needs requests to device memory over CXL.cache, is not included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub enum CoherenceClass {
    /// The host alone; the device does not snoop.
    HdmH,
    /// The device, by back-invalidation.
    HdmDb,
}

macro_rules! codes {
    ($($name:ident { $($variant:ident)* })*) => {$(
        impl $name {
            /// All values, in the order of the enum.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Code of the value in the message.
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The value with this code. `None` for reserved codes and for values that are not modelled.
            pub const fn from_code(code: u8) -> Option<$name> {
                $(if code == $name::$variant as u8 {
                    return Some($name::$variant);
                })*
                None
            }
        }
    )*};
}

codes! {
    MetaField { Meta0State NoOp }
    MetaValue { Invalid Any Shared }
    SnpType { NoOp SnpData SnpCur SnpInv }
    GoState { Invalid Shared Exclusive Modified Error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_lead_back_to_their_values_and_reserved_codes_to_none() {
        for &value in MetaField::ALL {
            assert_eq!(MetaField::from_code(value.code()), Some(value));
        }
        for &value in MetaValue::ALL {
            assert_eq!(MetaValue::from_code(value.code()), Some(value));
        }
        for &value in SnpType::ALL {
            assert_eq!(SnpType::from_code(value.code()), Some(value));
        }
        for &value in GoState::ALL {
            assert_eq!(GoState::from_code(value.code()), Some(value));
        }
        assert_eq!(GoState::from_code(0b0000), None);
        assert_eq!(MetaField::from_code(0b10), None);
        assert_eq!(MetaValue::from_code(0b01), None);
        assert_eq!(SnpType::from_code(0b100), None);
    }
}
