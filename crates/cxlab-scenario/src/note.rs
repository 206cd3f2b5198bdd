//! Notes: what a scenario may say, but what its author may not expect.
//!
//! A note has the path of the value that it is about, as a problem of a plan has. `check`
//! and `plan` show notes with file and line before anything runs; `run`, `report.json` and Python repeat
//! them beside the numbers, with those that only the run could find.

use serde::{Deserialize, Serialize};

/// A note about a scenario. It is no mistake: the scenario runs, as `message` says.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Note {
    /// Path in the scenario, such as `hosts[0].issue`; empty where the note is about the whole system.
    pub path: String,
    /// Behaviour of the simulator, and how to write another choice where there is one.
    pub message: String,
}

impl Note {
    /// A note about the value at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Note {
        Note {
            path: path.into(),
            message: message.into(),
        }
    }

    /// A note about the whole system.
    pub fn of_system(message: impl Into<String>) -> Note {
        Note::new("", message)
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "`{path}`: {}", self.message),
        }
    }
}
