//! Saving and restoring the state of a simulation between two calls of [`Simulation::run`](crate::Simulation::run).
//!
//! What a program builds from parameters is not saved. So a state is restored into a system that was
//! freshly built from the same parameters and seed. Every value is in a section with a name. A reader
//! that expects another section reports both names, so a state of another system is found.
//!
//! A state does not depend on the division of the components among threads.
//!
//! Most types are saved by [`save_state!`](crate::save_state!), which names every field of a type, so
//! that no field can be forgotten. A type that cannot be saved, such as foreign code with a state of its
//! own, [refuses](StateWriter::refuse); then no state is written.

mod fields;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// A type whose state can be saved and restored into a freshly built value.
///
/// The state has everything that a later event can read, and nothing that follows from parameters. After
/// `restore`, the value behaves as the saved one would have. The trait is dyn-compatible, so an owner can
/// save the values in its boxes.
pub trait SaveState {
    /// Writes the state.
    fn save(&self, out: &mut StateWriter);
    /// Reads the state, with its values in the order in which `save` wrote them.
    ///
    /// # Errors
    /// If the state is of another type or of another system.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError>;
}

/// Why a state cannot be restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateError(String);

impl StateError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        StateError(message.into())
    }
}

impl std::fmt::Display for StateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StateError {}

const MAGIC: &[u8; 8] = b"CXLSTATE";
/// Version of the format, raised when the meaning of a saved state or the name of a saved value changes.
const VERSION: u32 = 34;
const HEADER: usize = MAGIC.len() + size_of::<u32>();
/// Bytes of the SHA-256 at the end, over all bytes before it.
const HASH: usize = 32;

/// Whether these bytes begin as a saved state does, of any version. The state may be truncated or damaged.
pub fn is_state(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// A part of a system whose state cannot be saved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The number of the component with this part.
    pub component: usize,
    /// What cannot be saved, and why.
    pub what: String,
}

/// A state that is being written.
pub struct StateWriter {
    bytes: Vec<u8>,
    /// Whether the writer collects refusals alone, without values.
    refusals_only: bool,
    component: usize,
    refusals: Vec<Refusal>,
}

impl Default for StateWriter {
    fn default() -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        StateWriter {
            bytes,
            refusals_only: false,
            component: 0,
            refusals: Vec::new(),
        }
    }
}

impl StateWriter {
    /// A writer that collects refusals alone: values are not written.
    pub fn refusals_only() -> Self {
        StateWriter {
            refusals_only: true,
            ..StateWriter::default()
        }
    }

    /// Writes a value under a name of at most 255 bytes.
    pub fn value<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        if self.refusals_only {
            return;
        }
        self.bytes.push(name.len() as u8);
        self.bytes.extend(name.as_bytes());
        let length = self.bytes.len();
        self.bytes.extend([0; size_of::<u64>()]);
        let bytes = std::mem::take(&mut self.bytes);
        self.bytes = match postcard::to_extend(value, bytes) {
            Ok(bytes) => bytes,
            Err(error) => unreachable!("plain values can be written: {error}"),
        };
        let first = length + size_of::<u64>();
        let count = (self.bytes.len() - first) as u64;
        self.bytes[length..first].copy_from_slice(&count.to_le_bytes());
    }

    /// Begins the state of the component with this number, to which later refusals belong.
    pub(crate) fn enter(&mut self, component: usize) {
        self.component = component;
    }

    /// Reports that a part cannot be saved, and why. [`StateWriter::finish`] then fails.
    pub fn refuse(&mut self, what: impl Into<String>) {
        self.refusals.push(Refusal {
            component: self.component,
            what: what.into(),
        });
    }

    /// The state as bytes that end with their hash.
    ///
    /// # Errors
    /// The parts that cannot be saved, if there are any.
    pub fn finish(mut self) -> Result<Vec<u8>, Vec<Refusal>> {
        if !self.refusals.is_empty() {
            return Err(self.refusals);
        }
        let hash = Sha256::digest(&self.bytes);
        self.bytes.extend(hash);
        Ok(self.bytes)
    }
}

