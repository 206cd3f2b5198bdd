//! The layout of messages as objects in memory, similar to that of the C++
//! library of Protocol Buffers.
//!
//! An object has a fixed part: 8 B that stand for its class, 8 B with a bit for each field that is
//! set, then its fields by number, each aligned to its size. Numbers are stored in the fixed part.
//! A string or bytes field stores an address and a length, a message an address, and a repeated
//! field the address and the count of an array. What these addresses point to is stored outside of
//! the fixed part. Left out: the C++ library stores strings of up to 15 B in the string object, and
//! reserves room in arrays.

use super::message::{Message, Value};
use super::schema::{Field, Kind, Schema};

/// Offset of the presence bits in an object: one bit for each field that is set.
pub const PRESENT: u64 = 8;

/// Bytes before the first field.
const HEADER: u64 = 16;

/// The kind of a piece of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PieceKind {
    /// A field that is a number.
    Number,
    /// The bytes of a string.
    Data,
    /// A field with the address, and length or count, of data outside of the fixed part.
    Pointer,
    /// The elements of a repeated field.
    Array,
    /// The first bytes of an object, with the presence bits.
    Header,
    /// The whole fixed part of an object.
    Whole,
}

/// Bytes of an object that are written at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Address of the piece's first byte.
    pub addr: u64,
    /// The bytes to write.
    pub bytes: Vec<u8>,
    /// The kind of the piece.
    pub part: PieceKind,
    /// How many numbers the piece contains that are fields or elements of repeated fields.
    pub numbers: u32,
}

/// A message in memory.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Object {
    /// The address of the message's fixed part.
    pub root: u64,
    /// The first address after all parts of the object.
    pub end: u64,
    /// The pieces of the object, in the order in which a decoder writes them.
    pub pieces: Vec<Piece>,
    /// The contiguous parts, by address and bytes, in the order in which a reader reaches them that
    /// reads the object field by field.
    pub allocations: Vec<(u64, u64)>,
}

/// A schema with the offsets of all fields of each message type.
#[derive(Clone, Debug)]
pub struct Layout {
    schema: Schema,
    types: Vec<TypeLayout>,
}

#[derive(Clone, Debug)]
struct TypeLayout {
    offsets: Vec<u64>,
    size: u64,
}

/// Bytes of an element of a field's array, or of the field itself if it is not repeated.
pub fn element_size(kind: Kind) -> u64 {
    match kind {
        Kind::Message(_) => 8,
        kind => kind.size().unwrap_or(16),
    }
}

/// Bytes of a field in the fixed part of an object.
pub(crate) fn field_size(field: Field) -> u64 {
    match field.repeated {
        true => 16,
        false => element_size(field.kind),
    }
}

impl Layout {
    /// Computes the layout of all types of a schema.
    pub fn new(schema: &Schema) -> Layout {
        let of = |fields: &[Field]| {
            let mut at = HEADER;
            let mut offsets = Vec::with_capacity(fields.len());
            for field in fields {
                let size = field_size(*field);
                at = at.next_multiple_of(size.min(8));
                offsets.push(at);
                at += size;
            }
            TypeLayout {
                offsets,
                size: at.next_multiple_of(8),
            }
        };
        Layout {
            schema: schema.clone(),
            types: schema.types.iter().map(|kind| of(&kind.fields)).collect(),
        }
    }

    /// Offset of a field in an object of a type; `place` is the field's index in the type.
    pub fn offset(&self, kind: usize, place: usize) -> u64 {
        self.types[kind].offsets[place]
    }

    /// Bytes of the fixed part of a type's objects.
    pub fn size(&self, kind: usize) -> u64 {
        self.types[kind].size
    }

    /// Lays out a message of a type from address `base` on. Fixed parts come before the data that
    /// they point to, and every field is a piece of its own. Each part begins at a multiple of `align`.
    pub fn scattered(&self, kind: usize, message: &Message, base: u64, align: u64) -> Object {
        self.place(kind, message, base, align, false)
    }

