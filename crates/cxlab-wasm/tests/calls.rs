//! Compiled functions, access by access.

use cxlab_wasm::{AtomicOp, Call, Program, Request, Step, WorkItem, cost};

const FAR: u64 = 1 << 40;

/// A program whose first global is the stack pointer, as linkers make it.
fn program(functions: &str) -> Result<Program, String> {
    let text = format!(
        r#"(module
            (import "cxlab" "get_global_id" (func $id (param i32) (result i64)))
            (import "cxlab" "get_num_groups" (func $groups (param i32) (result i64)))
            (import "cxlab" "get_work_dim" (func $dim (result i32)))
            (import "cxlab" "barrier" (func $barrier (param i32)))
            (memory i64 1)
            (global $sp (mut i64) (i64.const 4096))
            (data (i64.const 4096) "\01\02\03\04\05\06\07\80")
            {functions})"#
    );
    Program::new(&wat::parse_str(text).expect("valid text"))
}

fn call(functions: &str, arguments: &[u64]) -> Call {
    Call::new(
        &program(functions).expect("no fault"),
        "f",
        arguments,
        WorkItem::default(),
    )
    .expect("no fault")
}

/// The requests and cycles of a function. `answer` gives the value of each request.
fn run(functions: &str, arguments: &[u64], mut answer: impl FnMut(Request) -> u64) -> Vec<Step> {
    let mut call = call(functions, arguments);
    let mut steps = Vec::new();
    let mut value = 0;
    loop {
        let step = call.resume(value).expect("no fault");
        steps.push(step);
        match step {
            Step::Request(request, _) => value = answer(request),
            Step::Ended(_) => return steps,
        }
    }
}

fn requests(steps: &[Step]) -> Vec<Request> {
    let request = |step: &Step| match step {
        Step::Request(request, _) => Some(*request),
        Step::Ended(_) => None,
    };
    steps.iter().filter_map(request).collect()
}

fn store(addr: u64, size: u8, value: u64) -> Request {
    Request::Store {
        addr,
        size,
        value,
        atomic: false,
    }
}

fn load(addr: u64, size: u8) -> Request {
    Request::Load {
        addr,
        size,
        atomic: false,
    }
}

fn copy(to: u64, from: u64, bytes: u64) -> Request {
    Request::Copy { to, from, bytes }
}

/// The next request of a call, whose last one has no value.
fn next(call: &mut Call) -> Request {
    match call.resume(0) {
        Ok(Step::Request(request, _)) => request,
        other => panic!("{other:?}"),
    }
}

/// What a fault says.
fn fault(functions: &str, arguments: &[u64]) -> String {
    call(functions, arguments).resume(0).expect_err("a fault")
}

#[test]
fn loads_and_stores_leave_with_address_size_and_value() {
    let f = r#"(func (export "f") (param $p i64)
        (f64.store offset=16 (local.get $p) (f64.load offset=8 (local.get $p)))
        (f32.store offset=4 (local.get $p) (f32.load (local.get $p)))
        (i64.store16 (local.get $p) (i64.load8_s (local.get $p)))
        (i32.store (local.get $p) (i32.load16_s (local.get $p)))
        (i64.store (local.get $p) (i64.load32_s (local.get $p)))
        (i64.store (local.get $p) (i64.load32_u (local.get $p)))
        (i32.store8 (local.get $p) (i32.load8_u (local.get $p))))"#;
    let steps = run(f, &[FAR], |_| 0xffff_ffff_8000_80ff);
    let expected = [
        load(FAR + 8, 8),
        store(FAR + 16, 8, 0xffff_ffff_8000_80ff),
        load(FAR, 4),
        store(FAR + 4, 4, 0x8000_80ff),
        load(FAR, 1),
        store(FAR, 2, u64::MAX),
        load(FAR, 2),
        store(FAR, 4, 0xffff_80ff),
        load(FAR, 4),
        store(FAR, 8, 0xffff_ffff_8000_80ff),
        load(FAR, 4),
        store(FAR, 8, 0x8000_80ff),
        load(FAR, 1),
    ];
    let found = requests(&steps);
    assert_eq!(found[..13], expected);
    assert_eq!(found[13], store(FAR, 1, 0xff));
}

#[test]
fn values_come_back_to_the_function() {
    let f = r#"(func (export "f") (param $p i64)
        (i64.store (local.get $p)
            (i64.add (i64.load (local.get $p)) (i64.load offset=8 (local.get $p)))))"#;
    let steps = run(f, &[FAR], |request| match request {
        Request::Load { addr: FAR, .. } => 40,
        _ => 2,
    });
    assert_eq!(requests(&steps)[2], store(FAR, 8, 42));
}

#[test]
fn the_stack_and_constants_are_private_to_a_call() {
    let f = r#"(func (export "f") (param $p i64) (local $s i64)
        (local.set $s (i64.sub (global.get $sp) (i64.const 16)))
        (i64.store (local.get $s) (i64.load (i64.const 4096)))
        (i64.store (local.get $p) (i64.load (local.get $s)))
        (memory.fill (local.get $s) (i32.const 7) (i64.const 4))
        (i32.store (local.get $p) (i32.load (local.get $s))))"#;
    let expected = [
        store(FAR, 8, 0x8007_0605_0403_0201),
        store(FAR, 4, 0x0707_0707),
    ];
    for _ in 0..2 {
        assert_eq!(requests(&run(f, &[FAR], |_| 0)), expected);
    }
}

