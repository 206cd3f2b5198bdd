//! Wrong calls return an error code with a text, and change nothing.

#![allow(unsafe_code, reason = "the functions are those of C")]

mod common;

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::mpsc;

use common::options;
use cxlab_capi::*;

const SCENARIO: &str = r#"
name = "outside"

[fabric]
topology = { kind = "direct" }

[[hosts]]
name = "outside"
kind = "external"
depth = 4

[[devices]]
name = "mem"
capacity = "1 GiB"
"#;

/// A system that is destroyed at the end of a test.
struct Owned(cxlab_system);

impl Drop for Owned {
    fn drop(&mut self) {
        cxlab_destroy(self.0);
    }
}

fn create(text: &str, set: &[&str]) -> Result<Owned, (i32, String)> {
    let text = CString::new(text).expect("no zeros");
    let set: Vec<CString> = set
        .iter()
        .map(|one| CString::new(*one).expect("no zeros"))
        .collect();
    let set: Vec<*const c_char> = set.iter().map(|one| one.as_ptr()).collect();
    let options = cxlab_options {
        text: text.as_ptr(),
        set: set.as_ptr(),
        set_count: set.len(),
        can_save: 1,
        ..options()
    };
    let mut system = 0;
    match unsafe { cxlab_create(&options, &mut system) } {
        CXLAB_OK => Ok(Owned(system)),
        code => Err((code, last_error())),
    }
}

fn system() -> Owned {
    create(SCENARIO, &[]).unwrap_or_else(|(code, text)| panic!("{code}: {text}"))
}

fn last_error() -> String {
    let text = unsafe { CStr::from_ptr(cxlab_last_error()) };
    text.to_str().expect("UTF-8").to_owned()
}

/// Checks an error code, and that the text has these words.
#[track_caller]
fn refused(found: i32, code: i32, words: &[&str]) {
    let text = last_error();
    assert_eq!(found, code, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} in {text:?}");
    }
}

/// Checks that NULL was refused, and that the text has the name of the argument.
#[track_caller]
fn refused_null(found: i32, argument: &str) {
    refused(found, CXLAB_ERROR_NULL, &[argument]);
}

fn submit(system: &Owned, id: u64, time: u64) -> i32 {
    cxlab_submit(system.0, 0, id, id * 64, 64, CXLAB_READ, time)
}

fn take(system: &Owned) -> Vec<cxlab_completed> {
    let mut taken = vec![cxlab_completed::default(); 16];
    let mut count = 99;
    let done = unsafe { cxlab_take_completed(system.0, taken.as_mut_ptr(), 16, &mut count) };
    assert_eq!(done, CXLAB_OK, "{}", last_error());
    taken.truncate(count);
    taken
}

#[test]
fn null_is_refused_wherever_an_address_is_needed() {
    let owned = system();
    let one = owned.0;
    let mut handle = 7;
    unsafe {
        refused_null(cxlab_create(null(), &mut handle), "options");
        refused_null(cxlab_create(&options(), null_mut()), "system");
        refused_null(cxlab_port_count(one, null_mut()), "count");
        let mut number = 0;
        refused_null(cxlab_find_port(one, null(), &mut number), "name");
        let name = c"outside".as_ptr();
        refused_null(cxlab_find_port(one, name, null_mut()), "port");
        let code = cxlab_port_name(one, 0, null_mut(), 9, null_mut());
        refused_null(code, "buffer");
        refused_null(cxlab_get_port_info(one, 0, null_mut()), "info");
        refused_null(cxlab_can_accept(one, 0, null_mut()), "room");
        refused_null(cxlab_now(one, null_mut()), "time");
        refused_null(cxlab_next_event(one, null_mut()), "time");
        let code = cxlab_take_completed(one, null_mut(), 0, null_mut());
        refused_null(code, "count");
        let code = cxlab_take_completed(one, null_mut(), 1, &mut 0);
        refused_null(code, "completed");
        refused_null(cxlab_statistic(one, null(), &mut 0.0), "path");
        let path = c"digest".as_ptr();
        refused_null(cxlab_statistic(one, path, null_mut()), "value");
        refused_null(cxlab_report(one, null_mut(), 1, null_mut()), "buffer");
        refused_null(cxlab_digest(one, null_mut()), "digest");
        refused_null(cxlab_read(one, 0, 0, null_mut(), 1), "bytes");
        refused_null(cxlab_write(one, 0, 0, null(), 1), "bytes");
        refused_null(cxlab_save(one, null()), "path");
        refused_null(cxlab_restore(one, null()), "path");
        let set = cxlab_options {
            text: c"".as_ptr(),
            set_count: 1,
            ..options()
        };
        refused_null(cxlab_create(&set, &mut handle), "options.set");
    }
}

