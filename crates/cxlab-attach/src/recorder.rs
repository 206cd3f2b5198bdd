//! Keeps what a [`Recording`] needs, while a program is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use indexmap::IndexSet;

use crate::estimate::{Estimate, Machine, PhaseId};
use crate::images::Images;
use crate::maps::{self, Mapping};
use crate::model::{Overlap, Step};
use crate::recording::{
    CodePlace, FORMAT, Mappings, Object, PhaseRecord, Recording, Site, StackId, WindowRecord,
};
use crate::reuse;
use crate::sites::Tables;
use crate::stack::Stacks;
use crate::sys::{Registers, Tid};

/// Number of windows kept of a phase (*assumed*: four times as many as an estimate uses).
const WINDOWS_PER_PHASE: usize = 16;
/// Most distinct places, lists of calls, and objects. Later ones are unknown (*assumed*: some tens of MiB).
const MAX_ENTRIES: usize = 1 << 17;

/// The number of a thing, or 0 where there are too many.
fn number<T: Eq + Hash>(numbers: &mut IndexSet<T>, thing: T) -> u32 {
    match numbers.len() == MAX_ENTRIES {
        true => numbers.get_index_of(&thing).unwrap_or(0) as u32,
        false => numbers.insert_full(thing).0 as u32,
    }
}

/// A process that is followed.
#[derive(Default)]
struct FollowedProcess {
    mappings: Vec<Mapping>,
    seen: Mappings,
    stacks: Stacks,
    tables: Option<Tables>,
    /// Sites of this process, by their number in its tables.
    sites: BTreeMap<u32, u32>,
}

/// A piece of CPU time with its price.
pub(crate) struct PricedTime<'a> {
    pub(crate) instructions: f64,
    pub(crate) cpu_ns: f64,
    pub(crate) delay_ns: f64,
    pub(crate) estimate: &'a Estimate,
    pub(crate) machine: Machine,
    pub(crate) stack: StackId,
}

#[derive(Default)]
pub(crate) struct Recorder {
    /// The library that records allocation sites, if it was loaded into the program.
    library: Option<PathBuf>,
    images: Images,
    places: IndexSet<CodePlace>,
    stacks: IndexSet<Vec<u32>>,
    objects: IndexSet<Object>,
    sites: BTreeMap<StackId, Site>,
    mappings: Vec<Mappings>,
    processes: BTreeMap<Tid, FollowedProcess>,
    open: BTreeMap<(Tid, PhaseId), PhaseRecord>,
    done: Vec<PhaseRecord>,
    /// Number of windows so far.
    windows: u64,
    running_ns: f64,
    thread_ns: f64,
}

/// All phases of a process.
fn all_of(pid: Tid) -> RangeInclusive<(Tid, PhaseId)> {
    (pid, PhaseId::MIN)..=(pid, PhaseId::MAX)
}

/// Adds the window with the smallest weight to a neighbour. The last two windows are kept,
/// because their weights may change.
fn make_room(windows: &mut Vec<WindowRecord>) {
    let known = windows.len().saturating_sub(2);
    let least = (0..known).min_by(|one, other| {
        let of = |at: &usize| windows[*at].stands_for;
        of(one).total_cmp(&of(other))
    });
    let Some(at) = least else { return };
    let gone = windows.remove(at);
    // The window before it saw the state from which the program came.
    let beside = &mut windows[at.saturating_sub(1)];
    beside.stands_for += gone.stands_for;
}

/// Finds the cached lines of a process's windows as the run's estimate did, by comparing each window with those taken
/// nearest to it.
fn find_cached(mut windows: Vec<&mut WindowRecord>) {
    windows.sort_by_key(|window| window.number);
    let lines = |window: &&mut WindowRecord| touched(&window.steps).into_keys().collect();
    let lines: Vec<BTreeSet<u64>> = windows.iter().map(lines).collect();
    for (at, window) in windows.into_iter().enumerate() {
        let from = at.saturating_sub(reuse::WINDOWS / 2);
        let to = lines.len().min(from + reuse::WINDOWS);
        let others = || (from..to).filter(|other| *other != at);
        let shared = |line: &&u64| others().any(|other| lines[other].contains(*line));
        window.cached = lines[at].iter().filter(shared).copied().collect();
    }
}

impl Recorder {
    pub(crate) fn new(library: Option<PathBuf>) -> Recorder {
        let unknown = CodePlace {
            image: None,
            address: 0,
        };
        Recorder {
            library,
            places: [unknown].into(),
            stacks: [Vec::new()].into(),
            objects: [Object::Unknown].into(),
            mappings: vec![Mappings::default()],
            ..Recorder::default()
        }
    }

