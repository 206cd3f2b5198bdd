//! What a message consists of.

/// The type of a field, as a `.proto` file names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A signed number; a negative one takes 10 B.
    Int32,
    /// A signed number.
    Int64,
    /// An unsigned number.
    Uint32,
    /// An unsigned number.
    Uint64,
    /// A signed number, zigzag-coded.
    Sint32,
    /// A signed number, zigzag-coded.
    Sint64,
    /// 0 or 1.
    Bool,
    /// A number that stands for a name.
    Enum,
    /// 4 B.
    Fixed32,
    /// 8 B.
    Fixed64,
    /// 4 B, IEEE 754.
    Float,
    /// 8 B, IEEE 754.
    Double,
    /// Text; its encoding is not checked, as in proto2.
    String,
    /// Bytes.
    Bytes,
    /// A message of its own: a place in [`Schema::types`].
    Message(usize),
}

/// How a field's value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireType {
    /// A variable-length integer.
    Varint = 0,
    /// 8 B.
    Fixed64 = 1,
    /// A length, then so many bytes.
    Delimited = 2,
    /// 4 B.
    Fixed32 = 5,
}

impl Kind {
    /// How it is written.
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

    /// Bytes of a number in memory; `None` for what is no number.
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

/// A field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its number, 1 to 536870911.
    pub number: u32,
    /// Its type.
    pub kind: Kind,
    /// Whether it may come more than once; not packed, as is the default of proto2.
    pub repeated: bool,
}

/// A type of message: its fields by ascending number, at most 64.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MessageType {
    /// The fields.
    pub fields: Vec<Field>,
}

impl MessageType {
    /// The place of the field of that number.
    pub fn find(&self, number: u32) -> Option<usize> {
        self.fields
            .binary_search_by_key(&number, |field| field.number)
            .ok()
    }
}

/// The types of messages that refer to each other.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Schema {
    /// All types.
    pub types: Vec<MessageType>,
}
