//! Graph kernels and NAS programs compute the right result in every order of their threads, and
//! wrong results are detected.

use cxlab_engine::units::Hpa;
use cxlab_workload::thread::{Order, ThreadContext, run_kernel, run_threads};
use cxlab_workload::{Image, LOCAL_BASE};
use serde_json::json;

use super::{kernel, ran, refused, system, threads};

const ALGORITHMS: [&str; 6] = ["bfs", "bc", "cc", "cc-sv", "pr", "tc"];
const BENCHMARKS: [&str; 7] = ["bt", "cg", "ep", "ft", "mg", "sp", "ua"];

fn context(cores: usize, seed: u64) -> ThreadContext {
    ThreadContext {
        seed,
        draws: seed,
        ..system(cores, 0, 0)
    }
}

#[test]
fn graph_kernels_come_to_the_right_end_in_every_order() {
    for algorithm in ALGORITHMS {
        // From a few isolated vertices to a graph that a search goes through in both directions.
        for (scale, degree) in [(1, 1), (4, 1), (5, 2), (7, 8), (9, 16)] {
            for (cores, seed) in [(1, 1), (2, 2), (5, 3)] {
                let ctx = context(cores, seed);
                let params = json!({"algorithm": algorithm, "scale": scale, "degree": degree,
                    "outstanding": cores * 3});
                for order in [Order::Sequential, Order::Random(seed)] {
                    let kernel = kernel("gapbs", &params, &ctx);
                    run_kernel(kernel.as_ref(), &ctx, order)
                        .unwrap_or_else(|stuck| panic!("{params} {order:?}: {stuck}"));
                }
            }
        }
    }
}

#[test]
fn nas_programs_come_to_the_right_end_in_every_order() {
    for benchmark in BENCHMARKS {
        for (shrink, iterations, cores) in [(128, 2, 1), (64, 3, 2), (64, 1, 5), (32, 1, 3)] {
            let ctx = context(cores, cores as u64);
            let params = json!({"benchmark": benchmark, "shrink": shrink, "iterations": iterations,
                "outstanding": 1 + 7 * cores});
            for order in [Order::Sequential, Order::Random(9)] {
                let kernel = kernel("nas", &params, &ctx);
                run_kernel(kernel.as_ref(), &ctx, order)
                    .unwrap_or_else(|stuck| panic!("{params} {order:?}: {stuck}"));
            }
        }
    }
}

/// Changes one number of an algorithm's result at a time.
#[test]
fn a_wrong_result_of_a_graph_kernel_is_found() {
    let (ctx, n) = (context(2, 7), 256);
    // The arrays follow the control lines: two for each thread, and three more.
    let first = LOCAL_BASE.0 + 7 * 64;
    for (algorithm, at, wrong) in [
        ("bfs", first, 1),
        ("bc", first + (4 + 8 + 4) * n, 1 << 22),
        ("cc", first, 1),
        ("cc-sv", first, 1),
        ("pr", first, 1 << 23),
        ("tc", first, 1),
    ] {
        let params = json!({"algorithm": algorithm, "scale": 8});
        let kernel = kernel("gapbs", &params, &ctx);
        let image = ran(kernel.as_ref(), &ctx, Order::Random(3));
        let mut found = 0;
        let places = if algorithm == "tc" { 1 } else { n };
        for place in (0..places).map(|vertex| Hpa(at + 4 * vertex)) {
            let right = image.read(place, 4);
            image.write(place, 4, right ^ wrong);
            found += u64::from(kernel.check(&image).is_err());
            image.write(place, 4, right);
        }
        // Vertices without neighbours have no parent, whatever their negative number is. Where a
        // component has one vertex, any unused name is as good.
        assert!(found > places * 3 / 4, "{algorithm}: {found} of {places}");
        kernel.check(&image).unwrap();
    }
}

/// Changes every word of the arrays that a program computes, one at a time.
#[test]
fn a_wrong_result_of_a_nas_program_is_found() {
    let ctx = context(2, 7);
    for benchmark in BENCHMARKS {
        let params = json!({"benchmark": benchmark, "shrink": 128});
        let kernel = kernel("nas", &params, &ctx);
        let image = ran(kernel.as_ref(), &ctx, Order::Random(3));
        let words = image.pages().into_iter().flat_map(|page| {
            let words = (0..512).map(move |word| Hpa(page.0 + 8 * word));
            words.filter(|word| image.read(*word, 8) != 0)
        });
        let words: Vec<Hpa> = words.collect();
        let (mut found, mut all) = (0, 0);
        for &word in words.iter().step_by(words.len() / 200 + 1) {
            let right = image.read(word, 8);
            image.write(word, 8, right ^ 1);
            found += u32::from(kernel.check(&image).is_err());
            all += 1;
            image.write(word, 8, right);
        }
        assert!(found > 0, "{benchmark}: none of {all}");
    }
}

/// A reader and an allocator use the same memory, with their own arrays apart.
#[test]
fn a_reader_waits_for_the_allocator() {
    for algorithm in ALGORITHMS {
        let ctx = context(2, 5);
        let with = |loading: &str, base: &str| {
            let graph = json!({"algorithm": algorithm, "scale": 6});
            let params = super::with(graph, &json!({"loading": loading, "base": base}));
            kernel("gapbs", &params, &ctx)
        };
        let (allocator, reader) = (with("allocator", "0 B"), with("reader", "1 MiB"));
        let image = Image::new();
        let mut all = threads(reader.as_ref(), &ctx);
        all.extend(threads(allocator.as_ref(), &ctx));
        run_threads(all, &image, Order::Random(11)).unwrap();
        allocator.check(&image).unwrap();
        reader.check(&image).unwrap();
    }
}

/// The flag is set over memory that was never written, as by an allocator that does not flush.
#[test]
fn a_graph_that_did_not_come_is_found() {
    for algorithm in ALGORITHMS {
        let ctx = context(2, 5);
        let params = json!({"algorithm": algorithm, "scale": 6, "loading": "reader"});
        let kernel = kernel("gapbs", &params, &ctx);
        let image = Image::new();
        image.write(Hpa(0), 8, 1);
        run_threads(threads(kernel.as_ref(), &ctx), &image, Order::Sequential).unwrap();
        let error = kernel.check(&image).unwrap_err();
        assert!(error.len() > 10, "{algorithm}: {error}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let rows = [
        r#"gapbs {"scale": 0} => scale: found 0"#,
        r#"gapbs {"degree": 2000} => degree: found 2000"#,
        r#"gapbs {"outstanding": 0} => outstanding: found 0"#,
        r#"gapbs {"base": "3 B"} => base: found 3 B"#,
        r#"gapbs {"scale": 24} => scale: found data of"#,
        r#"gapbs {"loading": "reader", "data": "cxl"} => data: found the memory of the graph"#,
        r#"nas {"shrink": 3} => shrink: found 3"#,
        r#"nas {"shrink": 24} => shrink: powers of two"#,
        r#"nas {"iterations": 0} => iterations: found 0"#,
        r#"nas {"flops": 0} => flops: found 0"#,
        r#"nas {"benchmark": "ft", "shrink": 4} => shrink: found data of"#,
    ];
    refused(&rows, |workload| workload.threads(&context(2, 1)).map(drop));
}