/// A state that is being read.
pub struct StateReader<'a>(&'a [u8]);

impl<'a> StateReader<'a> {
    /// Opens a state that [`StateWriter::finish`] returned.
    ///
    /// # Errors
    /// If the bytes are not a state, are of another version, or are damaged.
    pub fn open(bytes: &'a [u8]) -> Result<Self, StateError> {
        if bytes.len() < HEADER + HASH || !is_state(bytes) {
            return Err(StateError::new("this is not a saved state of cxlab"));
        }
        let (_, mut rest) = bytes.split_at(MAGIC.len());
        let found = u32::from_le_bytes(array(&mut rest)?);
        if found != VERSION {
            return Err(StateError::new(format!(
                "the state has format {found}; this version reads format {VERSION}"
            )));
        }
        let (body, hash) = bytes.split_at(bytes.len() - HASH);
        if *hash != *Sha256::digest(body) {
            return Err(StateError::new("the state is damaged: its hash differs"));
        }
        Ok(StateReader(&body[HEADER..]))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], StateError> {
        let taken = self.0.split_off(..count);
        taken.ok_or_else(|| StateError::new("the state ends too soon"))
    }

    /// Reads the next value, which must have this name.
    ///
    /// # Errors
    /// If the next value has another name or another type.
    pub fn value<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, StateError> {
        let length = usize::from(self.take(1)?[0]);
        let found = String::from_utf8_lossy(self.take(length)?);
        if found != name {
            return Err(StateError::new(format!(
                "expected `{name}` in the state, found `{found}`: it is of another system"
            )));
        }
        let length = u64::from_le_bytes(array(&mut self.0)?);
        let bytes = self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
        postcard::from_bytes(bytes)
            .map_err(|error| StateError::new(format!("`{name}` in the state: {error}")))
    }

    /// Checks that all of the state was read.
    ///
    /// # Errors
    /// If a value is left.
    pub fn finish(self) -> Result<(), StateError> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(StateError::new("the state goes on where it should end")),
        }
    }
}

/// The first bytes of a state, which are taken off.
fn array<const COUNT: usize>(bytes: &mut &[u8]) -> Result<[u8; COUNT], StateError> {
    let (taken, rest) = bytes
        .split_first_chunk()
        .ok_or_else(|| StateError::new("the state ends too soon"))?;
    *bytes = rest;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Vec<u8> {
        let mut out = StateWriter::default();
        out.value("count", &7u64);
        out.value("names", &vec!["a", "b"]);
        out.finish().expect("nothing refused")
    }

    #[test]
    fn values_come_back_by_name_and_in_order() {
        let bytes = written();
        let mut from = StateReader::open(&bytes).expect("it was just written");
        assert_eq!(from.value::<u64>("count"), Ok(7));
        let names = from.value::<Vec<String>>("names");
        assert_eq!(names, Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(from.finish(), Ok(()));
    }

    #[test]
    fn another_name_and_what_is_left_are_told() {
        let bytes = written();
        let mut from = StateReader::open(&bytes).expect("it was just written");
        let error = from.value::<u64>("names").expect_err("`count` comes first");
        assert!(error.to_string().contains("expected `names`"), "{error}");
        let from = StateReader::open(&bytes).expect("it was just written");
        assert!(from.finish().is_err());
    }

    #[test]
    fn what_cannot_be_saved_makes_no_state_and_says_where_it_is() {
        let mut out = StateWriter::default();
        out.value("count", &7u64);
        out.enter(3);
        out.refuse("a plug-in");
        let refusals = out.finish().expect_err("something refused");
        let what = "a plug-in".to_owned();
        assert_eq!(refusals, [Refusal { component: 3, what }]);
    }

    #[test]
    fn no_damage_goes_unseen_and_none_panics() {
        let bytes = written();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(StateReader::open(&damaged).is_err(), "byte {at}, bit {bit}");
            }
            assert!(StateReader::open(&bytes[..at]).is_err(), "{at} bytes of it");
        }
    }
}
