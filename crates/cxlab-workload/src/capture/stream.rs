//! The output of the plugin `adapters/qemu/trace.c`: a word that names the format, then
//! words of 64 bits.

use std::io::{BufRead, ErrorKind};
use std::path::{Path, PathBuf};

use cxlab_engine::units::{Picos, SimTime};

use crate::error::{FilePlace, TraceError};
use crate::import::{Access, AccessSource, Input};
use crate::op::OpKind;

const FORMAT: &[u8; 8] = b"CXLBREC2";
const WORD: usize = FORMAT.len();
/// Number of the kind of words that count instructions. Words of lower kinds are accesses.
pub(super) const INSTRUCTIONS: u64 = 64;

/// Reads the plugin's output word by word.
pub(super) struct Words {
    input: Input,
    path: PathBuf,
    offset: u64,
}

/// Reads the plugin's output as accesses.
pub(super) struct Stream {
    words: Words,
    per_instruction: Picos,
    instructions: u64,
}

impl Stream {
    /// Reads words from `input`, which errors name by `path`. `per_instruction` is the time of an
    /// instruction; with zero, the accesses have no times.
    pub(super) fn new(input: Input, path: &Path, per_instruction: Picos) -> Stream {
        Stream {
            words: Words::new(input, path),
            per_instruction,
            instructions: 0,
        }
    }

    /// The number of instructions read so far.
    pub(super) fn instructions(&self) -> u64 {
        self.instructions
    }
}

impl Words {
    /// Reads words from `input`, which errors name by `path`.
    pub(super) fn new(input: Input, path: &Path) -> Words {
        Words {
            input,
            path: path.to_owned(),
            offset: 0,
        }
    }

    /// Returns the next word after the one that names the format; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<u64>, TraceError> {
        if self.offset == 0 {
            match self.word()? {
                None => return Ok(None),
                Some(word) if word == *FORMAT => {}
                Some(_) => return Err(self.wrong("format", "found another; allowed: CXLBREC2")),
            }
        }
        Ok(self.word()?.map(u64::from_le_bytes))
    }

    /// Returns the next word; `None` at the end.
    fn word(&mut self) -> Result<Option<[u8; WORD]>, TraceError> {
        // Nearly always a whole word is in the buffer.
        if let Some(word) = self.input.buffer().first_chunk::<WORD>() {
            let word = *word;
            self.input.consume(WORD);
            self.offset += WORD as u64;
            return Ok(Some(word));
        }
        let mut word = [0; WORD];
        let mut filled = 0;
        while filled < WORD {
            match self.input.fill_buf() {
                Ok([]) if filled == 0 => return Ok(None),
                Ok([]) => return Err(self.wrong("word", "found a part of one: it is truncated")),
                Ok(bytes) => {
                    let count = bytes.len().min(WORD - filled);
                    word[filled..filled + count].copy_from_slice(&bytes[..count]);
                    self.input.consume(count);
                    filled += count;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let place = FilePlace::Offset(self.offset);
                    return Err(TraceError::io(&self.path, place, "read", &error));
                }
            }
        }
        self.offset += WORD as u64;
        Ok(Some(word))
    }

    /// Decodes a word of an access.
    pub(super) fn access(&self, word: u64, time: SimTime) -> Result<Access, TraceError> {
        let (address, kind) = (word >> 8, word & 0xff);
        let kinds = [OpKind::Read, OpKind::Write];
        Access::new(address, 1 << (kind / 2), kinds[kind as usize % 2], time)
            .map_err(|(field, message)| self.wrong(field, message))
    }

    pub(super) fn wrong(&self, field: &'static str, message: impl Into<String>) -> TraceError {
        TraceError::new(&self.path, FilePlace::Offset(self.offset), field, message)
    }
}

impl AccessSource for Stream {
    fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        while let Some(word) = self.words.next()? {
            let (value, kind) = (word >> 8, word & 0xff);
            if kind == INSTRUCTIONS {
                self.instructions += value;
                continue;
            }
            if kind > INSTRUCTIONS {
                let message = format!("found {kind}; allowed: 0 to {INSTRUCTIONS}");
                return Err(self.words.wrong("kind", message));
            }
            let time = SimTime(self.instructions.saturating_mul(self.per_instruction.0));
            return self.words.access(word, time).map(Some);
        }
        Ok(None)
    }

    fn has_time(&self) -> bool {
        self.per_instruction > Picos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor, Read};

    use super::*;

    /// A reader that returns one byte at a time, as a pipe may.
    struct Slow(Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(&mut to[..1])
        }
    }

    fn stream(words: &[u64], cut: usize) -> Stream {
        let mut bytes = FORMAT.to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.truncate(bytes.len() - cut);
        let input: Box<dyn Read + Send> = Box::new(Slow(Cursor::new(bytes)));
        Stream::new(BufReader::new(input), Path::new("pipe"), Picos(500))
    }

    #[test]
    fn words_are_accesses_with_the_time_of_the_instructions_before() {
        let mut from = stream(
            &[0x1000 << 8 | 6, 3 << 8 | 64, 0x2001 << 8 | 5, 1 << 8 | 64],
            0,
        );
        let mut next = || from.next_access().expect("no mistake");
        let access = |address, size, kind, time| {
            Some(Access {
                address,
                size,
                kind,
                time: SimTime(time),
            })
        };
        assert_eq!(next(), access(0x1000, 8, OpKind::Read, 0));
        assert_eq!(next(), access(0x2001, 4, OpKind::Write, 1500));
        assert_eq!(next(), None);
        assert_eq!(from.instructions(), 4);
    }

    #[test]
    fn what_is_damaged_is_told_with_its_place_and_nothing_panics() {
        let message = |words: &[u64], cut| {
            let mut from = stream(words, cut);
            loop {
                match from.next_access() {
                    Ok(Some(_)) => {}
                    Ok(None) => return String::new(),
                    Err(error) => return error.to_string(),
                }
            }
        };
        assert_eq!(message(&[0x40 << 8], 0), "");
        assert!(message(&[0x40 << 8], 3).contains("truncated"));
        assert!(message(&[0x40 << 8 | 65], 0).contains("`kind`: found 65"));
        assert!(message(&[u64::MAX], 0).contains("found 255"));
        assert!(message(&[0x40 << 8 | 63], 0).contains("`size`: found 2147483648"));
        let other: Box<dyn Read + Send> = Box::new(Cursor::new(b"some text".to_vec()));
        let mut other = Stream::new(BufReader::new(other), Path::new("pipe"), Picos::ZERO);
        assert!(other.next_access().is_err());
    }
}
