use super::*;
use crate::rpc::schema::{Field, MessageType};
use proptest::prelude::*;

/// A type with one field of every kind, whose numbers are far apart, and a field of its own type.
fn schema() -> Schema {
    let kinds = [
        Kind::Int32,
        Kind::Int64,
        Kind::Uint32,
        Kind::Uint64,
        Kind::Sint32,
        Kind::Sint64,
        Kind::Bool,
        Kind::Enum,
        Kind::Fixed32,
        Kind::Fixed64,
        Kind::Float,
        Kind::Double,
        Kind::String,
        Kind::Bytes,
        Kind::Message(0),
    ];
    let field = |(place, kind): (usize, &Kind)| Field {
        number: 1 + 7 * place as u32,
        kind: *kind,
        repeated: place % 2 == 1,
    };
    let fields = kinds.iter().enumerate().map(field).collect();
    Schema {
        types: vec![MessageType { fields }],
    }
}

/// A type with one field, and a second type with a number.
fn one(kind: Kind, number: u32) -> Schema {
    let with = |number, kind| {
        let repeated = false;
        let field = Field {
            number,
            kind,
            repeated,
        };
        let fields = vec![field];
        MessageType { fields }
    };
    Schema {
        types: vec![with(number, kind), with(1, Kind::Int32)],
    }
}

fn only(value: Value) -> Message {
    Message {
        fields: vec![(0, value)],
    }
}

#[test]
fn the_examples_of_the_specification_are_written_as_it_says() {
    // protobuf.dev/programming-guides/encoding: "A Simple Message", "Length-Delimited Records",
    // "Submessages", the table of zigzag numbers, and -2 as an int32.
    let check = |kind, number, value, bytes: &[u8]| {
        let (schema, message) = (one(kind, number), only(value));
        assert_eq!(message.encode(&schema, 0), bytes, "{kind:?}");
        assert_eq!(Message::decode(&schema, 0, bytes), Ok(message), "{kind:?}");
    };
    for (kind, number, bytes) in [
        (Kind::Int32, 150, &[0x08, 0x96, 0x01][..]),
        (
            Kind::Int32,
            0xffff_fffe,
            b"\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ),
        (Kind::Sint32, 0, &[0x08, 0]),
        (Kind::Sint32, 0xffff_ffff, &[0x08, 1]),
        (Kind::Sint32, 1, &[0x08, 2]),
        (Kind::Sint32, 0x7fff_ffff, b"\x08\xfe\xff\xff\xff\x0f"),
        (Kind::Sint32, 0x8000_0000, b"\x08\xff\xff\xff\xff\x0f"),
        (Kind::Float, 0x3f80_0000, &[0x0d, 0, 0, 0x80, 0x3f]),
        (Kind::Double, 1f64.to_bits(), b"\x09\0\0\0\0\0\0\xf0\x3f"),
    ] {
        check(kind, 1, Value::Number(number), bytes);
    }
    let text = Value::Bytes(b"testing".to_vec());
    check(Kind::String, 2, text, b"\x12\x07testing");
    let inner = Value::Message(only(Value::Number(150)));
    check(Kind::Message(1), 3, inner, &[0x1a, 0x03, 0x08, 0x96, 0x01]);
    check(Kind::Bool, 16, Value::Number(1), &[0x80, 0x01, 0x01]);
}

#[test]
fn what_is_no_message_is_refused_where_it_goes_wrong() {
    let schema = one(Kind::String, 2);
    let cases: [(&[u8], usize, &str); 8] = [
        (&[0x12], 1, "cut off"),
        (&[0x12, 0x05, 0x61], 2, "beyond the end"),
        (&[0x10, 0x01], 1, "not written as its type"),
        (&[0x0b], 1, "a group"),
        (&[0x00], 1, "field number"),
        (&[0x80; 11], 10, "exceeds 64 bits"),
        (&[0x0d, 0, 0, 0], 1, "beyond the end"),
        (
            b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            11,
            "beyond the end",
        ),
    ];
    for (bytes, at, what) in cases {
        let error = Message::decode(&schema, 0, bytes).unwrap_err();
        assert!(error.what.contains(what), "{bytes:x?}: {error}");
        assert_eq!(error.at, at, "{bytes:x?}: {error}");
    }
    let mut deep = vec![];
    for _ in 0..200 {
        let mut outer = vec![0x80 | 0x1a, 0x06];
        varint::put(deep.len() as u64, &mut outer);
        outer.extend(deep);
        deep = outer;
    }
    let error = Message::decode(&one(Kind::Message(0), 99), 0, &deep).unwrap_err();
    assert!(error.what.contains("within each other"), "{error}");
}

#[test]
fn fields_that_are_not_known_are_left_out_and_the_last_of_two_counts() {
    let schema = one(Kind::Int32, 2);
    let bytes = [
        0x10, 1, 0x08, 5, 0x1a, 1, 9, 0x25, 1, 2, 3, 4, 0x29, 1, 2, 3, 4, 5, 6, 7, 8, 0x10, 7,
    ];
    let last = only(Value::Number(7));
    assert_eq!(Message::decode(&schema, 0, &bytes), Ok(last));
}

/// Values of a field of that kind.
fn value(kind: Kind, message: BoxedStrategy<Message>) -> BoxedStrategy<Value> {
    match kind {
        Kind::Bool => (0..2u64).prop_map(Value::Number).boxed(),
        Kind::String | Kind::Bytes => prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(Value::Bytes)
            .boxed(),
        Kind::Message(_) => message.prop_map(Value::Message).boxed(),
        kind if kind.size() == Some(4) => any::<u32>()
            .prop_map(|bits| Value::Number(u64::from(bits)))
            .boxed(),
        // Numbers of every encoded length.
        _ => (any::<u64>(), 0..64u32)
            .prop_map(|(bits, less)| Value::Number(bits >> less))
            .boxed(),
    }
}

fn message(depth: usize) -> BoxedStrategy<Message> {
    let inner = if depth == 0 {
        Just(Message::default()).boxed()
    } else {
        message(depth - 1)
    };
    let fields = schema().types[0].fields.clone();
    let per_field: Vec<_> = fields
        .iter()
        .map(|field| {
            let most = if field.repeated { 4 } else { 2 };
            prop::collection::vec(value(field.kind, inner.clone()), 0..most)
        })
        .collect();
    let collect = |values: Vec<Vec<Value>>| {
        let of = |(place, values): (usize, Vec<Value>)| {
            values.into_iter().map(move |value| (place, value))
        };
        Message {
            fields: values.into_iter().enumerate().flat_map(of).collect(),
        }
    };
    per_field.prop_map(collect).boxed()
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(message in message(2)) {
        let schema = schema();
        let bytes = message.encode(&schema, 0);
        prop_assert_eq!(bytes.len(), message.encoded_len(&schema, 0));
        prop_assert_eq!(Message::decode(&schema, 0, &bytes), Ok(message));
    }

    #[test]
    fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let schema = schema();
        if let Ok(message) = Message::decode(&schema, 0, &bytes) {
            let again = message.encode(&schema, 0);
            prop_assert_eq!(Message::decode(&schema, 0, &again), Ok(message));
        }
    }
}
