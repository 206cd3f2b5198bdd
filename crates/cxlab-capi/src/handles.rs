//! Systems by handle.
//!
//! A handle is the number of a slot and the generation of the slot's content. A slot's state is one atomic word:
//! the generation, and whether the slot is free, has a system, or has one that a thread uses. A call takes the
//! slot by a compare-and-exchange with the generation of its handle. So a handle of a system that was destroyed
//! never reaches another system, and two threads are never in the same system.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use ::cxlab_system::session::Session;
use serde_json::Value;

use crate::abi::*;
use crate::calls::out;
use crate::status::{Failure, guarded, internal};

/// A system, and what the interface keeps for it.
pub(crate) struct System {
    pub(crate) session: Session,
    pub(crate) callback: Callback,
    /// The report at the present time, while nothing has changed since it was made.
    pub(crate) report: Option<Value>,
    /// Whether a function has panicked with the system, or a state was restored in part.
    pub(crate) broken: bool,
}

/// The program's function for completed requests.
pub(crate) struct Callback {
    pub(crate) function: cxlab_callback,
    pub(crate) context: *mut c_void,
}

// SAFETY: the context is only passed to the program's function, which the header allows any thread to call.
unsafe impl Send for Callback {}

impl System {
    pub(crate) fn new(session: Session) -> System {
        System {
            session,
            callback: Callback {
                function: None,
                context: std::ptr::null_mut(),
            },
            report: None,
            broken: false,
        }
    }
}

const fn is_send<T: Send>() {}
const _: () = is_send::<System>();

struct Slot {
    /// The generation, above two bits: [`FREE`], [`IDLE`] or [`BUSY`].
    state: AtomicU64,
    system: UnsafeCell<Option<Box<System>>>,
}

const FREE: u64 = 0;
const IDLE: u64 = 1;
const BUSY: u64 = 2;

/// Bits of a handle with the number of its slot.
const NUMBER_BITS: u32 = CXLAB_MOST_SYSTEMS.ilog2();

// SAFETY: `system` is used only by the thread that has set the state to BUSY, and systems may be sent.
unsafe impl Sync for Slot {}

static SLOTS: [Slot; CXLAB_MOST_SYSTEMS as usize] = [const {
    Slot {
        state: AtomicU64::new(1 << 2 | FREE),
        system: UnsafeCell::new(None),
    }
}; CXLAB_MOST_SYSTEMS as usize];

/// A slot that this thread uses. It becomes idle again when the value is dropped.
struct Taken {
    slot: &'static Slot,
    generation: u64,
    /// What the slot becomes.
    after: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.slot.state.store(self.after, Ordering::Release);
    }
}

impl Taken {
    fn of(handle: cxlab_system) -> Result<Taken, Failure> {
        let slot = &SLOTS[(handle & ((1 << NUMBER_BITS) - 1)) as usize];
        let generation = handle >> NUMBER_BITS;
        let idle = generation << 2 | IDLE;
        let taken = generation << 2 | BUSY;
        let exchanged =
            (slot.state).compare_exchange(idle, taken, Ordering::Acquire, Ordering::Relaxed);
        match exchanged {
            Ok(_) => Ok(Taken {
                slot,
                generation,
                after: idle,
            }),
            Err(found) if found == taken => Err(Failure::fixed(
                CXLAB_ERROR_BUSY,
                c"system: found a system that another call uses; allowed: one call at a time for each system",
            )),
            Err(_) => Err(Failure::fixed(
                CXLAB_ERROR_HANDLE,
                c"system: found no system of this handle; allowed: one from cxlab_create that was not destroyed",
            )),
        }
    }

    fn system(&mut self) -> &mut Option<Box<System>> {
        // SAFETY: the state of the slot is BUSY, and this value is the only one for the slot.
        unsafe { &mut *self.slot.system.get() }
    }
}

/// Stores a system; returns its handle.
pub(crate) fn insert(system: System) -> Result<cxlab_system, Failure> {
    for (number, slot) in SLOTS.iter().enumerate() {
        let found = slot.state.load(Ordering::Relaxed);
        let generation = found >> 2;
        let taken = generation << 2 | BUSY;
        if found & 3 != FREE
            || (slot.state)
                .compare_exchange(found, taken, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            continue;
        }
        let mut place = Taken {
            slot,
            generation,
            after: generation << 2 | IDLE,
        };
        *place.system() = Some(Box::new(system));
        return Ok(generation << NUMBER_BITS | number as u64);
    }
    Err(Failure::new(
        CXLAB_ERROR_LIMIT,
        format!("found {CXLAB_MOST_SYSTEMS} systems; allowed: another one after one was destroyed"),
    ))
}

/// Calls a function with the system of a handle. After a panic, the system is unusable.
pub(crate) fn with<T>(
    handle: cxlab_system,
    call: impl FnOnce(&mut System) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut taken = Taken::of(handle)?;
    let Some(system) = taken.system() else {
        unreachable!("an idle slot has a system")
    };
    if system.broken {
        return Err(Failure::fixed(
            CXLAB_ERROR_INTERNAL,
            c"system: found one after an internal error, or with a state restored in part; allowed: cxlab_destroy",
        ));
    }
    match catch_unwind(AssertUnwindSafe(|| call(system))) {
        Ok(done) => done,
        Err(panic) => {
            system.broken = true;
            Err(internal(panic))
        }
    }
}

/// Calls a function with the system of a handle, at the boundary.
pub(crate) fn guarded_with(
    handle: cxlab_system,
    call: impl FnOnce(&mut System) -> Result<(), Failure>,
) -> i32 {
    guarded(|| with(handle, call))
}

/// Writes a value of the system of a handle to the place of a result, whose name is in messages.
///
/// # Safety
/// As for [`out`].
pub(crate) unsafe fn write<T>(
    handle: cxlab_system,
    (place, name): (*mut T, &str),
    value: impl FnOnce(&mut System) -> Result<T, Failure>,
) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let place = unsafe { out(place, name) }?;
        *place = with(handle, value)?;
        Ok(())
    })
}

pub(crate) fn remove(handle: cxlab_system) -> Result<(), Failure> {
    let mut taken = Taken::of(handle)?;
    let system = taken.system().take();
    taken.after = (taken.generation + 1) << 2 | FREE;
    drop(taken);
    drop(system);
    Ok(())
}
