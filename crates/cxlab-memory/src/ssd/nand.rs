//! The flash: channels, dies and the three phases of a command.
//!
//! A command first occupies its channel for the command, the address and, for a program, the data.
//! Then it occupies the array of its die, and, for a read, the channel again for the data. A die
//! executes one command at a time, on several of its planes if their addresses allow. A read may
//! suspend the array. A channel serves reads before programs, each in order of arrival; at most
//! `read_streak` reads pass a waiting program. Left out: cache reads and programs, copy-back,
//! status polling, read retry.

use std::collections::VecDeque;

use cxlab_engine::list::NONE;
use cxlab_engine::save_state;
use cxlab_engine::slab::Slab;
use serde::{Deserialize, Serialize};

use super::events::{DriveEvent, EventQueue};
use super::geometry::DriveGeometry;
use super::params::{MultiPlane, SsdParams, Suspend};
use super::presets::FlashDie;

/// The array operation of a command.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum ArrayOperation {
    Read,
    Program,
    Erase,
}

/// The purpose of a command, which is also the index of its queue.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum CommandPurpose {
    /// A read for a request, for a translation page, or for the old data of a short write.
    Read,
    /// A program from the write buffer.
    Program,
    /// A read for collection.
    CollectRead,
    CollectProgram,
    CollectErase,
}

const CLASSES: usize = 5;
const CALM: [CommandPurpose; CLASSES] = [
    CommandPurpose::Read,
    CommandPurpose::Program,
    CommandPurpose::CollectErase,
    CommandPurpose::CollectProgram,
    CommandPurpose::CollectRead,
];
const URGENT: [CommandPurpose; CLASSES] = [
    CommandPurpose::CollectErase,
    CommandPurpose::CollectProgram,
    CommandPurpose::CollectRead,
    CommandPurpose::Read,
    CommandPurpose::Program,
];

/// A command for one plane.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(super) struct FlashCommand {
    pub command: ArrayOperation,
    pub class: CommandPurpose,
    pub suspends: u8,
    /// The first place of the page, or of the block.
    pub place: u32,
    pub plane: u32,
    /// Number of the page in its block.
    pub page: u32,
    /// Mask of the sub-pages that are transferred, or that hold data.
    pub mask: u32,
    /// The head of the owner's list of reads and requests that wait for this command.
    pub waiters: u32,
    /// Whether the block counts this command among its readers.
    pub counted: bool,
    next: u32,
}

impl FlashCommand {
    pub fn new(class: CommandPurpose, place: u32, mask: u32) -> FlashCommand {
        FlashCommand {
            command: match class {
                CommandPurpose::Read | CommandPurpose::CollectRead => ArrayOperation::Read,
                CommandPurpose::Program | CommandPurpose::CollectProgram => ArrayOperation::Program,
                CommandPurpose::CollectErase => ArrayOperation::Erase,
            },
            class,
            suspends: 0,
            place,
            plane: 0,
            page: 0,
            mask,
            waiters: NONE,
            counted: false,
            next: NONE,
        }
    }
}

/// A FIFO queue, linked through [`FlashCommand::next`].
#[derive(Clone, Copy, Serialize, Deserialize)]
struct CommandQueue {
    head: u32,
    tail: u32,
}

const EMPTY: CommandQueue = CommandQueue {
    head: NONE,
    tail: NONE,
};

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
enum DiePhase {
    Idle,
    /// The die waits for its channel, to get a command.
    Command,
    /// The array works between these two times.
    Array(u64, u64),
    /// The die has data, and waits for its channel or is transferring.
    Data,
    Suspending,
}

#[derive(Serialize, Deserialize)]
struct Die {
    phase: DiePhase,
    /// Incremented to cancel an announced event.
    turn: u32,
    /// Whether the die waits for [`Nand::settle`].
    touched: bool,
    queues: [CommandQueue; CLASSES],
    /// The current command, or list of commands on several planes.
    active: u32,
    /// The suspended command, and the time for which the array must still work on it.
    suspended: u32,
    remaining: u64,
    /// Number of the die's planes with urgent collection.
    urgent: u32,
    /// Reads served in a row while a program waited.
    streak: u32,
    busy_since: u64,
    busy: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct FlashChannel {
    free_at: u64,
    woken: bool,
    reads: VecDeque<u32>,
    programs: VecDeque<u32>,
    streak: u32,
    busy: u64,
}

/// The counters of the flash.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub(super) struct NandStats {
    pub reads: u64,
    pub programs: u64,
    pub erases: u64,
    pub multi_plane: u64,
    pub suspends: u64,
}

