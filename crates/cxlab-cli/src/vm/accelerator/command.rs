//! A command as threads: the host's, which rings the doorbell, and those of the elements.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cxlab_engine::units::Hpa;
use cxlab_vm::device::{Launch, PAGE, Page};
use cxlab_vm::memory::GuestLineAddr as Line;
use cxlab_wasm::{BytePlace, Call, Program, Reach, RunningCall, StopReason, WorkItem};
use cxlab_workload::Image;
use cxlab_workload::thread::{
    Barrier, ExecutionPlace, Handle, SideBySide, Thread, ThreadContext, Window, side_by_side,
};

use super::Code;

/// The register that the host's thread stores to.
const DOORBELL: u32 = 0;
/// The register that starts the processing elements, once the first of them has loaded the command.
pub(super) const START: u32 = 1;
/// Bytes of a command that a processing element loads: all but the addresses of its tables.
const COMMAND: u64 = 320;
/// Most lines that the host's thread has in flight.
const MAX_LINES: usize = 32;
const PAGE_BYTES: u64 = PAGE as u64;

/// A command with its progress.
pub(super) struct Command {
    program: Program,
    launch: Launch,
    state: Mutex<State>,
}

/// Progress of a command.
#[derive(Default)]
struct State {
    /// Time of issue of the doorbell's store, and end of the last processing element.
    began: u64,
    ended: u64,
    fault: Option<String>,
    pages: Vec<Vec<u8>>,
}

/// A command that has ended.
pub(super) struct EndedCommand {
    pub(super) time_ps: u64,
    /// The pages' bytes, in the order of the launch.
    pub(super) pages: Vec<Vec<u8>>,
}

impl Command {
    /// A command whose function is known.
    ///
    /// # Errors
    /// A module that is refused, or a function that is not in it or has other parameters.
    pub(super) fn new(launch: Launch) -> Result<Command, String> {
        let program = Program::new(&launch.module)?;
        let own = program.private_bytes();
        let first = launch.pages.first().map_or(u64::MAX, |page| page.address);
        if first < own {
            return Err(format!(
                "found a page at {first:#x}; allowed: above the {own:#x} bytes of the module's own memory"
            ));
        }
        let (function, arguments) = (&launch.function, &launch.arguments);
        Call::new(&program, function, arguments, WorkItem::default())?;
        Ok(Command {
            program,
            launch,
            state: Mutex::default(),
        })
    }

