//! The encoding of a state in a few words, and its reduction by the names of agents and lines.

use std::fmt::Debug;

/// A value with a code below `COUNT`.
pub trait Coded: Copy {
    const COUNT: u64;
    fn code(self) -> u64;
    fn value(code: u64) -> Self;
}

/// The position of a value in the list of all its values.
pub fn code_of<T: PartialEq + Debug>(all: &[T], item: &T) -> u64 {
    match all.iter().position(|x| x == item) {
        Some(i) => i as u64,
        None => panic!("{item:?} has no code"),
    }
}

/// Gives the listed values of a type their positions as codes. For an enum without fields, the list
/// has all values in the order of the enum. A closure computes the code faster than a search.
macro_rules! coded {
    (enum $type:ty, $all:expr) => {
        $crate::checker::coded!($type, $all, |value| value as u64);
    };
    ($type:ty, $all:expr) => {
        $crate::checker::coded!($type, $all, |value| $crate::checker::code_of(&$all, &value));
    };
    ($type:ty, $all:expr, |$value:ident| $code:expr) => {
        impl $crate::checker::Coded for $type {
            const COUNT: u64 = $all.len() as u64;

            #[inline(always)]
            fn code(self) -> u64 {
                let $value = self;
                $code
            }

            #[inline(always)]
            fn value(code: u64) -> $type {
                $all[code as usize]
            }
        }
    };
}

/// Defines an enum without fields, with the positions of its values as codes.
macro_rules! coded_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$about:meta])* $value:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$about])* $value,)* }

        $crate::checker::coded!(enum $name, [$($name::$value),*]);
    };
}

pub(crate) use {coded, coded_enum};

coded!(bool, [false, true]);

impl<T: Coded> Coded for Option<T> {
    const COUNT: u64 = 1 + T::COUNT;

    #[inline(always)]
    fn code(self) -> u64 {
        self.map_or(0, |value| 1 + value.code())
    }

    #[inline(always)]
    fn value(code: u64) -> Option<T> {
        code.checked_sub(1).map(T::value)
    }
}

impl<A: Coded, B: Coded> Coded for (A, B) {
    const COUNT: u64 = A::COUNT * B::COUNT;

    #[inline(always)]
    fn code(self) -> u64 {
        self.0.code() + A::COUNT * self.1.code()
    }

    #[inline(always)]
    fn value(code: u64) -> (A, B) {
        (A::value(code % A::COUNT), B::value(code / A::COUNT))
    }
}

/// Writes the fields of a state into a word, or reads them from it, from the lowest bit up. One
/// function that lists the fields serves both directions.
pub trait Codec {
    /// Writes or reads a number below `count`.
    fn number(&mut self, count: u64, read: impl FnOnce(u64), write: impl FnOnce() -> u64);

    #[inline(always)]
    fn field<T: Coded>(&mut self, field: &mut T) {
        let value = *field;
        self.number(T::COUNT, |code| *field = T::value(code), || value.code());
    }

    /// A counter below `count`.
    #[inline(always)]
    fn counter(&mut self, field: &mut u8, count: u64) {
        let value = *field;
        self.number(count, |code| *field = code as u8, || u64::from(value));
    }
}

/// Writes fields into the word.
#[derive(Default)]
pub struct Code(pub u64, u32);

/// Reads fields from the word.
pub struct Unpack(u64);

impl Unpack {
    pub fn new(word: u64) -> Unpack {
        Unpack(word)
    }
}

/// Number of bits that hold a number below `count`.
#[inline(always)]
fn bits(count: u64) -> u32 {
    (count - 1).checked_ilog2().map_or(0, |top| top + 1)
}

impl Codec for Code {
    #[inline(always)]
    fn number(&mut self, count: u64, _read: impl FnOnce(u64), write: impl FnOnce() -> u64) {
        let value = write();
        debug_assert!(value < count);
        self.0 |= value << self.1;
        self.1 += bits(count);
    }
}

impl Codec for Unpack {
    #[inline(always)]
    fn number(&mut self, count: u64, read: impl FnOnce(u64), _write: impl FnOnce() -> u64) {
        read(self.0 & ((1 << bits(count)) - 1));
        self.0 >>= bits(count);
    }
}

/// Most agents of a network.
pub const MAX_AGENTS: usize = 3;

/// The names under which a state may be encoded: all orders of one, two or three agents.
const ORDERS: [&[[u8; MAX_AGENTS]]; MAX_AGENTS + 1] = [
    &[],
    &[[0, 1, 2]],
    &[[0, 1, 2], [1, 0, 2]],
    &[
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ],
];

/// The smallest encoding among the states that differ only by the names of agents and lines, with
/// one word for each agent of a line and one for its home; if `reduced` is false, the encoding under
/// the given names. `agent` encodes an agent of a line that is named `l`; `home` encodes a home with
/// renamed agents.
pub fn canonical<const WORDS: usize>(
    (agents, lines): (usize, usize),
    reduced: bool,
    agent: impl Fn(usize, usize, usize) -> u64,
    home: impl Fn(usize, &[u8; MAX_AGENTS]) -> u64,
) -> [u64; WORDS] {
    let mut best = [u64::MAX; WORDS];
    for names in ORDERS[agents] {
        for first in 0..lines {
            let mut code = [0; WORDS];
            for l in 0..lines {
                let from = (l + first) % lines;
                let to = l * (agents + 1);
                for (a, name) in names[..agents].iter().enumerate() {
                    code[to + usize::from(*name)] = agent(from, a, l);
                }
                code[to + agents] = home(from, names);
            }
            if !reduced {
                return code;
            }
            best = best.min(code);
        }
    }
    best
}
