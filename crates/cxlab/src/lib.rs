//! cxlab simulates CXL systems: hosts, switches and memory devices, picosecond by picosecond. This crate
//! is what a Rust program imports. The command `cxlab` and the Python package do the same with the same
//! scenario files.
//!
//! # A first run
//! [`Scenario`] is what a user writes, [`Plan`] is the checked system, and [`Report`] is what a run
//! measured:
//!
//! ```
//! use cxlab::{RunOptions, Scenario};
//!
//! # fn main() -> Result<(), cxlab::Error> {
//! let text = r#"
//!     name = "pair"
//!     [fabric]
//!     topology = { kind = "chain", switches = 1 }
//!     [[hosts]]
//!     name = "host"
//!     workload = { kind = "uniform" }
//!     [[devices]]
//!     name = "mem"
//!     memory = { kind = "fixed", latency = "46 ns", bandwidth = "38.4 GB/s" }
//! "#;
//! let plan = Scenario::from_text("pair.toml", text)?.set("measure.requests=2000")?.plan()?;
//! let report = plan.run(RunOptions::default())?;
//! assert!(report.requests.completed >= 2000);
//! println!("{:.1} ns, {:.2} GB/s", report.latency_ns.mean, report.bandwidth_gb_per_s.total);
//! # Ok(())
//! # }
//! ```
//!
//! [`Scenario::from_file`] reads a file in place of a text. Relative paths in it, such as those of traces,
//! begin at its folder.
//!
//! # Mistakes
//! Every mistake of a scenario is found before the run, with its line, the value found and what is allowed:
//!
//! ```
//! # use cxlab::Scenario;
//! let text = "name = \"x\"\n[fabric]\ntopology = { kind = \"ring\", switchs = 3 }\n\
//!             [[hosts]]\nname = \"h\"\nworkload = { kind = \"uniform\" }\n[[devices]]\nname = \"m\"\n";
//! let error = Scenario::from_text("x.toml", text).and_then(Scenario::plan).err().expect("a mistake");
//! let message = error.to_string();
//! assert!(message.contains("x.toml:3:"));
//! assert!(message.contains("did you mean `switches`?"));
//! ```
//!
//! # Several runs
//! A plan runs as often as it is asked to. The same seed gives the same report, bit for bit, on any number of
//! threads; other seeds give other random streams:
//!
//! ```
//! # use cxlab::{RunOptions, Scenario, Threads};
//! # fn main() -> Result<(), cxlab::Error> {
//! # let text = "name = \"pair\"\n[measure]\nrequests = 1000\n[fabric]\ntopology = { kind = \"chain\", switches = 1 }\n\
//! #     [[hosts]]\nname = \"h\"\nworkload = { kind = \"uniform\" }\n[[devices]]\nname = \"m\"\n";
//! let plan = Scenario::from_text("pair.toml", text)?.plan()?;
//! let one = plan.run(RunOptions { seed: Some(7), threads: Some(Threads::Exactly(1)) })?;
//! let two = plan.run(RunOptions { seed: Some(7), threads: Some(Threads::Exactly(2)) })?;
//! let other = plan.run(RunOptions { seed: Some(8), ..RunOptions::default() })?;
//! assert_eq!(one.provenance.digest, two.provenance.digest);
//! assert_ne!(one.provenance.digest, other.provenance.digest);
//! # Ok(())
//! # }
//! ```
//!
//! [`Plan::analyze`] computes the report's main numbers without events, in milliseconds.
//! [`Plan::summary`] is the table that the command prints, and [`Plan::picture`] draws the system.
//!
//! # Further
//! The parts are crates of their own, for programs that need more than this: `cxlab-engine` (discrete events
//! alone), `cxlab-scenario`, `cxlab-plan`, and `cxlab-system` (checkpoints, request logs, progress).

use std::fmt;
use std::path::Path;

use cxlab_engine::Monitor;
use cxlab_plan::load::{self, Loaded};
use cxlab_plan::{Externals, Files};
use cxlab_scenario::diagnostics::Document;
use cxlab_scenario::file::read_text;
use cxlab_system::run::{RunError, run};
use cxlab_system::{picture, table};

pub use cxlab_engine::Threads;
pub use cxlab_scenario::Note;
pub use cxlab_system::analytic::AnalyticReport;
pub use cxlab_system::report::{Extent, Provenance, Report};

