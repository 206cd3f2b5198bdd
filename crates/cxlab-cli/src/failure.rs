//! How commands end when they do not succeed.

use std::io::Write;

use cxlab_plan::load::Loaded;
use cxlab_system::checkpoint::CheckpointError;
use cxlab_system::run::RunError;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user's mistake, already rendered.
    Mistake(String),
    /// Something cannot be written.
    Output(String),
    /// Our own mistake.
    Internal(String),
    /// A plug-in cannot go on; what was measured is kept.
    Plugin(String),
    /// The user interrupted; what was measured is kept.
    Interrupted(String),
    /// The captured program ended with this code.
    Program(u8),
}

impl Failure {
    /// The exit code of our own mistakes (`EX_SOFTWARE` of sysexits.h).
    pub(crate) const INTERNAL: u8 = 70;

    /// The exit code of a plug-in's mistakes.
    pub(crate) const PLUGIN: u8 = 71;

    /// A one-line mistake.
    pub(crate) fn mistake(message: impl std::fmt::Display) -> Failure {
        Failure::Mistake(format!("error: {message}\n"))
    }

    /// Why a run of this plan did not succeed.
    pub(crate) fn of_run(loaded: &Loaded, error: RunError) -> Failure {
        match error {
            RunError::Problems(problems) => loaded.mistakes(problems).into(),
            RunError::Checkpoint(error @ CheckpointError::Refused(_)) => {
                Failure::mistake(format!("--restore {error}"))
            }
            RunError::Checkpoint(error @ CheckpointError::Foreign(_)) => {
                Failure::mistake(format!("--checkpoint {error}"))
            }
            RunError::Checkpoint(error @ CheckpointError::Unwritable(..)) => {
                Failure::Output(format!("--checkpoint {error}"))
            }
            RunError::Fault(_, why) => Failure::Plugin(why),
            RunError::Ranks(why) => Failure::mistake(format!("mpirun -np: {why}")),
            RunError::Rows(_) | RunError::Law(_) => Failure::Internal(error.to_string()),
        }
    }

    /// Prints what happened and returns the exit code.
    pub(crate) fn report(self) -> u8 {
        let (text, code) = match self {
            Failure::Mistake(text) => (text, 2),
            Failure::Output(text) => (format!("error: {text}\n"), 1),
            Failure::Internal(text) => (format!("error: {text}\n"), Failure::INTERNAL),
            Failure::Plugin(text) => (format!("error: {text}\n"), Failure::PLUGIN),
            Failure::Interrupted(text) => (format!("{text}\n"), 130),
            Failure::Program(code) => (String::new(), code),
        };
        // Nothing can be done when standard error is closed.
        let _ = std::io::stderr().write_all(text.as_bytes());
        code
    }
}
