//! Any sequence of calls, with right and wrong arguments, returns known codes. No request is lost, none completes
//! twice, and each snoop can be answered once.

#![allow(unsafe_code, reason = "the functions are those of C")]

mod common;

use std::collections::BTreeSet;
use std::ffi::CString;

use cxlab_capi::*;
use proptest::prelude::*;

const SCENARIO: &str = r#"
name = "outside"

[fabric]
topology = { kind = "spine-leaf", leaves = 2 }

[[hosts]]
name = "outside"
kind = "external"
depth = 3
issue = { outstanding = 4, cache = { size = "512 B", ways = 2 } }

[[hosts]]
name = "cached"
kind = "external"
snooped = true
depth = 3
issue = { outstanding = 4, cache = { size = "512 B", ways = 2 } }

[[hosts]]
name = "inside"
requests = 300
issue = { cache = { size = "512 B", ways = 2 } }
workload = { kind = "uniform", footprint = "1536 B" }

[[devices]]
name = "mem"
count = 2
capacity = "256 MiB"
coherence = { class = "hdm-db", filter = { lines = 16 } }
"#;

#[derive(Clone, Debug)]
enum Call {
    Create,
    Destroy,
    Submit {
        port: u32,
        address: u64,
        size: u64,
        kind: u32,
        after: i64,
    },
    Close(u32),
    Advance(i64),
    Step,
    Take(usize),
    Snoops(usize),
    Answer {
        port: u32,
        number: u64,
        changed: u32,
        after: i64,
    },
    Report,
    Measure,
    Write(u32, u64, usize),
    Read(u32, u64, usize),
}

/// Calls, each with the number of its system.
fn calls() -> impl Strategy<Value = Vec<(usize, Call)>> {
    let port = prop_oneof![8 => 0..2u32, 1 => any::<u32>()];
    let address = prop_oneof![8 => (0..24u64).prop_map(|line| line * 64), 4 => (0..1u64 << 23).prop_map(|line| line * 64), 1 => any::<u64>()];
    let size = prop_oneof![8 => Just(64u64), 2 => (1..65u64).prop_map(|lines| lines * 64), 1 => any::<u64>()];
    let kind = prop_oneof![8 => 0..3u32, 1 => any::<u32>()];
    let span =
        prop_oneof![8 => 0..200_000i64, 1 => -1000..0i64, 1 => any::<i64>().prop_map(|x| x >> 20)];
    let bytes = prop_oneof![8 => 0..300usize, 1 => Just(usize::MAX)];
    let submit = (port.clone(), address.clone(), size, kind, span.clone());
    let submit = submit.prop_map(|(port, address, size, kind, after)| Call::Submit {
        port,
        address,
        size,
        kind,
        after,
    });
    let answer = (port.clone(), 0..8u64, 0..2u32, span.clone());
    let answer = answer.prop_map(|(port, number, changed, after)| Call::Answer {
        port,
        number,
        changed,
        after,
    });
    let memory = (port.clone(), address, bytes);
    let call = prop_oneof![
        2 => Just(Call::Create),
        1 => Just(Call::Destroy),
        20 => submit,
        1 => port.prop_map(Call::Close),
        8 => span.prop_map(Call::Advance),
        8 => Just(Call::Step),
        4 => (0..5usize).prop_map(Call::Take),
        4 => (0..5usize).prop_map(Call::Snoops),
        4 => answer,
        1 => Just(Call::Report),
        1 => Just(Call::Measure),
        2 => memory.clone().prop_map(|(port, at, size)| Call::Write(port, at, size)),
        2 => memory.prop_map(|(port, at, size)| Call::Read(port, at, size)),
    ];
    proptest::collection::vec((0..3usize, call), 1..120)
}

/// A system, and the requests that it was given and that have not completed.
struct Known {
    handle: cxlab_system,
    waiting: BTreeSet<u64>,
    last: u64,
    /// Snoops that were not answered, by port and number.
    snoops: BTreeSet<(u32, u64)>,
    last_snoop: u64,
}

fn create() -> Known {
    let text = CString::new(SCENARIO).expect("no zeros");
    let options = cxlab_options {
        text: text.as_ptr(),
        ..common::options()
    };
    let mut handle = 0;
    assert_eq!(unsafe { cxlab_create(&options, &mut handle) }, CXLAB_OK);
    Known {
        handle,
        waiting: BTreeSet::new(),
        last: 0,
        snoops: BTreeSet::new(),
        last_snoop: 0,
    }
}

impl Known {
    fn now(&self) -> u64 {
        let mut now = 0;
        assert_eq!(unsafe { cxlab_now(self.handle, &mut now) }, CXLAB_OK);
        now
    }

    /// Takes completed requests; returns how many.
    fn take(&mut self, room: usize) -> usize {
        let (now, mut count) = (self.now(), 0);
        let mut taken = vec![cxlab_completed::default(); room];
        let code =
            unsafe { cxlab_take_completed(self.handle, taken.as_mut_ptr(), room, &mut count) };
        assert_eq!(code, CXLAB_OK);
        for one in &taken[..count] {
            assert!(self.waiting.remove(&one.id), "{one:?} was not waiting");
            assert!(
                one.issued < one.completed && one.completed < now,
                "{one:?} at {now}"
            );
            assert!(one.completed >= self.last, "{one:?} after {}", self.last);
            self.last = one.completed;
        }
        count
    }

