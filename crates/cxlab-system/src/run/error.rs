//! Why a run has no report.

use cxlab_plan::Problem;

use crate::checkpoint::CheckpointError;
use crate::report::Report;

/// Why a run has no report.
#[derive(Debug)]
pub enum RunError {
    /// The user's mistake.
    Problems(Vec<Problem>),
    /// Rows could not be written.
    Rows(std::io::Error),
    /// The system cannot run on so many ranks.
    Ranks(String),
    /// A checkpoint cannot be used or written.
    Checkpoint(CheckpointError),
    /// A law of the simulator does not hold: our own mistake.
    Law(String),
    /// A plug-in cannot continue: the report up to then, marked partial, and the error.
    Fault(Box<Report>, String),
}

impl RunError {
    /// The user's mistake at a path.
    pub(crate) fn of(path: impl Into<String>, message: impl Into<String>) -> RunError {
        RunError::Problems(vec![Problem::new(path, message)])
    }
}

impl From<Vec<Problem>> for RunError {
    fn from(problems: Vec<Problem>) -> RunError {
        RunError::Problems(problems)
    }
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Problems(problems) => {
                let line = |Problem { path, message }: &Problem| format!("{path}: {message}");
                f.write_str(&problems.iter().map(line).collect::<Vec<_>>().join("\n"))
            }
            RunError::Checkpoint(error) => error.fmt(f),
            RunError::Ranks(why) | RunError::Fault(_, why) => f.write_str(why),
            RunError::Rows(error) => write!(f, "the request log cannot be written: {error}"),
            RunError::Law(what) => write!(
                f,
                "internal error, please report it with the scenario and the seed: {what}"
            ),
        }
    }
}

impl std::error::Error for RunError {}
