//! The messages of HyperProtoBench: which fields they set, and how many bytes each value takes.
//!
//! The tables in `shapes/` are derived from google/HyperProtoBench (Apache-2.0, Copyright 2021
//! Google LLC), commit 3ff7f5f: the numbers, types and encoded sizes of the fields that each bench
//! sets, without the values. The values of benches 2 and 5 are not public: their tables are marked
//! as synthetic, with sizes drawn from benches 1 and 4. Contents are random with the given sizes,
//! as are the benchmark's.
//!
//! A line is a top-level message, `NAME: FIELD FIELD ...`. A field is its number, a type code of
//! one character, and the bytes of its value if they are not fixed; a message has its fields in
//! braces. A field that occurs twice is repeated. Type codes: `i` int32, `l` int64, `u` uint32, `v`
//! uint64, `z` sint32, `y` sint64, `b` bool, `e` enum, `f` fixed32, `g` fixed64, `r` float, `d`
//! double, `s` string, `t` bytes.

use cxlab_engine::rng::StreamRng;

use super::message::{Message, Value};
use super::schema::{Field, Kind, MessageType, Schema};

/// The tables, by the number of the bench.
static TABLES: [&str; 6] = [
    include_str!("shapes/bench0.txt"),
    include_str!("shapes/bench1.txt"),
    include_str!("shapes/bench2.txt"),
    include_str!("shapes/bench3.txt"),
    include_str!("shapes/bench4.txt"),
    include_str!("shapes/bench5.txt"),
];

/// A field that is set, with the size of its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A number, string or bytes: field number, type, and bytes of the encoded value.
    Leaf(u32, Kind, u32),
    /// A message: field number, and the fields that are set in it.
    Message(u32, Vec<Shape>),
}

impl Shape {
    fn number(&self) -> u32 {
        match self {
            Shape::Leaf(number, ..) | Shape::Message(number, _) => *number,
        }
    }
}

/// One bench: its schema and its top-level messages.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The message types. Those of the top-level messages come first, in order.
    pub schema: Schema,
    /// The fields that each top-level message sets.
    pub shapes: Vec<Vec<Shape>>,
}

impl Bench {
    /// Reads the bench with this number, 0 to 5; higher numbers are read as 5.
    pub fn new(number: usize) -> Bench {
        let shapes: Vec<Vec<Shape>> = read(TABLES[number.min(TABLES.len() - 1)]);
        let mut schema = Schema {
            types: vec![MessageType::default(); shapes.len()],
        };
        for (kind, fields) in shapes.iter().enumerate() {
            add(&mut schema, kind, fields);
        }
        Bench { schema, shapes }
    }

    /// Generates a top-level message with random contents. The index of its type is its number.
    pub fn message(&self, number: usize, rng: &mut StreamRng) -> Message {
        populate(&self.schema, number, &self.shapes[number], rng)
    }
}

/// Adds fields to a type. A field that comes twice in a row becomes repeated.
fn add(schema: &mut Schema, kind: usize, fields: &[Shape]) {
    for (at, shape) in fields.iter().enumerate() {
        let number = shape.number();
        let again = at > 0 && fields[at - 1].number() == number;
        let place = match schema.types[kind].find(number) {
            Some(place) => place,
            None => {
                let kind_of = match shape {
                    Shape::Leaf(_, kind, _) => *kind,
                    Shape::Message(..) => {
                        schema.types.push(MessageType::default());
                        Kind::Message(schema.types.len() - 1)
                    }
                };
                let fields = &mut schema.types[kind].fields;
                let place = fields.partition_point(|field| field.number < number);
                let field = Field {
                    number,
                    kind: kind_of,
                    repeated: false,
                };
                fields.insert(place, field);
                place
            }
        };
        let field = &mut schema.types[kind].fields[place];
        field.repeated |= again;
        if let (Kind::Message(inner), Shape::Message(_, fields)) = (field.kind, shape) {
            add(schema, inner, fields);
        }
    }
}