    /// Takes snoops; returns how many.
    fn take_snoops(&mut self, room: usize) -> usize {
        let (now, mut count) = (self.now(), 0);
        let mut taken = vec![cxlab_snoop::default(); room];
        let code = unsafe { cxlab_take_snoops(self.handle, taken.as_mut_ptr(), room, &mut count) };
        assert_eq!(code, CXLAB_OK);
        for one in &taken[..count] {
            assert_eq!(one.port, 1, "the other port is not snooped");
            assert!(one.time >= self.last_snoop && one.time < now, "{one:?}");
            self.last_snoop = one.time;
            assert!(self.snoops.insert((one.port, one.id)), "{one:?} is new");
        }
        count
    }

    /// Answers a snoop, which may be unknown. A refused time is no answer.
    fn answer(&mut self, port: u32, id: u64, changed: u32, time: u64) {
        match cxlab_answer_snoop(self.handle, port, id, changed, time) {
            CXLAB_OK => {
                // A snoop that was not taken can be answered too: the program has guessed its number.
                self.snoops.remove(&(port, id));
                let again = cxlab_answer_snoop(self.handle, port, id, changed, time);
                assert_eq!(again, CXLAB_ERROR_SNOOP);
            }
            CXLAB_ERROR_SNOOP => assert!(!self.snoops.contains(&(port, id))),
            code => assert!(
                [CXLAB_ERROR_PORT, CXLAB_ERROR_TIME].contains(&code),
                "{code}"
            ),
        }
    }

    /// Ends the system: what was submitted completes.
    fn finish(mut self) {
        loop {
            assert_eq!(cxlab_drain(self.handle), CXLAB_OK);
            while self.take_snoops(7) > 0 {}
            let Some((port, id)) = self.snoops.pop_first() else {
                break;
            };
            let code = cxlab_answer_snoop(self.handle, port, id, 0, self.now());
            assert!([CXLAB_OK, CXLAB_ERROR_SNOOP].contains(&code), "{code}");
        }
        while self.take(7) > 0 {}
        assert!(
            self.waiting.is_empty(),
            "{:?} never completed",
            self.waiting
        );
        assert_eq!(cxlab_destroy(self.handle), CXLAB_OK);
        assert_eq!(cxlab_destroy(self.handle), CXLAB_ERROR_HANDLE);
    }
}

/// A time so much after another one, which may be before it and may overflow.
fn later(time: u64, span: i64) -> u64 {
    time.wrapping_add_signed(span)
}

/// Makes a call with a system that exists.
fn make(known: &mut Known, call: &Call, id: u64) {
    let handle = known.handle;
    let mut room = vec![0u8; 300];
    match *call {
        Call::Create | Call::Destroy => unreachable!("done by the caller"),
        Call::Submit {
            port,
            address,
            size,
            kind,
            after,
        } => {
            let time = later(known.now(), after);
            match cxlab_submit(handle, port, id, address, size, kind, time) {
                CXLAB_OK => assert!(known.waiting.insert(id)),
                code => assert!(
                    (CXLAB_ERROR_KIND..=CXLAB_ERROR_PORT).contains(&code),
                    "{code}"
                ),
            }
        }
        Call::Close(port) => {
            let code = cxlab_close_port(handle, port);
            assert!([CXLAB_OK, CXLAB_ERROR_PORT].contains(&code), "{code}");
        }
        Call::Advance(span) => {
            let code = cxlab_advance(handle, later(known.now(), span));
            assert!([CXLAB_OK, CXLAB_ERROR_TIME].contains(&code), "{code}");
        }
        Call::Step => {
            let mut next = 0;
            assert_eq!(unsafe { cxlab_next_event(handle, &mut next) }, CXLAB_OK);
            if next != CXLAB_NO_EVENT {
                assert!(next >= known.now());
                assert_eq!(cxlab_advance(handle, next + 1), CXLAB_OK);
            }
        }
        Call::Take(room) => {
            known.take(room);
        }
        Call::Snoops(room) => {
            known.take_snoops(room);
        }
        Call::Answer {
            port,
            number,
            changed,
            after,
        } => {
            let first = known.snoops.first().copied();
            let (port, id) = first.filter(|_| number > 1).unwrap_or((port, number));
            known.answer(port, id, changed, later(known.now(), after));
        }
        Call::Report => {
            let mut value = 0.0;
            let code =
                unsafe { cxlab_statistic(handle, c"requests.completed".as_ptr(), &mut value) };
            assert_eq!(code, CXLAB_OK);
        }
        Call::Measure => assert_eq!(cxlab_begin_measurement(handle), CXLAB_OK),
        Call::Write(port, at, size) => {
            let code = unsafe { cxlab_write(handle, port, at, room.as_ptr().cast(), size) };
            assert!((CXLAB_ERROR_SIZE..=CXLAB_OK).contains(&code), "{code}");
        }
        Call::Read(port, at, size) => {
            let code = unsafe { cxlab_read(handle, port, at, room.as_mut_ptr().cast(), size) };
            assert!((CXLAB_ERROR_SIZE..=CXLAB_OK).contains(&code), "{code}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_calls_loses_or_doubles_a_request(calls in calls()) {
        let mut systems = vec![create()];
        for (id, (system, call)) in calls.iter().enumerate() {
            let at = system % systems.len().max(1);
            match call {
                Call::Create if systems.len() < 3 => systems.push(create()),
                Call::Create => {}
                _ if systems.is_empty() => {}
                Call::Destroy => systems.swap_remove(at).finish(),
                call => make(&mut systems[at], call, id as u64),
            }
        }
        systems.into_iter().for_each(Known::finish);
    }
}
