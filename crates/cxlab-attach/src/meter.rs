//! Misses of a running program by events of its processor (tier 1): which pools its misses are in, by sampled
//! addresses, and for how long some are outstanding, by an event that counts that.
//!
//! Each thread has its own events, which are opened before it executes anything. Samples go to rings, which are
//! emptied when the thread's CPU time is read. The delay of that time is the time with misses outstanding, times what
//! the pools of the last samples add to the local latency ([`crate::profile::cost`] has the same for a whole run).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::str::FromStr;

use cxlab_perf::encode::Event;
use cxlab_perf::kind::{HARDWARE, RAW, SOFTWARE};
use cxlab_perf::{Attr, Format, MemoryMapping, Record, flag};

use crate::calibrate::processor_field;
use crate::maps;
use crate::profile::{MISSES, Profile, ProfileReader, Role};
use crate::share;
use crate::sys::{Counter, Ring, Tid};

/// Sizes of a ring in pages, tried in this order. Users may map half a MiB in all, and a program may have many threads.
const PAGES: [usize; 3] = [16, 4, 1];
/// Misses for one sample: a prime, so that no loop is in step with it (*assumed*: a thousand samples a second of a
/// program that misses every 100 ns).
const PERIOD: u64 = 10_007;
/// Number of samples in the distribution over pools at which all counts are halved (*assumed*).
const DECAY_SAMPLES: f64 = 256.0;

/// An event with its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SelectedEvent {
    name: String,
    kind: u32,
    config: u64,
}

/// Events that count or sample a program's misses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Events {
    /// Addresses of misses, and the time with misses outstanding. There are no windows (tier 1).
    Addresses(Addresses),
    /// Number of lines read from memory. Windows estimate the rest (tier 2).
    Lines(SelectedEvent),
}

/// Events that sample misses with their addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// Samples misses, with the addresses of their data.
    misses: SelectedEvent,
    period: u64,
    /// Counts the time with misses outstanding: cycles, or nanoseconds of the software's clock.
    outstanding: SelectedEvent,
}

const TASK_CLOCK: u64 = 1;
const PAGE_FAULTS: u64 = 2;
const CACHE_MISSES: u64 = 3;

/// Allowed values of `--events`, for messages.
const ALLOWED: &str = "auto, LINES, or MISSES[:PERIOD],OUTSTANDING: cache-misses, raw events such as r20d1, \
                       page-faults, and task-clock";

impl Addresses {
    /// The events of this processor.
    ///
    /// # Errors
    /// Reason why there are no events for the processor.
    pub fn of_this_processor() -> Result<Addresses, String> {
        Addresses::of_processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    fn of_processor(info: &str) -> Result<Addresses, String> {
        let value = |name: &str| processor_field(info, name).unwrap_or_default();
        let number = |name: &str| value(name).parse::<u32>().ok();
        if value("vendor_id") == "AuthenticAMD" {
            return Err(
                "no event of this processor counts the time with misses outstanding".to_owned(),
            );
        }
        let of = |name: &str, config| SelectedEvent {
            name: name.to_owned(),
            kind: RAW,
            config,
        };
        let reads = "offcore_requests_outstanding.cycles_with_l3_miss_demand_data_rd";
        let model = number("model").filter(|_| number("cpu family") == Some(6));
        let outstanding = match model.unwrap_or(0) {
            // Skylake to Rocket Lake.
            0x4e | 0x5e | 0x55 | 0x8e | 0x9e | 0xa5 | 0xa6 | 0x66 | 0x7d | 0x7e | 0x8c | 0x8d
            | 0xa7 => of("cycle_activity.cycles_l3_miss", 0x0200_02a3),
            // Ice Lake servers.
            0x6a | 0x6c => of(reads, 0x0100_1060),
            // Sapphire, Emerald and Granite Rapids. Processors with cores of two kinds need two sets of events.
            0x8f | 0xcf | 0xad | 0xae => of(reads, 0x0100_1020),
            _ => return Err("no events are known for this processor".to_owned()),
        };
        Ok(Addresses {
            misses: of("mem_load_retired.l3_miss", 0x20d1),
            period: PERIOD,
            outstanding,
        })
    }

    /// Attributes of the event that samples misses and records mappings.
    fn misses(&self) -> Attr {
        let fields = [
            Format::Ip,
            Format::Tid,
            Format::Time,
            Format::Addr,
            Format::Weight,
            Format::DataSrc,
        ];
        let precise = match self.misses.kind {
            RAW => 2 << flag::PRECISE_SHIFT,
            _ => 0,
        };
        let attr = Attr {
            sample_period: self.period,
            sample_type: Format::bits(&fields),
            ..self.misses.attr()
        };
        attr.with(precise | flag::RECORDS | flag::MAP_DATA | flag::ID_ALL)
    }

    /// Whether time with misses outstanding is counted in nanoseconds.
    pub(crate) fn is_in_nanoseconds(&self) -> bool {
        self.outstanding.kind == SOFTWARE
    }

    /// All events, as a profile has them: misses, the time with them outstanding, cycles and CPU time.
    fn all(&self) -> Vec<Event> {
        let event = |attr, name: &str| Event {
            attr,
            ids: Vec::new(),
            name: name.to_owned(),
        };
        let counted = |attr: Attr| Attr {
            sample_period: 1,
            sample_type: Format::bits(&[Format::Tid, Format::Period]),
            ..attr
        };
        let clock = Attr::of_user(SOFTWARE, TASK_CLOCK);
        vec![
            event(self.misses(), &self.misses.name),
            event(counted(self.outstanding.attr()), &self.outstanding.name),
            event(counted(cycles()), "cycles"),
            event(counted(clock), "task-clock"),
        ]
    }
}

impl SelectedEvent {
    fn is_clock(&self) -> bool {
        (self.kind, self.config) == (SOFTWARE, TASK_CLOCK)
    }

