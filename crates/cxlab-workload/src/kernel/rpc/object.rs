//! Reading an object field by field: by the card's encoder, and by the host.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use super::{ALIGN, BUFFER, Job};
use crate::rpc::layout::{PRESENT, element_size};
use crate::rpc::message::number;
use crate::rpc::{Field, Kind, Message, Value};
use crate::thread::{self, Handle, Loaded};

/// Who reads, and how.
pub(super) struct Reader<'t> {
    t: &'t Handle,
    job: &'t Job,
    /// Fields under way at a time.
    ahead: usize,
    /// Whether each field costs cycles of the card.
    encodes: bool,
    /// Where the next part lies, if the object has been copied together in the order in which
    /// its addresses are met; else addresses are followed.
    packed: Option<u64>,
}

/// The field in an object, as it is being loaded.
struct Slot<'t> {
    place: usize,
    word: thread::Value<'t>,
    second: Option<thread::Value<'t>>,
}

/// The fields of a message as they come: strings later than others, long ones in parts.
#[derive(Default)]
struct Fields<'t> {
    values: Vec<(usize, Value)>,
    /// Parts of strings on their way, and whose value they belong to.
    parts: VecDeque<(usize, Loaded<'t>)>,
}

type Boxed<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;

impl<'t> Reader<'t> {
    /// A reader that follows addresses, as the host does.
    pub fn host(t: &'t Handle, job: &'t Job, ahead: usize) -> Reader<'t> {
        Reader {
            t,
            job,
            ahead,
            encodes: false,
            packed: None,
        }
    }

    /// The card's encoder. `packed` is where an object begins that has been copied together.
    pub fn encoder(t: &'t Handle, job: &'t Job, packed: Option<u64>) -> Reader<'t> {
        let ahead = job.params.outstanding as usize;
        Reader {
            t,
            job,
            ahead,
            encodes: true,
            packed,
        }
    }

    /// Where a part really lies.
    fn resolve(&mut self, addr: u64, bytes: u64) -> u64 {
        let Some(next) = &mut self.packed else {
            return addr;
        };
        let here = next.next_multiple_of(ALIGN);
        *next = here + bytes;
        here
    }

    async fn encode(&self, cycles: u32) {
        if self.encodes && cycles > 0 {
            self.t.compute(cycles).await;
        }
    }

    /// Reads the message of a type at an address.
    pub fn read<'s>(&'s mut self, kind: usize, addr: u64) -> Boxed<'s, Message> {
        Box::pin(async move {
            let job = self.job;
            let addr = self.resolve(addr, job.layout.size(kind));
            let present = self.t.load(addr + PRESENT).await;
            let types = &job.bench.schema.types[kind].fields;
            let mut places = (0..types.len()).filter(|place| present >> place & 1 == 1);
            let mut slots = VecDeque::new();
            let mut fields = Fields::default();
            loop {
                while slots.len() < self.ahead
                    && let Some(place) = places.next()
                {
                    let at = addr + job.layout.offset(kind, place);
                    slots.push_back(self.slot(place, types[place], at));
                }
                let Some(Slot {
                    place,
                    word,
                    second,
                }) = slots.pop_front()
                else {
                    break;
                };
                let word = word.await;
                let second = match second {
                    Some(second) => second.await,
                    None => 0,
                };
                self.field(&mut fields, place, types[place], (word, second))
                    .await;
            }
            while !fields.parts.is_empty() {
                self.part(&mut fields).await;
            }
            let fields = fields.values;
            Message { fields }
        })
    }

    /// Loads a field of the fixed part.
    fn slot(&self, place: usize, field: Field, at: u64) -> Slot<'t> {
        let size = if field.repeated {
            16
        } else {
            element_size(field.kind)
        };
        let word = self.t.load_sized(at, size.min(8) as u8);
        let second = (size == 16).then(|| self.t.load(at + 8));
        Slot {
            place,
            word,
            second,
        }
    }

    /// Reads what a field leads to.
    async fn field(
        &mut self,
        fields: &mut Fields<'t>,
        place: usize,
        field: Field,
        (word, second): (u64, u64),
    ) {
        if !field.repeated {
            return self
                .element(fields, place, field.kind, (word, second))
                .await;
        }
        let size = element_size(field.kind);
        let addr = self.resolve(word, second * size);
        let array = self.t.read_range(addr, second * size).await;
        for element in array.chunks_exact(size as usize) {
            let (low, high) = element.split_at(size.min(8) as usize);
            let words = (number(low), number(high));
            self.element(fields, place, field.kind, words).await;
        }
    }

    async fn element(
        &mut self,
        fields: &mut Fields<'t>,
        place: usize,
        kind: Kind,
        (word, length): (u64, u64),
    ) {
        let value = match kind {
            Kind::Message(inner) => Value::Message(self.read(inner, word).await),
            Kind::String | Kind::Bytes => Value::Bytes(Vec::new()),
            _ => {
                self.encode(self.job.cycles(element_size(kind))).await;
                Value::Number(word)
            }
        };
        let is_string = matches!(value, Value::Bytes(_));
        fields.values.push((place, value));
        if is_string && length > 0 {
            let addr = self.resolve(word, length);
            self.string(fields, addr, length).await;
        }
    }

    /// Asks for a string part by part.
    async fn string(&mut self, fields: &mut Fields<'t>, addr: u64, length: u64) {
        let at = fields.values.len() - 1;
        for offset in (0..length).step_by(BUFFER as usize) {
            let part = BUFFER.min(length - offset);
            fields
                .parts
                .push_back((at, self.t.read_range(addr + offset, part)));
            if fields.parts.len() >= self.ahead {
                self.part(fields).await;
            }
        }
    }

    /// Waits for the oldest part of a string.
    async fn part(&mut self, fields: &mut Fields<'t>) {
        let Some((at, part)) = fields.parts.pop_front() else {
            return;
        };
        let bytes = part.await;
        let Some((_, Value::Bytes(string))) = fields.values.get_mut(at) else {
            return;
        };
        let length = bytes.len() as u64;
        let cycles = match string.is_empty() {
            true => self.job.cycles(length),
            false => self.job.moving(length),
        };
        string.extend(bytes);
        self.encode(cycles).await;
    }
}
