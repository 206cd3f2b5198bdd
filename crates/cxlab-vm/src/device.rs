//! An accelerator in a guest: the registers of its PCI function, and commands in the guest's memory.
//!
//! A program submits a command: it stores the physical address of the command's page, then rings the doorbell. The
//! command names a compiled module, a function with its arguments and NDRange, and the pages that the function may
//! access, each with its virtual and its physical address. Pointers are those of the program.
//!
//! **When.** The [`Executor`] simulates the whole command when the doorbell rings, on the bytes that memory has then,
//! and says how long it takes. Until then the device is busy. What has changed is written to the guest's memory, and
//! taken from the caches of its processors, before a load of [`register::DONE`] first says that the command is
//! complete. So memory is coherent at the borders of commands. Words that the program stores meanwhile are
//! kept unless the command has changed them too; those are counted ([`Counts::races`]).
//!
//! Left out: interrupts; requests of processors and accelerator that meet in links or memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use crate::ring::{Access, Extent, ModelWords, Operation, REGISTER_BYTES};

/// Offsets of registers of eight bytes.
pub mod register {
    /// Identity of the device: [`super::IDENTITY`].
    pub const IDENTITY: u64 = 0x00;
    /// Number of processing elements.
    pub const ELEMENTS: u64 = 0x08;
    /// Physical address of the next command's page.
    pub const COMMAND: u64 = 0x10;
    /// A store to this register submits the command.
    pub const DOORBELL: u64 = crate::ring::DOORBELL;
    /// Number of commands that are complete.
    pub const DONE: u64 = 0x20;
    /// Number of commands that failed.
    pub const FAILED: u64 = 0x28;
    /// Simulated time of the last complete command, in picoseconds.
    pub const TIME: u64 = 0x30;
    /// Error message of the last failed command, in UTF-8, padded with zeros to the end of the registers.
    pub const MESSAGE: u64 = 0x800;
}

/// The bytes "cxlabacc".
pub const IDENTITY: u64 = u64::from_le_bytes(*b"cxlabacc");
/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Most arguments of a function.
const MOST_ARGUMENTS: usize = 16;
/// Bytes of a function's name.
const NAME: usize = 64;
/// Pages of a table's page.
const PER_TABLE: usize = PAGE / 16;
/// Words of a command before the addresses of its tables.
const TABLES: usize = 40;
/// Most pages of the tables of a command.
const MOST_TABLES: usize = PAGE / 8 - TABLES;
/// Most work-items of a command, and of a group.
const MOST_ITEMS: u64 = 1 << 32;
const MOST_IN_GROUP: u64 = 256;
/// Most commands that the program does not know to be complete.
const MOST_RUNNING: usize = 256;
/// Largest module, in bytes.
const MOST_MODULE: u64 = 64 << 20;

/// The physical memory of a guest.
pub trait Physical: Send {
    /// Extents of the memory. Empty until the guest has begun.
    fn extents(&self) -> Vec<Extent>;
    /// Reads bytes by their addresses in QEMU.
    ///
    /// # Errors
    /// The system's error.
    fn read(&self, memory: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes bytes by their addresses in QEMU.
    ///
    /// # Errors
    /// The system's error.
    fn write(&self, memory: u64, bytes: &[u8]) -> io::Result<()>;
}

/// A page that a command may access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Virtual address in the program.
    pub address: u64,
    /// Address of the page's first line in records.
    pub place: u64,
    /// The page's bytes.
    pub data: Vec<u8>,
}

/// A command: a function over an NDRange.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Launch {
    /// The module, in WebAssembly's binary format.
    pub module: Vec<u8>,
    /// Name of the function.
    pub function: String,
    /// Its arguments as words.
    pub arguments: Vec<u64>,
    /// Number of dimensions, 1 to 3.
    pub dimensions: u32,
    /// Work-items in each dimension.
    pub global: [u64; 3],
    /// Work-items of a group in each dimension.
    pub local: [u64; 3],
    /// Offset of the global numbers.
    pub offset: [u64; 3],
    /// The pages, by ascending virtual addresses.
    pub pages: Vec<Page>,
    /// Lines of the pages that the processor's caches hold, by address in records; true for modified ones.
    pub cached: Vec<(u64, bool)>,
}

