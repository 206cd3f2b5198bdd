//! The largest number of systems. It is a test program of its own, because no other test could create one meanwhile.

#![allow(unsafe_code, reason = "the functions are those of C")]

mod common;

use std::ffi::CStr;

use cxlab_capi::*;

const SCENARIO: &CStr = c"
name = 'outside'
[fabric]
topology = { kind = 'direct' }
[[hosts]]
name = 'outside'
kind = 'external'
[[devices]]
name = 'mem'
";

fn create() -> (i32, cxlab_system) {
    let options = cxlab_options {
        text: SCENARIO.as_ptr(),
        ..common::options()
    };
    let mut system = 0;
    // SAFETY: the options are complete.
    let code = unsafe { cxlab_create(&options, &mut system) };
    (code, system)
}

#[test]
fn there_is_a_largest_number_of_systems() {
    let systems: Vec<(i32, cxlab_system)> = (0..CXLAB_MOST_SYSTEMS).map(|_| create()).collect();
    assert!(systems.iter().all(|(code, _)| *code == CXLAB_OK));
    assert_eq!(create(), (CXLAB_ERROR_LIMIT, 0));
    // SAFETY: the text stays until the next error.
    let text = unsafe { CStr::from_ptr(cxlab_last_error()) };
    assert!(
        text.to_string_lossy().contains("found 256 systems"),
        "{text:?}"
    );
    assert_eq!(cxlab_destroy(systems[100].1), CXLAB_OK);
    let (code, system) = create();
    assert_eq!(code, CXLAB_OK);
    assert_ne!(
        system, systems[100].1,
        "a slot that is used again has another handle"
    );
}
