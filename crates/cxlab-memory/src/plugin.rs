//! A medium in a shared library, such as an external simulator: `docs/guide/plugins.md`.
//!
//! The simulator checks what the library reports. Completions must belong to requests in flight, be
//! in order of time, and not be in the future. The next event must not be in the past. A medium
//! that breaks these rules, or whose process ends, is a fault of the run ([`FaultList`]), because its
//! numbers would be worthless. Too many calls without a completion are a fault as well.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::cannot_save;
use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::slab::Slab;
use cxlab_engine::units::{Bytes, LINE_BYTES, Picos, SimTime};
use cxlab_plugin::{MediumFailure, MediumProcess, NEVER, PluginError, ROOM, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FaultList, InputFile, Medium, MediumSite, RunContext};

/// Bound on calls of `advance` at one time without a completion (*assumed*).
const PATIENCE: u32 = 1 << 20;
/// Bound on calls of `advance` without a completion while requests are in flight (*assumed*; a
/// simulator clocked each nanosecond needs 2^20 calls for a millisecond of an SSD).
const MOST_CALLS: u32 = 1 << 26;
/// Bound on the files of a library (*assumed*).
const MAX_FILES: usize = 64;
/// Bound on the statistics of a library.
const MAX_STATISTICS: usize = 1024;

/// Parameters of a medium in a shared library.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct PluginParams {
    /// Path of the library, relative to the folder of the scenario.
    pub library: String,
    /// Text that is passed to the library, which defines its meaning. If there are `files`, `{0}`
    /// stands for the path of the first, `{1}` for that of the second, and so on. Default: empty.
    #[serde(default)]
    pub config: String,
    /// Paths of the files that the library reads, relative to the folder of the scenario. Their
    /// content is part of the plan's hash. At most 64. Default: none.
    #[serde(default)]
    pub files: Vec<String>,
    /// Whether the library runs in the simulator's own process. This is faster, but if the library
    /// crashes or never returns, so does the simulator. Default: false.
    #[serde(default)]
    pub in_process: bool,
    /// Real time that a call of the library may take if the library has its own process. 1 ms to 1
    /// h. Default: 10 s.
    #[serde(default = "patience")]
    #[schemars(with = "String")]
    pub patience: Picos,
}

/// Default of `PluginParams::patience`: 10 s (*assumed*).
fn patience() -> Picos {
    Picos(10_000_000_000_000)
}

/// Allowed real time of a call, from 1 ms to 1 h.
const PATIENCE_RANGE: [Picos; 2] = [Picos(1_000_000_000), Picos(3_600_000_000_000_000)];

pub(crate) const ENTRY: Entry<Box<dyn Medium>> = Entry {
    name: "plugin",
    summary: "a medium in a shared library, by the C interface of include/cxlab_medium.h",
    schema: <PluginParams as JsonSchema>::json_schema,
    build: |params| {
        let params: PluginParams = read_params(params)?;
        let [least, most] = PATIENCE_RANGE;
        if !(least..=most).contains(&params.patience) {
            let message = format!("found {}; allowed: 1 ms to 1 h", params.patience);
            return Err(ParamError::new("patience", message));
        }
        if params.files.len() > MAX_FILES {
            let message = format!("found {} files; allowed: {MAX_FILES}", params.files.len());
            return Err(ParamError::new("files", message));
        }
        params.config_for(Path::new(""))?;
        Ok(Box::new(params))
    },
};

fn refused(error: PluginError) -> ParamError {
    let field = match &error {
        PluginError::Library(_) => "library",
        PluginError::Config(_) => "config",
    };
    ParamError::new(field, error.to_string())
}

