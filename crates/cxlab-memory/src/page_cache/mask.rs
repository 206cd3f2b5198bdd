//! Bit masks for the sectors of a page.

/// The mask of `count` sectors from `first` on.
#[inline]
pub(super) fn span(first: u64, count: u64) -> u64 {
    if count == 0 {
        return 0;
    }
    (u64::MAX >> (64 - count)) << first
}

/// The smallest span that contains a set, as its first sector and its length.
#[inline]
pub(super) fn hull(set: u64) -> (u64, u64) {
    let first = u64::from(set.trailing_zeros());
    let end = 64 - u64::from(set.leading_zeros());
    (first, end - first)
}

/// The runs of consecutive sectors in a set, each as first sector and length.
pub(super) fn runs(mut set: u64) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        let first = u64::from(set.trailing_zeros());
        let count = u64::from((set >> first).trailing_ones());
        set &= !span(first, count);
        Some((first, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_hulls_and_runs() {
        assert_eq!(span(0, 64), u64::MAX);
        assert_eq!(span(63, 1), 1 << 63);
        assert_eq!(span(4, 0), 0);
        assert_eq!(hull(0b0101_1000), (3, 4));
        assert_eq!(hull(u64::MAX), (0, 64));
        assert_eq!(runs(0b0101_1000).collect::<Vec<_>>(), [(3, 2), (6, 1)]);
        assert_eq!(runs(u64::MAX).collect::<Vec<_>>(), [(0, 64)]);
        assert_eq!(runs(0).count(), 0);
    }
}