    fn attr(&self) -> Attr {
        Attr::of_user(self.kind, self.config)
    }
}

fn cycles() -> Attr {
    Attr::of_user(HARDWARE, 0)
}

impl FromStr for Events {
    type Err = String;

    fn from_str(text: &str) -> Result<Events, String> {
        let wrong = || format!("found `{text}`; allowed: {ALLOWED}");
        let event = |name: &str| -> Option<SelectedEvent> {
            let (kind, config) = match name {
                "page-faults" => (SOFTWARE, PAGE_FAULTS),
                "task-clock" => (SOFTWARE, TASK_CLOCK),
                "cache-misses" => (HARDWARE, CACHE_MISSES),
                _ => (RAW, u64::from_str_radix(name.strip_prefix('r')?, 16).ok()?),
            };
            let name = name.to_owned();
            Some(SelectedEvent { name, kind, config })
        };
        if text == "auto" {
            return Addresses::of_this_processor().map(Events::Addresses);
        }
        let Some((misses, outstanding)) = text.split_once(',') else {
            let lines = event(text).filter(|event| !event.is_clock());
            return lines.map(Events::Lines).ok_or_else(wrong);
        };
        let (misses, period) = match misses.split_once(':') {
            Some((misses, period)) => (misses, period.parse().map_err(|_| wrong())?),
            None if misses == "page-faults" => (misses, 1),
            None => (misses, PERIOD),
        };
        let (misses, outstanding) = event(misses).zip(event(outstanding)).ok_or_else(wrong)?;
        let time = outstanding.kind == RAW || outstanding.is_clock();
        if misses.is_clock() || !time || period == 0 {
            return Err(wrong());
        }
        Ok(Events::Addresses(Addresses {
            misses,
            period,
            outstanding,
        }))
    }
}

/// Time at which a thread's events begin to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventStart {
    Now,
    /// When the thread executes another program.
    AtExec,
}

impl EventStart {
    fn flags(self) -> u64 {
        match self {
            EventStart::Now => 0,
            EventStart::AtExec => flag::DISABLED | flag::ENABLE_ON_EXEC,
        }
    }
}

/// A counter with its last value.
struct Reading {
    counter: Counter,
    then: f64,
}

impl Reading {
    fn open(tid: Tid, attr: &Attr) -> io::Result<Reading> {
        let counter = Counter::open(tid, attr)?;
        Ok(Reading { counter, then: 0.0 })
    }

    /// Number of events since the last time.
    fn more(&mut self) -> f64 {
        let now = self.counter.read().unwrap_or(self.then);
        let then = std::mem::replace(&mut self.then, now);
        (now - then).max(0.0)
    }
}

