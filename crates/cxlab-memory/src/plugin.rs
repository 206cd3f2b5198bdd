//! A medium in a shared library, such as an external simulator: `docs/plugins.md`.
//!
//! What the library says is checked: completions are of requests that are under way, in order of
//! time, and not before their time; the next event does not lie behind what was done. A library
//! that breaks this ends the run with a message, since its numbers would be worth nothing. It may
//! not stand still either: after so many events at one time without a completion the run ends.

use std::path::PathBuf;

use cxlab_engine::cannot_save;
use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::units::{Bytes, LINE_BYTES, SimTime};
use cxlab_plugin::{Library, NEVER, PluginError, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::{Completion, MemoryBackend, MemoryRequest, Statistic};
use crate::{Medium, Site};

/// Completions asked for at once.
const ROOM: usize = 64;
/// Events at one time without a completion that are too many (*assumed*).
const PATIENCE: u32 = 1 << 20;
/// Most statistics of a library.
const MAX_STATISTICS: usize = 1024;

/// Parameters of a medium in a shared library.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct PluginParams {
    /// Path of the library. A path without a slash is looked for where the system keeps libraries.
    pub library: String,
    /// Text for the library, which says what it may be. Default: empty.
    #[serde(default)]
    pub config: String,
}

pub(crate) const ENTRY: Entry<Box<dyn Medium>> = Entry {
    name: "plugin",
    summary: "a medium in a shared library, by the C interface of include/cxlab_medium.h",
    schema: <PluginParams as JsonSchema>::json_schema,
    build: |params| {
        let params: PluginParams = read_params(params)?;
        let library = Library::open(&params.library).map_err(refused)?;
        Ok(Box::new(Plugin { params, library }))
    },
};

fn refused(error: PluginError) -> ParamError {
    let field = match &error {
        PluginError::Library(_) => "library",
        PluginError::Config(_) => "config",
    };
    ParamError::new(field, error.to_string())
}

struct Plugin {
    params: PluginParams,
    library: Library,
}

impl Plugin {
    fn create(&self, capacity: Bytes, seed: u64) -> Result<PluginMemory, ParamError> {
        let config = &self.params.config;
        let medium = self.library.create(config, capacity.0, seed);
        let medium = medium.map_err(refused)?;
        let granule = medium.granule();
        if !granule.is_power_of_two() || !(LINE_BYTES..=1 << 30).contains(&granule.into()) {
            let message = format!(
                "the library reads and writes {granule} bytes as a whole; allowed: a power of two \
                 from 64 to 2^30"
            );
            return Err(ParamError::new("library", message));
        }
        Ok(PluginMemory {
            library: self.params.library.clone(),
            medium,
            granule,
            owners: Vec::new(),
            free: Vec::new(),
            now: 0,
            still: 0,
        })
    }
}

impl Medium for Plugin {
    fn check(&self, capacity: Bytes) -> Result<(), ParamError> {
        self.create(capacity, 0).map(|_| ())
    }

    fn backend(&self, mut site: Site) -> Box<dyn MemoryBackend> {
        match self.create(site.capacity, site.rng.next_u64()) {
            Ok(memory) => Box::new(memory),
            Err(error) => panic!("the library accepted these parameters before: {error}"),
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        self.library.file().into_iter().collect()
    }

    /// The interface knows requests with times alone.
    fn can_be_warmed(&self) -> bool {
        false
    }

    fn idle_read_ps(&self) -> Option<u64> {
        None
    }
}

struct PluginMemory {
    library: String,
    medium: cxlab_plugin::Medium,
    granule: u32,
    /// By the library's number of a request: the owner's, while it is under way.
    owners: Vec<Option<u32>>,
    free: Vec<u32>,
    /// The latest time that was passed to the library.
    now: u64,
    /// How often in a row nothing was done at that time.
    still: u32,
}

cannot_save!(
    PluginMemory,
    "a medium in a shared library keeps a state of its own, which its interface does not hand out"
);

impl PluginMemory {
    /// Ends the run: the library broke the interface.
    fn broken(&self, what: std::fmt::Arguments<'_>) -> ! {
        panic!("the plug-in `{}` broke its interface: {what}", self.library)
    }
}

impl MemoryBackend for PluginMemory {
    fn can_accept(&mut self, now: SimTime, write: bool) -> bool {
        self.now = self.now.max(now.0);
        self.medium.can_accept(self.now, write)
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        self.now = self.now.max(now.0);
        let id = self.free.pop().unwrap_or_else(|| {
            self.owners.push(None);
            self.owners.len() as u32 - 1
        });
        self.owners[id as usize] = Some(request.id);
        let request = Request {
            address: request.dpa.line().0 * LINE_BYTES,
            id,
            lines: request.lines,
            write: request.write.into(),
        };
        self.medium.enqueue(self.now, &request);
        None
    }

    fn next_event(&self) -> Option<SimTime> {
        match self.medium.next_event() {
            NEVER if self.free.len() < self.owners.len() => self.broken(format_args!(
                "it has requests, and nothing will ever happen"
            )),
            NEVER => None,
            at => Some(SimTime(at.max(self.now))),
        }
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        self.still = if now.0 > self.now { 0 } else { self.still + 1 };
        self.now = self.now.max(now.0);
        let mut room = [cxlab_plugin::Completion::default(); ROOM];
        let mut last = 0;
        loop {
            let count = self.medium.advance(self.now, &mut room);
            if count > ROOM {
                self.broken(format_args!("{count} completions for a room of {ROOM}"));
            }
            for one in &room[..count] {
                let owner = self.owners.get_mut(one.id as usize).and_then(Option::take);
                let Some(id) = owner else {
                    self.broken(format_args!("request {} is not under way", one.id));
                };
                if one.at > self.now || one.at < last {
                    let now = self.now;
                    self.broken(format_args!("at {now} ps, done at {} after {last}", one.at));
                }
                last = one.at;
                self.free.push(one.id);
                self.still = 0;
                let at = SimTime(one.at);
                done.push(Completion { id, at });
            }
            if count < ROOM {
                break;
            }
        }
        if self.still > PATIENCE {
            self.broken(format_args!("nothing goes on at {} ps", self.now));
        }
    }

    fn granule(&self) -> u32 {
        self.granule
    }

    fn statistics(&self, _now: SimTime, out: &mut Vec<Statistic>) {
        let list = (0..MAX_STATISTICS).map_while(|number| self.medium.statistic(number));
        out.extend(list.map(|(name, value)| Statistic { name, value }));
    }
}
