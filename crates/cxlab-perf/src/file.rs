//! perf.data files, as `perf record` and `perf mem record` write them.
//!
//! A file has a header, its events, records in the order in which rings were emptied, and *features* such as
//! the names of the events. Records of different processors are not in the order of their times.

use std::io::{self, Read, Seek, SeekFrom};

use crate::attr::Attr;
use crate::bytes::{Bytes, RecordError};
use crate::encode::Event;
use crate::record::{HEADER, Record, kind, time_of};

/// Bytes of the features and of the list of events that are read at most (*assumed*: those of large machines
/// have some hundred KiB).
const MOST_SECTION: u64 = 64 << 20;
/// Most events, and most numbers of samples of all of them.
const MOST_EVENTS: u64 = 4096;

/// Why a file cannot be read.
#[derive(thiserror::Error, Debug)]
pub enum FileError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is no perf.data file, or has an unsupported kind.
    #[error("{0}")]
    Kind(String),
    /// The file is damaged.
    #[error("byte {at}: {what}")]
    Damaged {
        /// Offset of the first damaged byte.
        at: u64,
        /// The value found, and the values allowed.
        what: String,
    },
}

/// Where something is in the file.
#[derive(Clone, Copy)]
struct Section {
    at: u64,
    bytes: u64,
}

impl Section {
    fn parse(bytes: &mut Bytes<'_>) -> Result<Section, RecordError> {
        Ok(Section {
            at: bytes.u64()?,
            bytes: bytes.u64()?,
        })
    }
}

/// An open file.
pub struct PerfData<R> {
    reader: R,
    data: Section,
    /// Events that were recorded.
    pub events: Vec<Event>,
    /// Name of the machine on which the file was recorded, if the file has it.
    pub host: Option<String>,
    /// Name of the processor, if the file has it.
    pub processor: Option<String>,
}

/// Features that are read, by their numbers.
const HOSTNAME: usize = 3;
const CPUDESC: usize = 8;
const EVENT_DESC: usize = 12;
const FEATURES: usize = 256;