impl PluginParams {
    /// The text for the library, with the paths of files in it.
    ///
    /// # Errors
    /// If it has the number of a file that is not in the list.
    fn config_for(&self, folder: &Path) -> Result<String, ParamError> {
        if self.files.is_empty() {
            return Ok(self.config.clone());
        }
        let mut text = String::new();
        let mut rest = self.config.as_str();
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            let number = after.split_once('}').map(|(number, _)| number);
            let digits = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let Some(number) = number.filter(digits) else {
                text.push('{');
                rest = after;
                continue;
            };
            let parsed: Option<usize> = number.parse().ok();
            let Some(file) = parsed.and_then(|number| self.files.get(number)) else {
                let last = self.files.len() - 1;
                let message = format!("found `{{{number}}}`; allowed: `{{0}}` to `{{{last}}}`");
                return Err(ParamError::new("config", message));
            };
            text.push_str(&folder.join(file).to_string_lossy());
            rest = &after[number.len() + 1..];
        }
        text.push_str(rest);
        Ok(text)
    }

    fn create(
        &self,
        folder: &Path,
        (capacity, seed): (Bytes, u64),
    ) -> Result<(cxlab_plugin::Medium, u32), ParamError> {
        let place = match self.in_process {
            true => MediumProcess::Here,
            false => MediumProcess::Apart(Duration::from_nanos(self.patience.0 / 1_000)),
        };
        let config = self.config_for(folder)?;
        let settings = (config.as_str(), capacity.0, seed);
        let library = folder.join(&self.library);
        // The loader searches other folders for a name without a folder.
        let library = Path::new(".").join(library);
        let medium = cxlab_plugin::Medium::create(&library, settings, place).map_err(refused)?;
        let granule = medium.granule();
        if !granule.is_power_of_two() || !(LINE_BYTES..=1 << 30).contains(&granule.into()) {
            let message = format!(
                "the library reads and writes {granule} bytes as a whole; allowed: a power of two \
                 from 64 to 2^30"
            );
            return Err(ParamError::new("library", message));
        }
        Ok((medium, granule))
    }
}

impl Medium for PluginParams {
    fn backend(&self, mut site: MediumSite) -> Box<dyn MemoryBackend> {
        let seed = site.rng.next_u64();
        let RunContext { folder, faults } = site.context;
        let memory = |medium, granule| PluginMemory {
            library: self.library.clone(),
            medium,
            granule,
            owners: Slab::default(),
            now: 0,
            still: 0,
            calls: 0,
            faults,
            is_broken: Cell::new(false),
        };
        Box::new(match self.create(&folder, (site.capacity, seed)) {
            Ok((medium, granule)) => memory(Some(medium), granule),
            // The rehearsal succeeded, so this failure is a fault of the run.
            Err(error) => {
                let memory = memory(None, 64);
                memory.fault(format_args!("`create`: {error}"));
                memory
            }
        })
    }

    fn files(&self) -> Vec<InputFile> {
        let library = ("library".to_owned(), &self.library);
        let files = self.files.iter().enumerate();
        let files = files.map(|(number, path)| (format!("files[{number}]"), path));
        let all = std::iter::once(library).chain(files);
        let file = |(field, path): (String, &String)| InputFile {
            field,
            path: PathBuf::from(path),
        };
        all.map(file).collect()
    }

    fn runs_code(&self) -> bool {
        true
    }

    fn rehearse(&self, capacity: Bytes, context: &RunContext) -> Result<(), ParamError> {
        self.create(&context.folder, (capacity, 0)).map(|_| ())
    }

    /// The library's interface has only timed requests.
    fn can_be_warmed(&self) -> bool {
        false
    }

    fn idle_read_ps(&self) -> Option<u64> {
        None
    }
}

struct PluginMemory {
    library: String,
    /// `None` if the library could not be loaded.
    medium: Option<cxlab_plugin::Medium>,
    granule: u32,
    /// The owner's number of each request in flight, by the library's number.
    owners: Slab<Option<u32>>,
    /// The latest time that was passed to the library.
    now: u64,
    /// Consecutive calls of `advance` without a completion at that time.
    still: u32,
    /// Consecutive calls of `advance` without a completion.
    calls: u32,
    faults: FaultList,
    /// Whether the medium had a fault; it is silent from then on.
    is_broken: Cell<bool>,
}

cannot_save!(
    PluginMemory,
    "a medium in a shared library keeps a state of its own, which its interface does not hand out"
);

impl PluginMemory {
    /// Reports a fatal fault to the run, once, and silences the medium.
    #[cold]
    fn fault(&self, what: std::fmt::Arguments<'_>) {
        if !self.is_broken.replace(true) {
            let what = format!("the plug-in `{}`: {what}", self.library);
            self.faults.report(SimTime(self.now), what);
        }
    }

