//! Systems and their ports: making, finding, submitting, advancing, and taking what has completed.

use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};

use ::cxlab_system::session::{Completion, MOST_LINES, Outcome, RequestKind, Session, Submission};
use cxlab_engine::units::SimTime;
use cxlab_plan::{Externals, Files, load};
use cxlab_scenario::file::read_text;

use crate::abi::*;
use crate::calls::{copy_text, out, text};
use crate::handles::{self, System, guarded_with};
use crate::status::{Failure, guarded};

/// Makes a system of a scenario, at time 0, or where hosts enumerate at the end of that. Writes its handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_create(
    options: *const cxlab_options,
    system: *mut cxlab_system,
) -> i32 {
    guarded(|| {
        // SAFETY: the header asks for addresses of such values, or NULL.
        let (options, system) = unsafe { (options.as_ref(), out(system, "system")?) };
        let options = options.ok_or_else(|| Failure::null("options"))?;
        *system = 0;
        // SAFETY: the header asks for texts that end with a zero, and for `set_count` of them.
        let session = unsafe { create(options) }?;
        *system = handles::insert(System::new(session))?;
        Ok(())
    })
}

unsafe fn create(options: &cxlab_options) -> Result<Session, Failure> {
    if options.bytes != size_of::<cxlab_options>() {
        return Err(Failure::new(
            CXLAB_ERROR_ABI,
            format!(
                "options.bytes: found {}; allowed: {}, sizeof(struct cxlab_options)",
                options.bytes,
                size_of::<cxlab_options>()
            ),
        ));
    }
    let wrong = |text: String| Failure::new(CXLAB_ERROR_SCENARIO, text);
    let optional = |pointer: *const c_char, name| match pointer.is_null() {
        true => Ok(None),
        // SAFETY: as the caller says.
        false => unsafe { text(pointer, name) }.map(Some),
    };
    let (name, content, folder) = match (
        optional(options.path, "options.path")?,
        optional(options.text, "options.text")?,
    ) {
        (Some(path), None) => {
            let folder = Path::new(path).parent().unwrap_or(Path::new(""));
            let content = read_text(Path::new(path)).map_err(|error| wrong(error.to_string()))?;
            (path, content, folder.to_owned())
        }
        (None, Some(content)) => {
            let folder = optional(options.folder, "options.folder")?;
            let folder = PathBuf::from(folder.unwrap_or_default());
            ("scenario", content.to_owned(), folder)
        }
        _ => {
            let message = "options: found both or none of `path` and `text`; allowed: one of them";
            return Err(wrong(message.to_owned()));
        }
    };
    let mut set = Vec::new();
    if options.set_count > 0 && options.set.is_null() {
        return Err(Failure::null("options.set"));
    }
    for at in 0..options.set_count {
        // SAFETY: `set` has that many addresses, as the caller says.
        let change = unsafe { text(*options.set.add(at), "options.set") }?;
        set.push(change.to_owned());
    }
    let files = Files::of(folder);
    let loaded = load::read(name, &content, &set)
        .and_then(|document| load::resolve(document, files, &Externals::new()))
        .map_err(|mistakes| wrong(mistakes.render(false)))?;
    // SAFETY: `seed` is the address of a number, or NULL, as the caller says.
    let seed = unsafe { options.seed.as_ref() };
    let seed = seed.copied().unwrap_or(loaded.plan.scenario.seed);
    Session::new(loaded, seed, options.can_save != 0).map_err(|error| wrong(error.to_string()))
}

/// Ends a system. Its handle is refused from then on.
#[unsafe(no_mangle)]
pub extern "C" fn cxlab_destroy(system: cxlab_system) -> i32 {
    guarded(|| handles::remove(system))
}

/// Writes the number of ports. Ports have numbers from 0 on, in the order of the scenario.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_port_count(system: cxlab_system, count: *mut u32) -> i32 {
    let ports = |system: &mut System| Ok(system.session.ports() as u32);
    // SAFETY: the header asks for such an address, or NULL.
    unsafe { handles::write(system, (count, "count"), ports) }
}

/// Writes the number of the port with this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_find_port(
    system: cxlab_system,
    name: *const c_char,
    port: *mut u32,
) -> i32 {
    guarded(|| {
        // SAFETY: the header asks for such addresses, or NULL.
        let (name, port) = unsafe { (text(name, "name")?, out(port, "port")?) };
        handles::with(system, |system| match system.session.find_port(name) {
            Some(number) => {
                *port = number as u32;
                Ok(())
            }
            None => {
                let session = &system.session;
                let names = (0..session.ports()).filter_map(|port| session.port_info(port).ok());
                let names: Vec<&str> = names.map(|info| info.name).collect();
                Err(Failure::new(
                    CXLAB_ERROR_PORT,
                    format!(
                        "name: found {name:?}; allowed: the hosts of kind \"external\": {}",
                        names.join(", ")
                    ),
                ))
            }
        })
    })
}

