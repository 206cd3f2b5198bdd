//! LEB128 integers and zigzag signs, as Protocol Buffers write them.

/// Most bytes of a 64-bit integer.
pub(crate) const MAX_BYTES: usize = 10;

/// Appends an integer.
#[inline]
pub(crate) fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads an integer and moves `position` behind it; `None` when it is cut off or exceeds 64 bits.
#[inline]
pub(crate) fn get(bytes: &[u8], position: &mut usize) -> Option<u64> {
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

/// Maps a signed difference (as two's complement) to a number that is small when it is near 0.
#[inline]
pub(crate) fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

/// Undoes [`zigzag`].
#[inline]
pub(crate) fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back_and_longer_ones_are_refused() {
        for value in [0, 1, 127, 128, 300, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(value, &mut bytes);
            assert!(bytes.len() <= MAX_BYTES);
            assert_eq!(get(&bytes, &mut 0), Some(value));
            assert_eq!(get(&bytes[..bytes.len() - 1], &mut 0), None);
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert_eq!(get(&[0xff; 10], &mut 0), None);
        assert_eq!(zigzag(u64::MAX), 1);
    }
}
