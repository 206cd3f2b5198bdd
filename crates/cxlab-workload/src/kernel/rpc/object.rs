//! Reading an object field by field, by the front end of the card's encoder or by the host.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use super::units::FrontEnd;
use super::{ALIGN, BUFFER, Job};
use crate::rpc::layout::{PRESENT, element_size, field_size};
use crate::rpc::message::number;
use crate::rpc::{Field, Kind, Message, Value};
use crate::thread::{self, Handle, LoadedRange};

/// A reader of objects: the front end of the card's encoder, or the host.
pub(super) struct Reader<'t> {
    t: &'t Handle,
    job: &'t Job,
    /// Most fields in flight at a time.
    ahead: usize,
    /// The front end with the card's other units; `None` for the host, which loads strings itself.
    card: Option<FrontEnd<'t>>,
    /// Address of the next part, if the object has been copied to contiguous memory in the
    /// order in which the reader reaches its parts. `None` if the reader follows the
    /// addresses in the object.
    packed: Option<u64>,
    /// The host's strings read so far, in the order of the message's fields, which includes
    /// strings in nested messages.
    strings: Vec<Vec<u8>>,
    /// Parts of the host's strings in flight, by index of the string. Later
    /// loads overlap with them.
    parts: VecDeque<(usize, LoadedRange<'t>)>,
}

/// A field of an object that is being loaded.
struct Slot<'t> {
    place: usize,
    word: thread::Value<'t>,
    second: Option<thread::Value<'t>>,
}

type Boxed<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;

impl<'t> Reader<'t> {
    /// Makes a reader that follows addresses, as the host does.
    pub fn host(t: &'t Handle, job: &'t Job, ahead: usize) -> Reader<'t> {
        Reader {
            t,
            job,
            ahead,
            card: None,
            packed: None,
            strings: Vec::new(),
            parts: VecDeque::new(),
        }
    }

    /// Makes the card's front end. `packed` is the first address of an object that was
    /// copied to contiguous memory.
    pub fn card(card: FrontEnd<'t>, packed: Option<u64>) -> Reader<'t> {
        let ahead = card.job.params.outstanding as usize;
        let host = Reader::host(card.t, card.job, ahead);
        Reader {
            packed,
            card: Some(card),
            ..host
        }
    }

    /// The address of a part: `addr`, or the next contiguous address.
    fn resolve(&mut self, addr: u64, bytes: u64) -> u64 {
        let Some(next) = &mut self.packed else {
            return addr;
        };
        let here = next.next_multiple_of(ALIGN);
        *next = here + bytes;
        here
    }

    /// Reads the message of a type at an address, and returns it with the front end.
    pub async fn read(mut self, kind: usize, addr: u64) -> (Message, Option<FrontEnd<'t>>) {
        let mut message = self.fields_of(kind, addr).await;
        while !self.parts.is_empty() {
            self.part().await;
        }
        let strings = match &mut self.card {
            Some(card) => card.finish().await,
            None => self.strings,
        };
        fill_in(&mut message, &mut strings.into_iter());
        (message, self.card)
    }

    /// Reads a message except for its strings, which are left empty.
    fn fields_of<'s>(&'s mut self, kind: usize, addr: u64) -> Boxed<'s, Message> {
        Box::pin(async move {
            let job = self.job;
            let addr = self.resolve(addr, job.layout.size(kind));
            let present = self.t.load(addr + PRESENT).await;
            let types = &job.bench.schema.types[kind].fields;
            let mut places = (0..types.len()).filter(|place| present >> place & 1 == 1);
            let mut slots = VecDeque::new();
            let mut fields = Vec::new();
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
            Message { fields }
        })
    }

    /// Issues the loads of a field's bytes in the fixed part.
    fn slot(&self, place: usize, field: Field, at: u64) -> Slot<'t> {
        let size = field_size(field);
        let word = self.t.load_sized(at, size.min(8) as u8);
        let second = (size == 16).then(|| self.t.load(at + 8));
        Slot {
            place,
            word,
            second,
        }
    }

    /// Reads the data that a field points to.
    async fn field(
        &mut self,
        fields: &mut Vec<(usize, Value)>,
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
        fields: &mut Vec<(usize, Value)>,
        place: usize,
        kind: Kind,
        (word, length): (u64, u64),
    ) {
        let value = match kind {
            Kind::Message(inner) => Value::Message(self.fields_of(inner, word).await),
            Kind::String | Kind::Bytes => Value::Bytes(Vec::new()),
            _ => {
                if let Some(card) = &mut self.card {
                    card.number(self.job.cycles(element_size(kind))).await;
                }
                Value::Number(word)
            }
        };
        let is_string = matches!(value, Value::Bytes(_));
        fields.push((place, value));
        if is_string {
            let addr = match length {
                0 => 0,
                length => self.resolve(word, length),
            };
            match &mut self.card {
                Some(card) => card.string(addr, length).await,
                None => self.string(addr, length).await,
            }
        }
    }

    /// Issues the loads of a string, part by part.
    async fn string(&mut self, addr: u64, length: u64) {
        let at = self.strings.len();
        self.strings.push(Vec::new());
        for offset in (0..length).step_by(BUFFER as usize) {
            let part = BUFFER.min(length - offset);
            self.parts
                .push_back((at, self.t.read_range(addr + offset, part)));
            if self.parts.len() >= self.ahead {
                self.part().await;
            }
        }
    }

    /// Waits for the oldest part of a string.
    async fn part(&mut self) {
        if let Some((at, part)) = self.parts.pop_front() {
            self.strings[at].extend(part.await);
        }
    }
}

/// Moves the strings to their fields.
fn fill_in(message: &mut Message, strings: &mut impl Iterator<Item = Vec<u8>>) {
    for (_, value) in &mut message.fields {
        match value {
            Value::Bytes(bytes) => *bytes = strings.next().unwrap_or_default(),
            Value::Message(inner) => fill_in(inner, strings),
            Value::Number(_) => {}
        }
    }
}
