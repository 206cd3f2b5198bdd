//! LEB128 integers and zigzag signs, as Protocol Buffers write them.

/// Most bytes of an encoded 64-bit integer.
pub(crate) const MAX_BYTES: usize = 10;

/// Appends an integer in LEB128.
#[inline]
pub(crate) fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads an integer and moves `position` past it; `None` when it is cut off or exceeds 64 bits.
#[inline(always)]
pub(crate) fn get(bytes: &[u8], position: &mut usize) -> Option<u64> {
    let ahead = bytes.get(*position..*position + 8);
    let Some(Ok(word)) = ahead.map(<[u8; 8]>::try_from) else {
        return get_bytes(bytes, position);
    };
    let word = u64::from_le_bytes(word);
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return get_bytes(bytes, position);
    }
    // Lengths are hard to predict, so no branch depends on them: all groups of 7 bits
    // are moved in parallel.
    let bits = ends.trailing_zeros() + 1;
    let all = word & (u64::MAX >> (64 - bits)) & 0x7f7f_7f7f_7f7f_7f7f;
    let all = (all & 0x007f_007f_007f_007f) | ((all & 0x7f00_7f00_7f00_7f00) >> 1);
    let all = (all & 0x0000_3fff_0000_3fff) | ((all & 0x3fff_0000_3fff_0000) >> 2);
    let all = (all & 0x0fff_ffff) | ((all & 0x0fff_ffff_0000_0000) >> 4);
    *position += bits as usize / 8;
    Some(all)
}

/// [`get`] byte by byte: near the end of `bytes`, and for integers of more than 8 bytes.
#[cold]
fn get_bytes(bytes: &[u8], position: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*position)?;
        *position += 1;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Maps a signed difference (in two's complement) to an unsigned number that is small when the
/// difference is near 0.
#[inline]
pub(crate) fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

/// The inverse of [`zigzag`].
#[inline]
pub(crate) fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back_and_longer_ones_are_refused() {
        let powers =
            (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, 0x5a5a_5a5a_5a5a_5a5a >> bit]);
        for value in powers.chain([300, u64::MAX / 2, u64::MAX - 1, u64::MAX]) {
            let mut bytes = Vec::new();
            put(value, &mut bytes);
            assert!(bytes.len() <= MAX_BYTES);
            let (length, mut position) = (bytes.len(), 0);
            let longer: Vec<u8> = bytes.iter().copied().chain([0xa5; 8]).collect();
            assert_eq!(get(&longer, &mut position), Some(value));
            assert_eq!(position, length);
            assert_eq!(get(&bytes, &mut 0), Some(value));
            assert_eq!(get(&bytes[..bytes.len() - 1], &mut 0), None);
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert_eq!(get(&[0xff; 10], &mut 0), None);
        assert_eq!(zigzag(u64::MAX), 1);
    }
}
