//! The contents of records: keys and values made from numbers, so that every byte can be checked.

use crate::kernel::common::mix;

/// Bytes of a word.
const WORD: usize = 8;

/// Fills a buffer with the word `first` and further words derived from a seed.
fn fill(buffer: &mut [u8], first: u64, seed: u64) {
    let mut state = seed;
    for (place, chunk) in buffer.chunks_mut(WORD).enumerate() {
        state = mix(state);
        let word = if place == 0 { first } else { state };
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

/// Writes the key with this number.
pub(super) fn write_key(buffer: &mut [u8], number: u64) {
    fill(buffer, number, number);
}

/// Writes a value: its version, then bytes derived from the key's number and from the version in
/// which the whole value was written.
pub(super) fn write_value(buffer: &mut [u8], number: u64, version: u64, written: u64) {
    fill(buffer, version, number ^ mix(written));
}

/// The hash of a key, over all its bytes.
pub(super) fn hash(key: &[u8]) -> u64 {
    key.chunks(WORD).fold(key.len() as u64, |hash, chunk| {
        let mut word = [0; WORD];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash ^ u64::from_le_bytes(word))
    })
}