/// Why there is no plan or no report. The text is what the command would print.
#[derive(Debug)]
pub enum Error {
    /// The scenario file cannot be read.
    File(String),
    /// The scenario has mistakes: a message for each, with file, line, value and what is allowed.
    Mistakes(String),
    /// The run cannot go on: a plug-in failed. The report holds what was measured and is marked partial.
    Fault(Box<Report>, String),
    /// A law of the simulator does not hold, which is a defect of cxlab.
    Internal(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(text)
            | Error::Mistakes(text)
            | Error::Fault(_, text)
            | Error::Internal(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

/// A scenario: the text that a user wrote, with changes.
#[derive(Clone, Debug)]
pub struct Scenario {
    name: String,
    text: String,
    changes: Vec<String>,
    files: Files,
}

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be read, is larger than 16 MiB or is no UTF-8; [`Error::Mistakes`] if
    /// it is no TOML.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Scenario, Error> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let text = read_text(path).map_err(|error| Error::File(format!("error: {error}\n")))?;
        let mut scenario = Scenario::from_text(&shown, &text)?;
        scenario.files.scenario_dir = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(scenario)
    }

    /// Takes a scenario's text. Messages call it `name`; relative paths begin at the current folder.
    ///
    /// # Errors
    /// [`Error::Mistakes`] if the text is no TOML.
    pub fn from_text(name: &str, text: &str) -> Result<Scenario, Error> {
        let scenario = Scenario {
            name: name.to_owned(),
            text: text.to_owned(),
            changes: Vec::new(),
            files: Files::default(),
        };
        scenario.document()?;
        Ok(scenario)
    }

    /// Changes a value: `path.to.key=value`, as `--set` of the command does.
    ///
    /// # Errors
    /// [`Error::Mistakes`] if the change cannot be made.
    pub fn set(mut self, change: &str) -> Result<Scenario, Error> {
        self.changes.push(change.to_owned());
        self.document()?;
        Ok(self)
    }

    /// Checks and resolves the scenario.
    ///
    /// # Errors
    /// [`Error::Mistakes`] with every mistake that was found.
    pub fn plan(self) -> Result<Plan, Error> {
        let document = self.document()?;
        load::resolve(document, self.files, &Externals::new())
            .map(Plan)
            .map_err(|mistakes| Error::Mistakes(mistakes.render(false)))
    }

    fn document(&self) -> Result<Document, Error> {
        load::read(&self.name, &self.text, &self.changes)
            .map_err(|mistakes| Error::Mistakes(mistakes.render(false)))
    }
}

/// How a plan is run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RunOptions {
    /// Seed of every random stream. Default: the scenario's.
    pub seed: Option<u64>,
    /// Threads that the run may use; the result does not depend on them. Default: the scenario's.
    pub threads: Option<Threads>,
}

/// A checked system that can run.
pub struct Plan(Loaded);

impl Plan {
    /// Runs the system event by event.
    ///
    /// # Errors
    /// [`Error::Mistakes`] for a mistake that only the run can find, such as a trace that changed meanwhile;
    /// [`Error::Fault`] or [`Error::Internal`].
    pub fn run(&self, options: RunOptions) -> Result<Report, Error> {
        let plan = &self.0.plan;
        let options = cxlab_system::run::RunOptions {
            seed: self.seed(options.seed),
            threads: options
                .threads
                .unwrap_or(plan.scenario.execution.threads.into()),
            monitor: &Monitor::default(),
            rows: None,
        };
        run(plan, options).map_err(|error| match error {
            RunError::Problems(problems) => self.mistakes(problems),
            RunError::Fault(report, why) => Error::Fault(report, why),
            error => Error::Internal(error.to_string()),
        })
    }

    /// Computes a report without events. Each of its numbers has an error class.
    ///
    /// # Errors
    /// [`Error::Mistakes`] names what the analytic form does not cover.
    pub fn analyze(&self, seed: Option<u64>) -> Result<AnalyticReport, Error> {
        cxlab_system::analytic::analyze(&self.0.plan, self.seed(seed))
            .map_err(|problems| self.mistakes(problems))
    }

    /// Notes: what the scenario may say, but its author may not expect.
    pub fn notes(&self) -> &[Note] {
        &self.0.plan.notes
    }

    /// The table that the command prints for a report of this plan.
    pub fn summary(&self, report: &Report) -> String {
        table::summary(&self.0.plan, report)
    }

    /// The system as SVG. With a report, links are coloured by their use.
    pub fn picture(&self, report: Option<&Report>) -> String {
        picture::svg(&self.0.plan, report)
    }

    fn seed(&self, asked: Option<u64>) -> u64 {
        asked.unwrap_or(self.0.plan.scenario.seed)
    }

    fn mistakes(&self, problems: Vec<cxlab_plan::Problem>) -> Error {
        Error::Mistakes(self.0.mistakes(problems).render(false))
    }
}