fn populate(schema: &Schema, kind: usize, fields: &[Shape], rng: &mut StreamRng) -> Message {
    let mut message = Message::default();
    for shape in fields {
        let Some(place) = schema.types[kind].find(shape.number()) else {
            continue;
        };
        let value = match (shape, schema.types[kind].fields[place].kind) {
            (Shape::Message(_, fields), Kind::Message(inner)) => {
                Value::Message(populate(schema, inner, fields, rng))
            }
            (Shape::Leaf(_, kind, size), _) => leaf(*kind, *size, rng),
            (Shape::Message(..), _) => continue,
        };
        message.fields.push((place, value));
    }
    message
}

/// A random value of `size` bytes on the wire.
fn leaf(kind: Kind, size: u32, rng: &mut StreamRng) -> Value {
    match kind {
        Kind::String => {
            let letter = |_| b'a' + rng.below(26) as u8;
            Value::Bytes((0..size).map(letter).collect())
        }
        Kind::Bytes => Value::Bytes((0..size).map(|_| rng.next_u64() as u8).collect()),
        Kind::Bool => Value::Number(rng.below(2)),
        Kind::Fixed32 | Kind::Float => Value::Number(rng.next_u64() >> 32),
        Kind::Fixed64 | Kind::Double => Value::Number(rng.next_u64()),
        _ => Value::Number(varint(kind, size, rng)),
    }
}

/// A random number whose varint has `size` bytes.
fn varint(kind: Kind, size: u32, rng: &mut StreamRng) -> u64 {
    let narrow = kind.size() == Some(4);
    let signed = matches!(kind, Kind::Int32 | Kind::Int64 | Kind::Enum);
    let bits = if narrow { 32 } else { 64 };
    if signed && size == 10 {
        return rng.next_u64() >> (64 - bits) | 1 << (bits - 1);
    }
    let top = 7 * size.min(10);
    // Positive signed numbers have one bit less. The smallest number of a size follows the largest
    // of the size below.
    let low = match size {
        1 => 0,
        _ => 1u64 << (top - 7).min(bits - 1),
    };
    let high_bits = top.min(bits - u32::from(signed));
    let high = u64::MAX >> (64 - high_bits);
    let value = low + rng.below((high - low).saturating_add(1));
    let written = match kind {
        Kind::Sint32 | Kind::Sint64 => crate::varint::unzigzag(value),
        _ => value,
    };
    if narrow {
        u64::from(written as u32)
    } else {
        written
    }
}

/// Parses the top-level messages of a table.
fn read(table: &str) -> Vec<Vec<Shape>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let messages = lines.filter_map(|line| line.split_once(": "));
    messages
        .map(|(_, fields)| fields_of(&mut fields.as_bytes()))
        .collect()
}

/// Parses the fields up to a closing brace or the end. The tables are part of this crate, and
/// a test reads all.
fn fields_of(text: &mut &[u8]) -> Vec<Shape> {
    let mut fields = Vec::new();
    while let Some((&byte, rest)) = text.split_first() {
        if byte == b' ' || byte == b'}' {
            *text = rest;
        }
        match byte {
            b'}' => break,
            b' ' => continue,
            _ => {}
        }
        let number = digits(text);
        let Some((&letter, rest)) = text.split_first() else {
            break;
        };
        *text = rest;
        fields.push(match letter {
            b'{' => Shape::Message(number, fields_of(text)),
            letter => {
                let kind = kind_of(letter);
                let size = digits(text);
                Shape::Leaf(number, kind, size)
            }
        });
    }
    fields
}

fn digits(text: &mut &[u8]) -> u32 {
    let mut value = 0;
    while let Some((byte, rest)) = text.split_first()
        && byte.is_ascii_digit()
    {
        value = value * 10 + u32::from(byte - b'0');
        *text = rest;
    }
    value
}

