//! The least of something with which enough is served.

/// The least number from `low` to `high` for which `serves` holds, if it holds for `high` and, where
/// it holds, for all above; `None` if it does not hold for `high`. `serves` says `None` when it was
/// interrupted, and then so does this.
///
/// # Errors
/// Interrupted.
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

/// The user interrupted.
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
