//! Binary search for the least quantity that suffices.

/// The least number from `low` to `high` for which `serves` is true. `serves` must be
/// monotonic: if it is true for a number, it is true for all larger ones. Returns `None`
/// if it is false for `high`.
///
/// # Errors
/// [`Interrupted`] if `serves` was interrupted.
pub fn least(
    mut low: u64,
    mut high: u64,
    mut serves: impl FnMut(u64) -> Result<bool, Interrupted>,
) -> Result<Option<u64>, Interrupted> {
    if !serves(high)? {
        return Ok(None);
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if serves(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(Some(high))
}

/// The user interrupted the study.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_found_wherever_it_lies() {
        for wanted in 0..40 {
            assert_eq!(least(0, 40, |at| Ok(at >= wanted)), Ok(Some(wanted)));
        }
        assert_eq!(least(0, 40, |_| Ok(false)), Ok(None));
        assert_eq!(least(0, 40, |_| Err(Interrupted)), Err(Interrupted));
    }
}
