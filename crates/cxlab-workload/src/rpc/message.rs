//! Messages and their encoding: the wire format of Protocol Buffers
//! (<https://protobuf.dev/programming-guides/encoding>), without groups and packed fields.

use std::fmt;

use super::schema::{Kind, Schema, WireType};
use crate::varint;

/// Deepest nesting of messages that is decoded, as in the C++ library.
const MAX_DEPTH: usize = 100;

/// The value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A number: its bits in memory, zero-extended from the size of its type.
    Number(u64),
    /// A string or bytes.
    Bytes(Vec<u8>),
    /// A nested message.
    Message(Message),
}

/// A message: indices into the fields of its [`MessageType`](super::MessageType) with their values,
/// in ascending order. A repeated field has one entry for each element.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Message {
    /// The fields that are set, by index, with their values.
    pub fields: Vec<(usize, Value)>,
}

/// Why bytes are not a message of a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WireError {
    /// Offset of the byte at which the error was found.
    pub at: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for WireError {}

/// The varint that encodes a number of a type.
fn to_varint(kind: Kind, bits: u64) -> u64 {
    let signed = i64::from(bits as u32 as i32) as u64;
    match kind {
        Kind::Int32 | Kind::Enum => signed,
        Kind::Sint32 => u64::from(varint::zigzag(signed) as u32),
        Kind::Sint64 => varint::zigzag(bits),
        _ => bits,
    }
}

/// The number of a type that a varint encodes. Excess high bits are cut off, as in C++.
fn from_varint(kind: Kind, value: u64) -> u64 {
    match kind {
        Kind::Int32 | Kind::Uint32 | Kind::Enum => u64::from(value as u32),
        Kind::Sint32 => u64::from(varint::unzigzag(u64::from(value as u32)) as u32),
        Kind::Sint64 => varint::unzigzag(value),
        Kind::Bool => u64::from(value != 0),
        _ => value,
    }
}

/// Number of bytes of a varint.
fn varint_len(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// The key that precedes a field on the wire: its number and wire type.
fn key(number: u32, kind: Kind) -> u64 {
    u64::from(number) << 3 | kind.wire_type() as u64
}

impl Message {
    /// Encodes the message, with fields in ascending order of their numbers.
    pub fn encode(&self, schema: &Schema, kind: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len(schema, kind));
        self.write(schema, kind, &mut out);
        out
    }

    /// The number of bytes that [`Message::encode`] writes.
    pub fn encoded_len(&self, schema: &Schema, kind: usize) -> usize {
        let fields = &schema.types[kind].fields;
        let length = |(place, value): &(usize, Value)| {
            let field = fields[*place];
            let body = match (value, field.kind) {
                (Value::Number(bits), kind) => match kind.wire_type() {
                    WireType::Fixed32 => 4,
                    WireType::Fixed64 => 8,
                    _ => varint_len(to_varint(kind, *bits)),
                },
                (Value::Bytes(bytes), _) => varint_len(bytes.len() as u64) + bytes.len(),
                (Value::Message(message), Kind::Message(kind)) => {
                    let body = message.encoded_len(schema, kind);
                    varint_len(body as u64) + body
                }
                (Value::Message(_), _) => 0,
            };
            varint_len(key(field.number, field.kind)) + body
        };
        self.fields.iter().map(length).sum()
    }

    fn write(&self, schema: &Schema, kind: usize, out: &mut Vec<u8>) {
        for (place, value) in &self.fields {
            let field = schema.types[kind].fields[*place];
            varint::put(key(field.number, field.kind), out);
            match (value, field.kind) {
                (Value::Number(bits), kind) => match kind.wire_type() {
                    WireType::Fixed32 => out.extend_from_slice(&(*bits as u32).to_le_bytes()),
                    WireType::Fixed64 => out.extend_from_slice(&bits.to_le_bytes()),
                    _ => varint::put(to_varint(kind, *bits), out),
                },
                (Value::Bytes(bytes), _) => {
                    varint::put(bytes.len() as u64, out);
                    out.extend_from_slice(bytes);
                }
                (Value::Message(message), Kind::Message(kind)) => {
                    varint::put(message.encoded_len(schema, kind) as u64, out);
                    message.write(schema, kind, out);
                }
                (Value::Message(_), _) => {}
            }
        }
    }

    /// Decodes a message. Fields that the type does not have are ignored; of several values of a
    /// field that is not repeated, the last one counts.
    ///
    /// # Errors
    /// When the bytes are not a message of that type.
    pub fn decode(schema: &Schema, kind: usize, bytes: &[u8]) -> Result<Message, WireError> {
        Decoder {
            schema,
            bytes,
            at: 0,
        }
        .message(kind, bytes.len(), 0)
    }
}

