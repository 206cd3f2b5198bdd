//! Programs to attach to. Each prints what its own clock measures, as `name value unit`.
//!
//! * `load chase MiB STEPS`
//! * `load two MiB STEPS A B`: A steps in a first array per B steps in a second.
//! * `load stream MiB PASSES`, `load write MiB PASSES`, `load random MiB READS`
//! * `load heap MiB PASSES KiB`: blocks of KiB are allocated, written and freed.
//! * `load zeroed MiB PASSES KiB`: like `heap`, with memory that is requested as zeroes.
//! * `load spin MILLISECONDS [THREADS]`, `load children N MILLISECONDS`, `load forever MiB`
//!
//! Sizes of arrays that are chased through are powers of two.

use std::hint::black_box;
use std::process::Command;
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

fn per_step(began: Instant, steps: usize) -> f64 {
    began.elapsed().as_secs_f64() * 1e9 / steps as f64
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

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |at: usize| -> usize {
        let word = words.get(at).and_then(|word| word.parse().ok());
        word.unwrap_or_else(|| panic!("argument {at} must be a number"))
    };
    let mib = |at| number(at) << 20;
    match words.get(1).map(String::as_str) {
        Some("chase") => {
            let (lines, steps) = (cycle(mib(2)), number(3));
            let began = Instant::now();
            black_box(chase(&lines, 0, steps));
            println!("step {:.2} ns", per_step(began, steps));
        }
        Some("two") => {
            let (first, second) = (cycle(mib(2)), cycle(mib(2)));
            let (steps, a, b) = (number(3), number(4), number(5));
            println!("pid {}", std::process::id());
            for (name, array) in [("first", &first), ("second", &second)] {
                println!("{name} {} {}", array.as_ptr().addr(), array.len() * 8);
            }
            let began = Instant::now();
            let (mut x, mut y) = (0, 0);
            for _ in 0..steps / (a + b) {
                x = chase(&first, x, a);
                y = chase(&second, y, b);
            }
            black_box((x, y));
            println!("step {:.2} ns", per_step(began, steps));
        }
        Some("random") => {
            let (lines, reads) = (cycle(mib(2)), number(3));
            let began = Instant::now();
            let last = lines.len() / 8 - 1;
            let (mut state, mut sum) = (1u64, 0u64);
            for _ in 0..reads {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                sum = sum.wrapping_add(lines[((state >> 30) as usize & last) * 8]);
            }
            black_box(sum);
            println!("read {:.2} ns", per_step(began, reads));
        }
        Some("stream") => {
            let values = vec![1u64; mib(2) / 8];
            let began = Instant::now();
            for _ in 0..number(3) {
                black_box(
                    values
                        .iter()
                        .fold(0u64, |sum, value| sum.wrapping_add(*value)),
                );
            }
            let bytes = values.len() * 8 * number(3);
            println!("line {:.2} ns", per_step(began, bytes / 64));
        }
        Some("write") => {
            let mut values = vec![0u64; mib(2) / 8];
            let began = Instant::now();
            for pass in 0..number(3) as u64 {
                black_box(&mut values).fill(pass);
            }
            let bytes = values.len() * 8 * number(3);
            println!("line {:.2} ns", per_step(began, bytes / 64));
        }
        Some(kind @ ("heap" | "zeroed")) => {
            let (size, passes) = (number(4) << 10, number(3));
            let began = Instant::now();
            for pass in 0..passes {
                let blocks: Vec<Vec<u8>> = (0..mib(2) / size)
                    .map(|_| {
                        let mut block = match kind {
                            "heap" => Vec::with_capacity(size),
                            _ => vec![0; size],
                        };
                        block.clear();
                        block.resize(size, pass as u8);
                        block
                    })
                    .collect();
                black_box(&blocks);
            }
            println!("line {:.2} ns", per_step(began, mib(2) / 64 * passes));
        }
        Some("spin") => {
            let time = Duration::from_millis(number(2) as u64);
            let threads = if words.len() > 3 { number(3) } else { 1 };
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
            "which program? chase, two, random, stream, write, heap, zeroed, spin, children, forever"
        ),
    }
}
