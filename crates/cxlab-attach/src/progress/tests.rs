use std::array::from_fn;

use super::*;
use crate::knuth;

/// A program that is known instruction by instruction. It writes registers. Its places are
/// recorded while it is stepped.
#[derive(Default)]
struct Program {
    values: Values,
    executed: u64,
    stepped: Option<Vec<ThreadPlace>>,
    /// Instruction numbers at which the program is sampled, and the samples.
    looks: VecDeque<u64>,
    seen: Vec<(u64, ThreadPlace)>,
}

impl Program {
    fn at(&mut self, code: u64) {
        let place = ThreadPlace {
            code,
            values: self.values,
        };
        if let Some(steps) = self.stepped.as_mut().filter(|steps| steps.len() < WINDOW) {
            steps.push(place);
        }
        if self.looks.front() == Some(&self.executed) {
            self.looks.pop_front();
            self.seen.push((self.executed, place));
        }
        self.executed += 1;
    }
}

/// Rows of cells. Register 0 points to the cell, register 1 counts down the row's cells,
/// register 2 counts rows, and register 3 is random. Four instructions a cell, three a row.
fn rows(program: &mut Program, rows: u64, cells: u64) {
    program.values[2] = 0;
    for _ in 0..rows {
        program.values[0] = 0x1000;
        program.at(100);
        program.values[1] = cells;
        program.at(101);
        for _ in 0..cells {
            program.at(200);
            program.values[3] = program.values[3].wrapping_mul(0x5851_f42d_4c95_7f2d) + 1;
            program.at(201);
            program.values[0] += 64;
            program.at(202);
            program.values[1] -= 1;
            program.at(203);
        }
        program.values[2] += 1;
        program.at(102);
    }
}

/// Number of instructions of a window.
const WINDOW: usize = 4000;

fn window(run: impl Fn(&mut Program)) -> Vec<ThreadPlace> {
    let mut program = Program {
        stepped: Some(Vec::new()),
        ..Program::default()
    };
    run(&mut program);
    program.stepped.unwrap()
}

/// Samples a program every `every` instructions.
fn looked(every: u64, run: impl Fn(&mut Program)) -> Vec<(u64, ThreadPlace)> {
    let mut program = Program {
        looks: (1..).map(|at| at * every).take(4000).collect(),
        ..Program::default()
    };
    run(&mut program);
    program.seen
}

fn registers(found: &[Advance]) -> Vec<usize> {
    found.iter().map(|one| one.register).collect()
}

#[test]
fn a_loop_shows_its_pointer_and_its_counter_and_nothing_else() {
    let steps = window(|program| rows(program, 1, 200));
    let found = advances(&steps);
    assert_eq!(registers(&found), [0, 1]);
    assert!(found[0].up && !found[1].up);
    for (one, step) in found.iter().zip([64, 1]) {
        assert_eq!(one.by * 4, step * one.instructions, "{one:?}");
        let all = BTreeSet::from([200, 201, 202, 203]);
        assert!(one.at.is_superset(&all), "{one:?}");
    }
}

#[test]
fn where_inner_loops_begin_anew_the_outer_one_counts() {
    let steps = window(|program| rows(program, 40, 5));
    let found = advances(&steps);
    // The register also counts at the instructions of the inner loop.
    let outer = found.iter().find(|one| one.register == 2).unwrap();
    assert_eq!(outer.instructions, outer.by * 23);
    assert!(outer.at.contains(&201) && outer.at.contains(&100));
    // The inner registers move both ways everywhere.
    assert_eq!(registers(&found), [2]);
}

/// A register that a part of the loop uses for something else counts in the other parts.
#[test]
fn a_register_counts_only_where_it_has_its_meaning() {
    let steps = window(|program| {
        for turn in 0..100u64 {
            program.values[5] = turn * 8;
            program.at(1);
            program.at(2);
            program.values[5] = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            program.at(3);
        }
    });
    let found = advances(&steps);
    assert_eq!(registers(&found), [5]);
    assert_eq!(found[0].at, BTreeSet::from([1, 2]));
}

#[test]
fn values_without_order_and_few_changes_count_nothing() {
    let mut state = 1;
    for _ in 0..100 {
        let steps: Vec<ThreadPlace> = (0..400)
            .map(|at| {
                let (code, values) = (at % 4, from_fn(|_| knuth(&mut state) >> 20));
                ThreadPlace { code, values }
            })
            .collect();
        assert_eq!(advances(&steps), []);
    }
    assert_eq!(advances(&window(|program| rows(program, 1, 3))), []);
}