#[test]
fn null_pointers_and_stores_to_constants_are_faults() {
    let f = r#"(func (export "f") (param $p i64) (i64.store (local.get $p) (i64.const 1)))"#;
    assert!(fault(f, &[0]).contains("`f`: found an access to 8 B at 0x0; allowed: from 0x400"));
    assert!(fault(f, &[4096]).contains("in the program's static data; allowed: static data that"));
    assert!(fault(f, &[60_000]).contains("static data"));
    assert!(fault(f, &[4092]).contains("allowed: within the stack, below 0x1000"));
    let f = r#"(func (export "f") (param $p i64) (drop (i64.load (local.get $p))))"#;
    assert!(fault(f, &[65_532]).contains("or the static data, below 0x10000"));
    let f = r#"(func (export "f") (unreachable))"#;
    assert!(fault(f, &[]).starts_with("`f`: "));
}

#[test]
fn cycles_are_those_of_the_instructions_that_ran() {
    let f = r#"(func (export "f") (param $p i64) (param $n i64)
        (loop
            (local.set $n (i64.sub (local.get $n) (i64.const 1)))
            (br_if 0 (i64.ne (local.get $n) (i64.const 0))))
        (i64.store (local.get $p) (i64.mul (local.get $p) (local.get $n)))
        (f64.store (local.get $p) (f64.div (f64.const 1) (f64.const 2))))"#;
    for rounds in [1, 10] {
        let steps = run(f, &[FAR, rounds], |_| 0);
        let cycles = [0, 1].map(|at| match steps[at] {
            Step::Request(_, cycles) => cycles,
            Step::Ended(_) => panic!("{steps:?}"),
        });
        // A subtraction, a comparison and a branch in each round, a multiplication and the store.
        assert_eq!(cycles[0], 3 * rounds + cost::MULTIPLY + 1);
        assert_eq!(cycles[1], cost::FLOAT_DIVIDE + 1);
        assert_eq!(steps[2], Step::Ended(0));
    }
}

#[test]
fn cycles_of_a_branch_that_is_not_taken_do_not_count() {
    let f = r#"(func (export "f") (param $c i32)
        (if (local.get $c)
            (then (drop (i64.div_u (i64.const 8) (i64.const 2))))
            (else (drop (i64.mul (i64.const 8) (i64.const 2))))))"#;
    assert_eq!(run(f, &[1], |_| 0), [Step::Ended(1 + cost::DIVIDE)]);
    assert_eq!(run(f, &[0], |_| 0), [Step::Ended(1 + cost::MULTIPLY)]);
}

#[test]
fn an_endless_loop_takes_time() {
    let mut call = call(r#"(func (export "f") (loop (br 0)))"#, &[]);
    for _ in 0..3 {
        let Ok(Step::Request(Request::Time, cycles)) = call.resume(0) else {
            panic!()
        };
        assert!(cycles > 1000);
    }
}

#[test]
fn atomic_operations_have_their_kind_and_operands() {
    let f = r#"(func (export "f") (param $p i64)
        (i64.store (local.get $p) (i64.atomic.rmw.add offset=8 (local.get $p) (i64.const 3)))
        (drop (i32.atomic.rmw.sub (local.get $p) (i32.const 4)))
        (drop (i32.atomic.rmw.and (local.get $p) (i32.const 5)))
        (drop (i64.atomic.rmw.or (local.get $p) (i64.const 6)))
        (drop (i64.atomic.rmw.xor (local.get $p) (i64.const 7)))
        (drop (i64.atomic.rmw.xchg (local.get $p) (i64.const 8)))
        (drop (i64.atomic.rmw.cmpxchg (local.get $p) (i64.const 9) (i64.const 10)))
        (i32.store (local.get $p)
            (i32.atomic.rmw.cmpxchg (local.get $p) (i32.const 11) (i32.const 12)))
        (i32.atomic.store (local.get $p) (i32.atomic.load (local.get $p)))
        (atomic.fence)
        (call $barrier (i32.const 1)))"#;
    let found = requests(&run(f, &[FAR], |_| 77));
    let atomic = |addr, size, op, operand, compare| Request::Atomic {
        addr,
        size,
        op,
        operand,
        compare,
    };
    let expected = [
        atomic(FAR + 8, 8, AtomicOp::Add, 3, 0),
        store(FAR, 8, 77),
        atomic(FAR, 4, AtomicOp::Sub, 4, 0),
        atomic(FAR, 4, AtomicOp::And, 5, 0),
        atomic(FAR, 8, AtomicOp::Or, 6, 0),
        atomic(FAR, 8, AtomicOp::Xor, 7, 0),
        atomic(FAR, 8, AtomicOp::Exchange, 8, 0),
        atomic(FAR, 8, AtomicOp::CompareExchange, 10, 9),
        atomic(FAR, 4, AtomicOp::CompareExchange, 12, 11),
        store(FAR, 4, 77),
        Request::Load {
            addr: FAR,
            size: 4,
            atomic: true,
        },
        Request::Store {
            addr: FAR,
            size: 4,
            value: 77,
            atomic: true,
        },
        Request::Fence,
        Request::Barrier,
    ];
    assert_eq!(found, expected);
    let f = r#"(func (export "f") (param $p i64)
        (drop (i64.atomic.rmw.add (local.get $p) (i64.const 3))))"#;
    assert!(fault(f, &[FAR + 4]).contains("allowed: multiples of 8"));
    assert!(fault(f, &[2048]).contains("atomic operation on private memory"));
}