/// Result of a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommandResult {
    /// Time from the doorbell's store to the end of the last processing element, in picoseconds.
    pub time_ps: u64,
    /// The bytes of the pages afterwards, in the order of [`Launch::pages`].
    pub pages: Vec<Vec<u8>>,
    /// The device's counters, by name.
    pub counts: Vec<(String, u64)>,
}

/// Simulator of commands.
pub trait Executor: Send {
    /// Number of processing elements.
    fn elements(&self) -> u64;
    /// Time of a load of a register, in picoseconds: of the request, and of the round trip.
    fn register_ps(&self) -> (u64, u64);
    /// Simulates a command.
    ///
    /// # Errors
    /// The message for the program, if the device cannot execute the command.
    fn execute(&mut self, launch: Launch) -> Result<CommandResult, String>;
}

/// Counters of an accelerator.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Number of commands.
    pub commands: u64,
    /// Number of failed commands.
    pub failed: u64,
    /// Time of the commands, in picoseconds.
    pub busy_ps: u64,
    /// Number of work-items.
    pub items: u64,
    /// Number of lines that commands changed.
    pub lines: u64,
    /// Number of words that a command and the program changed at once. The command's value stands.
    pub races: u64,
    /// Sums of the device's counters over all commands, by name.
    pub sums: Vec<(String, u64)>,
}

impl Counts {
    /// Counts since `before`.
    pub fn since(&self, before: &Counts) -> Counts {
        let earlier = |name: &str| {
            let found = before.sums.iter().find(|(known, _)| known == name);
            found.map_or(0, |(_, sum)| *sum)
        };
        let sums = self.sums.iter();
        let sums = sums.map(|(name, sum)| (name.clone(), sum - earlier(name)));
        Counts {
            commands: self.commands - before.commands,
            failed: self.failed - before.failed,
            busy_ps: self.busy_ps - before.busy_ps,
            items: self.items - before.items,
            lines: self.lines - before.lines,
            races: self.races - before.races,
            sums: sums.collect(),
        }
    }
}

/// A page that a command changes.
struct Change {
    /// Address of the page's first line in records.
    place: u64,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// A command that is complete at a time.
struct Finished {
    at_ps: u64,
    time_ps: u64,
    /// Pages that the command changes, or its error message.
    changes: Result<Vec<Change>, String>,
}

/// An accelerator of a guest.
pub struct Device<'a> {
    shared: ModelWords<'a>,
    memory: Box<dyn Physical + 'a>,
    executor: Box<dyn Executor + 'a>,
    /// Address of the next command.
    command: u64,
    /// Commands that are not known to be complete, the oldest first.
    running: VecDeque<Finished>,
    done: u64,
    time_ps: u64,
    message: Vec<u8>,
    /// Time at which the last command ends.
    busy_until: u64,
    counts: Counts,
}