pub(super) struct Nand {
    pub ops: Slab<FlashCommand>,
    dies: Vec<Die>,
    channels: Vec<FlashChannel>,
    touched: Vec<u32>,
    /// Finished commands that the owner has not handled yet.
    pub finished: Vec<u32>,
    pub stats: NandStats,
    params: SsdParams,
    /// The timing of `params`.
    cells: FlashDie,
    /// Transfer time on the channel, by number of sub-pages.
    transfer: Vec<u64>,
    planes_per_die: u32,
    dies_per_channel: u32,
}

save_state!(Nand {
    values: ops, touched, finished, stats;
    sized: dies, channels;
    built: params, cells, transfer, planes_per_die, dies_per_channel;
});

impl Nand {
    pub fn new(params: &SsdParams, geometry: &DriveGeometry) -> Nand {
        let cells = params.cells();
        let bytes = |subs: u32| super::Bytes(u64::from(subs) * geometry.sub_bytes);
        let die = || Die {
            phase: DiePhase::Idle,
            turn: 0,
            touched: false,
            queues: [EMPTY; CLASSES],
            active: NONE,
            suspended: NONE,
            remaining: 0,
            urgent: 0,
            streak: 0,
            busy_since: 0,
            busy: 0,
        };
        let channel = |_| FlashChannel::default();
        let transfer = |subs| cells.rate.time_for(bytes(subs)).0;
        Nand {
            ops: Slab::default(),
            dies: (0..geometry.dies).map(|_| die()).collect(),
            channels: (0..geometry.channels).map(channel).collect(),
            touched: Vec::new(),
            finished: Vec::new(),
            stats: NandStats::default(),
            transfer: (0..=geometry.subs).map(transfer).collect(),
            params: params.clone(),
            cells,
            planes_per_die: geometry.planes_per_die,
            dies_per_channel: geometry.dies_per_channel,
        }
    }

    /// Queues a command for its die. [`Nand::settle`] starts it, when all commands of this time
    /// have been submitted.
    pub fn submit(&mut self, mut op: FlashCommand, plane: u32, page: u32) -> u32 {
        op.plane = plane;
        op.page = page;
        let id = self.ops.insert(op);
        let number = plane / self.planes_per_die;
        self.append(number, id);
        self.touch(number);
        id
    }

    fn touch(&mut self, number: u32) {
        let die = &mut self.dies[number as usize];
        if !die.touched {
            die.touched = true;
            self.touched.push(number);
        }
    }

    /// Starts queued commands on idle dies, and suspends arrays for reads if allowed.
    pub fn settle(&mut self, now: u64, events: &mut EventQueue) {
        while let Some(number) = self.touched.pop() {
            let die = &mut self.dies[number as usize];
            die.touched = false;
            let (phase, turn) = (die.phase, die.turn);
            let reads = die.queues[CommandPurpose::Read as usize].head != NONE;
            match phase {
                DiePhase::Idle => self.dispatch(now, number, events),
                DiePhase::Array(begin, _) if reads && now >= begin => {
                    self.try_suspend(now, number, events);
                }
                DiePhase::Array(begin, _) if reads && self.may_suspend(number) => {
                    events.push(begin, DriveEvent::Begun(number, turn));
                }
                _ => {}
            }
        }
    }

    /// A read of the page that has not started, so that another sub-page can join it.
    #[inline]
    pub fn waiting_read(&self, plane: u32, place: u32) -> Option<u32> {
        let die = &self.dies[(plane / self.planes_per_die) as usize];
        let mut at = die.queues[CommandPurpose::Read as usize].head;
        while at != NONE {
            let op = &self.ops[at];
            if op.place == place {
                return Some(at);
            }
            at = op.next;
        }
        None
    }

    /// Frees a finished command.
    #[inline]
    pub fn release(&mut self, id: u32) {
        self.ops.release(id);
    }