/// A thread's events.
struct Metered {
    pid: Tid,
    ring: Ring,
    outstanding: Reading,
    cycles: Option<Reading>,
    /// Time with misses outstanding that no sample has located, in nanoseconds.
    waits_ns: f64,
    /// CPU time without misses outstanding so far, in nanoseconds.
    spare_ns: f64,
}

/// Misses of a thread in an interval of CPU time, by its events.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct MeteredMisses {
    /// Number of latencies waited for, one after the other, by pool.
    pub(crate) waits: Vec<f64>,
    /// Lines that were read, by pool.
    pub(crate) lines: Vec<f64>,
}

/// Events that the kernel does not refuse.
pub(crate) enum OpenEvents {
    Nothing,
    Addresses(Box<Meter>),
    Lines(Lines),
}

impl OpenEvents {
    /// Opens events, of no thread yet. A single miss of local memory is outstanding for `each_ns` nanoseconds.
    ///
    /// # Errors
    /// Reason why the kernel refuses the events. They are tested on this thread.
    pub(crate) fn open(events: Option<Events>, each_ns: f64) -> Result<OpenEvents, String> {
        Ok(match events {
            None => OpenEvents::Nothing,
            Some(Events::Addresses(events)) => {
                OpenEvents::Addresses(Box::new(Meter::new(events, each_ns)?))
            }
            Some(Events::Lines(event)) => OpenEvents::Lines(Lines::new(event)?),
        })
    }

    /// Adds a thread, whose events begin now or when it executes a program.
    pub(crate) fn add(&mut self, pid: Tid, tid: Tid, begins: EventStart) {
        match self {
            OpenEvents::Nothing => {}
            OpenEvents::Addresses(meter) => meter.add(pid, tid, begins),
            OpenEvents::Lines(lines) => lines.add(tid, begins),
        }
    }

    /// A thread has ended.
    pub(crate) fn remove(&mut self, tid: Tid) {
        match self {
            OpenEvents::Nothing => {}
            OpenEvents::Addresses(meter) => meter.remove(tid),
            OpenEvents::Lines(lines) => lines.remove(tid),
        }
    }

    /// Whether the events locate misses, so that no other method is used.
    pub(crate) fn locate_misses(&self) -> bool {
        matches!(self, OpenEvents::Addresses(_))
    }

    pub(crate) fn count_lines(&self) -> bool {
        matches!(self, OpenEvents::Lines(_))
    }
}

/// An event that counts lines read from memory, of all threads of a program.
pub(crate) struct Lines {
    event: SelectedEvent,
    threads: BTreeMap<Tid, Reading>,
    sum: f64,
    wrong: Option<String>,
}

impl Lines {
    fn new(event: SelectedEvent) -> Result<Lines, String> {
        let opened = Counter::open(0, &event.attr());
        opened.map_err(|error| format!("{}: {error}", event.name))?;
        Ok(Lines {
            event,
            threads: BTreeMap::new(),
            sum: 0.0,
            wrong: None,
        })
    }

    fn add(&mut self, tid: Tid, begins: EventStart) {
        match Reading::open(tid, &self.event.attr().with(begins.flags())) {
            Ok(reading) => {
                self.threads.insert(tid, reading);
            }
            Err(error) => {
                let _ = self.wrong.get_or_insert(error.to_string());
            }
        }
    }

    /// Number of lines that a thread has read since the last call.
    pub(crate) fn read(&mut self, tid: Tid) -> f64 {
        let more = self.threads.get_mut(&tid).map_or(0.0, Reading::more);
        self.sum += more;
        more
    }

    fn remove(&mut self, tid: Tid) {
        self.threads.remove(&tid);
    }

    /// Number of lines of all threads, and the first error.
    pub(crate) fn finish(self) -> (f64, Option<String>) {
        (self.sum, self.wrong)
    }
}

/// Events of all threads of a program.
pub(crate) struct Meter {
    events: Addresses,
    /// Time for which a single miss of local memory is outstanding, in nanoseconds.
    each_ns: f64,
    threads: BTreeMap<Tid, Metered>,
    reader: ProfileReader,
    /// Samples by process and pool; old ones count less.
    pools: BTreeMap<Tid, Vec<f64>>,
    /// Sums over all threads: time with misses outstanding and cycles, in the events' units.
    outstanding: f64,
    cycles: f64,
    /// Number of lost samples of threads that ended.
    lost: u64,
    /// First error of opening or reading events of a thread.
    wrong: Option<String>,
}