    /// Takes over the mappings of a process.
    fn refresh(&mut self, pid: Tid) {
        let Ok(mappings) = maps::mappings(pid) else {
            return;
        };
        let process = self.processes.entry(pid).or_default();
        if process.mappings == mappings {
            return;
        }
        process.seen.update(&maps::memory(&mappings));
        process.stacks.update(pid, &mappings, &mut self.images);
        if process.tables.is_none()
            && let Some(library) = &self.library
        {
            process.tables = Tables::find(pid, library, &mappings, &mut self.images);
        }
        process.mappings = mappings;
    }

    /// Number of the list of calls that led to a stopped thread's instruction.
    pub(crate) fn stack(&mut self, pid: Tid, tid: Tid, registers: &Registers) -> StackId {
        self.refresh(pid);
        let Some(process) = self.processes.get_mut(&pid) else {
            return 0;
        };
        let calls = process.stacks.unwind(tid, registers);
        self.calls(pid, &calls)
    }

    fn calls(&mut self, pid: Tid, addresses: &[u64]) -> StackId {
        let calls = addresses.iter().map(|address| self.place(pid, *address));
        let calls = calls.collect();
        number(&mut self.stacks, calls)
    }

    fn place(&mut self, pid: Tid, address: u64) -> u32 {
        let place = self.in_image(pid, address).unwrap_or(CodePlace {
            image: None,
            address,
        });
        number(&mut self.places, place)
    }

    fn in_image(&mut self, pid: Tid, address: u64) -> Option<CodePlace> {
        let mappings = &self.processes.get(&pid)?.mappings;
        let mapping = &mappings[holding(mappings, address)?];
        let image = self.images.number(pid, mapping)?;
        Some(self.images.place(image, mapping, address))
    }

    /// The object that an address belongs to.
    fn object(&mut self, pid: Tid, tid: Tid, address: u64) -> u32 {
        let object = self.find(pid, tid, address).unwrap_or(Object::Unknown);
        number(&mut self.objects, object)
    }

    fn find(&mut self, pid: Tid, tid: Tid, address: u64) -> Option<Object> {
        let process = self.processes.get(&pid)?;
        if let Some(tables) = process.tables
            && let Some(number) = tables.site(tid, address)
        {
            return self.site(pid, tid, tables, number);
        }
        let process = self.processes.get(&pid)?;
        let at = holding(&process.mappings, address)?;
        let mapping = &process.mappings[at];
        // Variables without a value in the file follow in a mapping without a name.
        let before = at.checked_sub(1).map(|at| &process.mappings[at]);
        let before = before.filter(|before| {
            mapping.name.is_empty()
                && before.region.end == mapping.region.start
                && !before.executable
        });
        let file = [Some(mapping), before].into_iter().flatten();
        for mapping in file {
            let mut all = process.mappings.iter();
            let program = all.any(|other| other.executable && other.name == mapping.name);
            if program && let Some(image) = self.images.number(pid, mapping) {
                return Some(Object::Static(self.images.place(image, mapping, address)));
            }
        }
        let name = match mapping.name.as_str() {
            "" => "anonymous",
            "/dev/zero" => "tables of allocation sites",
            name => name,
        };
        let bytes = mapping.region.end - mapping.region.start;
        Some(Object::Mapping(name.to_owned(), bytes))
    }

    fn site(&mut self, pid: Tid, tid: Tid, tables: Tables, number: u32) -> Option<Object> {
        let found = tables.read(tid, number)?;
        let known = self.processes.get(&pid)?.sites.get(&number).copied();
        let stack = match known {
            Some(stack) => stack,
            None => {
                let stack = self.calls(pid, &found.calls);
                self.processes.get_mut(&pid)?.sites.insert(number, stack);
                stack
            }
        };
        let site = self.sites.entry(stack).or_insert(Site {
            stack,
            most_bytes: 0,
            count: 0,
        });
        site.most_bytes = site.most_bytes.max(found.most_bytes);
        site.count = site.count.max(found.count);
        Some(Object::Allocated(stack))
    }

    /// Keeps a window of a phase, and drops the one with the smallest weight if there are too many.
    pub(crate) fn window(
        &mut self,
        pid: Tid,
        tid: Tid,
        phase: PhaseId,
        steps: Vec<Step>,
        before: usize,
    ) {
        self.refresh(pid);
        let before = before.min(steps.len());
        let mut objects: BTreeMap<u64, u32> = BTreeMap::new();
        let known = touched(&steps[..before]);
        for (line, address) in touched(&steps[before..]) {
            if !known.contains_key(&line) {
                objects.insert(line, self.object(pid, tid, address));
            }
        }
        let mut code: BTreeMap<u64, u32> = BTreeMap::new();
        for step in &steps {
            code.entry(step.code)
                .or_insert_with(|| self.place(pid, step.code));
        }
        self.windows += 1;
        let seen = self.processes.get(&pid).map(|process| process.seen.clone());
        let seen = seen.unwrap_or_default();
        if self.mappings.last() != Some(&seen) {
            self.mappings.push(seen);
        }
        let window = WindowRecord {
            before,
            steps,
            code,
            objects,
            number: self.windows,
            mappings: self.mappings.len() as u32 - 1,
            ..WindowRecord::default()
        };
        let record = self.open.entry((pid, phase)).or_default();
        if record.windows.len() == WINDOWS_PER_PHASE {
            make_room(&mut record.windows);
        }
        record.windows.push(window);
    }