    /// Sets whether a plane's collection has priority over requests; called on changes only.
    pub fn set_urgent(&mut self, plane: u32, urgent: bool) {
        let die = &mut self.dies[(plane / self.planes_per_die) as usize];
        die.urgent = die.urgent + u32::from(urgent) - u32::from(!urgent);
    }

    fn append(&mut self, die: u32, id: u32) {
        let class = self.ops[id].class as usize;
        let queue = &mut self.dies[die as usize].queues[class];
        if queue.tail == NONE {
            queue.head = id;
        } else {
            self.ops[queue.tail].next = id;
        }
        queue.tail = id;
    }

    /// Removes a command from a queue, given its predecessor.
    fn unlink(&mut self, die: u32, class: usize, before: u32, id: u32) {
        let next = std::mem::replace(&mut self.ops[id].next, NONE);
        let queue = &mut self.dies[die as usize].queues[class];
        if before == NONE {
            queue.head = next;
        } else {
            self.ops[before].next = next;
        }
        if queue.tail == id {
            queue.tail = before;
        }
    }

    /// The queue that an idle die serves next.
    fn choose(&mut self, number: u32) -> Option<usize> {
        let die = &mut self.dies[number as usize];
        let order = if die.urgent > 0 { URGENT } else { CALM };
        let waits = |class: CommandPurpose| die.queues[class as usize].head != NONE;
        let first = order.into_iter().find(|class| waits(*class))?;
        if first != CommandPurpose::Read {
            die.streak = 0;
            return Some(first as usize);
        }
        if !waits(CommandPurpose::Program) {
            die.streak = 0;
        } else if die.streak == self.params.commands.read_streak {
            die.streak = 0;
            return Some(CommandPurpose::Program as usize);
        } else {
            die.streak += 1;
        }
        Some(first as usize)
    }

    /// Starts the next command of an idle die.
    fn dispatch(&mut self, now: u64, number: u32, events: &mut EventQueue) {
        let die = &self.dies[number as usize];
        let reads = die.queues[CommandPurpose::Read as usize].head != NONE;
        let class = if die.suspended == NONE {
            self.choose(number)
        } else if reads && die.streak < self.params.commands.read_streak {
            self.dies[number as usize].streak += 1;
            Some(CommandPurpose::Read as usize)
        } else {
            self.resume(now, number, events);
            return;
        };
        let Some(class) = class else { return };
        let id = self.dies[number as usize].queues[class].head;
        self.unlink(number, class, NONE, id);
        if self.planes_per_die > 1 && self.params.commands.multi_plane != MultiPlane::Off {
            self.gather(number, class, id);
        }
        let die = &mut self.dies[number as usize];
        die.active = id;
        die.phase = DiePhase::Command;
        die.busy_since = now;
        self.want_channel(now, number, events);
    }

    /// Adds queued commands for other planes that can be executed together with the first. Commands
    /// of one plane keep their order, because the pages of a block are programmed in order.
    fn gather(&mut self, number: u32, class: usize, first: u32) {
        let head = self.ops[first];
        let mut planes = 1u32 << (head.plane % self.planes_per_die);
        let all = (1u32 << self.planes_per_die) - 1;
        let (mut last, mut before) = (first, NONE);
        let mut at = self.dies[number as usize].queues[class].head;
        while at != NONE && planes != all {
            let op = self.ops[at];
            let plane = 1 << (op.plane % self.planes_per_die);
            let fits = head.command == ArrayOperation::Erase
                || self.params.commands.multi_plane == MultiPlane::Independent
                || op.page == head.page;
            if planes & plane == 0 && fits {
                self.unlink(number, class, before, at);
                self.ops[last].next = at;
                last = at;
                self.stats.multi_plane += 1;
            } else {
                before = at;
            }
            planes |= plane;
            at = op.next;
        }
    }

    fn want_channel(&mut self, now: u64, number: u32, events: &mut EventQueue) {
        let index = number / self.dies_per_channel;
        let channel = &mut self.channels[index as usize];
        if channel.free_at <= now && channel.reads.is_empty() && channel.programs.is_empty() {
            self.grant(now, number, events);
            return;
        }
        let die = &self.dies[number as usize];
        match self.ops[die.active].command {
            ArrayOperation::Program => channel.programs.push_back(number),
            _ => channel.reads.push_back(number),
        }
        if !channel.woken {
            channel.woken = true;
            events.push(channel.free_at.max(now), DriveEvent::Bus(index));
        }
    }