/// Time of an instruction, in nanoseconds.
const EACH_NS: f64 = 100.0;

/// Instructions between samples: counted ones, those executed meanwhile, and all.
#[derive(Default)]
struct Sums(f64, f64, f64);

impl Sums {
    /// Adds an interval between two samples, `slower` times as long as usually.
    fn add(&mut self, progress: &mut Progress, pair: [&(u64, ThreadPlace); 2], slower: f64) {
        let [(from, before), (to, after)] = pair;
        let executed = (to - from) as f64;
        let (cpu_ns, plain) = (executed * EACH_NS * slower, slower == 1.0);
        let counted = progress.count(before, after, cpu_ns, plain);
        self.0 += counted.unwrap_or(0.0);
        self.1 += if counted.is_some() { executed } else { 0.0 };
        self.2 += executed;
    }
}

/// Feeds samples to `progress`, and returns the counted, the executed of the counted, and all instructions.
fn fed(progress: &mut Progress, seen: &[(u64, ThreadPlace)], slower: f64) -> (f64, f64, f64) {
    let mut sums = Sums::default();
    for pair in seen.windows(2) {
        sums.add(progress, [&pair[0], &pair[1]], slower);
    }
    (sums.0, sums.1, sums.2)
}

/// Progress in the code of `rows`, from a window that holds nothing but a row.
fn known() -> Progress {
    let mut progress = Progress::default();
    progress.add(advances(&window(|program| rows(program, 1, 1000))));
    assert!(progress.is_undecided() && progress.again() == Some(SHORTEST_INTERVAL));
    progress
}

#[test]
fn a_long_loop_is_counted_to_the_instruction_whatever_its_cpu_time() {
    let run = |program: &mut Program| rows(program, 1, 1_000_000);
    let mut progress = known();
    // One sample each millisecond, until fewer suffice.
    let short = looked(10_019, run);
    let (counted, of, _) = fed(&mut progress, &short[..60], 1.0);
    assert_eq!((progress.again(), progress.is_undecided()), (None, false));
    assert!((counted / of - 1.0).abs() < 1e-4, "{counted} {of}");
    let seen = looked(100_019, run);
    for slower in [1.0, 1.7, 0.4, 5.0] {
        let (counted, of, all) = fed(&mut progress, &seen, slower);
        assert_eq!(of, all);
        assert!(
            (counted / of - 1.0).abs() < 1e-4,
            "{slower}: {counted} {of}"
        );
    }
}

/// Samples as often as `progress` asks for, with 100 ns an instruction.
fn followed(progress: &mut Progress, run: impl Fn(&mut Program)) -> (f64, f64, f64) {
    // The most frequent samples possible, each half millisecond.
    let seen = looked(5_000, run);
    let (mut sums, mut at) = (Sums::default(), 0);
    loop {
        let wait = progress.again();
        let step = wait.map_or(20, |wait| 2 * wait.as_millis() as usize);
        let Some(next) = seen.get(at + step) else {
            return (sums.0, sums.1, sums.2);
        };
        sums.add(progress, [&seen[at], next], 1.0);
        at += step;
    }
}

/// Rows of every length relative to the interval. The count is right however often the row
/// restarts, and rows from 5 ms on are mostly counted.
#[test]
fn what_began_anew_between_two_looks_is_not_counted_wrongly() {
    for cells in [12_700, 15_000, 20_011, 26_000, 40_000, 90_000, 400_000] {
        let run = move |program: &mut Program| rows(program, 4_000_000 / cells, cells);
        let (counted, of, all) = followed(&mut known(), run);
        assert!((counted / of - 1.0).abs() < 1e-3, "{cells}: {counted} {of}");
        assert!(of > 0.6 * all, "{cells}: {of} of {all}");
    }
}

/// Rows that end within two samples move both ways, and hardly any of them is counted.
#[test]
fn rows_that_are_short_do_not_count() {
    for cells in [211, 499, 1_009, 1_511] {
        let run = move |program: &mut Program| rows(program, 4_000_000 / cells, cells);
        let mut progress = known();
        let (_, of, all) = followed(&mut progress, run);
        assert!(of < 0.03 * all, "{cells}: {of} of {all}");
    }
}