/// Writes the name of a port and a zero to a buffer of `capacity` bytes, and the length of the name to `length`,
/// which may be NULL. `buffer` may be NULL with a capacity of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_port_name(
    system: cxlab_system,
    port: u32,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> i32 {
    guarded_with(system, |system| {
        let info = system.session.port_info(port as usize)?;
        // SAFETY: the header asks for a buffer of that capacity.
        unsafe { copy_text(info.name, buffer, capacity, length) }
    })
}

/// Writes the limits of a port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_get_port_info(
    system: cxlab_system,
    port: u32,
    info: *mut cxlab_port_info,
) -> i32 {
    let limits = |system: &mut System| {
        let found = system.session.port_info(port as usize)?;
        Ok(cxlab_port_info {
            memory_bytes: found.span.0,
            line_bytes: 64,
            most_bytes: MOST_LINES as u32 * 64,
            depth: found.depth,
            outstanding: found.outstanding,
        })
    };
    // SAFETY: the header asks for such an address, or NULL.
    unsafe { handles::write(system, (info, "info"), limits) }
}

/// Writes the number of requests that the port takes now before it is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_can_accept(system: cxlab_system, port: u32, room: *mut u32) -> i32 {
    let free = |system: &mut System| Ok(system.session.room(port as usize)? as u32);
    // SAFETY: the header asks for such an address, or NULL.
    unsafe { handles::write(system, (room, "room"), free) }
}

/// Hands over a request: `size` bytes from `address` on, both multiples of 64, at most 4096 bytes. The host of
/// the port issues it at `time` or later, as its limits say, after the requests before it. `time` is not
/// before that of the system, nor before that of the port's last request. `id` comes back in the completion;
/// the library does not compare it with others. Requests carry no data.
#[unsafe(no_mangle)]
pub extern "C" fn cxlab_submit(
    system: cxlab_system,
    port: u32,
    id: u64,
    address: u64,
    size: u64,
    kind: u32,
    time: u64,
) -> i32 {
    guarded(|| {
        let kind = match kind {
            CXLAB_READ => RequestKind::Read,
            CXLAB_WRITE => RequestKind::Write,
            CXLAB_WRITE_BACK => RequestKind::WriteBack,
            other => {
                return Err(Failure::new(
                    CXLAB_ERROR_KIND,
                    format!(
                        "kind: found {other}; allowed: CXLAB_READ (0), CXLAB_WRITE (1), CXLAB_WRITE_BACK (2)"
                    ),
                ));
            }
        };
        handles::with(system, |system| {
            let request = Submission {
                id,
                address,
                size,
                kind,
                time: SimTime(time),
            };
            system.session.submit(port as usize, request)?;
            system.report = None;
            Ok(())
        })
    })
}

/// Says that no further request comes to a port. A program that closes each port before the time of its last
/// request has passed gets the order digest of `cxlab run` with a trace of the same requests.
#[unsafe(no_mangle)]
pub extern "C" fn cxlab_close_port(system: cxlab_system, port: u32) -> i32 {
    guarded_with(system, |system| {
        system.session.close(port as usize)?;
        system.report = None;
        Ok(())
    })
}

/// Writes the time of the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_now(system: cxlab_system, time: *mut u64) -> i32 {
    let now = |system: &mut System| Ok(system.session.now().0);
    // SAFETY: the header asks for such an address, or NULL.
    unsafe { handles::write(system, (time, "time"), now) }
}

/// Writes the time of the earliest pending event, or CXLAB_NO_EVENT. Nothing completes before that time;
/// to handle the event, advance to a later time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_next_event(system: cxlab_system, time: *mut u64) -> i32 {
    let next = |system: &mut System| {
        let next = system.session.next_event();
        Ok(next.map_or(CXLAB_NO_EVENT, |next| next.0))
    };
    // SAFETY: the header asks for such an address, or NULL.
    unsafe { handles::write(system, (time, "time"), next) }
}

/// Handles all events before `time`, which is then the time of the system. The callback, if there is one, is
/// called with each request that has completed.
#[unsafe(no_mangle)]
pub extern "C" fn cxlab_advance(system: cxlab_system, time: u64) -> i32 {
    guarded_with(system, |system| {
        system.report = None;
        let advanced = system.session.advance(SimTime(time));
        hand_over(system);
        Ok(advanced?)
    })
}

/// Handles events until none is pending, in systems whose other hosts have workloads that end. The time of the
/// system is then after the last event.
#[unsafe(no_mangle)]
pub extern "C" fn cxlab_drain(system: cxlab_system) -> i32 {
    guarded_with(system, |system| {
        system.report = None;
        let drained = system.session.drain();
        hand_over(system);
        Ok(drained?)
    })
}