    /// Records CPU time of a process that got a price.
    pub(crate) fn priced(&mut self, pid: Tid, phase: PhaseId, priced: &PricedTime<'_>) {
        let record = self.open.entry((pid, phase)).or_default();
        record.instructions += priced.instructions;
        if let Some(last) = record.windows.last_mut() {
            last.stands_for += priced.instructions;
        }
        record.cpu_ns += priced.cpu_ns;
        record.delay_ns += priced.delay_ns;
        record.chances += priced.instructions * priced.estimate.chance();
        record.machine = Some(priced.machine);
        let stack = record.stacks.entry(priced.stack).or_default();
        stack.cpu_ns += priced.cpu_ns;
        stack.delay_ns += priced.delay_ns;
    }

    /// Records a request to the fabric for `threads` threads, which ran for `running_ns` without being held.
    pub(crate) fn asked(&mut self, threads: usize, running_ns: f64) {
        self.running_ns += running_ns;
        self.thread_ns += running_ns * threads as f64;
    }

    /// Copies the windows of a process to a forked one, which executes the same code.
    pub(crate) fn forked(&mut self, parent: Tid, child: Tid) {
        let known = self.open.range(all_of(parent));
        let known: Vec<(PhaseId, Vec<WindowRecord>)> = known
            .map(|((_, phase), record)| (*phase, record.windows.clone()))
            .collect();
        for (phase, mut windows) in known {
            for window in &mut windows {
                window.stands_for = 0.0;
            }
            let record = PhaseRecord {
                windows,
                ..PhaseRecord::default()
            };
            self.open.insert((child, phase), record);
        }
    }

    /// Completes the record of a process that executes another program or has ended.
    pub(crate) fn end(&mut self, pid: Tid) {
        self.processes.remove(&pid);
        let phases = self.open.range(all_of(pid)).map(|(key, _)| *key);
        let phases: Vec<(Tid, PhaseId)> = phases.collect();
        let ended = phases.iter().filter_map(|key| self.open.remove(key));
        let mut ended: Vec<PhaseRecord> = ended.collect();
        let windows = ended.iter_mut().flat_map(|phase| &mut phase.windows);
        find_cached(windows.collect());
        self.done.append(&mut ended);
    }

    pub(crate) fn finish(
        mut self,
        overlap: Overlap,
        cpu_ns: f64,
        mut notes: Vec<String>,
    ) -> Recording {
        let processes: BTreeSet<Tid> = self.open.keys().map(|(pid, _)| *pid).collect();
        processes.into_iter().for_each(|pid| self.end(pid));
        // Code without a price contributes nothing.
        self.done.retain(|record| record.instructions > 0.0);
        let numbers = [self.places.len(), self.stacks.len(), self.objects.len()];
        if numbers.contains(&MAX_ENTRIES) {
            notes.push(format!(
                "more than {MAX_ENTRIES} places, lists of calls or objects: later ones are unknown"
            ));
        }
        Recording {
            format: FORMAT,
            images: self.images.into_paths(),
            places: self.places.into_iter().collect(),
            stacks: self.stacks.into_iter().collect(),
            objects: self.objects.into_iter().collect(),
            sites: self.sites.into_values().collect(),
            mappings: self.mappings,
            phases: self.done,
            overlap,
            cpu_ns,
            running_ns: self.running_ns,
            threads: match self.running_ns > 0.0 {
                true => self.thread_ns / self.running_ns,
                false => 1.0,
            },
            notes,
        }
    }
}

#[cfg(test)]
impl Recorder {
    pub(crate) fn place_of_test(&mut self, pid: Tid, address: u64) -> u32 {
        self.refresh(pid);
        self.place(pid, address)
    }

    pub(crate) fn object_of_test(&mut self, pid: Tid, address: u64) -> u32 {
        self.refresh(pid);
        self.object(pid, pid, address)
    }
}

/// The lines that instructions touch, each with an address in it.
fn touched(steps: &[Step]) -> BTreeMap<u64, u64> {
    let touches = steps.iter().flat_map(|step| &step.touches);
    let lines = touches.map(|touch| (touch.address / 64, touch.address));
    lines.collect()
}

/// The mapping that holds an address, of mappings by address.
fn holding(mappings: &[Mapping], address: u64) -> Option<usize> {
    let behind = mappings.partition_point(|mapping| mapping.region.start <= address);
    let at = behind.checked_sub(1)?;
    (address < mappings[at].region.end).then_some(at)
}
