//! How commands end when they do not succeed.

use std::io::Write;

use cxlab_plan::load::Loaded;
use cxlab_system::checkpoint::CheckpointError;
use cxlab_system::run::RunError;

/// Failure of a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user's mistake, already rendered.
    Mistake(String),
    /// An output cannot be written.
    Output(String),
    /// An internal error of cxlab.
    Internal(String),
    /// A plug-in failed. Measurements until then are kept.
    Plugin(String),
    /// The user interrupted the run. Measurements until then are kept.
    Interrupted(String),
    /// The captured program, or the one that was attached to, ended with this code.
    Program(u8),
    /// This signal killed the program that was attached to, and ends this process too.
    Killed(i32),
}

impl Failure {
    /// Exit code of internal errors (`EX_SOFTWARE` of sysexits.h).
    pub(crate) const INTERNAL: u8 = 70;

    /// Exit code of failed plug-ins.
    pub(crate) const PLUGIN: u8 = 71;

    /// A one-line mistake.
    pub(crate) fn mistake(message: impl std::fmt::Display) -> Failure {
        Failure::Mistake(format!("error: {message}\n"))
    }

    /// Failure of a run of a plan.
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

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(self) -> u8 {
        let (text, code) = match self {
            Failure::Mistake(text) => (text, 2),
            Failure::Output(text) => (format!("error: {text}\n"), 1),
            Failure::Internal(text) => (format!("error: {text}\n"), Failure::INTERNAL),
            Failure::Plugin(text) => (format!("error: {text}\n"), Failure::PLUGIN),
            Failure::Interrupted(text) => (format!("{text}\n"), 130),
            Failure::Program(code) => (String::new(), code),
            Failure::Killed(signal) => {
                #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
                cxlab_attach::die_by(signal);
                // The exit code of shells, if the signal does not end this process.
                (String::new(), u8::try_from(128 + signal).unwrap_or(u8::MAX))
            }
        };
        // Nothing can be done when standard error is closed.
        let _ = std::io::stderr().write_all(text.as_bytes());
        code
    }
}