#[test]
fn copies_leave_whole_and_private_bytes_are_there_for_the_owner() {
    let f = r#"(func (export "f") (param $p i64)
        (memory.copy (local.get $p) (i64.const 4096) (i64.const 8))
        (memory.copy (i64.const 2048) (local.get $p) (i64.const 8))
        (i64.store (local.get $p) (i64.load (i64.const 2048)))
        (memory.copy (local.get $p) (local.get $p) (i64.const 0))
        (memory.fill (local.get $p) (i32.const 258) (i64.const 9)))"#;
    let mut call = call(f, &[FAR]);
    assert_eq!(next(&mut call), copy(FAR, 4096, 8));
    assert_eq!(next(&mut call), copy(2048, FAR, 8));
    assert!(call.is_private(2048) && !call.is_private(FAR));
    assert_eq!(call.private(4096, 2), Ok(&[1, 2][..]));
    call.private_mut(2048, 8).expect("no fault").fill(9);
    assert_eq!(next(&mut call), store(FAR, 8, 0x0909_0909_0909_0909));
    let (to, value, bytes) = (FAR, 2, 9);
    assert_eq!(next(&mut call), Request::Fill { to, value, bytes });
}

#[test]
fn a_work_item_knows_its_place() {
    let f = r#"(func (export "f") (param $p i64) (param $d i32)
        (i64.store (local.get $p) (call $id (local.get $d)))
        (i64.store (local.get $p) (call $groups (local.get $d)))
        (i32.store (local.get $p) (call $dim)))"#;
    let item = WorkItem {
        dimensions: 2,
        global_id: [7, 8, 0],
        global_size: [12, 10, 1],
        local_size: [3, 5, 1],
        ..WorkItem::default()
    };
    let program = program(f).expect("no fault");
    for (dimension, id, groups) in [(0, 7, 4), (1, 8, 2), (3, 0, 1)] {
        let mut call = Call::new(&program, "f", &[FAR, dimension], item.clone()).expect("no fault");
        let expected = [store(FAR, 8, id), store(FAR, 8, groups), store(FAR, 4, 2)];
        for one in expected {
            assert_eq!(next(&mut call), one);
        }
    }
}

#[test]
fn functions_call_functions() {
    let f = r#"(func $twice (param f64) (result f64) (f64.mul (local.get 0) (f64.const 2)))
        (func (export "f") (param $p i64) (param $x f64)
            (f64.store (local.get $p) (call $twice (local.get $x))))"#;
    let steps = run(f, &[FAR, 1.5f64.to_bits()], |_| 0);
    assert_eq!(requests(&steps), [store(FAR, 8, 3f64.to_bits())]);
    let program = program(f).expect("no fault");
    let functions = program.functions();
    assert_eq!((functions.len(), functions[0].name.as_str()), (1, "f"));
    assert!(functions[0].is_void);
    for (name, arguments) in [("g", &[1, 2][..]), ("f", &[1])] {
        assert!(Call::new(&program, name, arguments, WorkItem::default()).is_err());
    }
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let wrong = |text: &str| match Program::new(&wat::parse_str(text).expect("valid text")) {
        Ok(_) => panic!("accepted {text}"),
        Err(error) => error,
    };
    let cases = [
        (
            "(module (memory 1))",
            "pointers of 32 bits; allowed: wasm64",
        ),
        (
            r#"(module (import "env" "printf" (func)))"#,
            "found `printf` of `env`",
        ),
        (
            r#"(module (memory i64 1) (func (drop (memory.grow (i64.const 1)))))"#,
            "more memory",
        ),
        (
            r#"(module (memory i64 1) (func (drop (i32.atomic.rmw8.add_u (i64.const 0) (i32.const 1)))))"#,
            "I32AtomicRmw8AddU",
        ),
        ("(module (func (drop (v128.const i64x2 0 0))))", "SIMD"),
        (
            "(module (table 2 funcref) (func $f) (elem (i32.const 1) $f))",
            "table of functions",
        ),
        (r#"(module (func $f) (start $f))"#, "start function"),
        (
            "(module (memory i64 64) (global (mut i64) (i64.const 4096)))",
            "allowed: 1048576 B",
        ),
        (
            r#"(module (memory i64 1) (global (mut i64) (i64.const 4096)) (data (i64.const 1024) "x"))"#,
            "allowed: the stack first",
        ),
    ];
    for (text, expected) in cases {
        let error = wrong(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(Program::new(b"no module").is_err());
}