impl<'a> Device<'a> {
    /// An idle device.
    pub fn new(
        shared: ModelWords<'a>,
        memory: Box<dyn Physical + 'a>,
        executor: Box<dyn Executor + 'a>,
    ) -> Device<'a> {
        Device {
            shared,
            memory,
            executor,
            command: 0,
            running: VecDeque::new(),
            done: 0,
            time_ps: 0,
            message: Vec::new(),
            busy_until: 0,
            counts: Counts::default(),
        }
    }

    /// Counters of the accelerator so far.
    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// Performs an access to a register at a time. Returns the value of a load, and the time at which the processor continues.
    pub fn access(&mut self, now_ps: u64, offset: u64, access: Access) -> (Option<u64>, u64) {
        let (there, both) = self.executor.register_ps();
        match access.operation {
            Operation::Store => {
                let whole = access.bytes == 8 && offset.is_multiple_of(8);
                match offset {
                    register::COMMAND if whole => self.command = access.value,
                    register::DOORBELL if whole => self.submit(now_ps),
                    _ => {}
                }
                // The store is posted.
                (None, now_ps)
            }
            _ => {
                let value = self.load(now_ps + there, offset, access.bytes);
                (Some(value), now_ps + both)
            }
        }
    }

    fn load(&mut self, at_ps: u64, offset: u64, bytes: usize) -> u64 {
        if offset >= register::MESSAGE {
            let from = (offset - register::MESSAGE) as usize;
            let letters = self.message.iter().skip(from).take(bytes).enumerate();
            return letters.fold(0, |word, (at, letter)| {
                word | u64::from(*letter) << (8 * at)
            });
        }
        if offset & !7 == register::DONE {
            self.complete(at_ps);
        }
        let word = match offset & !7 {
            register::IDENTITY => IDENTITY,
            register::ELEMENTS => self.executor.elements(),
            register::COMMAND => self.command,
            register::DONE => self.done,
            register::FAILED => self.counts.failed,
            register::TIME => self.time_ps,
            _ => 0,
        };
        let word = word >> (8 * (offset % 8));
        match bytes {
            8.. => word,
            less => word & ((1 << (8 * less)) - 1),
        }
    }

    /// Simulates the command whose page the register names.
    fn submit(&mut self, now_ps: u64) {
        self.counts.commands += 1;
        if self.running.len() == MOST_RUNNING {
            return self.fail(format!(
                "found more than {MOST_RUNNING} commands that were not waited for; allowed: {MOST_RUNNING}"
            ));
        }
        let (time_ps, changes) = match self.carry_out() {
            Ok((time_ps, changes)) => (time_ps, Ok(changes)),
            Err(error) => (self.executor.register_ps().0, Err(error)),
        };
        // Commands are executed one after the other.
        self.busy_until = now_ps.max(self.busy_until) + time_ps;
        self.running.push_back(Finished {
            at_ps: self.busy_until,
            time_ps,
            changes,
        });
    }

    /// Simulates the command. Returns its time in picoseconds and the pages that it changes.
    fn carry_out(&mut self) -> Result<(u64, Vec<Change>), String> {
        let extents = self.memory.extents();
        let reader = Reader {
            memory: &*self.memory,
            extents: &extents,
        };
        let mut launch = reader.launch(self.command, &self.running)?;
        let held = self.shared.listed();
        let pages: BTreeSet<u64> = launch.pages.iter().map(|page| page.place).collect();
        let mut cached = BTreeMap::new();
        for (line, changed) in held {
            if pages.contains(&(line & !(PAGE as u64 - 1))) {
                *cached.entry(line).or_insert(false) |= changed;
            }
        }
        launch.cached = cached.into_iter().collect();
        let before: Vec<(u64, Vec<u8>)> = (launch.pages.iter())
            .map(|page| (page.place, page.data.clone()))
            .collect();
        self.counts.items += launch.global.iter().product::<u64>();
        let done = self.executor.execute(launch)?;
        self.counts.busy_ps += done.time_ps;
        for (name, value) in done.counts {
            let sums = &mut self.counts.sums;
            match sums.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += value,
                None => sums.push((name, value)),
            }
        }
        let pages = before.into_iter().zip(done.pages);
        let changes = pages.map(|((place, before), after)| Change {
            place,
            before,
            after,
        });
        let changes = changes.filter(|one| one.before != one.after);
        Ok((done.time_ps, changes.collect()))
    }

    /// Makes all commands visible that are complete at a time.
    fn complete(&mut self, at_ps: u64) {
        let mut lines = Vec::new();
        while let Some(first) = self.running.front()
            && first.at_ps <= at_ps
            && let Some(first) = self.running.pop_front()
        {
            self.finish(first, &mut lines);
        }
        self.counts.lines += lines.len() as u64;
        self.shared.take(&lines);
    }

    /// Makes a complete command visible, and adds the lines that it has changed.
    fn finish(&mut self, finished: Finished, lines: &mut Vec<u64>) {
        self.done += 1;
        self.time_ps = finished.time_ps;
        let extents = self.memory.extents();
        let failed = match &finished.changes {
            Err(error) => Some(error.clone()),
            Ok(changes) => changes.iter().fold(None, |failed, change| {
                failed.or(self.write(change, &extents, lines).err())
            }),
        };
        if let Some(error) = failed {
            self.fail(error);
        }
    }

    /// Counts a failed command, and writes its error message to the registers.
    fn fail(&mut self, error: String) {
        self.counts.failed += 1;
        self.message = error.into_bytes();
        let most = (REGISTER_BYTES - register::MESSAGE) as usize - 1;
        self.message.truncate(most);
    }

    /// Writes the bytes of a page that a command has changed, and adds their lines.
    fn write(
        &mut self,
        change: &Change,
        extents: &[Extent],
        lines: &mut Vec<u64>,
    ) -> Result<(), String> {
        let wrong = |error: io::Error| format!("the guest's memory: {error}");
        let mut extents = extents.iter();
        let extent = extents.find(|one| change.place.wrapping_sub(one.place) < one.bytes);
        let Some(extent) = extent else {
            return Err("the guest's memory: a page is no memory any more".to_owned());
        };
        let memory = extent.memory + (change.place - extent.place);
        let mut now = vec![0; change.before.len()];
        self.memory.read(memory, &mut now).map_err(wrong)?;
        let pieces = change.before.chunks(64).zip(change.after.chunks(64));
        for (at, ((old, new), now)) in (0..).step_by(64).zip(pieces.zip(now.chunks_mut(64))) {
            if old == new {
                continue;
            }
            for word in (0..old.len()).step_by(8).map(|word| word..word + 8) {
                let changed = |bytes: &[u8]| bytes[word.clone()] != old[word.clone()];
                self.counts.races += u64::from(changed(new) && changed(now));
            }
            merge(now, old, new);
            self.memory.write(memory + at, now).map_err(wrong)?;
            lines.push(change.place + at);
        }
        Ok(())
    }
}