    /// Lays out a message of a type from address `base` on as a decoder appends it. Fixed parts come
    /// after the data that they point to, and each is one piece. The addresses of the pieces ascend,
    /// without gaps but for alignment.
    pub fn appended(&self, kind: usize, message: &Message, base: u64, align: u64) -> Object {
        self.place(kind, message, base, align, true)
    }

    fn place(&self, kind: usize, message: &Message, base: u64, align: u64, append: bool) -> Object {
        let mut writer = Writer {
            layout: self,
            align,
            append,
            object: Object {
                end: base,
                ..Object::default()
            },
        };
        writer.object.root = writer.message(kind, message);
        writer.object
    }
}

struct Writer<'a> {
    layout: &'a Layout,
    align: u64,
    append: bool,
    object: Object,
}

impl Writer<'_> {
    fn allocate(&mut self, bytes: u64) -> u64 {
        let addr = self.object.end.next_multiple_of(self.align);
        self.object.end = addr + bytes;
        addr
    }

    fn piece(&mut self, addr: u64, bytes: Vec<u8>, part: PieceKind, numbers: u32) {
        self.object.pieces.push(Piece {
            addr,
            bytes,
            part,
            numbers,
        });
    }

    /// Writes a message and returns the address of its fixed part.
    fn message(&mut self, kind: usize, message: &Message) -> u64 {
        let size = self.layout.size(kind);
        let early = if self.append { 0 } else { self.allocate(size) };
        let listed = self.object.allocations.len();
        self.object.allocations.push((early, size));
        let mut fixed = vec![0; size as usize];
        let (mut present, mut numbers) = (0u64, 0);
        let mut at = 0;
        while let Some((place, _)) = message.fields.get(at) {
            let of_field = message.fields[at..]
                .iter()
                .take_while(|(other, _)| other == place);
            let count = of_field.count();
            let values = &message.fields[at..at + count];
            let (bytes, part) = self.field(self.layout.schema.types[kind].fields[*place], values);
            let offset = self.layout.offset(kind, *place);
            fixed[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
            let number = u32::from(part == PieceKind::Number);
            numbers += number;
            if !self.append {
                self.piece(early + offset, bytes, part, number);
            }
            present |= 1 << place;
            at += count;
        }
        fixed[..8].copy_from_slice(&(kind as u64).to_le_bytes());
        fixed[8..16].copy_from_slice(&present.to_le_bytes());
        if !self.append {
            fixed.truncate(HEADER as usize);
            self.piece(early, fixed, PieceKind::Header, 0);
            return early;
        }
        let addr = self.allocate(size);
        self.object.allocations[listed].0 = addr;
        self.piece(addr, fixed, PieceKind::Whole, numbers);
        addr
    }

    /// Writes the data that a field points to, and returns the field's bytes in the fixed part.
    fn field(&mut self, field: Field, values: &[(usize, Value)]) -> (Vec<u8>, PieceKind) {
        if !field.repeated {
            let part = match field.kind.size() {
                Some(_) => PieceKind::Number,
                None => PieceKind::Pointer,
            };
            let value = values.last().map(|(_, one)| self.element(field.kind, one));
            return (value.unwrap_or_default(), part);
        }
        // An array is listed before the data that its elements point to, and written after them.
        let size = element_size(field.kind) * values.len() as u64;
        let early = if self.append { 0 } else { self.allocate(size) };
        let listed = self.object.allocations.len();
        self.object.allocations.push((early, size));
        let mut array = Vec::with_capacity(size as usize);
        for (_, value) in values {
            array.extend(self.element(field.kind, value));
        }
        let addr = if self.append {
            self.allocate(size)
        } else {
            early
        };
        self.object.allocations[listed].0 = addr;
        let numbers = field.kind.size().map_or(0, |_| values.len() as u32);
        self.piece(addr, array, PieceKind::Array, numbers);
        let mut slot = addr.to_le_bytes().to_vec();
        slot.extend((values.len() as u64).to_le_bytes());
        (slot, PieceKind::Pointer)
    }

    /// Writes the data that a value points to, and returns the value's bytes in the fixed part
    /// or in an array.
    fn element(&mut self, kind: Kind, value: &Value) -> Vec<u8> {
        match (value, kind) {
            (Value::Number(bits), kind) => {
                let size = kind.size().unwrap_or(0) as usize;
                bits.to_le_bytes()[..size].to_vec()
            }
            (Value::Bytes(bytes), _) => {
                let length = bytes.len() as u64;
                let mut addr = 0;
                if length > 0 {
                    addr = self.allocate(length);
                    self.object.allocations.push((addr, length));
                    self.piece(addr, bytes.clone(), PieceKind::Data, 0);
                }
                let mut slot = addr.to_le_bytes().to_vec();
                slot.extend(length.to_le_bytes());
                slot
            }
            (Value::Message(message), Kind::Message(inner)) => {
                self.message(inner, message).to_le_bytes().to_vec()
            }
            (Value::Message(_), _) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::Bench;
    use cxlab_engine::rng::StreamRng;

    fn objects(append: bool) -> Vec<(Layout, Object)> {
        let all = [1, 2, 4].into_iter().flat_map(|number| {
            let bench = Bench::new(number);
            let mut rng = StreamRng::new(3, "layout");
            let layout = Layout::new(&bench.schema);
            let one = move |kind| {
                let message = bench.message(kind, &mut rng);
                let object = layout.place(kind, &message, 4096, 16, append);
                (layout.clone(), object)
            };
            (0..10).map(one).collect::<Vec<_>>()
        });
        all.collect()
    }

    #[test]
    fn what_is_appended_ascends_and_covers_all_allocations() {
        for (_, object) in objects(true) {
            let mut at = 4096;
            for piece in &object.pieces {
                assert_eq!(piece.addr, u64::next_multiple_of(at, 16));
                at = piece.addr + piece.bytes.len() as u64;
            }
            assert_eq!(at, object.end);
            let mut listed = object.allocations.clone();
            listed.sort_unstable();
            let pieces = object.pieces.iter();
            let pieces = pieces.map(|piece| (piece.addr, piece.bytes.len() as u64));
            assert_eq!(listed, pieces.collect::<Vec<_>>());
            assert_eq!(object.allocations[0].0, object.root);
        }
    }

    #[test]
    fn scattered_pieces_lie_within_allocations_that_do_not_overlap() {
        for (_, object) in objects(false) {
            let mut listed = object.allocations.clone();
            assert_eq!(listed[0].0, object.root);
            listed.sort_unstable();
            let apart = |pair: &[(u64, u64)]| pair[0].0 + pair[0].1 <= pair[1].0;
            assert!(listed.windows(2).all(apart));
            for piece in &object.pieces {
                let before = listed.partition_point(|(addr, _)| *addr <= piece.addr);
                let (addr, bytes) = listed[before - 1];
                let end = piece.addr + piece.bytes.len() as u64;
                assert!(end <= addr + bytes, "{piece:?}");
            }
        }
    }

    #[test]
    fn fields_lie_by_number_at_multiples_of_their_size() {
        let field = |number, kind, repeated| Field {
            number,
            kind,
            repeated,
        };
        let fields = vec![
            field(1, Kind::Bool, false),
            field(2, Kind::Int32, false),
            field(3, Kind::String, false),
            field(4, Kind::Bool, true),
            field(5, Kind::Message(0), false),
            field(6, Kind::Double, false),
        ];
        let schema = Schema {
            types: vec![crate::rpc::MessageType { fields }],
        };
        let layout = Layout::new(&schema);
        let offsets: Vec<u64> = (0..6).map(|place| layout.offset(0, place)).collect();
        assert_eq!(offsets, [16, 20, 24, 40, 56, 64]);
        assert_eq!(layout.size(0), 72);
    }
}
