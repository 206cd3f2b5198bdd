//! Any sequence of calls, with right and wrong arguments, returns known codes. No request is lost, none completes
//! twice, and each snoop can be answered once.

#![allow(unsafe_code, reason = "the functions are those of C")]

use std::collections::BTreeSet;
use std::ffi::CString;
use std::ptr::null;

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

/// A call with its arguments.
#[derive(Clone, Debug)]
enum Call {
    Create,
    Destroy(usize),
    Submit {
        system: usize,
        port: u32,
        address: u64,
        size: u64,
        kind: u32,
        after: i64,
    },
    Close(usize, u32),
    Advance(usize, i64),
    Step(usize),
    Take(usize, usize),
    Snoops(usize, usize),
    Answer {
        system: usize,
        port: u32,
        number: u64,
        changed: u32,
        after: i64,
    },
    Report(usize),
    Measure(usize),
    Write(usize, u32, u64, usize),
    Read(usize, u32, u64, usize),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let system = 0..3usize;
    let port = prop_oneof![8 => 0..2u32, 1 => any::<u32>()];
    let address = prop_oneof![8 => (0..24u64).prop_map(|line| line * 64), 4 => (0..1u64 << 23).prop_map(|line| line * 64), 1 => any::<u64>()];
    let size = prop_oneof![8 => Just(64u64), 2 => (1..65u64).prop_map(|lines| lines * 64), 1 => any::<u64>()];
    let kind = prop_oneof![8 => 0..3u32, 1 => any::<u32>()];
    let span =
        prop_oneof![8 => 0..200_000i64, 1 => -1000..0i64, 1 => any::<i64>().prop_map(|x| x >> 20)];
    let bytes = prop_oneof![8 => 0..300usize, 1 => Just(usize::MAX)];
    let submit = (
        system.clone(),
        port.clone(),
        address.clone(),
        size,
        kind,
        span.clone(),
    );
    let submit = submit.prop_map(|(system, port, address, size, kind, after)| Call::Submit {
        system,
        port,
        address,
        size,
        kind,
        after,
    });
    let answer = (system.clone(), port.clone(), 0..8u64, 0..2u32, span.clone());
    let answer = answer.prop_map(|(system, port, number, changed, after)| Call::Answer {
        system,
        port,
        number,
        changed,
        after,
    });
    let memory = (system.clone(), port.clone(), address, bytes);
    let call = prop_oneof![
        2 => Just(Call::Create),
        1 => system.clone().prop_map(Call::Destroy),
        20 => submit,
        1 => (system.clone(), port).prop_map(|(system, port)| Call::Close(system, port)),
        8 => (system.clone(), span).prop_map(|(system, span)| Call::Advance(system, span)),
        8 => system.clone().prop_map(Call::Step),
        4 => (system.clone(), 0..5usize).prop_map(|(system, room)| Call::Take(system, room)),
        4 => (system.clone(), 0..5usize).prop_map(|(system, room)| Call::Snoops(system, room)),
        4 => answer,
        1 => system.clone().prop_map(Call::Report),
        1 => system.prop_map(Call::Measure),
        2 => memory.clone().prop_map(|(system, port, at, size)| Call::Write(system, port, at, size)),
        2 => memory.prop_map(|(system, port, at, size)| Call::Read(system, port, at, size)),
    ];
    proptest::collection::vec(call, 1..120)
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
        bytes: size_of::<cxlab_options>(),
        path: null(),
        text: text.as_ptr(),
        folder: null(),
        set: null(),
        set_count: 0,
        seed: null(),
        can_save: 0,
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
        Call::Create | Call::Destroy(_) => unreachable!("done by the caller"),
        Call::Submit {
            port,
            address,
            size,
            kind,
            after,
            ..
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
        Call::Close(_, port) => {
            let code = cxlab_close_port(handle, port);
            assert!([CXLAB_OK, CXLAB_ERROR_PORT].contains(&code), "{code}");
        }
        Call::Advance(_, span) => {
            let code = cxlab_advance(handle, later(known.now(), span));
            assert!([CXLAB_OK, CXLAB_ERROR_TIME].contains(&code), "{code}");
        }
        Call::Step(_) => {
            let mut next = 0;
            assert_eq!(unsafe { cxlab_next_event(handle, &mut next) }, CXLAB_OK);
            if next != CXLAB_NO_EVENT {
                assert!(next >= known.now());
                assert_eq!(cxlab_advance(handle, next + 1), CXLAB_OK);
            }
        }
        Call::Take(_, room) => {
            known.take(room);
        }
        Call::Snoops(_, room) => {
            known.take_snoops(room);
        }
        Call::Answer {
            port,
            number,
            changed,
            after,
            ..
        } => {
            let first = known.snoops.first().copied();
            let (port, id) = first.filter(|_| number > 1).unwrap_or((port, number));
            known.answer(port, id, changed, later(known.now(), after));
        }
        Call::Report(_) => {
            let mut value = 0.0;
            let code =
                unsafe { cxlab_statistic(handle, c"requests.completed".as_ptr(), &mut value) };
            assert_eq!(code, CXLAB_OK);
        }
        Call::Measure(_) => assert_eq!(cxlab_begin_measurement(handle), CXLAB_OK),
        Call::Write(_, port, at, size) => {
            let code = unsafe { cxlab_write(handle, port, at, room.as_ptr().cast(), size) };
            assert!((CXLAB_ERROR_SIZE..=CXLAB_OK).contains(&code), "{code}");
        }
        Call::Read(_, port, at, size) => {
            let code = unsafe { cxlab_read(handle, port, at, room.as_mut_ptr().cast(), size) };
            assert!((CXLAB_ERROR_SIZE..=CXLAB_OK).contains(&code), "{code}");
        }
    }
}

impl Call {
    /// The system that is used.
    fn system(&self) -> usize {
        match *self {
            Call::Create => 0,
            Call::Submit { system, .. } | Call::Answer { system, .. } => system,
            Call::Destroy(system)
            | Call::Close(system, _)
            | Call::Advance(system, _)
            | Call::Step(system)
            | Call::Take(system, _)
            | Call::Snoops(system, _)
            | Call::Report(system)
            | Call::Measure(system)
            | Call::Write(system, ..)
            | Call::Read(system, ..) => system,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_calls_loses_or_doubles_a_request(calls in calls()) {
        let mut systems = vec![create()];
        for (id, call) in calls.iter().enumerate() {
            let at = call.system() % systems.len().max(1);
            match call {
                Call::Create if systems.len() < 3 => systems.push(create()),
                Call::Create => {}
                _ if systems.is_empty() => {}
                Call::Destroy(_) => systems.swap_remove(at).finish(),
                call => make(&mut systems[at], call, id as u64),
            }
        }
        systems.into_iter().for_each(Known::finish);
    }
}