#[test]
fn a_handle_is_refused_once_its_system_is_destroyed() {
    let mut first = system();
    let old = first.0;
    assert_eq!(cxlab_destroy(old), CXLAB_OK);
    refused(cxlab_destroy(old), CXLAB_ERROR_HANDLE, &["found no system"]);
    // Whatever takes the slot has another handle.
    first.0 = 0;
    let others: Vec<Owned> = (0..8).map(|_| system()).collect();
    assert!(others.iter().all(|other| other.0 != old));
    let mut time = 0;
    for wrong in [old, 0, 1, u64::MAX, others[0].0 + (1 << 40)] {
        let now = unsafe { cxlab_now(wrong, &mut time) };
        refused(now, CXLAB_ERROR_HANDLE, &[]);
        let submitted = cxlab_submit(wrong, 0, 0, 0, 64, CXLAB_READ, 0);
        refused(submitted, CXLAB_ERROR_HANDLE, &[]);
        refused(cxlab_advance(wrong, 1), CXLAB_ERROR_HANDLE, &[]);
    }
}

#[test]
fn a_port_that_does_not_exist_is_refused() {
    let owned = system();
    let mut number = 9;
    let found = unsafe { cxlab_find_port(owned.0, c"inside".as_ptr(), &mut number) };
    refused(found, CXLAB_ERROR_PORT, &["inside", "outside"]);
    let found = cxlab_submit(owned.0, 1, 0, 0, 64, CXLAB_READ, 0);
    refused(found, CXLAB_ERROR_PORT, &["found 1", "0 to 0"]);
    refused(cxlab_close_port(owned.0, u32::MAX), CXLAB_ERROR_PORT, &[]);
    let own = "workload = { kind = \"uniform\" }";
    let closed = SCENARIO.replace("kind = \"external\"\ndepth = 4", own);
    let without = create(&closed, &[]).unwrap_or_else(|(_, text)| panic!("{text}"));
    let found = cxlab_submit(without.0, 0, 0, 0, 64, CXLAB_READ, 0);
    refused(found, CXLAB_ERROR_PORT, &["no host of kind"]);
    refused(cxlab_drain(without.0), CXLAB_ERROR_ENDLESS, &["outside"]);
}

#[test]
fn time_does_not_go_back() {
    let owned = system();
    let refused = |code, words| refused(code, CXLAB_ERROR_TIME, words);
    assert_eq!(submit(&owned, 0, 5_000), CXLAB_OK);
    refused(submit(&owned, 1, 4_999), &["found 4999 ps", "5000 ps"]);
    assert_eq!(cxlab_advance(owned.0, 10_000), CXLAB_OK);
    refused(cxlab_advance(owned.0, 9_999), &["9999 ps", "10000 ps"]);
    refused(submit(&owned, 1, 9_999), &["9999 ps", "10000 ps"]);
    assert_eq!(cxlab_advance(owned.0, 10_000), CXLAB_OK);
    for late in [1 << 62, u64::MAX] {
        refused(submit(&owned, 1, late), &[]);
    }
    refused(cxlab_advance(owned.0, u64::MAX), &[]);
    assert_eq!(submit(&owned, 1, 10_000), CXLAB_OK);
    assert_eq!(cxlab_drain(owned.0), CXLAB_OK);
    let ids: Vec<u64> = take(&owned).iter().map(|one| one.id).collect();
    assert_eq!(ids, [0, 1], "refused requests left no trace");
}