/// Sets the function that is called with each completed request, in the order of times, during cxlab_advance and
/// cxlab_drain, by their thread. With NULL, requests are kept for cxlab_take_completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_set_callback(
    system: cxlab_system,
    function: cxlab_callback,
    context: *mut c_void,
) -> i32 {
    guarded_with(system, |system| {
        system.callback = handles::Callback { function, context };
        Ok(())
    })
}

/// Moves up to `room` completed requests to `completed`, in the order of times, and writes their number to `count`.
/// Call it again while it fills the room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_take_completed(
    system: cxlab_system,
    completed: *mut cxlab_completed,
    room: usize,
    count: *mut usize,
) -> i32 {
    let next = |session: &mut Session| session.take_completion().as_ref().map(told);
    // SAFETY: the header asks for such addresses, or NULL.
    unsafe { take(system, (completed, "completed"), room, count, next) }
}

/// Moves up to `room` values to an array of the program, whose name is in messages.
///
/// # Safety
/// `values` has room for that many. `count` is the address of a number, or NULL.
unsafe fn take<T>(
    system: cxlab_system,
    (values, name): (*mut T, &str),
    room: usize,
    count: *mut usize,
    next: impl Fn(&mut Session) -> Option<T>,
) -> i32 {
    guarded(|| {
        // SAFETY: as the caller says.
        let count = unsafe { out(count, "count") }?;
        if values.is_null() && room > 0 {
            return Err(Failure::null(name));
        }
        handles::with(system, |system| {
            *count = 0;
            while *count < room
                && let Some(value) = next(&mut system.session)
            {
                // SAFETY: `values` has room for `room` values, and `count` is below it.
                unsafe { values.add(*count).write(value) };
                *count += 1;
            }
            Ok(())
        })
    })
}

/// Moves up to `room` snoops of the program's caches to `snoops`, in the order of times, and writes their number to
/// `count`. Call it again while it fills the room. Each snoop is answered by cxlab_answer_snoop, in any order, and
/// until then no request of its line completes. Since 1.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_take_snoops(
    system: cxlab_system,
    snoops: *mut cxlab_snoop,
    room: usize,
    count: *mut usize,
) -> i32 {
    let next = |session: &mut Session| {
        let snoop = session.take_snoop()?;
        Some(cxlab_snoop {
            id: snoop.id,
            address: snoop.address,
            time: snoop.time.0,
            port: snoop.port,
            invalidate: snoop.invalidate.into(),
        })
    };
    // SAFETY: the header asks for such addresses, or NULL.
    unsafe { take(system, (snoops, "snoops"), room, count, next) }
}

/// Answers a snoop: from `time` on, which is not before that of the system, the program's caches have the line no
/// more, or change it no more. `changed` is not 0 if the line was changed since the program got it, in a cache or in a
/// CXLAB_WRITE_BACK that has not completed. A program must not wait for a request of the line before it answers. The
/// function exists since 1.1.
#[unsafe(no_mangle)]
pub extern "C" fn cxlab_answer_snoop(
    system: cxlab_system,
    port: u32,
    id: u64,
    changed: u32,
    time: u64,
) -> i32 {
    guarded_with(system, |system| {
        let time = SimTime(time);
        (system.session).answer(port as usize, id, changed != 0, time)?;
        system.report = None;
        Ok(())
    })
}

/// Calls the program with the requests that have completed, if it wants to be called.
fn hand_over(system: &mut System) {
    let Some(function) = system.callback.function else {
        return;
    };
    while let Some(done) = system.session.take_completion() {
        // SAFETY: the program gave this function and this context for such calls.
        unsafe { function(system.callback.context, &told(&done)) };
    }
}

fn told(done: &Completion) -> cxlab_completed {
    cxlab_completed {
        id: done.id,
        issued: done.issued.0,
        completed: done.completed.0,
        port: done.port,
        outcome: match done.outcome {
            Outcome::Served => CXLAB_SERVED,
            Outcome::Shared => CXLAB_SHARED,
            Outcome::Denied => CXLAB_DENIED,
            Outcome::Poisoned => CXLAB_POISONED,
            Outcome::CutOff => CXLAB_CUT_OFF,
            Outcome::TimedOut => CXLAB_TIMED_OUT,
        },
    }
}

/// The version of the interface that the library has: the major number in the upper 16 bits, the minor one in the
/// lower. A program checks that the major number is CXLAB_ABI_MAJOR, and that the minor one is at least
/// CXLAB_ABI_MINOR.
#[unsafe(no_mangle)]
pub extern "C" fn cxlab_abi_version() -> u32 {
    CXLAB_ABI_MAJOR << 16 | CXLAB_ABI_MINOR
}

/// The version of cxlab, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn cxlab_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}