impl Meter {
    /// A meter without threads.
    ///
    /// # Errors
    /// Reason why the kernel refuses the events. They are tested on this thread.
    fn new(events: Addresses, each_ns: f64) -> Result<Meter, String> {
        let known = events.all();
        let roles = [MISSES, Role::Outstanding, Role::Cycles, Role::Clock];
        let reader = ProfileReader::of(known.iter().zip(roles), None);
        let meter = Meter {
            reader: reader.map_err(|error| error.to_string())?,
            events,
            each_ns,
            threads: BTreeMap::new(),
            pools: BTreeMap::new(),
            outstanding: 0.0,
            cycles: 0.0,
            lost: 0,
            wrong: None,
        };
        let opened = meter.open(0, 0, EventStart::Now);
        opened.map_err(|(event, error)| format!("{event}: {error}"))?;
        Ok(meter)
    }

    /// Opens the events of a thread.
    fn open(&self, pid: Tid, tid: Tid, begins: EventStart) -> Result<Metered, (String, io::Error)> {
        let from = |attr: Attr| attr.with(begins.flags());
        let misses = from(self.events.misses());
        let named = |event: &SelectedEvent| {
            let name = event.name.clone();
            move |error| (name, error)
        };
        let open = |pages| Ring::open(tid, &misses, pages);
        let mut tries = PAGES.into_iter().map(open);
        let none = || Err(io::ErrorKind::Unsupported.into());
        let mut ring = tries.next().unwrap_or_else(none);
        // Only a limit on memory is another with fewer pages.
        while let Err(error) = &ring
            && error.raw_os_error() == Some(libc::EPERM)
            && let Some(next) = tries.next()
        {
            ring = next;
        }
        let outstanding = Reading::open(tid, &from(self.events.outstanding.attr()));
        let cycles = (!self.events.is_in_nanoseconds())
            .then(|| Reading::open(tid, &from(cycles())))
            .transpose()
            .map_err(|error| ("cycles".to_owned(), error))?;
        Ok(Metered {
            pid,
            ring: ring.map_err(named(&self.events.misses))?,
            outstanding: outstanding.map_err(named(&self.events.outstanding))?,
            cycles,
            waits_ns: 0.0,
            spare_ns: 0.0,
        })
    }

    /// Adds a thread, whose events begin now or when it executes a program. Reads the mappings of a running process.
    fn add(&mut self, pid: Tid, tid: Tid, begins: EventStart) {
        if begins == EventStart::Now && !self.threads.values().any(|thread| thread.pid == pid) {
            self.map(pid);
        }
        match self.open(pid, tid, begins) {
            Ok(thread) => {
                self.threads.insert(tid, thread);
            }
            Err((event, error)) => {
                let _ = self.wrong.get_or_insert(format!("{event}: {error}"));
            }
        }
    }

    fn map(&mut self, pid: Tid) {
        for mapping in maps::mappings(pid).unwrap_or_default() {
            let mapped = MemoryMapping {
                pid,
                start: mapping.region.start,
                bytes: mapping.region.end - mapping.region.start,
                offset: mapping.offset,
                executable: mapping.executable,
                name: mapping.name,
            };
            let _ = self.reader.record(0, Some(0), Record::Mapped(mapped));
        }
    }