/// Copies the bytes that a command has changed from `after` to `to`.
fn merge(to: &mut [u8], before: &[u8], after: &[u8]) {
    for (byte, (old, new)) in to.iter_mut().zip(before.iter().zip(after)) {
        if old != new {
            *byte = *new;
        }
    }
}

/// Reads commands from the guest's memory.
struct Reader<'a> {
    memory: &'a dyn Physical,
    extents: &'a [Extent],
}

impl Reader<'_> {
    /// The address in QEMU and in records of a page of the guest.
    fn page(&self, guest: u64) -> Result<(u64, u64), String> {
        let inside = |one: &&Extent| {
            let offset = guest.wrapping_sub(one.guest);
            offset < one.bytes && one.bytes - offset >= PAGE as u64
        };
        let extent = self.extents.iter().find(inside);
        let extent = extent.filter(|_| guest.is_multiple_of(PAGE as u64));
        let extent = extent.ok_or_else(|| {
            format!("found a page at physical address {guest:#x}; allowed: pages of memory")
        })?;
        let offset = guest - extent.guest;
        Ok((extent.memory + offset, extent.place + offset))
    }

    fn bytes(&self, guest: u64) -> Result<Vec<u8>, String> {
        let (memory, _) = self.page(guest)?;
        let mut bytes = vec![0; PAGE];
        let read = self.memory.read(memory, &mut bytes);
        read.map_err(|error| format!("the guest's memory cannot be read: {error}"))?;
        Ok(bytes)
    }

    fn words(&self, guest: u64) -> Result<Vec<u64>, String> {
        let bytes = self.bytes(guest)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().copied().map(u64::from_le_bytes).collect())
    }

    /// Reads the command at a physical address. Its pages include the changes of earlier commands.
    fn launch(&self, command: u64, earlier: &VecDeque<Finished>) -> Result<Launch, String> {
        let words = self.words(command)?;
        let version = words[0];
        if version != 1 {
            return Err(format!("found a command of version {version}; allowed: 1"));
        }
        let three = |at: usize| [words[at], words[at + 1], words[at + 2]];
        let within = |what: &str, found: u64, least: u64, most: u64| match found {
            found if (least..=most).contains(&found) => Ok(found),
            found => Err(format!("found {found} {what}; allowed: {least} to {most}")),
        };
        let arguments = within("arguments", words[13], 0, MOST_ARGUMENTS as u64)? as usize;
        let tables = within("pages of tables", words[31], 1, MOST_TABLES as u64)? as usize;
        let count = within("pages", words[30], 1, (tables * PER_TABLE) as u64)? as usize;
        let dimensions = within("dimensions", words[3], 1, 3)? as usize;
        let (mut global, mut local) = (three(4), three(7));
        for axis in 0..3 {
            if axis >= dimensions {
                (global[axis], local[axis]) = (1, 1);
            }
            let (items, group) = (global[axis], local[axis]);
            within("work-items in a dimension", items, 1, MOST_ITEMS)?;
            if group == 0 || items % group != 0 {
                return Err(format!(
                    "found {items} work-items in groups of {group}; allowed: whole groups"
                ));
            }
        }
        let all = |sizes: [u64; 3]| sizes.into_iter().fold(1, u64::saturating_mul);
        within("work-items", all(global), 1, MOST_ITEMS)?;
        within("work-items in a group", all(local), 1, MOST_IN_GROUP)?;
        let name: Vec<u8> = words[32..32 + NAME / 8]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .take_while(|letter| *letter != 0)
            .collect();
        let mut pages = Vec::new();
        for table in &words[TABLES..TABLES + tables] {
            for entry in self.words(*table)?.chunks_exact(2) {
                if pages.len() == count {
                    break;
                }
                let (address, physical) = (entry[0], entry[1]);
                let (_, place) = self.page(physical)?;
                pages.push(Page {
                    address,
                    place,
                    data: self.bytes(physical)?,
                });
            }
        }
        let ascend = pages.is_sorted_by(|one, next| one.address < next.address);
        let whole = |page: &Page| page.address.is_multiple_of(PAGE as u64);
        if !ascend || !pages.iter().all(whole) {
            return Err(
                "found pages out of order; allowed: each once, by ascending virtual \
                        addresses, multiples of 4 KiB"
                    .to_owned(),
            );
        }
        for change in earlier.iter().flat_map(|one| &one.changes).flatten() {
            let mut same = pages.iter_mut().filter(|page| page.place == change.place);
            if let Some(page) = same.next() {
                merge(&mut page.data, &change.before, &change.after);
            }
        }
        let bytes = within("bytes of module", words[2], 1, MOST_MODULE)?;
        Ok(Launch {
            module: module(&pages, words[1], bytes)?,
            function: String::from_utf8_lossy(&name).into_owned(),
            arguments: words[14..14 + arguments].to_vec(),
            dimensions: dimensions as u32,
            global,
            local,
            offset: three(10),
            pages,
            cached: Vec::new(),
        })
    }
}

/// The bytes of a module, which is in the pages.
fn module(pages: &[Page], address: u64, bytes: u64) -> Result<Vec<u8>, String> {
    let mut module = Vec::new();
    while (module.len() as u64) < bytes {
        let at = address.wrapping_add(module.len() as u64);
        let (page, offset) = (at & !(PAGE as u64 - 1), at as usize % PAGE);
        let found = pages.binary_search_by_key(&page, |one| one.address);
        let found = found.map_err(|_| {
            format!("found a module at {at:#x}, which is in none of the command's pages")
        })?;
        let rest = bytes as usize - module.len();
        let data = &pages[found].data[offset..];
        module.extend_from_slice(&data[..rest.min(data.len())]);
    }
    Ok(module)
}

#[cfg(test)]
mod tests;
