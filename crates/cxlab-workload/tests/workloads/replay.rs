//! The `trace` workload: shares, addresses, times, laps, and traces that do not fit.

use std::path::{Path, PathBuf};

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Bytes;
use cxlab_workload::{MemOp, SourceContext, WorkloadError};
use serde_json::{Value, json};

use super::{build, source_context};

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("cxlab-replay-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Ten reads, each of another page, from the top of the address space down, at 5, 6, ... ns.
fn ten_pages(folder: &Path) {
    let rows: String = (0..10u64)
        .map(|i| format!("{:#x} R {}\n", u64::MAX - 63 - i * 4096 - i * 64, 5 + i))
        .collect();
    std::fs::write(folder.join("ten.trace"), rows).unwrap();
}

fn replay(
    folder: &Path,
    params: Value,
    span: u64,
    requesters: usize,
) -> Result<Vec<Vec<MemOp>>, WorkloadError> {
    let workload = build("trace", &params)?;
    (0..requesters)
        .map(|requester| {
            let ctx = SourceContext {
                span: Bytes(span),
                local: Bytes(0),
                scenario_dir: folder,
                ..source_context(requester, requesters)
            };
            let mut source = workload.source(&ctx)?;
            let mut rng = StreamRng::new(1, "host");
            let ops = std::iter::from_fn(|| source.next_op(&mut rng)).collect();
            assert_eq!(source.next_op(&mut rng), None);
            Ok(ops)
        })
        .collect()
}

fn addresses(ops: &[MemOp]) -> Vec<u64> {
    ops.iter().map(|op| op.hpa.0).collect()
}

/// The compact address of the i-th read of `ten_pages`: page i has frame i and
/// keeps the line's offset.
fn compact(i: u64) -> u64 {
    i * 4096 + (63 - i) * 64
}

#[test]
fn shares_divide_the_records_and_agree_on_addresses() {
    let folder = folder("share");
    ten_pages(&folder);
    let at = |share: &str| {
        let params = json!({"path": "ten.trace", "share": share});
        let ops = replay(&folder, params, 10 * 4096, 3).unwrap();
        ops.iter().map(|ops| addresses(ops)).collect::<Vec<_>>()
    };
    let all: Vec<u64> = (0..10).collect();
    let shares: [(&str, [&[u64]; 3]); 3] = [
        ("interleave", [&[0, 3, 6, 9], &[1, 4, 7], &[2, 5, 8]]),
        ("block", [&[0, 1, 2], &[3, 4, 5], &[6, 7, 8, 9]]),
        ("all", [&all, &all, &all]),
    ];
    for (share, records) in shares {
        let expected = records.map(|ones| ones.iter().map(|i| compact(*i)).collect::<Vec<_>>());
        assert_eq!(at(share), expected, "{share}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn laps_follow_one_another_also_in_time() {
    let folder = folder("laps");
    ten_pages(&folder);
    let params = json!({
        "path": "ten.trace", "repeat": 2, "timing": "timestamps", "time_scale": 0.5,
    });
    let ops = replay(&folder, params, 1 << 20, 1).unwrap().remove(0);
    let times: Vec<u64> = ops.iter().map(|op| op.not_before.0).collect();
    let expected: Vec<u64> = (0..10).chain(9..19).map(|ns| ns * 500).collect();
    assert_eq!(times, expected);
    assert_eq!(addresses(&ops[..10]), addresses(&ops[10..]));
    let params = json!({"path": "ten.trace", "repeat": 3});
    let more = replay(&folder, params, 1 << 20, 16).unwrap();
    let counts: Vec<usize> = more.iter().map(Vec::len).collect();
    assert_eq!(counts, [[3; 10].as_slice(), &[0; 6]].concat());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_trace_that_does_not_fit_says_so_before_it_runs() {
    let folder = folder("misfit");
    ten_pages(&folder);
    std::fs::write(folder.join("flat.trace"), "0 R 0\n40 R 0\n").unwrap();
    std::fs::write(folder.join("long.trace"), "0 R 0\n40 R 18446744073709\n").unwrap();
    std::fs::write(folder.join("empty.trace"), "").unwrap();
    for row in [
        r#"{"path": "ten.trace"} => record 9: found more than 9 pages"#,
        r#"{"path": "ten.trace", "addresses": "exact"} => record 0: found 0xffffffffffffffc0"#,
        r#"{"path": "flat.trace", "timing": "timestamps"} => have the same time"#,
        r#"{"path": "long.trace", "timing": "timestamps", "time_scale": 1e6} => found 1000000; allowed: times of 1 laps"#,
        r#"{"path": "long.trace", "timing": "timestamps", "repeat": 1000000} => allowed: times of 1000000 laps"#,
        r#"{"path": "empty.trace"} => found 0; allowed: 1 and more"#,
        r#"{"path": "none.trace"} => cannot open"#,
        r#"{"path": "/dev/zero"} => is a device or a pipe"#,
    ] {
        let (params, words) = row.split_once(" => ").unwrap();
        let params = serde_json::from_str(params).unwrap();
        let error = replay(&folder, params, 9 * 4096, 1).unwrap_err();
        assert!(error.to_string().contains(words), "{row}: {error}");
    }
    let modulo = json!({"path": "ten.trace", "addresses": "modulo"});
    let ops = replay(&folder, modulo, 9 * 4096, 1).unwrap().remove(0);
    let fits = |op: &MemOp| op.hpa.0 < 9 * 4096 && op.hpa.0.is_multiple_of(64);
    assert!(ops.iter().all(fits));
    let exact = json!({"path": "flat.trace", "addresses": "exact"});
    let ops = replay(&folder, exact, 4096, 1).unwrap();
    assert_eq!(addresses(&ops[0]), [0, 64]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_trace_that_ships_is_whole_and_fits_a_small_memory() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let info = cxlab_workload::info(&traces.join("sqlite-index.cxlt")).unwrap();
    assert!(info.accesses >= 200_000, "{info:?}");
    assert!(info.file_bytes <= 1 << 20, "{info:?}");
    let ops = replay(&traces, json!({"path": "sqlite-index.cxlt"}), 1 << 30, 2).unwrap();
    assert_eq!((ops[0].len() + ops[1].len()) as u64, info.accesses);
}