#[test]
fn sizes_and_addresses_that_overflow_are_refused() {
    let owned = system();
    let gib: u64 = 1 << 30;
    for size in [0, 1, 63, 65, 4096 + 64, u64::MAX, u64::MAX - 63] {
        let found = cxlab_submit(owned.0, 0, 0, 0, size, CXLAB_READ, 0);
        refused(found, CXLAB_ERROR_SIZE, &["found", "multiples of 64 B"]);
    }
    for address in [1, 32, gib, gib - 64 + 1, u64::MAX - 63, u64::MAX] {
        let found = cxlab_submit(owned.0, 0, 0, address, 64, CXLAB_READ, 0);
        refused(found, CXLAB_ERROR_ADDRESS, &["1 GiB"]);
    }
    let found = cxlab_submit(owned.0, 0, 0, gib - 64, 128, CXLAB_READ, 0);
    refused(found, CXLAB_ERROR_ADDRESS, &[]);
    let found = cxlab_submit(owned.0, 0, 0, gib - 128, 128, CXLAB_READ, 0);
    assert_eq!(found, CXLAB_OK);
    for (kind, says) in [
        (CXLAB_WRITE_BACK, "snooped = true"),
        (3, "CXLAB_READ"),
        (u32::MAX, "CXLAB_READ"),
    ] {
        let found = cxlab_submit(owned.0, 0, 0, 0, 64, kind, 0);
        refused(found, CXLAB_ERROR_KIND, &[says]);
    }
    let mut byte = 1u8;
    let bytes: *mut c_void = (&raw mut byte).cast();
    unsafe {
        let found = cxlab_read(owned.0, 0, 0, bytes, usize::MAX);
        refused(found, CXLAB_ERROR_SIZE, &[]);
        let found = cxlab_write(owned.0, 0, 0, bytes, isize::MAX as usize);
        refused(found, CXLAB_ERROR_SIZE, &[]);
        let found = cxlab_read(owned.0, 0, gib, bytes, 1);
        refused(found, CXLAB_ERROR_ADDRESS, &[]);
        let found = cxlab_write(owned.0, 0, u64::MAX, bytes, 1);
        refused(found, CXLAB_ERROR_ADDRESS, &[]);
        assert_eq!(cxlab_read(owned.0, 0, gib - 1, bytes, 1), CXLAB_OK);
        assert_eq!(cxlab_read(owned.0, 0, gib, null_mut(), 0), CXLAB_OK);
    }
    assert_eq!(byte, 0, "nothing was stored there");
}

#[test]
fn a_full_or_closed_port_takes_nothing() {
    let owned = system();
    for id in 0..4 {
        assert_eq!(submit(&owned, id, 0), CXLAB_OK);
    }
    let mut room = 9;
    assert_eq!(unsafe { cxlab_can_accept(owned.0, 0, &mut room) }, CXLAB_OK);
    assert_eq!(room, 0);
    refused(submit(&owned, 4, 0), CXLAB_ERROR_FULL, &["no room"]);
    assert_eq!(cxlab_advance(owned.0, 1), CXLAB_OK);
    assert_eq!(submit(&owned, 4, 1), CXLAB_OK);
    assert_eq!(cxlab_close_port(owned.0, 0), CXLAB_OK);
    refused(submit(&owned, 5, 1), CXLAB_ERROR_CLOSED, &["closed"]);
    assert_eq!(cxlab_close_port(owned.0, 0), CXLAB_OK);
    assert_eq!(cxlab_drain(owned.0), CXLAB_OK);
    assert_eq!(take(&owned).len(), 5);
}