    /// Calls the library; `None` after a fault.
    fn ask<T>(
        &self,
        question: impl FnOnce(&cxlab_plugin::Medium) -> Result<T, MediumFailure>,
    ) -> Option<T> {
        if self.is_broken.get() {
            return None;
        }
        match question(self.medium.as_ref()?) {
            Ok(answer) => Some(answer),
            Err(MediumFailure(what)) => {
                self.fault(format_args!("{what}"));
                None
            }
        }
    }

    /// Checks completions and passes them on. The error names the rule that a completion breaks.
    fn take_in(
        &mut self,
        found: &[cxlab_plugin::Completion],
        last: &mut u64,
        done: &mut Vec<Completion>,
    ) -> Result<(), String> {
        for one in found {
            let owner = self.owners.get_mut(one.id).and_then(Option::take);
            let Some(id) = owner else {
                return Err(format!("request {} is not under way", one.id));
            };
            if one.at > self.now || one.at < *last {
                let now = self.now;
                return Err(format!("at {now} ps, done at {} after {last}", one.at));
            }
            *last = one.at;
            self.owners.release(one.id);
            (self.still, self.calls) = (0, 0);
            let at = SimTime(one.at);
            done.push(Completion { id, at });
        }
        Ok(())
    }
}

impl MemoryBackend for PluginMemory {
    fn can_accept(&mut self, now: SimTime, write: bool) -> bool {
        self.now = self.now.max(now.0);
        let now = self.now;
        let answer = self.ask(|medium| medium.can_accept(now, write));
        answer.unwrap_or(false)
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        self.now = self.now.max(now.0);
        let id = self.owners.insert(Some(request.id));
        let request = Request {
            address: request.dpa.line().0 * LINE_BYTES,
            id,
            lines: request.lines,
            write: request.write.into(),
        };
        let now = self.now;
        self.ask(|medium| medium.enqueue(now, &request));
        None
    }

    fn next_event(&self) -> Option<SimTime> {
        match self.ask(cxlab_plugin::Medium::next_event)? {
            NEVER if !self.owners.is_empty() => {
                let what = "it has requests, and nothing will ever happen";
                self.fault(format_args!("`next_event`: {what}"));
                None
            }
            NEVER => None,
            at if at < self.now => {
                let now = self.now;
                self.fault(format_args!("`next_event`: at {now} ps, found {at}"));
                None
            }
            at => Some(SimTime(at)),
        }
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        self.still = if now.0 > self.now { 0 } else { self.still + 1 };
        self.calls += 1;
        self.now = self.now.max(now.0);
        let mut room = [cxlab_plugin::Completion::default(); ROOM];
        let mut last = 0;
        let now = self.now;
        while let Some(count) = self.ask(|medium| medium.advance(now, &mut room)) {
            let wrong = match room.get(..count) {
                Some(found) => self.take_in(found, &mut last, done).err(),
                None => Some(format!("{count} completions for a room of {ROOM}")),
            };
            if let Some(wrong) = wrong {
                self.fault(format_args!("`advance`: {wrong}"));
            }
            if count < ROOM {
                break;
            }
        }
        if self.owners.is_empty() {
            self.calls = 0;
        }
        if self.still > PATIENCE {
            self.fault(format_args!("`advance`: nothing goes on at {now} ps"));
        }
        if self.calls > MOST_CALLS {
            let none = format!("of {} requests none is done", self.owners.len());
            self.fault(format_args!("`advance`: {none} in {MOST_CALLS} calls"));
        }
    }

    fn granule(&self) -> u32 {
        self.granule
    }

    fn begin_measurement(&mut self, now: SimTime) {
        self.now = self.now.max(now.0);
        let now = self.now;
        self.ask(|medium| medium.begin_measurement(now));
    }

    fn statistics(&self, _now: SimTime, out: &mut Vec<Statistic>) {
        let list = (0..MAX_STATISTICS)
            .map_while(|number| self.ask(|medium| medium.statistic(number)).flatten());
        out.extend(list.map(|(name, value)| Statistic { name, value }));
    }
}
