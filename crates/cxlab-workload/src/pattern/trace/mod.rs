//! Replay of a recorded trace.
//!
//! The first source reads the whole trace once, when it is made. This pass checks the file,
//! counts the records, finds the range of times, and builds the map of pages that all sources
//! share. Each source then reads the file by itself, so that sources are independent of one
//! another and of threads.

mod frames;
mod replay;
mod stream;
mod survey;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_files::input;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{TraceError, WorkloadError};
use crate::op::OpSource;
use crate::params::{read, require};
use crate::workload::{SourceContext, Workload};
use replay::Replay;
use survey::Survey;

pub(super) const ENTRY: Entry<Box<dyn Workload>> = Entry {
    name: "trace",
    summary: "replays a recorded trace (.cxlt, or any format that can be imported)",
    schema: <Trace as JsonSchema>::json_schema,
    build: |params| {
        let params: Trace = read(params)?;
        params.check()?;
        Ok(Box::new(TraceWorkload {
            params,
            surveyed: Mutex::new(None),
        }))
    },
};

/// The earliest time at which a record may be issued.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// As early as the requester can issue it.
    #[default]
    FullSpeed,
    /// The time of the record after the earliest record, multiplied by `time_scale`.
    Timestamps,
}

/// How addresses of the trace are mapped to addresses of the system.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Addresses {
    /// Pages of 4 KiB get frames from the bottom of memory on, in the order of their first
    /// access in the trace.
    #[default]
    Compact,
    /// The address modulo the size of memory.
    Modulo,
    /// The unchanged address, which must be within memory.
    Exact,
}

/// Which records each requester replays.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// Requester i of n replays every n-th record, from record i on.
    #[default]
    Interleave,
    /// Every requester replays the whole trace.
    All,
    /// Requester i of n replays the i-th of n consecutive parts of equal length.
    Block,
}

/// Replays a recorded trace.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Trace {
    /// The trace file, relative to the scenario's folder. A trace given on the
    /// command line replaces it.
    pub path: Option<PathBuf>,
    /// The earliest times at which records may be issued.
    pub timing: Timing,
    /// Factor for the times of the trace, 0.000001 to 1000000: 2.0 replays at half the speed.
    #[schemars(range(min = 0.000001, max = 1_000_000))]
    pub time_scale: f64,
    /// How addresses of the trace are mapped to addresses of the system.
    pub addresses: Addresses,
    /// Which records each requester replays.
    pub share: Share,
    /// The number of times that the trace is replayed; at least 1.
    pub repeat: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Trace {
            path: None,
            timing: Timing::FullSpeed,
            time_scale: 1.0,
            addresses: Addresses::Compact,
            share: Share::Interleave,
            repeat: 1,
        }
    }
}

impl Trace {
    fn check(&self) -> Result<(), ParamError> {
        let known = (1e-6..=1e6).contains(&self.time_scale);
        require(known, "time_scale", self.time_scale, "0.000001 to 1000000")?;
        require(self.repeat > 0, "repeat", 0, "1 and more")
    }

    fn file(&self, scenario_dir: &Path, trace_override: Option<&Path>) -> Option<PathBuf> {
        let own = || Some(scenario_dir.join(self.path.as_ref()?));
        trace_override.map(Path::to_owned).or_else(own)
    }
}

struct TraceWorkload {
    params: Trace,
    surveyed: Mutex<Option<(PathBuf, u64, Arc<Survey>)>>,
}

impl TraceWorkload {
    /// The survey of a file for a memory of `span` bytes. It is made once and
    /// shared by all requesters.
    fn survey(&self, path: &Path, span: u64) -> Result<Arc<Survey>, WorkloadError> {
        let mut surveyed = self.surveyed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, known_span, survey)) = &*surveyed
            && known == path
            && *known_span == span
        {
            return Ok(survey.clone());
        }
        let survey = Arc::new(Survey::new(path, span, &self.params)?);
        *surveyed = Some((path.to_owned(), span, survey.clone()));
        Ok(survey)
    }
}

impl Workload for TraceWorkload {
    fn source(&self, ctx: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        self.params.check()?;
        let path = self
            .file(ctx.scenario_dir, ctx.trace_override)
            .ok_or_else(|| ParamError::new("path", "found none; allowed: a trace file"))?;
        if input::kind(&path).is_ok_and(|found| !found.is_file && !found.is_dir) {
            let message =
                "is a device or a pipe; allowed: a regular file, since it is read more than once";
            return Err(TraceError::whole(&path, "", message).into());
        }
        let survey = self.survey(&path, ctx.span.0)?;
        if self.params.timing == Timing::Timestamps {
            replay::check_times(&survey, &self.params)?;
        }
        Ok(Box::new(Replay::new(path, survey, &self.params, ctx)?))
    }

    fn is_finite(&self) -> bool {
        true
    }

    fn file(&self, scenario_dir: &Path, trace_override: Option<&Path>) -> Option<PathBuf> {
        self.params.file(scenario_dir, trace_override)
    }
}