/// The pointer continues in another array far above. It disagrees with the counter, which is right.
#[test]
fn of_two_registers_that_disagree_the_one_that_went_less_far_counts() {
    let run = |program: &mut Program| {
        for turn in 0..1_000_000u64 {
            program.values[0] = turn * 8 + if turn > 500_000 { 1 << 20 } else { 0 };
            program.at(1);
            program.values[4] = turn;
            program.at(2);
        }
    };
    let mut progress = Progress::default();
    progress.add(advances(&window(run)));
    let (counted, of, all) = followed(&mut progress, run);
    assert!((counted / of - 1.0).abs() < 1e-4, "{counted} {of}");
    assert!(of > 0.9 * all, "{of} of {all}");
}

/// A lone pointer jumps farther than any code runs: that interval is not counted.
#[test]
fn what_goes_too_far_is_not_counted() {
    let run = |program: &mut Program| {
        for turn in 0..1_000_000u64 {
            program.values[0] = turn * 8 + if turn > 500_000 { 1 << 40 } else { 0 };
            program.at(1);
            program.at(2);
        }
    };
    let mut progress = Progress::default();
    progress.add(advances(&window(run)));
    let (counted, of, all) = followed(&mut progress, run);
    assert!((counted / of - 1.0).abs() < 1e-4, "{counted} {of}");
    assert!(of > 0.8 * all && of < all, "{of} of {all}");
}

/// Two loops count as one piece of code, and the second runs thirty times as fast. After two
/// intervals it is counted too.
#[test]
fn code_that_goes_on_much_faster_is_counted() {
    let mut progress = known();
    let seen = looked(10_019, |program| rows(program, 1, 400_000));
    fed(&mut progress, &seen[..40], 1.0);
    let (counted, of, all) = fed(&mut progress, &seen[40..140], 1.0 / 30.0 * 8.0);
    assert!(of == all && (counted / of - 1.0).abs() < 1e-3);
    for pair in seen[..40].windows(2) {
        progress.count(&pair[0].1, &pair[1].1, 100.0 * 10_019.0 * EACH_NS, true);
    }
    let (counted, of, all) = fed(&mut progress, &seen[..40], 1.0);
    assert!((counted / of - 1.0).abs() < 1e-3, "{counted} {of}");
    assert_eq!((all - of).round(), 2.0 * 10_019.0);
}

/// Code takes longer after a hold. The difference is known from code without a hold before, up
/// to one round of the loop in which the sample was.
#[test]
fn what_holds_slow_down_is_known() {
    let mut progress = known();
    let seen = looked(10_019, |program| rows(program, 1, 200_000));
    let is = |progress: &Progress, slower: f64, more: f64| {
        let found = progress.longer_ns(10_019.0, 10_019.0 * EACH_NS * slower);
        (found - 10_019.0 * EACH_NS * more).abs() <= 4.0 * EACH_NS
    };
    fed(&mut progress, &seen[..40], 1.0);
    assert!(is(&progress, 1.0, 0.0) && is(&progress, 1.3, 0.3) && is(&progress, 0.9, -0.1));
    fed(&mut progress, &seen[40..], 1.5);
    assert!(is(&progress, 1.0, 0.0) && is(&progress, 1.3, 0.3));
    assert!(progress.pace().unwrap() < 0.7 / EACH_NS);
}

#[test]
fn a_counter_of_32_bits_may_go_through_zero() {
    assert_eq!(way(false, 5, 0xffff_fff0), Some(21.0));
    assert_eq!(way(true, 0xffff_fff0, 4), Some(20.0));
    assert_eq!(way(true, 900, 100), Some(-800.0));
    assert_eq!(way(true, u64::MAX - 4, 5), Some(10.0));
    assert_eq!(way(true, 1 << 40, (1 << 40) + 3), Some(3.0));
    assert_eq!(way(true, 0, 3 << 30), Some((3u64 << 30) as f64));
    assert_eq!(way(true, 7, 7), None);
}

/// Loops that share code: at an instruction that no window has seen, nothing is counted.
#[test]
fn nothing_is_counted_at_unknown_code() {
    let mut progress = known();
    let seen = looked(10_019, |program| rows(program, 1, 200_000));
    fed(&mut progress, &seen[..40], 1.0);
    let mut from = seen[0].1;
    assert!(progress.count(&from, &seen[1].1, 1e6, true).is_some());
    from.code = 999;
    assert_eq!(progress.count(&from, &seen[1].1, 1e6, true), None);
}
