//! Results: statistics, reports, digests, stored bytes, and saved states.

use std::ffi::{c_char, c_void};
use std::path::Path;

use ::cxlab_system::run::RunError;
use serde_json::Value;

use crate::abi::*;
use crate::calls::{copy_text, out, text};
use crate::handles::{self, System, guarded_with};
use crate::status::{Failure, guarded};

/// Measurement begins now: statistics start from zero. A new system measures from its beginning.
#[unsafe(no_mangle)]
pub extern "C" fn cxlab_begin_measurement(system: cxlab_system) -> i32 {
    guarded_with(system, |system| {
        system.report = None;
        system.session.begin_measurement();
        Ok(())
    })
}

/// The report of a system as JSON, which is kept until something changes.
fn report(system: &mut System) -> Result<&Value, Failure> {
    if system.report.is_none() {
        let made = system.session.report();
        let made = made.map_err(|error| {
            let code = match error {
                RunError::Law(_) => CXLAB_ERROR_INTERNAL,
                _ => CXLAB_ERROR_SCENARIO,
            };
            Failure::new(code, system.session.describe(&error))
        })?;
        let value = serde_json::to_value(&made);
        system.report =
            Some(value.map_err(|error| Failure::new(CXLAB_ERROR_INTERNAL, error.to_string()))?);
    }
    match &system.report {
        Some(report) => Ok(report),
        None => unreachable!("it was made"),
    }
}

/// Writes the report of the measurement so far, as JSON (docs/reference/report.md), and a zero to a buffer of
/// `capacity` bytes, and its length to `length`, which may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_report(
    system: cxlab_system,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> i32 {
    guarded_with(system, |system| {
        let text = format!("{:#}", report(system)?);
        // SAFETY: the header asks for a buffer of that capacity.
        unsafe { copy_text(&text, buffer, capacity, length) }
    })
}

/// Writes a number of the report, by its path: `latency_ns.mean`, `hosts[0].reads`,
/// `devices[mem0].writes`. An index is a number or the entry's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_statistic(
    system: cxlab_system,
    path: *const c_char,
    value: *mut f64,
) -> i32 {
    guarded(|| {
        // SAFETY: the header asks for such addresses, or NULL.
        let (path, value) = unsafe { (text(path, "path")?, out(value, "value")?) };
        handles::with(system, |system| {
            let report = report(system)?;
            let found = find(report, path).map_err(|why| {
                Failure::new(CXLAB_ERROR_NAME, format!("path: found {path:?}; {why}"))
            })?;
            *value = found;
            Ok(())
        })
    })
}

/// The number at a path of a report, or why there is none.
fn find(report: &Value, path: &str) -> Result<f64, String> {
    let mut at = report;
    for part in path.split('.') {
        let (key, index) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((key, index)) => (key, Some(index)),
            None => (part, None),
        };
        let table = at.as_object();
        at = table.and_then(|table| table.get(key)).ok_or_else(|| {
            let keys = table.map(|table| table.keys().cloned().collect::<Vec<_>>());
            let keys = keys.unwrap_or_default().join(", ");
            format!("allowed in place of {key:?}: {keys}")
        })?;
        if let Some(index) = index {
            let list = at.as_array().map_or(&[][..], Vec::as_slice);
            let named = || list.iter().find(|entry| entry["name"] == index);
            let found = match index.parse::<usize>() {
                Ok(number) => list.get(number),
                Err(_) => named(),
            };
            let last = list.len() as i64 - 1;
            at = found
                .ok_or_else(|| format!("allowed in place of {index:?}: 0 to {last} or a name"))?;
        }
    }
    match at {
        Value::Bool(value) => Ok(f64::from(u8::from(*value))),
        other => (other.as_f64()).ok_or_else(|| "allowed: paths of numbers".to_owned()),
    }
}

/// Writes the order digest of all events so far. Equal digests say that two runs handled the same events in the same
/// order; `cxlab run` has it in its report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_digest(system: cxlab_system, digest: *mut u64) -> i32 {
    let order = |system: &mut System| Ok(system.session.digest().0);
    // SAFETY: the header asks for such an address, or NULL.
    unsafe { handles::write(system, (digest, "digest"), order) }
}

/// Reads bytes from the memory behind an address of a port, without time: those that cxlab_write has stored, and
/// zeros elsewhere. Timed requests carry no data, so they change no bytes; and the data of kernels that run on
/// hosts of the scenario are not reached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_read(
    system: cxlab_system,
    port: u32,
    address: u64,
    bytes: *mut c_void,
    size: usize,
) -> i32 {
    guarded(|| {
        if bytes.is_null() && size > 0 {
            return Err(Failure::null("bytes"));
        }
        handles::with(system, |system| {
            check_size(system, port, size)?;
            let bytes = match size {
                0 => &mut [],
                // SAFETY: the header asks for that many bytes, and the size fits.
                _ => unsafe { std::slice::from_raw_parts_mut(bytes.cast(), size) },
            };
            Ok(system.session.read(port as usize, address, bytes)?)
        })
    })
}

/// Stores bytes in the memory behind an address of a port, without time. All ports that reach the memory read
/// them with cxlab_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_write(
    system: cxlab_system,
    port: u32,
    address: u64,
    bytes: *const c_void,
    size: usize,
) -> i32 {
    guarded(|| {
        if bytes.is_null() && size > 0 {
            return Err(Failure::null("bytes"));
        }
        handles::with(system, |system| {
            check_size(system, port, size)?;
            let bytes = match size {
                0 => &[],
                // SAFETY: the header asks for that many bytes, and the size fits.
                _ => unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), size) },
            };
            Ok(system.session.write(port as usize, address, bytes)?)
        })
    })
}

/// Checks that a number of bytes is at most the memory of a port, before anything is made of it.
fn check_size(system: &System, port: u32, size: usize) -> Result<(), Failure> {
    let span = system.session.port_info(port as usize)?.span;
    if size as u64 > span.0 || isize::try_from(size).is_err() {
        return Err(Failure::new(
            CXLAB_ERROR_SIZE,
            format!("size: found {size} B; allowed: up to {span}, which the port reaches"),
        ));
    }
    Ok(())
}

/// Writes the whole state of a system to a file. The system was made with `can_save`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_save(system: cxlab_system, path: *const c_char) -> i32 {
    guarded(|| {
        // SAFETY: the header asks for such an address, or NULL.
        let path = unsafe { text(path, "path") }?;
        handles::with(system, |system| {
            let saved = system.session.save(Path::new(path));
            saved.map_err(|error| Failure::new(CXLAB_ERROR_STATE, system.session.describe(&error)))
        })
    })
}

/// Fills a system, made with `can_save`, with a state that cxlab_save has written for the same scenario and seed. After
/// an error the system can only be destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxlab_restore(system: cxlab_system, path: *const c_char) -> i32 {
    guarded(|| {
        // SAFETY: the header asks for such an address, or NULL.
        let path = unsafe { text(path, "path") }?;
        handles::with(system, |system| {
            system.report = None;
            let restored = system.session.restore(Path::new(path));
            system.broken = restored.is_err();
            restored
                .map_err(|error| Failure::new(CXLAB_ERROR_STATE, system.session.describe(&error)))
        })
    })
}