fn kind_of(letter: u8) -> Kind {
    match letter {
        b'i' => Kind::Int32,
        b'l' => Kind::Int64,
        b'u' => Kind::Uint32,
        b'v' => Kind::Uint64,
        b'z' => Kind::Sint32,
        b'y' => Kind::Sint64,
        b'b' => Kind::Bool,
        b'e' => Kind::Enum,
        b'f' => Kind::Fixed32,
        b'g' => Kind::Fixed64,
        b'r' => Kind::Float,
        b'd' => Kind::Double,
        b's' => Kind::String,
        _ => Kind::Bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the tables say whose sizes were drawn.
    const SYNTHETIC: &str = "# SYNTHETIC";

    /// The encoded top-level messages of a bench.
    fn written(number: usize) -> Vec<Vec<u8>> {
        let bench = Bench::new(number);
        let mut rng = StreamRng::new(1, "shapes");
        let one = |at| {
            let message = bench.message(at, &mut rng);
            let bytes = message.encode(&bench.schema, at);
            assert_eq!(Message::decode(&bench.schema, at, &bytes), Ok(message));
            bytes
        };
        (0..bench.shapes.len()).map(one).collect()
    }

    #[test]
    fn the_public_benches_have_the_sizes_counted_in_their_sources() {
        // Sum, minimum and maximum of the ten messages, counted from the
        // literals of each benchmark.inc.
        let counted = [
            (0, 1_393_706, 10_091, 301_620),
            (1, 42_945, 17, 12_469),
            (3, 710_346, 540, 324_743),
            (4, 906_329, 659, 326_745),
        ];
        for (bench, sum, least, most) in counted {
            let sizes: Vec<usize> = written(bench).iter().map(Vec::len).collect();
            assert_eq!(sizes.len(), 10);
            let [min, max] = [sizes.iter().min(), sizes.iter().max()].map(|size| *size.unwrap());
            let found = (sizes.iter().sum(), min, max);
            assert_eq!(found, (sum, least, most), "bench {bench}");
            assert!(!TABLES[bench].contains(SYNTHETIC));
        }
    }

    #[test]
    fn the_synthetic_benches_say_so_and_have_the_depth_of_their_schemas() {
        fn depth(fields: &[Shape]) -> usize {
            let inner = |shape: &Shape| match shape {
                Shape::Message(_, fields) => depth(fields),
                Shape::Leaf(..) => 0,
            };
            1 + fields.iter().map(inner).max().unwrap_or(0)
        }
        for (bench, deepest, types) in [(2, 14, 310), (5, 6, 95)] {
            assert!(TABLES[bench].contains(SYNTHETIC));
            let made = Bench::new(bench);
            let found = made.shapes.iter().map(|shape| depth(shape)).max();
            assert_eq!(found, Some(deepest));
            assert_eq!(made.schema.types.len(), types);
            assert_eq!(written(bench).len(), 10);
        }
    }

    #[test]
    fn numbers_take_the_bytes_asked_for() {
        let mut rng = StreamRng::new(2, "shapes");
        let cases = [
            (Kind::Int32, vec![1, 2, 3, 4, 5, 10]),
            (Kind::Enum, vec![1]),
            (Kind::Int64, (1..=10).collect()),
            (Kind::Uint32, (1..=5).collect()),
            (Kind::Uint64, (1..=10).collect()),
            (Kind::Sint32, (1..=5).collect()),
            (Kind::Sint64, (1..=10).collect()),
        ];
        for (kind, sizes) in cases {
            let mut schema = Schema::default();
            schema.types.push(MessageType::default());
            add(&mut schema, 0, &[Shape::Leaf(1, kind, 0)]);
            for size in sizes {
                for _ in 0..100 {
                    let fields = vec![(0, leaf(kind, size, &mut rng))];
                    let bytes = Message { fields }.encode(&schema, 0);
                    assert_eq!(bytes.len(), 1 + size as usize, "{kind:?}");
                }
            }
        }
    }
}