#[test]
fn a_callback_and_a_second_thread_find_the_system_busy() {
    struct Seen {
        system: cxlab_system,
        codes: Vec<i32>,
        entered: mpsc::Sender<()>,
        leave: mpsc::Receiver<()>,
    }
    unsafe extern "C" fn called(context: *mut c_void, _: *const cxlab_completed) {
        let seen = unsafe { &mut *context.cast::<Seen>() };
        seen.codes.push(cxlab_advance(seen.system, u64::MAX));
        seen.codes.push(cxlab_destroy(seen.system));
        seen.entered.send(()).expect("a receiver");
        seen.leave.recv().expect("a sender");
    }
    let owned = system();
    let handle = owned.0;
    let (entered, other_entered) = mpsc::channel();
    let (other_leaves, leave) = mpsc::channel();
    let mut seen = Seen {
        system: handle,
        codes: Vec::new(),
        entered,
        leave,
    };
    let context: *mut c_void = (&raw mut seen).cast();
    unsafe { cxlab_set_callback(handle, Some(called), context) };
    assert_eq!(submit(&owned, 3, 0), CXLAB_OK);
    let second = std::thread::spawn(move || {
        other_entered.recv().expect("the callback");
        let mut time = 0;
        let busy = unsafe { cxlab_now(handle, &mut time) };
        let text = last_error();
        other_leaves.send(()).expect("the callback");
        (busy, text)
    });
    assert_eq!(cxlab_drain(handle), CXLAB_OK);
    let (busy, text) = second.join().expect("no panic");
    assert_eq!(busy, CXLAB_ERROR_BUSY);
    assert!(text.contains("another call"), "{text}");
    assert_eq!(seen.codes, [CXLAB_ERROR_BUSY, CXLAB_ERROR_BUSY]);
    let later = std::thread::spawn(move || cxlab_advance(handle, 1 << 40));
    assert_eq!(
        later.join().expect("no panic"),
        CXLAB_OK,
        "one after the other is allowed"
    );
}

#[test]
fn mistakes_of_a_scenario_have_their_place_in_the_text() {
    for (text, set, place) in [
        ("name = ", &[] as &[&str], "scenario:1"),
        (SCENARIO, &["hosts[0].depth=0"], "hosts[0].depth"),
    ] {
        let (code, text) = create(text, set).err().expect("a mistake");
        assert_eq!(code, CXLAB_ERROR_SCENARIO, "{text}");
        assert!(text.contains(place), "{place} in {text}");
    }
    let refused_options = |options: cxlab_options, code, words: &[&str]| {
        let mut handle = 0;
        refused(unsafe { cxlab_create(&options, &mut handle) }, code, words);
        assert_eq!(handle, 0, "{words:?}");
    };
    let with = |path: *const c_char, text: *const c_char| cxlab_options {
        path,
        text,
        ..options()
    };
    let mut short = options();
    short.bytes = 8;
    refused_options(short, CXLAB_ERROR_ABI, &["found 8"]);
    refused_options(options(), CXLAB_ERROR_SCENARIO, &["path", "text"]);
    let both = with(c"a".as_ptr(), c"b".as_ptr());
    refused_options(both, CXLAB_ERROR_SCENARIO, &["both"]);
    let missing = with(c"/nowhere.toml".as_ptr(), null());
    refused_options(missing, CXLAB_ERROR_SCENARIO, &["/nowhere.toml"]);
    let bytes = with(null(), c"\xff".as_ptr());
    refused_options(bytes, CXLAB_ERROR_TEXT, &["options.text"]);
}

#[test]
fn statistics_have_names_and_buffers_have_room() {
    let owned = system();
    assert_eq!(submit(&owned, 0, 0), CXLAB_OK);
    assert_eq!(cxlab_drain(owned.0), CXLAB_OK);
    let one = take(&owned)[0];
    assert_eq!((one.port, one.outcome, one.issued), (0, CXLAB_SERVED, 0));
    let statistic = |path: &CStr| {
        let mut value = f64::NAN;
        let code = unsafe { cxlab_statistic(owned.0, path.as_ptr(), &mut value) };
        (code, value)
    };
    assert_eq!(statistic(c"requests.completed"), (CXLAB_OK, 1.0));
    assert_eq!(
        statistic(c"hosts[outside].reads"),
        statistic(c"hosts[0].reads")
    );
    let latency = one.completed as f64 / 1e3;
    assert_eq!(statistic(c"latency_ns.mean"), (CXLAB_OK, latency));
    let misspelt = statistic(c"latency_ns.meen").0;
    refused(misspelt, CXLAB_ERROR_NAME, &["meen", "mean"]);
    refused(statistic(c"hosts[1].name").0, CXLAB_ERROR_NAME, &["0 to 0"]);
    refused(statistic(c"scenario").0, CXLAB_ERROR_NAME, &["numbers"]);
    refused(statistic(c"").0, CXLAB_ERROR_NAME, &[]);
    let (mut length, mut small) = (0, [0; 8]);
    unsafe {
        let code = cxlab_port_name(owned.0, 0, small.as_mut_ptr(), 8, &mut length);
        assert_eq!((code, length), (CXLAB_OK, 7));
        assert_eq!(CStr::from_ptr(small.as_ptr()), c"outside");
        let code = cxlab_port_name(owned.0, 0, small.as_mut_ptr(), 7, &mut length);
        refused(code, CXLAB_ERROR_SPACE, &["found 7", "8 and more"]);
        let code = cxlab_report(owned.0, null_mut(), 0, &mut length);
        refused(code, CXLAB_ERROR_SPACE, &[]);
        let mut report = vec![0; length + 1];
        let code = cxlab_report(owned.0, report.as_mut_ptr(), length + 1, &mut length);
        assert_eq!((code, length + 1), (CXLAB_OK, report.len()));
        let text = CStr::from_ptr(report.as_ptr()).to_str().expect("UTF-8");
        let json: serde_json::Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(json["requests"]["completed"], 1);
    }
}

