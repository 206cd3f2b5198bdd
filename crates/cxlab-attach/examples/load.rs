//! Programs to attach to. Each prints what its own clock measures, as `name value unit`.
//!
//! * `load chase MiB STEPS`
//! * `load two MiB STEPS A B`: A steps in a first array per B steps in a second.
//! * `load stream MiB PASSES`, `load write MiB PASSES`, `load random MiB READS`
//! * `load heap MiB PASSES KiB`: blocks of KiB are allocated, written and freed.
//! * `load zeroed MiB PASSES KiB`: like `heap`, with memory that is requested as zeroes.
//! * `load sparse MiB STEPS`: a walk in a fixed order over one line of each page.
//! * `load scattered MiB STEPS`: the same without order.
//! * `load conflicts KiB LINES STEPS`: a walk over lines that are so far apart.
//! * `load huge MiB READS`: like `random`, in large pages.
//! * `load phases MiB ROUNDS STEPS`: in turn a walk, computing, and a pass in order.
//! * `load search MiB LOOKUPS`: binary searches in a sorted array.
//! * `load table MiB LOOKUPS`: a hash table, some of whose keys are looked up far more often.
//! * `load sort MiB [ROUNDS]`: sorts values in any order, anew each round.
//! * `load matrix SIZE`: a product of two square matrices, column by column.
//! * `load graph VERTICES ROUNDS`: sums over the neighbours of each vertex.
//! * `load stencil MiB PASSES`: each value becomes the mean of itself and its four neighbours.
//! * `load text MiB [ROUNDS]`: counts words, anew each round.
//! * `load code MiB STEPS`: like `chase`, in machine code that the program makes.
//! * `load forks N MiB STEPS`: children chase through the parent's array, one after the other.
//! * `load threads MiB STEPS`: two threads chase, each through its array.
//! * `load streams MiB PASSES THREADS`: threads add up an array in order, each its part.
//! * `load crowd MiB READS THREADS`: threads read one array without order, and a sum under a lock each 1,000 reads.
//! * `load spin MILLISECONDS [THREADS]`, `load children N MILLISECONDS`, `load forever MiB`
//!
//! Sizes of arrays that are chased through are powers of two.

#![allow(
    unsafe_code,
    reason = "programs that fork, make code, or ask for large pages"
)]

use std::collections::HashMap;
use std::hint::black_box;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A cycle through all lines of `bytes` bytes, a power of two: x -> 1664525 x + 1013904223
/// (Numerical Recipes) visits every line, and consecutive lines are not near each other.
fn cycle(bytes: usize) -> Vec<u64> {
    let lines = bytes / 64;
    assert!(lines.is_power_of_two(), "the size must be a power of two");
    let mut words = vec![0u64; lines * 8];
    for line in 0..lines {
        let next = line.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % lines;
        words[line * 8] = next as u64 * 8;
    }
    words
}

fn chase(words: &[u64], mut at: usize, steps: usize) -> usize {
    for _ in 0..steps {
        at = words[at] as usize;
    }
    at
}

/// Random numbers (SplitMix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Reads one word of each of `reads` lines without order.
fn read_at_random(lines: &[u64], reads: usize) -> u64 {
    let last = lines.len() / 8 - 1;
    let (mut state, mut sum) = (1u64, 0u64);
    for _ in 0..reads {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        sum = sum.wrapping_add(lines[((state >> 30) as usize & last) * 8]);
    }
    sum
}