impl<R: Read + Seek> PerfData<R> {
    /// Reads header, events and features.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(mut reader: R) -> Result<PerfData<R>, FileError> {
        let header = section(&mut reader, Section { at: 0, bytes: 16 }, "a header")?;
        match &header[..8] {
            b"PERFILE2" => {}
            b"2ELIFREP" => return Err(other("was recorded on a machine of the other byte order")),
            b"PERFFILE" => return Err(other("is of a perf before 2.6.38")),
            _ => return Err(other("is no perf.data file")),
        }
        let size = Bytes(&header[8..]).u64().map_err(at(8))?;
        if size == 16 {
            let what = "was written to a pipe; record into a file (perf record -o FILE)";
            return Err(other(what));
        }
        if size < 104 {
            let what = format!("found a header of {size} bytes; allowed: at least 104");
            return Err(damaged(8, what));
        }
        let rest = section(&mut reader, Section { at: 16, bytes: 88 }, "a header")?;
        let mut rest = Bytes(&rest);
        let mut read = || -> Result<_, RecordError> {
            let entry = rest.u64()?;
            let attrs = Section::parse(&mut rest)?;
            let data = Section::parse(&mut rest)?;
            Section::parse(&mut rest)?;
            Ok((entry, attrs, data, rest.word::<32>()?))
        };
        let (entry, attrs, data, features) = read().map_err(at(16))?;
        let mut file = PerfData {
            events: events(&mut reader, entry, attrs)?,
            reader,
            data,
            host: None,
            processor: None,
        };
        file.features(&features)?;
        Ok(file)
    }

    fn features(&mut self, present: &[u8; FEATURES / 8]) -> Result<(), FileError> {
        let Some(from) = self.data.at.checked_add(self.data.bytes) else {
            return Err(damaged(40, "found records behind the last byte"));
        };
        let is_there = |number: &usize| present[number / 8] >> (number % 8) & 1 == 1;
        let there: Vec<usize> = (0..FEATURES).filter(is_there).collect();
        let list = Section {
            at: from,
            bytes: 16 * there.len() as u64,
        };
        let list = section(&mut self.reader, list, "the list of features")?;
        let mut list = Bytes(&list);
        for number in there {
            let place = Section::parse(&mut list).map_err(at(from))?;
            if ![HOSTNAME, CPUDESC, EVENT_DESC].contains(&number) {
                continue;
            }
            let found = section(&mut self.reader, place, "a feature")?;
            let mut found = Bytes(&found);
            match number {
                HOSTNAME => self.host = Some(text(&mut found).map_err(at(place.at))?),
                CPUDESC => self.processor = Some(text(&mut found).map_err(at(place.at))?),
                _ => self.names(found).map_err(at(place.at))?,
            }
        }
        Ok(())
    }

    /// Names of the events, and numbers of samples of those that had none.
    fn names(&mut self, mut rest: Bytes<'_>) -> Result<(), RecordError> {
        let count = rest.u32()?;
        let bytes = u64::from(rest.u32()?);
        for number in 0..count as usize {
            rest.take(bytes)?;
            let ids = rest.u32()?;
            let name = text(&mut rest)?;
            let ids = rest.take(8 * u64::from(ids))?;
            if let Some(event) = self.events.get_mut(number) {
                event.name = name;
                if event.ids.is_empty() {
                    event.ids = words(ids);
                }
            }
        }
        Ok(())
    }

    /// Reads all records in the file's order. `each` gets the event's number, the time of the record in nanoseconds if
    /// the file has it, and the record. Reading stops when `each` returns `false`.
    ///
    /// # Errors
    /// [`FileError`]. `each` has been called with all records before the damaged one.
    pub fn records(
        &mut self,
        each: &mut dyn FnMut(usize, Option<u64>, Record<'_>) -> bool,
    ) -> Result<(), FileError> {
        let which = EventIds::new(&self.events)?;
        self.reader.seek(SeekFrom::Start(self.data.at))?;
        let mut reader = io::BufReader::with_capacity(1 << 20, &mut self.reader);
        let mut left = self.data.bytes;
        let mut fields = Vec::new();
        let end = self.data.at.saturating_add(self.data.bytes);
        while left > 0 {
            let (here, whole) = (end - left, left);
            let mut header = [0; HEADER];
            let short = |error: io::Error| match error.kind() {
                io::ErrorKind::UnexpectedEof => damaged(
                    here,
                    format!(
                        "the file ends in a record, {whole} bytes before the end of the last one"
                    ),
                ),
                _ => FileError::Io(error),
            };
            reader.read_exact(&mut header).map_err(short)?;
            let mut rest = Bytes(&header);
            let mut read = || Ok((rest.u32()?, rest.u16()?, u64::from(rest.u16()?)));
            let (kind, misc, bytes) = read().map_err(at(here))?;
            if bytes < HEADER as u64 || bytes > left {
                let what = format!("found a record of {bytes} bytes; allowed: {HEADER} to {left}");
                return Err(damaged(here, what));
            }
            fields.resize(bytes as usize - HEADER, 0);
            reader.read_exact(&mut fields).map_err(short)?;
            left -= bytes;
            if kind >= FIRST_OF_PERF {
                let more = behind(here, kind, &fields)?;
                if more > left {
                    let what = format!("found {more} bytes behind a record; allowed: up to {left}");
                    return Err(damaged(here, what));
                }
                let skipped = io::copy(&mut (&mut reader).take(more), &mut io::sink())?;
                if skipped < more {
                    return Err(short(io::ErrorKind::UnexpectedEof.into()));
                }
                left -= more;
                continue;
            }
            let event = which.event(kind, &fields);
            let attr = &self.events[event].attr;
            let record = Record::parse(attr, kind, misc, &fields).map_err(at(here))?;
            if !each(event, time_of(attr, kind, &fields), record) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// First type of the records that perf itself writes. Lower types are the kernel's.
const FIRST_OF_PERF: u32 = 64;

/// Number of bytes behind a record of perf at offset `here` that the record's size does not include.
fn behind(here: u64, kind: u32, fields: &[u8]) -> Result<u64, FileError> {
    const AUXTRACE: u32 = 71;
    const COMPRESSED: u32 = 81;
    const COMPRESSED_2: u32 = 83;
    match kind {
        AUXTRACE => Bytes(fields).u64().map_err(at(here)),
        COMPRESSED | COMPRESSED_2 => Err(other("has compressed records; record without -z")),
        _ => Ok(0),
    }
}

/// Event of each record, by the number in the record.
struct EventIds {
    /// Sorted numbers in samples, with the index of their event.
    ids: Vec<(u64, usize)>,
    /// Offset of the number in a sample, and its distance from the end of another record, in bytes.
    id_at: Option<u64>,
    id_from_end: Option<u64>,
}

impl EventIds {
    fn new(events: &[Event]) -> Result<EventIds, FileError> {
        let mut ids: Vec<(u64, usize)> = Vec::new();
        for (number, event) in events.iter().enumerate() {
            ids.extend(event.ids.iter().map(|id| (*id, number)));
        }
        ids.sort_unstable();
        let first = &events[0].attr;
        let same = |event: &Event| event.attr.id_at() == first.id_at();
        if events.len() > 1 && (first.id_at().is_none() || !events.iter().all(same)) {
            let what =
                "has several events whose samples cannot be told apart (they have no IDENTIFIER)";
            return Err(other(what));
        }
        let from_end = first.id_from_end();
        let alike = events
            .iter()
            .all(|event| event.attr.id_from_end() == from_end);
        Ok(EventIds {
            ids,
            id_at: first.id_at(),
            id_from_end: from_end.filter(|_| alike),
        })
    }

    /// Index of a record's event. Records that perf made itself have the number 0, and count for the first event.
    fn event(&self, kind: u32, fields: &[u8]) -> usize {
        let at = match kind {
            kind::SAMPLE => self.id_at,
            _ => self
                .id_from_end
                .and_then(|from| (fields.len() as u64).checked_sub(from)),
        };
        let id = at.and_then(|at| {
            let mut rest = Bytes(fields.get(at as usize..)?);
            rest.u64().ok()
        });
        let found = id.and_then(|id| self.ids.binary_search_by_key(&id, |(id, _)| *id).ok());
        found.map_or(0, |found| self.ids[found].1)
    }
}

/// The error of a file of another kind.
fn other(what: &str) -> FileError {
    FileError::Kind(what.to_owned())
}

fn damaged(at: u64, what: impl Into<String>) -> FileError {
    let what = what.into();
    FileError::Damaged { at, what }
}

/// Converts the error of a record at byte `at`.
fn at(at: u64) -> impl Fn(RecordError) -> FileError {
    move |wrong| damaged(at, wrong.what)
}

/// Reads a section whole.
fn section<R: Read + Seek>(
    reader: &mut R,
    place: Section,
    what: &str,
) -> Result<Vec<u8>, FileError> {
    if place.bytes > MOST_SECTION {
        let found = place.bytes;
        let what = format!("found {what} of {found} bytes; allowed: up to {MOST_SECTION}");
        return Err(damaged(place.at, what));
    }
    reader.seek(SeekFrom::Start(place.at))?;
    let mut bytes = Vec::new();
    reader.by_ref().take(place.bytes).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < place.bytes {
        let (there, all) = (bytes.len(), place.bytes);
        let what = format!("the file ends in {what}: {there} of {all} bytes are there");
        return Err(damaged(place.at, what));
    }
    Ok(bytes)
}

/// Reads the list of events. Offset and size of the section of each event's numbers follow its attributes.
fn events<R: Read + Seek>(
    reader: &mut R,
    entry: u64,
    place: Section,
) -> Result<Vec<Event>, FileError> {
    let wrong = |what: String| damaged(place.at, what);
    if entry < 16 || !place.bytes.is_multiple_of(entry) {
        let all = place.bytes;
        return Err(wrong(format!(
            "found events of {entry} bytes in {all} bytes"
        )));
    }
    let count = place.bytes / entry;
    if !(1..=MOST_EVENTS).contains(&count) {
        return Err(wrong(format!(
            "found {count} events; allowed: 1 to {MOST_EVENTS}"
        )));
    }
    let list = section(reader, place, "the list of events")?;
    let mut found = Vec::new();
    let mut room = MOST_SECTION;
    for bytes in list.chunks_exact(entry as usize) {
        let (attr, ids) = bytes.split_at(bytes.len() - 16);
        let attr = Attr::parse(attr).map_err(at(place.at))?;
        let mut rest = Bytes(ids);
        let ids = Section::parse(&mut rest).map_err(at(place.at))?;
        room = room
            .checked_sub(ids.bytes)
            .ok_or_else(|| wrong("found too many numbers of samples".to_owned()))?;
        let ids = words(&section(reader, ids, "the numbers of samples")?);
        found.push(Event {
            attr,
            ids,
            name: format!("{}:{:#x}", attr.kind, attr.config),
        });
    }
    Ok(found)
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |word: &[u8]| u64::from_le_bytes(word.try_into().unwrap_or_default());
    bytes.chunks_exact(8).map(word).collect()
}

/// Reads a text that follows its length.
fn text(rest: &mut Bytes<'_>) -> Result<String, RecordError> {
    let bytes = rest.u32()?;
    Ok(Bytes(rest.take(u64::from(bytes))?).text())
}

#[cfg(test)]
mod tests;
