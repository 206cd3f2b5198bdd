//! A short list of actions that is stored on the stack.

/// Up to `N` values, in order. The list never allocates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct List<T: Copy, const N: usize> {
    items: [Option<T>; N],
    len: u8,
}

impl<T: Copy, const N: usize> List<T, N> {
    /// A list without values.
    pub const fn new() -> List<T, N> {
        List {
            items: [None; N],
            len: 0,
        }
    }

    /// Appends a value. The tables are checked at compile time, so that no row exceeds `N`.
    #[inline]
    pub fn push(&mut self, item: T) {
        self.items[usize::from(self.len)] = Some(item);
        self.len += 1;
    }

    /// Number of values in the list.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether the list has no values at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.items[..usize::from(self.len)]
            .iter()
            .filter_map(|item| *item)
    }
}

impl<T: Copy, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        List::new()
    }
}