    /// Removes and returns the result of the command.
    ///
    /// # Errors
    /// The first fault of the command, such as a trap of the function, or a barrier that not all work-items reach.
    pub(super) fn ended(&self) -> Result<EndedCommand, String> {
        let state = std::mem::take(&mut *self.lock());
        match state.fault {
            Some(fault) => Err(fault),
            None => Ok(EndedCommand {
                time_ps: state.ended.saturating_sub(state.began),
                pages: state.pages,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, fault: String) {
        self.lock().fault.get_or_insert(fault);
    }

    /// Addresses of the pages in the system, and of the command behind the pages of the host's own memory.
    fn places(&self, ctx: &ThreadContext) -> (Vec<u64>, u64) {
        let mut own = ctx.bases.local;
        let place = |first: Line| match first.is_cxl() {
            true => ctx.bases.cxl + first.address(),
            false => {
                own += PAGE_BYTES;
                own - PAGE_BYTES
            }
        };
        let pages = self.launch.pages.iter().map(first_line);
        (pages.map(place).collect(), own)
    }

    /// The host's thread.
    async fn host(self: Arc<Self>, t: Handle, places: Vec<u64>, command: u64) {
        let mut taken = Window::new(MAX_LINES);
        let pages = self.launch.pages.iter().zip(&places);
        let mut pages: Vec<_> = pages.map(|(page, at)| (page.place, at, page)).collect();
        pages.sort_unstable_by_key(|(place, ..)| *place);
        for (line, modified) in &self.launch.cached {
            let found = pages.partition_point(|(place, ..)| place <= line);
            let Some((place, at, page)) = found.checked_sub(1).map(|at| pages[at]) else {
                continue;
            };
            let offset = line - place;
            let bytes = page.data.get(offset as usize..);
            let Some(bytes) = bytes.and_then(|bytes| bytes.first_chunk()) else {
                continue;
            };
            let word = u64::from_le_bytes(*bytes);
            taken.room().await;
            taken.add(match modified {
                true => t.store(at + offset, word),
                false => t.load(at + offset),
            });
        }
        taken.drain().await;
        t.write_range(command, &[0; COMMAND as usize]).await;
        t.fence().await;
        let began = t.time().await;
        self.lock().began = began;
        t.mmio_write(0, DOORBELL, 1).await;
    }

    /// The thread of a processing element, which runs every `elements`-th work-group.
    async fn element(
        self: Arc<Self>,
        t: Handle,
        reach: CommandPageTable,
        (element, elements): (usize, usize),
        command: u64,
    ) {
        if element == 0 {
            t.mmio_await(0, DOORBELL, 0).await;
            t.read_range(command, COMMAND).await;
            t.mmio_write(0, START, 1).await;
        } else {
            t.mmio_await(0, START, 0).await;
        }
        let launch = &self.launch;
        let groups: Vec<u64> = (0..3)
            .map(|at| launch.global[at] / launch.local[at])
            .collect();
        let all = groups.iter().product::<u64>();
        for group in (element as u64..all).step_by(elements) {
            let group = [
                group % groups[0],
                group / groups[0] % groups[1],
                group / groups[0] / groups[1],
            ];
            if !self.group(&t, &reach, group).await {
                break;
            }
        }
        t.fence().await;
        let ended = t.time().await;
        let mut state = self.lock();
        state.ended = state.ended.max(ended);
    }

    /// Runs the work-items of a group. Returns false if one of them failed.
    async fn group(&self, t: &Handle, reach: &CommandPageTable, group: [u64; 3]) -> bool {
        let [x, y, z] = self.launch.local;
        let items = x * y * z;
        let barrier = Barrier::new(items as usize);
        let item = |item: u64| -> SideBySide<'_> {
            let local = [item % x, item / x % y, item / x / y];
            Box::pin(self.item(t, reach, group, local, &barrier))
        };
        let ended = side_by_side((0..items).map(item).collect(), &barrier).await;
        if let Err(what) = ended {
            self.fail(format!(
                "`{}`: found {} of {} work-items of a group at a barrier after the others have ended; \
                 allowed: a barrier that all of them reach",
                self.launch.function, what.waiting, what.of
            ));
        }
        self.lock().fault.is_none()
    }

    async fn item(
        &self,
        t: &Handle,
        reach: &CommandPageTable,
        group: [u64; 3],
        local: [u64; 3],
        barrier: &Barrier,
    ) {
        let launch = &self.launch;
        let global =
            |axis: usize| launch.offset[axis] + group[axis] * launch.local[axis] + local[axis];
        let item = WorkItem {
            dimensions: launch.dimensions,
            global_id: [global(0), global(1), global(2)],
            local_id: local,
            group_id: group,
            global_size: launch.global,
            local_size: launch.local,
            global_offset: launch.offset,
        };
        let call = Call::new(&self.program, &launch.function, &launch.arguments, item);
        let mut running = match call {
            Ok(call) => RunningCall::new(call),
            Err(fault) => return self.fail(fault),
        };
        loop {
            match running.run(t, reach).await {
                Ok(StopReason::Barrier) => barrier.wait().await,
                Ok(StopReason::Ended | StopReason::Missing(_)) => return,
                Err(fault) => return self.fail(fault),
            }
        }
    }
}

/// The first line of a page.
fn first_line(page: &Page) -> Line {
    Line::from_record(page.place, 0)
}

impl Code for Command {
    fn check(&self, ctx: &ThreadContext) -> Result<(), String> {
        let (places, command) = self.places(ctx);
        let own = command + PAGE_BYTES - ctx.bases.local;
        let reached = |end: u64| end - ctx.bases.cxl <= ctx.span.0;
        let pages = self.launch.pages.iter().zip(&places);
        let mut windows = pages.filter(|(page, _)| first_line(page).is_cxl());
        if own > ctx.local.0 || !windows.all(|(_, at)| reached(at + PAGE_BYTES)) {
            let fault = format!(
                "found {} pages, {} of them in the host's own memory; allowed: what the scenario's {} B \
                 of it and {} B of CXL memory hold",
                places.len(),
                own / PAGE_BYTES - 1,
                ctx.local.0,
                ctx.span.0
            );
            self.fail(fault.clone());
            return Err(fault);
        }
        Ok(())
    }

    fn prepare(&self, ctx: &ThreadContext, image: &Image) {
        let (places, command) = self.places(ctx);
        for (page, at) in self.launch.pages.iter().zip(places) {
            image.write_bytes(Hpa(at), &page.data);
        }
        image.write_bytes(Hpa(command), &[0; COMMAND as usize]);
    }

    fn threads(self: Arc<Self>, ctx: &ThreadContext, place: ExecutionPlace) -> Vec<Thread> {
        let (places, command) = self.places(ctx);
        match place {
            ExecutionPlace::Core { core: 0 } => {
                vec![Thread::new(|t| self.host(t, places, command))]
            }
            ExecutionPlace::Element {
                accelerator: 0,
                element,
            } => {
                let pages = self.launch.pages.iter().map(|page| page.address);
                let reach = CommandPageTable {
                    pages: pages.zip(places).collect(),
                };
                let number = (element, ctx.elements);
                vec![Thread::new(move |t| {
                    self.element(t, reach, number, command)
                })]
            }
            _ => Vec::new(),
        }
    }

    fn take(&self, ctx: &ThreadContext, image: &Image) {
        let (places, _) = self.places(ctx);
        let page = |at: u64| {
            let mut bytes = vec![0; PAGE];
            image.read_bytes(Hpa(at), &mut bytes);
            bytes
        };
        self.lock().pages = places.into_iter().map(page).collect();
    }
}

/// The page table of a command: virtual addresses in the program, ascending, and addresses in the system.
struct CommandPageTable {
    pages: Vec<(u64, u64)>,
}

impl Reach for CommandPageTable {
    type Error = String;

    fn place(&self, name: &str, addr: u64, bytes: u64) -> Result<BytePlace, String> {
        let page = addr & !(PAGE_BYTES - 1);
        let found = self.pages.binary_search_by_key(&page, |(page, _)| *page);
        let found = found.map_err(|_| {
            format!(
                "`{name}`: found {bytes} B at {addr:#x}; allowed: memory that the program has given to the device"
            )
        })?;
        let at = self.pages[found].1 + addr % PAGE_BYTES;
        // Pages that are consecutive in both address spaces.
        let follows = |two: &[(u64, u64)]| {
            two[1].0 - two[0].0 == PAGE_BYTES && two[1].1.wrapping_sub(two[0].1) == PAGE_BYTES
        };
        let mut count = PAGE_BYTES - addr % PAGE_BYTES;
        for two in self.pages[found..].windows(2) {
            if count >= bytes || !follows(two) {
                break;
            }
            count += PAGE_BYTES;
        }
        Ok(BytePlace::At(at, count.min(bytes)))
    }

    fn fault(&self, what: String) -> String {
        what
    }
}