    /// Handles a channel that has become free.
    pub fn bus(&mut self, now: u64, index: u32, events: &mut EventQueue) {
        let channel = &mut self.channels[index as usize];
        let turn =
            channel.streak == self.params.commands.read_streak && !channel.programs.is_empty();
        let next = if channel.reads.is_empty() || turn {
            channel.streak = 0;
            channel.programs.pop_front()
        } else {
            channel.streak = match channel.programs.is_empty() {
                true => 0,
                false => channel.streak + 1,
            };
            channel.reads.pop_front()
        };
        if let Some(die) = next {
            self.grant(now, die, events);
        }
        let channel = &mut self.channels[index as usize];
        channel.woken = !(channel.reads.is_empty() && channel.programs.is_empty());
        if channel.woken {
            events.push(channel.free_at, DriveEvent::Bus(index));
        }
    }

    /// Grants the channel to a die.
    fn grant(&mut self, now: u64, number: u32, events: &mut EventQueue) {
        let die = &mut self.dies[number as usize];
        let head = self.ops[die.active];
        let channel = &mut self.channels[(number / self.dies_per_channel) as usize];
        if die.phase == DiePhase::Data {
            channel.free_at = now + self.transfer[head.mask.count_ones() as usize];
            channel.busy += channel.free_at - now;
            events.push(channel.free_at, DriveEvent::Data(number));
            return;
        }
        let (mut bus, mut array, mut at) = (0, 0, die.active);
        while at != NONE {
            let op = &self.ops[at];
            let level = op.page as usize % self.cells.read.len();
            bus += self.params.commands.command_time.0;
            let (count, time) = match op.command {
                ArrayOperation::Read => (&mut self.stats.reads, self.cells.read[level]),
                ArrayOperation::Program => {
                    bus += self.transfer[self.transfer.len() - 1];
                    (&mut self.stats.programs, self.cells.program[level])
                }
                ArrayOperation::Erase => (&mut self.stats.erases, self.cells.erase),
            };
            *count += 1;
            array = array.max(time.0);
            at = op.next;
        }
        channel.free_at = now + bus;
        channel.busy += bus;
        let begin = now + bus;
        die.phase = DiePhase::Array(begin, begin + array);
        events.push(begin + array, DriveEvent::Array(number, die.turn));
        let turn = die.turn;
        let reads = die.queues[CommandPurpose::Read as usize].head != NONE;
        if reads && head.command != ArrayOperation::Read && self.may_suspend(number) {
            events.push(begin, DriveEvent::Begun(number, turn));
        }
    }

    fn may_suspend(&self, number: u32) -> bool {
        let die = &self.dies[number as usize];
        if die.active == NONE || die.suspended != NONE || die.urgent > 0 {
            return false;
        }
        let op = &self.ops[die.active];
        let allowed = match op.command {
            ArrayOperation::Read => false,
            ArrayOperation::Program => self.params.commands.suspend == Suspend::ProgramAndErase,
            ArrayOperation::Erase => self.params.commands.suspend != Suspend::Never,
        };
        allowed && op.suspends < self.params.commands.suspend_limit
    }

    fn overhead(&self, op: u32) -> u64 {
        match self.ops[op].command {
            ArrayOperation::Erase => self.cells.suspend_erase.0,
            ArrayOperation::Read | ArrayOperation::Program => self.cells.suspend_program.0,
        }
    }

    fn try_suspend(&mut self, now: u64, number: u32, events: &mut EventQueue) {
        let DiePhase::Array(begin, end) = self.dies[number as usize].phase else {
            return;
        };
        if now < begin || now >= end || !self.may_suspend(number) {
            return;
        }
        let active = self.dies[number as usize].active;
        let overhead = self.overhead(active);
        if end - now <= overhead {
            return;
        }
        self.ops[active].suspends += 1;
        self.stats.suspends += 1;
        let die = &mut self.dies[number as usize];
        die.turn = die.turn.wrapping_add(1);
        die.suspended = std::mem::replace(&mut die.active, NONE);
        die.streak = 0;
        die.remaining = end - now;
        die.phase = DiePhase::Suspending;
        die.busy += now - die.busy_since;
        events.push(now + overhead, DriveEvent::Suspended(number));
    }

