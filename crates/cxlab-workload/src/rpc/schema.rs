//! The types of messages and of their fields.

/// The type of a field, as a `.proto` file names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A signed number of 4 B; a negative one takes 10 B on the wire.
    Int32,
    /// A signed number of 8 B.
    Int64,
    /// An unsigned number of 4 B.
    Uint32,
    /// An unsigned number of 8 B.
    Uint64,
    /// A signed number of 4 B, zigzag-coded.
    Sint32,
    /// A signed number of 8 B, zigzag-coded.
    Sint64,
    /// A boolean, 0 or 1.
    Bool,
    /// A named constant, as a number of 4 B.
    Enum,
    /// A number of 4 B, also on the wire.
    Fixed32,
    /// A number of 8 B, also on the wire.
    Fixed64,
    /// A floating-point number of 4 B, IEEE 754.
    Float,
    /// A floating-point number of 8 B, IEEE 754.
    Double,
    /// Text. Its encoding is not checked, as in proto2.
    String,
    /// Any sequence of bytes.
    Bytes,
    /// A message, whose type is an index into [`Schema::types`].
    Message(usize),
}

/// The encoding of a field's value on the wire; the discriminant is the number in the field's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireType {
    /// A variable-length integer.
    Varint = 0,
    /// Exactly 8 bytes.
    Fixed64 = 1,
    /// A length as a varint, then that many bytes.
    Delimited = 2,
    /// Exactly 4 bytes.
    Fixed32 = 5,
}

impl Kind {
    /// The encoding of values of this type.
    pub fn wire_type(self) -> WireType {
        match self {
            Kind::Int32
            | Kind::Int64
            | Kind::Uint32
            | Kind::Uint64
            | Kind::Sint32
            | Kind::Sint64
            | Kind::Bool
            | Kind::Enum => WireType::Varint,
            Kind::Fixed32 | Kind::Float => WireType::Fixed32,
            Kind::Fixed64 | Kind::Double => WireType::Fixed64,
            Kind::String | Kind::Bytes | Kind::Message(_) => WireType::Delimited,
        }
    }

    /// Size of a number in memory in bytes; `None` for strings, bytes and messages.
    pub fn size(self) -> Option<u64> {
        match self {
            Kind::Bool => Some(1),
            Kind::Int32
            | Kind::Uint32
            | Kind::Sint32
            | Kind::Enum
            | Kind::Fixed32
            | Kind::Float => Some(4),
            Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Double => Some(8),
            Kind::String | Kind::Bytes | Kind::Message(_) => None,
        }
    }
}

/// A field of a message type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// The field's number, 1 to 536870911.
    pub number: u32,
    /// The field's type.
    pub kind: Kind,
    /// Whether the field may occur more than once. Its values are not packed, as is
    /// the default of proto2.
    pub repeated: bool,
}

/// A message type.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MessageType {
    /// The fields in ascending order of their numbers; at most 64.
    pub fields: Vec<Field>,
}

impl MessageType {
    /// The index of the field with this number; `None` if there is none.
    pub fn find(&self, number: u32) -> Option<usize> {
        self.fields
            .binary_search_by_key(&number, |field| field.number)
            .ok()
    }
}

/// A set of message types that refer to each other.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Schema {
    /// All types; [`Kind::Message`] refers to them by index.
    pub types: Vec<MessageType>,
}