/// The line that is used of a page: without order, of 64.
fn line_of(page: usize) -> usize {
    ((page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

/// A cycle through `count` lines, `far` bytes apart each, or in any line of so many bytes each if `spread`.
fn walk(count: usize, far: usize, spread: bool) -> (Vec<u64>, usize) {
    assert!(
        count.is_power_of_two(),
        "the number of lines must be a power of two"
    );
    let word = |line: usize| line * far / 8 + if spread { line_of(line) * 8 } else { 0 };
    let mut words = vec![0u64; count * far / 8 + 512];
    for line in 0..count {
        let next = line.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % count;
        words[word(line)] = word(next) as u64;
    }
    (words, word(0))
}

/// A chase as machine code: `mov rax, [rdi + rax*8]; dec rsi; jnz; ret`.
#[cfg(target_arch = "x86_64")]
fn chase_made(words: &[u64], steps: usize) -> u64 {
    const CODE: [u8; 13] = [
        0x31, 0xc0, 0x48, 0x8b, 0x04, 0xc7, 0x48, 0xff, 0xce, 0x75, 0xf7, 0xc3, 0x90,
    ];
    let page = mapped(4096);
    // SAFETY: A new page is written and then executed. The code reads `words` at indices that are in it, and
    // uses only registers that a call may change.
    unsafe {
        std::ptr::copy_nonoverlapping(CODE.as_ptr(), page.cast(), CODE.len());
        assert_eq!(
            libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_EXEC),
            0
        );
        let made: extern "sysv64" fn(*const u64, usize) -> u64 = std::mem::transmute(page);
        made(words.as_ptr(), steps)
    }
}

/// Prints how long each of `count` steps of some work takes.
fn timed<T>(step: &str, count: usize, work: impl FnOnce() -> T) {
    let began = Instant::now();
    black_box(work());
    let each_ns = began.elapsed().as_secs_f64() * 1e9 / count as f64;
    println!("{step} {each_ns:.2} ns");
}

/// Two arrays to chase through. Prints where they are.
fn two_cycles(bytes: usize) -> [Vec<u64>; 2] {
    let arrays = [cycle(bytes), cycle(bytes)];
    println!("pid {}", std::process::id());
    for (name, array) in ["first", "second"].iter().zip(&arrays) {
        println!("{name} {} {}", array.as_ptr().addr(), array.len() * 8);
    }
    arrays
}

/// New memory of this process.
fn mapped(bytes: usize) -> *mut libc::c_void {
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: A new mapping, which nothing else uses.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    assert!(start != libc::MAP_FAILED, "no memory");
    start
}

fn spin(time: Duration) -> u64 {
    let began = Instant::now();
    let mut state = 1u64;
    while began.elapsed() < time {
        for _ in 0..10_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
        }
    }
    state
}

#[expect(clippy::too_many_lines, reason = "one program after the other")]
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |at: usize| -> usize {
        let word = words.get(at).and_then(|word| word.parse().ok());
        word.unwrap_or_else(|| panic!("argument {at} must be a number"))
    };
    let mib = |at| number(at) << 20;
    let number_or_one = |at| words.get(at).map_or(1, |_| number(at));
    match words.get(1).map(String::as_str) {
        Some("chase") => {
            let (lines, steps) = (cycle(mib(2)), number(3));
            timed("step", steps, || chase(&lines, 0, steps));
        }
        Some("two") => {
            let (steps, a, b) = (number(3), number(4), number(5));
            let [first, second] = two_cycles(mib(2));
            timed("step", steps, || {
                let (mut x, mut y) = (0, 0);
                for _ in 0..steps / (a + b) {
                    x = chase(&first, x, a);
                    y = chase(&second, y, b);
                }
                (x, y)
            });
        }
        Some("random") => {
            let (lines, reads) = (cycle(mib(2)), number(3));
            timed("read", reads, || read_at_random(&lines, reads));
        }
        Some("sparse") => {
            let (words, first) = walk(mib(2) / 4096, 4096, true);
            timed("step", number(3), || chase(&words, first, number(3)));
        }
        Some("scattered") => {
            let (words, _) = walk(mib(2) / 4096, 4096, true);
            let pages = mib(2) as u64 / 4096;
            let (mut state, mut none) = (1, 0);
            timed("step", number(3), || {
                for _ in 0..number(3) {
                    // Each step needs what the one before has read.
                    let page = ((random(&mut state) + none) % pages) as usize;
                    none = words[page * 512 + line_of(page) * 8] >> 63;
                }
                none
            });
        }
        Some("conflicts") => {
            let (words, first) = walk(number(3), number(2) << 10, false);
            timed("step", number(4), || chase(&words, first, number(4)));
        }
        Some("huge") => {
            let bytes = mib(2);
            let start = mapped(bytes);
            // SAFETY: A new mapping of that size is used as words.
            let lines = unsafe {
                libc::madvise(start, bytes, libc::MADV_HUGEPAGE);
                std::slice::from_raw_parts_mut(start.cast::<u64>(), bytes / 8)
            };
            lines.fill(1);
            timed("read", number(3), || read_at_random(lines, number(3)));
        }
        Some("phases") => {
            let (lines, steps) = (cycle(mib(2)), number(4));
            let (mut at, mut sum) = (0, 0u64);
            for _ in 0..number(3) {
                at = chase(&lines, at, steps);
                let mut state = 1;
                for _ in 0..20 * steps {
                    sum ^= random(&mut state);
                }
                sum = black_box(&lines)
                    .iter()
                    .fold(sum, |sum, word| sum.wrapping_add(*word));
            }
            println!("sum {}", black_box(sum.wrapping_add(at as u64)));
        }
        Some("search") => {
            let words: Vec<u64> = (0..mib(2) as u64 / 8).map(|at| 3 * at).collect();
            let (mut state, mut found) = (1, 0);
            for _ in 0..number(3) {
                let key = random(&mut state) % (3 * words.len() as u64);
                found += usize::from(words.binary_search(&key).is_ok());
            }
            println!("found {found}");
        }
        Some("table") => {
            let count = mib(2) as u64 / 64;
            let mut table: HashMap<u64, [u64; 4]> = HashMap::with_capacity(count as usize);
            table.extend((0..count).map(|key| (key, [key; 4])));
            let (mut state, mut sum) = (1, 0u64);
            for _ in 0..number(3) {
                // The logarithm of the key is even: half of the look-ups are of a part in a thousand.
                let part = (random(&mut state) >> 11) as f64 / (1u64 << 53) as f64;
                let key = (count as f64).powf(part) as u64 % count;
                sum = sum.wrapping_add(table.get(&key).map_or(0, |values| values[1]));
            }
            println!("sum {sum}");
        }
        Some("sort") => {
            let rounds = number_or_one(3);
            let mut values = vec![0u64; mib(2) / 8];
            for round in 0..rounds {
                let mut state = 1 + round as u64;
                values.fill_with(|| random(&mut state));
                values.sort_unstable();
            }
            println!("median {}", values[values.len() / 2]);
        }
        Some("matrix") => {
            let size = number(2);
            let (left, right) = (vec![1.5f64; size * size], vec![0.5f64; size * size]);
            let mut product = vec![0.0; size * size];
            for row in 0..size {
                for column in 0..size {
                    product[row * size + column] = (0..size)
                        .map(|at| left[row * size + at] * right[at * size + column])
                        .sum::<f64>();
                }
            }
            println!("last {}", black_box(product)[size * size - 1]);
        }
        Some("graph") => {
            let (count, mut state) = (number(2), 1);
            let neighbours: Vec<u32> = (0..8 * count)
                .map(|_| (random(&mut state) % count as u64) as u32)
                .collect();
            let mut values = vec![1.0f64; count];
            for _ in 0..number(3) {
                let of = |all: &[u32]| all.iter().map(|other| values[*other as usize]).sum::<f64>();
                values = neighbours
                    .chunks(8)
                    .map(|all| 0.1 + of(all) / 9.0)
                    .collect();
            }
            println!("first {:.6}", values[0]);
        }
        Some("stencil") => {
            let side = 1024;
            let rows = mib(2) / 8 / side;
            let mut values: Vec<f64> = (0..rows * side).map(|at| at as f64).collect();
            for _ in 0..number(3) {
                let mut next = values.clone();
                for at in side + 1..(rows - 1) * side - 1 {
                    let beside = values[at - 1] + values[at + 1];
                    next[at] = 0.2 * (values[at] + beside + values[at - side] + values[at + side]);
                }
                values = next;
            }
            println!("last {:.3}", values[values.len() / 2]);
        }
        Some("text") => {
            let mut state = 1;
            let mut text = String::with_capacity(mib(2));
            while text.len() + 12 < mib(2) {
                // Small numbers are far more frequent words.
                let bits = random(&mut state) % 20;
                text += &(random(&mut state) >> (63 - bits)).to_string();
                text.push(' ');
            }
            let rounds = number_or_one(3);
            let mut different = 0;
            for _ in 0..rounds {
                let mut words: HashMap<&str, u64> = HashMap::new();
                text.split(' ')
                    .for_each(|word| *words.entry(word).or_default() += 1);
                different = words.len();
            }
            println!("words {different}");
        }
        #[cfg(target_arch = "x86_64")]
        Some("code") => {
            let (lines, steps) = (cycle(mib(2)), number(3));
            timed("step", steps, || chase_made(&lines, steps));
        }
        Some("forks") => {
            let lines = cycle(mib(3));
            for _ in 0..number(2) {
                // SAFETY: There is one thread, and the child only reads memory and ends.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    black_box(chase(&lines, 0, number(4)));
                    // SAFETY: This ends the child without the parent's handlers.
                    unsafe { libc::_exit(0) };
                }
                let mut status = 1;
                // SAFETY: `status` is where the kernel may write.
                let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert!(ended == child && status == 0, "a child failed");
            }
            println!("forks {} done", number(2));
        }
        Some("threads") => {
            let (steps, arrays) = (number(3), two_cycles(mib(2)));
            std::thread::scope(|scope| {
                for lines in &arrays {
                    scope.spawn(move || black_box(chase(lines, 0, steps)));
                }
            });
            println!("threads done");
        }
        Some("streams") => {
            let values = vec![1u64; mib(2) / 8];
            let (passes, threads) = (number(3), number(4));
            std::thread::scope(|scope| {
                for part in values.chunks(values.len().div_ceil(threads)) {
                    scope.spawn(move || {
                        for _ in 0..passes {
                            black_box(black_box(part).iter().sum::<u64>());
                        }
                    });
                }
            });
            println!("streams done");
        }
        Some("crowd") => {
            let (lines, sum) = (cycle(mib(2)), Mutex::new(0u64));
            let (reads, threads) = (number(3), number(4));
            std::thread::scope(|scope| {
                for thread in 0..threads as u64 {
                    let (lines, sum) = (&lines, &sum);
                    scope.spawn(move || {
                        let mut state = thread;
                        for _ in 0..reads / 1000 {
                            let part = (0..1000).fold(0u64, |part, _| {
                                let line = random(&mut state) as usize % (lines.len() / 8);
                                part.wrapping_add(lines[8 * line])
                            });
                            if let Ok(mut sum) = sum.lock() {
                                *sum = sum.wrapping_add(part);
                            }
                        }
                    });
                }
            });
            println!("crowd done");
        }
        Some("stream") => {
            let values = vec![1u64; mib(2) / 8];
            timed("line", values.len() / 8 * number(3), || {
                for _ in 0..number(3) {
                    black_box(values.iter().copied().fold(0, u64::wrapping_add));
                }
            });
        }
        Some("write") => {
            let mut values = vec![0u64; mib(2) / 8];
            timed("line", values.len() / 8 * number(3), || {
                for pass in 0..number(3) as u64 {
                    black_box(&mut values).fill(pass);
                }
            });
        }
        Some(kind @ ("heap" | "zeroed")) => {
            let (size, passes) = (number(4) << 10, number(3));
            let block = |pass: usize| {
                let mut block = match kind {
                    "heap" => Vec::with_capacity(size),
                    _ => vec![0; size],
                };
                block.clear();
                block.resize(size, pass as u8);
                block
            };
            timed("line", mib(2) / 64 * passes, || {
                for pass in 0..passes {
                    let blocks = (0..mib(2) / size).map(|_| block(pass));
                    black_box(&blocks.collect::<Vec<Vec<u8>>>());
                }
            });
        }
        Some("spin") => {
            let time = Duration::from_millis(number(2) as u64);
            let threads = number_or_one(3);
            let began = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(move || black_box(spin(time)));
                }
            });
            println!("spun {:.2} ms", began.elapsed().as_secs_f64() * 1e3);
        }
        Some("children") => {
            for _ in 0..number(2) {
                let spun = Command::new(&words[0]).args(["spin", &words[3]]).status();
                assert!(spun.is_ok_and(|status| status.success()), "a child failed");
            }
            println!("children {} done", number(2));
        }
        Some("forever") => {
            let lines = cycle(mib(2));
            println!("pid {}", std::process::id());
            let mut at = 0;
            loop {
                at = black_box(chase(&lines, at, 1_000_000));
            }
        }
        _ => panic!(
            "which program? chase, two, random, stream, write, heap, zeroed, sparse, scattered, conflicts, huge, phases, \
             search, table, sort, matrix, graph, stencil, text, code, forks, threads, streams, crowd, spin, children, forever"
        ),
    }
}