    fn resume(&mut self, now: u64, number: u32, events: &mut EventQueue) {
        let overhead = self.overhead(self.dies[number as usize].suspended);
        let die = &mut self.dies[number as usize];
        die.active = std::mem::replace(&mut die.suspended, NONE);
        die.streak = 0;
        die.busy_since = now;
        let end = now + overhead + die.remaining;
        die.phase = DiePhase::Array(now + overhead, end);
        events.push(end, DriveEvent::Array(number, die.turn));
    }

    /// Handles the start of an array operation while reads wait.
    pub fn begun(&mut self, now: u64, number: u32, turn: u32, events: &mut EventQueue) {
        let die = &self.dies[number as usize];
        if die.turn == turn && die.queues[CommandPurpose::Read as usize].head != NONE {
            self.try_suspend(now, number, events);
        }
    }

    /// Handles the end of a suspend: the die is ready for reads.
    pub fn suspended(&mut self, number: u32) {
        self.dies[number as usize].phase = DiePhase::Idle;
        self.touch(number);
    }

    /// Handles the end of an array operation: reads go on to their channel, other
    /// commands are finished.
    pub fn array(&mut self, now: u64, number: u32, turn: u32, events: &mut EventQueue) {
        let die = &mut self.dies[number as usize];
        if die.turn != turn {
            return;
        }
        die.turn = die.turn.wrapping_add(1);
        if self.ops[die.active].command == ArrayOperation::Read {
            die.phase = DiePhase::Data;
            self.want_channel(now, number, events);
            return;
        }
        let mut at = std::mem::replace(&mut die.active, NONE);
        die.phase = DiePhase::Idle;
        die.busy += now - die.busy_since;
        while at != NONE {
            let next = std::mem::replace(&mut self.ops[at].next, NONE);
            self.finished.push(at);
            at = next;
        }
        self.touch(number);
    }

    /// Handles the end of a data transfer from a die.
    pub fn data(&mut self, now: u64, number: u32, events: &mut EventQueue) {
        let die = &mut self.dies[number as usize];
        let id = die.active;
        self.finished.push(id);
        die.active = std::mem::replace(&mut self.ops[id].next, NONE);
        if die.active == NONE {
            die.phase = DiePhase::Idle;
            die.busy += now - die.busy_since;
            self.touch(number);
        } else {
            self.want_channel(now, number, events);
        }
    }

    /// Returns all unfinished commands; dies and channels are idle afterwards.
    pub fn power_fail(&mut self, now: u64) -> Vec<u32> {
        let mut lost = Vec::new();
        for die in &mut self.dies {
            let heads = die.queues.map(|queue| queue.head);
            for head in heads.into_iter().chain([die.active, die.suspended]) {
                let mut at = head;
                while at != NONE {
                    lost.push(at);
                    at = std::mem::replace(&mut self.ops[at].next, NONE);
                }
            }
            if die.phase != DiePhase::Idle && die.phase != DiePhase::Suspending {
                die.busy += now - die.busy_since;
            }
            die.phase = DiePhase::Idle;
            die.touched = false;
            die.turn = die.turn.wrapping_add(1);
            die.queues = [EMPTY; CLASSES];
            die.active = NONE;
            die.suspended = NONE;
            die.urgent = 0;
        }
        for channel in &mut self.channels {
            channel.free_at = channel.free_at.min(now);
            channel.woken = false;
            channel.reads.clear();
            channel.programs.clear();
        }
        self.touched.clear();
        lost
    }

    /// Discards all commands.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.finished.clear();
    }

    pub fn begin_measurement(&mut self, now: u64) {
        self.stats = NandStats::default();
        for die in &mut self.dies {
            die.busy = 0;
            die.busy_since = now;
        }
        for channel in &mut self.channels {
            channel.busy = 0;
        }
    }

    /// Fraction of `span` for which dies and channels were busy, on average.
    pub fn utilization(&self, span: u64) -> (f64, f64) {
        let share = |busy: u64, number: usize| {
            let all = span as f64 * number as f64;
            if all > 0.0 { busy as f64 / all } else { 0.0 }
        };
        let dies = self.dies.iter().map(|die| die.busy).sum();
        let channels = self.channels.iter().map(|channel| channel.busy).sum();
        let dies = share(dies, self.dies.len());
        (dies, share(channels, self.channels.len()))
    }
}
