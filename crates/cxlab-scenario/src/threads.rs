//! How many threads a scenario allows.

use std::str::FromStr;

use cxlab_engine::{Threads, processors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most threads that a command line or a scenario can ask for.
const MOST: u32 = 256;

/// Threads at most. A run uses no more than make it faster.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(untagged)]
pub enum ThreadLimit {
    /// At most this number.
    UpTo(#[schemars(range(min = 1, max = 256))] u32),
    /// The limit as a word, such as `auto`.
    Word(LimitWord),
}

/// A limit on threads as a word.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum LimitWord {
    /// As many as the process has processors.
    Auto,
}

impl ThreadLimit {
    /// As many as the process has processors.
    pub const AUTO: ThreadLimit = ThreadLimit::Word(LimitWord::Auto);

    /// The number of threads for work that falls into independent pieces.
    pub fn number(self) -> usize {
        match self {
            ThreadLimit::UpTo(most) => processors().min(most as usize),
            ThreadLimit::Word(LimitWord::Auto) => processors(),
        }
    }
}

impl Default for ThreadLimit {
    fn default() -> Self {
        ThreadLimit::AUTO
    }
}

impl From<ThreadLimit> for Threads {
    fn from(limit: ThreadLimit) -> Threads {
        match limit {
            ThreadLimit::UpTo(most) => Threads::UpTo(most as usize),
            ThreadLimit::Word(LimitWord::Auto) => Threads::AUTO,
        }
    }
}

impl FromStr for ThreadLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<ThreadLimit, String> {
        match text.parse() {
            _ if text == "auto" => Ok(ThreadLimit::AUTO),
            Ok(most) if (1..=MOST).contains(&most) => Ok(ThreadLimit::UpTo(most)),
            _ => Err(format!("allowed: 1 to {MOST}, or auto")),
        }
    }
}
