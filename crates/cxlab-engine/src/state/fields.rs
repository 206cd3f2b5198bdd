//! Implementations of [`SaveState`] for types field by field, and for containers.

use super::{SaveState, StateError, StateReader, StateWriter};

/// Implements [`SaveState`](crate::state::SaveState) for a type. It names every field under a class:
///
/// - `values`: written and read by serde;
/// - `sized`: lists, written and read by serde, whose length follows from parameters and is checked;
/// - `arrays`: arrays of more than 32 entries, written and read as lists, since serde has no longer arrays;
/// - `states`: saved and restored by their own [`SaveState`](crate::state::SaveState);
/// - `built`: not saved, because the freshly built value has the right content.
///
/// A field that is not named is a compile error. `then` names a method that is called at the end of a
/// restore, to compute what follows from other fields.
///
/// ```
/// use cxlab_engine::rng::StreamRng;
/// use cxlab_engine::save_state;
/// use cxlab_engine::state::{SaveState, StateReader, StateWriter};
///
/// struct Dice {
///     sides: u64,
///     thrown: u64,
///     rng: StreamRng,
/// }
///
/// save_state!(Dice {
///     values: thrown;
///     states: rng;
///     built: sides;
/// });
///
/// let dice = |thrown| Dice { sides: 6, thrown, rng: StreamRng::new(1, "dice") };
/// let mut out = StateWriter::default();
/// dice(7).save(&mut out);
/// let bytes = out.finish().expect("a dice can be saved");
/// let mut copy = dice(0);
/// let mut from = StateReader::open(&bytes)?;
/// copy.restore(&mut from)?;
/// assert_eq!(copy.thrown, 7);
/// # Ok::<(), cxlab_engine::state::StateError>(())
/// ```
#[macro_export]
macro_rules! save_state {
    (@save values $out:ident $field:ident) => {
        $out.value(stringify!($field), $field)
    };
    (@save sized $out:ident $field:ident) => {
        $out.value(stringify!($field), $field)
    };
    (@save arrays $out:ident $field:ident) => {
        $out.value(stringify!($field), $field.as_slice())
    };
    (@save states $out:ident $field:ident) => {
        $crate::state::SaveState::save($field, $out)
    };
    (@save built $out:ident $field:ident) => {{
        let _ = $field;
    }};
    (@restore values $from:ident $field:ident) => {
        *$field = $from.value(stringify!($field))?
    };
    (@restore sized $from:ident $field:ident) => {{
        let length = $field.len();
        *$field = $from.value(stringify!($field))?;
        if $field.len() != length {
            return Err($crate::state::StateError::of_length(
                stringify!($field),
                $field.len(),
                length,
            ));
        }
    }};
    (@restore arrays $from:ident $field:ident) => {{
        let list: Vec<_> = $from.value(stringify!($field))?;
        let (found, expected) = (list.len(), $field.len());
        *$field = list.try_into().map_err(|_| {
            $crate::state::StateError::of_length(stringify!($field), found, expected)
        })?;
    }};
    (@restore states $from:ident $field:ident) => {
        $crate::state::SaveState::restore($field, $from)?
    };
    (@restore built $from:ident $field:ident) => {{
        let _ = $field;
    }};
    (@body ($($after:ident)?) $($kind:ident: $($field:ident),+;)*) => {
        fn save(&self, out: &mut $crate::state::StateWriter) {
            let Self { $($($field,)+)* } = self;
            $($($crate::save_state!(@save $kind out $field);)+)*
        }

        fn restore(
            &mut self,
            from: &mut $crate::state::StateReader<'_>,
        ) -> Result<(), $crate::state::StateError> {
            let Self { $($($field,)+)* } = self;
            $($($crate::save_state!(@restore $kind from $field);)+)*
            $(self.$after()?;)?
            Ok(())
        }
    };
    ([$($generics:tt)*] $type:ty { $($fields:tt)* } $(then $after:ident)?) => {
        impl<$($generics)*> $crate::state::SaveState for $type {
            $crate::save_state!(@body ($($after)?) $($fields)*);
        }
    };
    ($type:ident { $($fields:tt)* } $(then $after:ident)?) => {
        impl $crate::state::SaveState for $type {
            $crate::save_state!(@body ($($after)?) $($fields)*);
        }
    };
}

/// Implements [`SaveState`](crate::state::SaveState) for a type whose state cannot be saved. The second
/// argument says what the type is, and why where that is not evident; it is the text of the refusal.
#[macro_export]
macro_rules! cannot_save {
    ($type:ty, $what:expr) => {
        impl $crate::state::SaveState for $type {
            fn save(&self, out: &mut $crate::state::StateWriter) {
                out.refuse($what);
            }

            fn restore(
                &mut self,
                _: &mut $crate::state::StateReader<'_>,
            ) -> Result<(), $crate::state::StateError> {
                Err($crate::state::StateError::new($what))
            }
        }
    };
}

impl StateError {
    /// The error for a list whose length in the state differs from that of the freshly built value.
    pub fn of_length(name: &str, found: usize, expected: usize) -> StateError {
        StateError::new(format!(
            "`{name}` in the state has {found} entries, this system has {expected}: it is of \
             another system"
        ))
    }
}

impl<T: SaveState + ?Sized> SaveState for Box<T> {
    fn save(&self, out: &mut StateWriter) {
        self.as_ref().save(out);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.as_mut().restore(from)
    }
}

/// Whether the option has a value follows from parameters.
impl<T: SaveState> SaveState for Option<T> {
    fn save(&self, out: &mut StateWriter) {
        self.as_slice().save(out);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.as_mut_slice().restore(from)
    }
}

/// The length of the list follows from parameters.
impl<T: SaveState> SaveState for Vec<T> {
    fn save(&self, out: &mut StateWriter) {
        self.as_slice().save(out);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.as_mut_slice().restore(from)
    }
}

impl<T: SaveState, const COUNT: usize> SaveState for [T; COUNT] {
    fn save(&self, out: &mut StateWriter) {
        self.as_slice().save(out);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.as_mut_slice().restore(from)
    }
}

impl<T: SaveState> SaveState for [T] {
    fn save(&self, out: &mut StateWriter) {
        out.value("parts", &self.len());
        self.iter().for_each(|one| one.save(out));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let found: usize = from.value("parts")?;
        if found != self.len() {
            return Err(StateError::of_length("parts", found, self.len()));
        }
        self.iter_mut().try_for_each(|one| one.restore(from))
    }
}
