//! A list of a few actions that lives on the stack.

/// Up to `N` values in order; deciding what to do allocates nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct List<T: Copy, const N: usize> {
    items: [Option<T>; N],
    len: u8,
}

impl<T: Copy, const N: usize> List<T, N> {
    /// No values.
    pub const fn new() -> List<T, N> {
        List {
            items: [None; N],
            len: 0,
        }
    }

    /// Appends one value. The tables are checked when the crate is compiled, so that no row
    /// exceeds `N`.
    #[inline]
    pub fn push(&mut self, item: T) {
        self.items[usize::from(self.len)] = Some(item);
        self.len += 1;
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are none.
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