#[test]
fn stored_bytes_are_read_back_and_requests_change_none() {
    let owned = system();
    let stored: Vec<u8> = (0..200u8).collect();
    let mut read = vec![0xffu8; 202];
    unsafe {
        let code = cxlab_write(owned.0, 0, 4000, stored.as_ptr().cast(), stored.len());
        assert_eq!(code, CXLAB_OK);
        cxlab_submit(owned.0, 0, 0, 4032, 64, CXLAB_WRITE, 0);
        assert_eq!(cxlab_drain(owned.0), CXLAB_OK);
        let code = cxlab_read(owned.0, 0, 3999, read.as_mut_ptr().cast(), 202);
        assert_eq!(code, CXLAB_OK);
    }
    assert_eq!((read[0], &read[1..201], read[201]), (0, &stored[..], 0));
}

#[test]
fn a_saved_system_goes_on_as_the_one_that_saved_it() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("state");
    let path = CString::new(path.to_str().expect("UTF-8")).expect("no zeros");
    let text = common::scenario("kind = \"external\"", 200);
    let make = || create(&text, &[]).unwrap_or_else(|(_, text)| panic!("{text}"));
    let begin = |system: &Owned| {
        for id in 0..20 {
            assert_eq!(submit(system, id, id * 1_000), CXLAB_OK);
        }
        assert_eq!(cxlab_advance(system.0, 300_000), CXLAB_OK);
    };
    let end = |system: &Owned| {
        assert_eq!(submit(system, 20, 400_000), CXLAB_OK);
        cxlab_close_port(system.0, 0);
        assert_eq!(cxlab_drain(system.0), CXLAB_OK);
        let mut digest = 0;
        unsafe { cxlab_digest(system.0, &mut digest) };
        let all = std::iter::from_fn(|| Some(take(system)).filter(|one| !one.is_empty()));
        let all: Vec<_> = all.collect();
        (digest, all.concat())
    };
    let saved = make();
    begin(&saved);
    let code = unsafe { cxlab_save(saved.0, path.as_ptr()) };
    assert_eq!(code, CXLAB_OK, "{}", last_error());
    let restored = make();
    let code = unsafe { cxlab_restore(restored.0, path.as_ptr()) };
    assert_eq!(code, CXLAB_OK, "{}", last_error());
    let expected = end(&saved);
    assert_eq!(expected.1.len(), 21);
    assert_eq!(end(&restored), expected);
    let used = unsafe { cxlab_restore(restored.0, path.as_ptr()) };
    refused(used, CXLAB_ERROR_STATE, &["just made"]);
    let other = system();
    let refusal = unsafe { cxlab_restore(other.0, path.as_ptr()) };
    refused(refusal, CXLAB_ERROR_STATE, &["another system"]);
    let unusable = unsafe { cxlab_now(other.0, &mut 0) };
    refused(unusable, CXLAB_ERROR_INTERNAL, &["cxlab_destroy"]);
}