struct Decoder<'a> {
    schema: &'a Schema,
    bytes: &'a [u8],
    at: usize,
}

impl Decoder<'_> {
    fn error<T>(&self, what: &'static str) -> Result<T, WireError> {
        Err(WireError { at: self.at, what })
    }

    fn varint(&mut self, end: usize) -> Result<u64, WireError> {
        match varint::get(&self.bytes[..end], &mut self.at) {
            Some(value) => Ok(value),
            None => self.error("a number that is cut off or exceeds 64 bits"),
        }
    }

    fn take(&mut self, count: u64, end: usize) -> Result<&[u8], WireError> {
        let start = self.at;
        if count > (end - start) as u64 {
            return self.error("a length beyond the end");
        }
        self.at += count as usize;
        Ok(&self.bytes[start..self.at])
    }

    fn message(&mut self, kind: usize, end: usize, depth: usize) -> Result<Message, WireError> {
        if depth > MAX_DEPTH {
            return self.error("more than 100 messages within each other");
        }
        let mut message = Message::default();
        while self.at < end {
            let key = self.varint(end)?;
            let number = match u32::try_from(key >> 3) {
                Ok(number) if (1..1 << 29).contains(&number) => number,
                _ => return self.error("a field number that does not exist"),
            };
            let Some(place) = self.schema.types[kind].find(number) else {
                self.skip(key & 7, end)?;
                continue;
            };
            let field = self.schema.types[kind].fields[place];
            if key & 7 != field.kind.wire_type() as u64 {
                return self.error("a field that is not written as its type is");
            }
            let value = self.value(field.kind, end, depth)?;
            let fields = &mut message.fields;
            let behind = fields.partition_point(|(other, _)| *other <= place);
            match fields[..behind].last_mut() {
                Some((other, last)) if *other == place && !field.repeated => *last = value,
                _ => fields.insert(behind, (place, value)),
            }
        }
        Ok(message)
    }

    fn value(&mut self, kind: Kind, end: usize, depth: usize) -> Result<Value, WireError> {
        match kind.wire_type() {
            WireType::Varint => Ok(Value::Number(from_varint(kind, self.varint(end)?))),
            WireType::Fixed32 => Ok(Value::Number(number(self.take(4, end)?))),
            WireType::Fixed64 => Ok(Value::Number(number(self.take(8, end)?))),
            WireType::Delimited => {
                let length = self.varint(end)?;
                let Kind::Message(kind) = kind else {
                    return Ok(Value::Bytes(self.take(length, end)?.to_vec()));
                };
                if length > (end - self.at) as u64 {
                    return self.error("a length beyond the end");
                }
                let end = self.at + length as usize;
                Ok(Value::Message(self.message(kind, end, depth + 1)?))
            }
        }
    }

    fn skip(&mut self, wire_type: u64, end: usize) -> Result<(), WireError> {
        match wire_type {
            0 => self.varint(end).map(drop),
            1 => self.take(8, end).map(drop),
            2 => {
                let length = self.varint(end)?;
                self.take(length, end).map(drop)
            }
            5 => self.take(4, end).map(drop),
            _ => self.error("a group, or a type of field that does not exist"),
        }
    }
}

/// The little-endian number in at most 8 bytes.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests;