    /// Misses of a thread since the last call, in which it used `cpu_ns` of CPU time. `pool_of` returns the pool of an
    /// address, below `pools`.
    pub(crate) fn read(
        &mut self,
        tid: Tid,
        cpu_ns: f64,
        pools: usize,
        pool_of: &mut dyn FnMut(u64) -> Option<usize>,
    ) -> MeteredMisses {
        let mut missed = MeteredMisses {
            waits: vec![0.0; pools],
            lines: vec![0.0; pools],
        };
        let Some(thread) = self.threads.get_mut(&tid) else {
            return missed;
        };
        let sums = self.pools.entry(thread.pid);
        let sums = sums.or_insert_with(|| vec![0.0; pools]);
        let period = self.events.period as f64;
        let (reader, wrong) = (&mut self.reader, &mut self.wrong);
        let recorded = thread.ring.take(&mut |record| {
            let mut time = None;
            if let Record::Sample(sample) = &record {
                time = sample.time;
                // The kernel's own memory has no place, and stays local.
                let pool = pool_of(sample.address.unwrap_or(0)).unwrap_or(0);
                sums[pool] += 1.0;
                missed.lines[pool] += period;
            }
            if let Err(error) = reader.record(0, time, record) {
                let _ = wrong.get_or_insert(error.to_string());
            }
        });
        if let Err(error) = recorded {
            let _ = self.wrong.get_or_insert(error.to_string());
        }
        let counted = thread.outstanding.more();
        self.outstanding += counted;
        let ns = match &mut thread.cycles {
            None => counted,
            Some(cycles) => {
                let cycles = cycles.more();
                self.cycles += cycles;
                share(cpu_ns * counted, cycles)
            }
        };
        // This may exceed the CPU time, which was read before and does not include time that the host took away.
        thread.waits_ns += ns;
        thread.spare_ns += cpu_ns;
        let all: f64 = sums.iter().sum();
        if all > 0.0 {
            let waits_ns = thread.waits_ns.min(thread.spare_ns);
            thread.waits_ns -= waits_ns;
            thread.spare_ns -= waits_ns;
            for (waits, samples) in missed.waits.iter_mut().zip(&*sums) {
                *waits = waits_ns / self.each_ns * samples / all;
            }
        }
        if all > DECAY_SAMPLES {
            sums.iter_mut().for_each(|samples| *samples /= 2.0);
        }
        missed
    }

    /// A thread has ended.
    fn remove(&mut self, tid: Tid) {
        if let Some(thread) = self.threads.remove(&tid) {
            self.lost += thread.ring.lost();
        }
    }

    /// The profile of all samples over `cpu_ns` of CPU time, and the first error.
    pub(crate) fn finish(mut self, cpu_ns: f64) -> (Profile, Option<String>) {
        let cycles = match self.events.is_in_nanoseconds() {
            true => cpu_ns,
            false => self.cycles,
        };
        for (event, of) in [(1, self.outstanding), (2, cycles), (3, cpu_ns)] {
            self.reader.count(event, of);
        }
        let left: Vec<Tid> = self.threads.keys().copied().collect();
        left.into_iter().for_each(|tid| self.remove(tid));
        let mut profile = self.reader.finish();
        profile.samples.lost = profile.samples.lost.max(self.lost);
        (profile, self.wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_their_own_events() {
        let info = |vendor: &str, family: u32, model: u32| {
            format!(
                "vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: x\n"
            )
        };
        let outstanding = |model| {
            let found = Addresses::of_processor(&info("GenuineIntel", 6, model)).unwrap();
            assert_eq!((found.misses.config, found.period), (0x20d1, PERIOD));
            found.outstanding.config
        };
        // Skylake and Cascade Lake, Ice Lake, Sapphire Rapids.
        assert_eq!(outstanding(85), 0x0200_02a3);
        assert_eq!(outstanding(106), 0x0100_1060);
        assert_eq!(outstanding(143), 0x0100_1020);
        let none = |text: &str| Addresses::of_processor(text).unwrap_err();
        assert!(none(&info("AuthenticAMD", 25, 1)).contains("no event of this processor"));
        assert!(none(&info("GenuineIntel", 6, 1)).contains("no events are known"));
        assert!(none("").contains("no events are known"));
    }

    #[test]
    fn events_are_chosen_by_name_or_number() {
        let addresses = |text: &str| match text.parse() {
            Ok(Events::Addresses(found)) => found,
            other => panic!("{text}: {other:?}"),
        };
        let found = addresses("r20d1:5003,r20002a3");
        assert_eq!((found.misses.config, found.period), (0x20d1, 5003));
        assert_eq!(found.misses().sample_period, 5003);
        assert!(!found.is_in_nanoseconds());
        let found = addresses("page-faults,task-clock");
        assert_eq!(found.period, 1);
        assert!(found.is_in_nanoseconds());
        match "cache-misses".parse() {
            Ok(Events::Lines(found)) => assert_eq!((found.kind, found.config), (0, 3)),
            other => panic!("{other:?}"),
        }
        for wrong in [
            "",
            "task-clock",
            "r20d1,",
            "r20d1:0,r2",
            "r20d1:x,r2",
            "page-faults,page-faults",
            "task-clock,page-faults",
            "20d1,20002a3",
            "rxyz,r1",
        ] {
            let why = wrong.parse::<Events>().unwrap_err();
            assert!(why.contains("allowed: auto"), "{wrong}: {why}");
        }
    }
}
