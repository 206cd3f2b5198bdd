//! Every importer: the traces that it reads, the files that it rejects, and its error messages.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod exports;

use std::io::Write;
use std::path::{Path, PathBuf};

use cxlab_workload::import::{FORMATS, Records};
use cxlab_workload::trace::Record;
use cxlab_workload::{OpKind, Place, Summary, TraceError, head, import, info};
use proptest::prelude::*;

/// A temporary folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("cxlab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, contents).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(path: &Path, format: Option<&str>) -> Result<Vec<Record>, TraceError> {
    let mut records = Records::open(path, format)?;
    let mut all = Vec::new();
    while let Some(record) = records.next_record()? {
        all.push(record);
    }
    Ok(all)
}

/// The records as (line, kind, time in ps).
fn rows(path: &Path) -> Vec<(u64, char, u64)> {
    let kind = |kind| if kind == OpKind::Read { 'R' } else { 'W' };
    read(path, None)
        .unwrap()
        .iter()
        .map(|r| (r.line.0, kind(r.kind), r.time.0))
        .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn instruction(sources: [u64; 4], destinations: [u64; 2]) -> Vec<u8> {
    let mut record = 0x40_1000u64.to_le_bytes().to_vec();
    record.extend([1, 0, 3, 0, 1, 2, 0, 0]);
    for address in destinations.iter().chain(&sources) {
        record.extend(address.to_le_bytes());
    }
    record
}

/// A message of Protocol Buffers behind its length.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let inside: Vec<u8> = fields
        .iter()
        .flat_map(|(tag, value)| [&[*tag], *value].concat())
        .collect();
    [&[inside.len() as u8], inside.as_slice()].concat()
}

/// A packet trace of gem5 with two ticks in a nanosecond, and these packets: tick, command, address, size.
fn gem5(packets: &[[u8; 4]]) -> Vec<u8> {
    // 2,000,000,000 as a varint; a name; a field that no version has yet.
    let frequency = [0x80, 0xa8, 0xd6, 0xb9, 0x07];
    let header = message(&[
        (0x0a, b"\x03mon"),
        (0x18, &frequency),
        (0x7d, &[1, 2, 3, 4]),
    ]);
    let packets = packets.iter().flat_map(|[tick, command, address, size]| {
        message(&[
            (0x08, &[*tick]),
            (0x10, &[*command]),
            (0x18, &[*address]),
            (0x20, &[*size]),
            (0x30, &[9]),
        ])
    });
    [b"gem5".to_vec(), header, packets.collect()].concat()
}

/// Records of drmemtrace: type, size and address, behind a header of version 7.
fn memtrace(entries: &[(u16, u16, u64)]) -> Vec<u8> {
    [(25, 0, 7)]
        .iter()
        .chain(entries)
        .flat_map(|(kind, size, address)| {
            [
                kind.to_le_bytes().as_slice(),
                &size.to_le_bytes(),
                &address.to_le_bytes(),
            ]
            .concat()
        })
        .collect()
}

const PIN: &[u8] =
    b"#\n# Memory Access Trace\n#\n0x401000: R 0x1000\n0x401004: W 0x103e   4 0x7\n#eof\n";
const PERF: &[u8] = b" cc1 77 12.000002:  7f001040  68100142 |OP LOAD|LVL L3 hit|SNP None\n\
    12.000003500:  80  5 |OP STORE|LVL L1 hit\n 12.000004: 0 5 |OP N/A|LVL N/A\n";
const MQSIM: &[u8] = b"100 0 2 1 1\n250 0 16 1 0\n";
const MSR: &[u8] =
    b"128166372003061629,usr,0,Read,128,64,41286\n128166372003061639,usr,1,Write,0,65,9\n";
const TEXT: &[u8] = b"# a comment\n0x1000 R 0\n\n1040 w 12.5\n0xffffffffffffffff R 0\n";
const LACKEY: &[u8] = b"==1== Lackey\nI  0401ab70,3\n L 103c,8\n M 2000,4\n S 1fff000748,64\n";
const CSV: &[u8] = b"op, \"address\",time_us,size_bytes\nread,64,1,1\nW,0x80,2.5,65\n";

#[test]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn each_format_is_recognised_and_read_also_in_gzip() {
    let folder = Folder::new("formats");
    let champsim = [
        instruction([64, 0, 192, 0], [0, 128]),
        instruction([0; 4], [0; 2]),
    ]
    .concat();
    let last = u64::MAX / 64;
    for (format, contents, expected) in [
        (
            "text",
            TEXT,
            vec![(64, 'R', 0), (65, 'W', 12_500), (last, 'R', 0)],
        ),
        (
            "lackey",
            LACKEY,
            vec![(64, 'R', 0), (65, 'R', 0), (128, 'R', 0), (128, 'W', 0)]
                .into_iter()
                .chain([
                    (0x1f_ff00_0748 / 64, 'W', 0),
                    (0x1f_ff00_0748 / 64 + 1, 'W', 0),
                ])
                .collect(),
        ),
        (
            "csv",
            CSV,
            vec![
                (1, 'R', 1_000_000),
                (2, 'W', 2_500_000),
                (3, 'W', 2_500_000),
            ],
        ),
        (
            "champsim",
            &champsim,
            vec![(1, 'R', 0), (3, 'R', 0), (2, 'W', 0)],
        ),
        (
            "gem5",
            &gem5(&[[3, 1, 64, 8], [4, 7, 127, 2], [5, 10, 0, 64], [6, 34, 1, 1]]),
            vec![
                (1, 'R', 1_500),
                (1, 'W', 2_000),
                (2, 'W', 2_000),
                (0, 'R', 3_000),
                (0, 'W', 3_000),
            ],
        ),
        (
            "drmemtrace",
            &memtrace(&[
                (22, 4, 99),
                (10, 3, 0x40_0000),
                (0, 8, 60),
                (1, 4, 128),
                (4, 0, 64),
                (26, 0, 0),
            ]),
            vec![(0, 'R', 0), (1, 'R', 0), (2, 'W', 0), (1, 'R', 0)],
        ),
        ("pin", PIN, vec![(64, 'R', 0), (64, 'W', 0), (65, 'W', 0)]),
        (
            "perf-script",
            PERF,
            vec![
                (0x7f00_1040 / 64, 'R', 12_000_002_000_000),
                (2, 'W', 12_000_003_500_000),
            ],
        ),
        (
            "mqsim",
            MQSIM,
            (16..24)
                .map(|line| (line, 'R', 100_000))
                .chain((128..136).map(|line| (line, 'W', 250_000)))
                .collect(),
        ),
        (
            "msr",
            MSR,
            vec![(2, 'R', 0), (0, 'W', 1_000_000), (1, 'W', 1_000_000)],
        ),
        (
            "dramsim3",
            b"0x40 READ 0\n80 WRITE 12\n",
            vec![(1, 'R', 0), (2, 'W', 0)],
        ),
        (
            "ramulator",
            b"LD 0x40\nST 128\n",
            vec![(1, 'R', 0), (2, 'W', 0)],
        ),
    ] {
        let plain = folder.file(&format!("{format}.unknown"), contents);
        let packed = folder.file(&format!("{format}.gz"), &gzip(contents));
        for path in [plain, packed] {
            assert_eq!(rows(&path), expected, "{format}");
            assert_eq!(info(&path).unwrap().format, format);
            let out = folder.0.join("out.cxlt");
            let summary = import(&path, None, None, &out, &mut |_, _| {}).unwrap();
            assert_eq!(summary.records(), expected.len() as u64);
            assert_eq!(rows(&out), expected);
            assert_eq!(summary.bytes, std::fs::metadata(&out).unwrap().len());
        }
    }
    assert_eq!(
        std::fs::read_dir(&folder.0).unwrap().count(),
        2 * (FORMATS.len() - 1) + 1,
        "no partial file is left"
    );
}

#[test]
fn info_and_head_say_what_a_trace_holds() {
    let folder = Folder::new("info");
    let path = folder.file("a.csv", CSV);
    let out = folder.0.join("a.cxlt");
    let mut last = (0, 0);
    import(&path, Some("csv"), None, &out, &mut |done, total| {
        last = (done, total)
    })
    .unwrap();
    assert_eq!(last, (CSV.len() as u64, CSV.len() as u64));
    let info = info(&out).unwrap();
    assert_eq!((info.accesses, info.reads, info.writes), (3, 1, 2));
    assert_eq!(info.footprint.lines(), 3);
    let (first, last) = info.time_range.unwrap();
    assert_eq!((first.0, last.0), (1_000_000, 2_500_000));
    assert_eq!(info.provenance, "imported from a.csv (csv)");
    assert_eq!(info.blocks.unwrap().blocks, 1);
    assert_eq!(head(&out, 2).unwrap().count(), 2);
    assert_eq!(head(&out, 9).unwrap().map(Result::unwrap).count(), 3);
}

#[test]
fn a_filter_passes_on_misses_only_and_says_so_in_the_provenance() {
    let folder = Folder::new("filter");
    let path = folder.file("a.trace", &b"0 R 0\n".repeat(100));
    let out = folder.0.join("a.cxlt");
    let summary = import(
        &path,
        None,
        Some("32 KiB/8".parse().unwrap()),
        &out,
        &mut |_, _| {},
    );
    let Summary {
        accesses,
        reads,
        writes,
        ..
    } = summary.unwrap();
    assert_eq!((accesses, reads, writes), (100, 1, 0));
    assert!(
        info(&out)
            .unwrap()
            .provenance
            .ends_with("(text); through caches of 32 KiB/8")
    );
}

const CUT: &str = "the last row has no newline: it may be cut";

#[test]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn mistakes_are_named_by_file_place_field_value_and_what_is_allowed() {
    let folder = Folder::new("mistakes");
    let mut branch = instruction([64, 0, 0, 0], [0; 2]);
    branch.extend(instruction([64, 0, 0, 0], [0; 2]));
    branch[72] = 7;
    let long = [b"0 R 0\n".to_vec(), vec![b'a'; 70_000]].concat();
    for (format, contents, place, words) in [
        (
            "text",
            &b"0x10 R 0\nxyz R 0\n"[..],
            Place::Line(2),
            "`address`: found `xyz`",
        ),
        (
            "text",
            b"10 Q 0\n",
            Place::Line(1),
            "`operation`: found `Q`; allowed: R, W",
        ),
        (
            "text",
            b"10 R 0.0001\n",
            Place::Line(1),
            "`time`: found `0.0001`; allowed: nanoseconds",
        ),
        (
            "text",
            b"10 R 0 1\n",
            Place::Line(1),
            "found `1`; allowed: three fields",
        ),
        (
            "text",
            b"12345678901234567 R 0\n",
            Place::Line(1),
            "allowed: a hexadecimal number",
        ),
        ("text", &long, Place::Line(2), "longer than"),
        (
            "lackey",
            b" L 10,0\n",
            Place::Line(1),
            "`size`: found 0; allowed: 1 to",
        ),
        (
            "lackey",
            b" L ffffffffffffffff,2\n",
            Place::Line(1),
            "`address`: found",
        ),
        ("lackey", b" L 10,8\n L 10,8", Place::Line(2), CUT),
        ("text", b"10 R 100\n30 R 30", Place::Line(2), CUT),
        ("csv", b"address,op\n12,R\n13,", Place::Line(3), CUT),
        (
            "text",
            b"10 R 100\n20 W\n30 R 300\n",
            Place::Line(2),
            "`time`: found none; allowed: nanoseconds, as in the first row (line 1)",
        ),
        (
            "text",
            b"# none\n10 R\n20 W 5\n",
            Place::Line(3),
            "`time`: found `5`; allowed: none, as in the first row (line 2)",
        ),
        (
            "lackey",
            b"hello\n",
            Place::Line(1),
            "`row`: found `hello`; allowed",
        ),
        (
            "csv",
            b"address,op,time\n",
            Place::Line(1),
            "`column`: found `time`; allowed: address",
        ),
        (
            "csv",
            b"address,op,op\n",
            Place::Line(1),
            "each column once",
        ),
        ("csv", b"address\n", Place::Line(1), "found no `op`"),
        (
            "csv",
            b"address,op\n12,X\n",
            Place::Line(2),
            "`op`: found `X`; allowed: R, W",
        ),
        (
            "csv",
            b"address,op\n12,R,3\n",
            Place::Line(2),
            "found `3`; allowed: 2 values",
        ),
        (
            "gem5",
            b"gem6",
            Place::Offset(0),
            "`magic`: found `gem6`; allowed: `gem5`",
        ),
        (
            "gem5",
            &gem5(&[[1, 2, 0, 64]]),
            Place::Offset(21),
            "`cmd`: found 2; allowed: a trace of requests",
        ),
        (
            "gem5",
            &gem5(&[[1, 60, 0, 64]]),
            Place::Offset(21),
            "`cmd`: found 60; allowed: the commands",
        ),
        (
            "gem5",
            &gem5(&[[1, 1, 0, 0]]),
            Place::Offset(21),
            "`size`: found 0; allowed: 1 to",
        ),
        (
            "gem5",
            &gem5(&[[1, 1, 0, 64]])[..25],
            Place::Offset(21),
            "`message`: the file ends within",
        ),
        (
            "gem5",
            b"gem5\x02\x18\x00",
            Place::Offset(4),
            "`tick_freq`: found 0; allowed",
        ),
        (
            "drmemtrace",
            &memtrace(&[])[..7],
            Place::Offset(0),
            "found 7 bytes of a record",
        ),
        (
            "drmemtrace",
            &memtrace(&[(0, 8, 64), (51, 0, 0)]),
            Place::Offset(24),
            "`type`: found 51; allowed: 0 to 50",
        ),
        (
            "drmemtrace",
            &memtrace(&[])[..][..0],
            Place::Offset(0),
            "`header`: found none",
        ),
        (
            "pin",
            b"0x40: X 0x40\n",
            Place::Line(1),
            "`operation`: found `X`; allowed: R, W",
        ),
        (
            "perf-script",
            b"1.0: zz 5 |OP LOAD|\n",
            Place::Line(1),
            "`address`: found `zz`",
        ),
        (
            "perf-script",
            b"40 5 |OP LOAD|\n",
            Place::Line(1),
            "`time`: found none; allowed: seconds",
        ),
        (
            "perf-script",
            b"1.0: 40 5 |OP JUMP|\n",
            Place::Line(1),
            "`operation`: found `JUMP`",
        ),
        (
            "mqsim",
            b"1 0 0 8 2\n",
            Place::Line(1),
            "`type`: found `2`; allowed: 0 (write), 1 (read)",
        ),
        (
            "mqsim",
            b"1 0 36028797018963968 8 1\n",
            Place::Line(1),
            "`sector`: found `36028797018963968`",
        ),
        (
            "msr",
            b"9,a,0,Read,0,64,1\n8,a,0,Read,0,64,1\n",
            Place::Line(2),
            "`timestamp`: found `8`; allowed",
        ),
        (
            "dramsim3",
            b"0x40 READ x\n",
            Place::Line(1),
            "`cycle`: found `x`",
        ),
        (
            "ramulator",
            b"LD 0x40 7\n",
            Place::Line(1),
            "found `7`; allowed: two fields",
        ),
        (
            "champsim",
            &branch,
            Place::Offset(72),
            "`is_branch`: found 7; allowed: 0, 1",
        ),
        (
            "champsim",
            &branch[..70],
            Place::Offset(64),
            "found 6 bytes of a record",
        ),
    ] {
        let path = folder.file("input", contents);
        let error = read(&path, Some(format)).unwrap_err();
        assert_eq!(error.place, place, "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with(&path.display().to_string()) && text.contains(words),
            "{text}"
        );
    }
}

#[test]
fn what_cannot_be_read_at_all_says_what_to_do() {
    let folder = Folder::new("unreadable");
    let xz = folder.file("a.champsimtrace.xz", b"\xfd7zXZ\0rest");
    let error = read(&xz, None).unwrap_err().to_string();
    assert!(
        error.contains("xz -dc") && error.contains("| gzip"),
        "{error}"
    );
    let unknown = folder.file("a.bin", b"");
    assert!(
        read(&unknown, None)
            .unwrap_err()
            .to_string()
            .contains("allowed: cxlt, gem5")
    );
    assert!(
        read(&unknown, Some("elf"))
            .unwrap_err()
            .to_string()
            .contains("found `elf`")
    );
    assert!(
        read(&folder.0, None)
            .unwrap_err()
            .to_string()
            .contains("is a folder")
    );
    assert!(
        read(&folder.0.join("none"), None)
            .unwrap_err()
            .to_string()
            .contains("cannot open")
    );
    let mut cut = gzip(TEXT);
    cut.truncate(cut.len() - 9);
    assert!(read(&folder.file("cut.gz", &cut), Some("text")).is_err());
}

#[test]
fn what_has_no_records_is_no_trace() {
    let folder = Folder::new("nothing");
    let out = folder.0.join("out.cxlt");
    let zeros = folder.file("zeros", &[0; 640]);
    assert!(
        read(&zeros, None)
            .unwrap_err()
            .to_string()
            .contains("neither contents nor name")
    );
    let idle = instruction([0; 4], [0; 2]);
    for (format, contents) in [
        ("text", &b""[..]),
        ("text", b"# nothing\n"),
        ("csv", b"address,op\n"),
        ("lackey", b"I  0401ab70,3\n"),
        ("champsim", &[0; 640]),
        ("champsim", &idle),
    ] {
        let path = folder.file(&format!("nothing.{format}"), contents);
        let error = import(&path, Some(format), None, &out, &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("`records`: found 0"), "{error}");
        assert!(!out.exists());
    }
    let path = folder.file("nothing.txt", b"# nothing\n");
    assert!(info(&path).is_err());
}

#[test]
fn rows_without_times_make_a_trace_without_times() {
    let folder = Folder::new("timeless");
    let path = folder.file("a.trace", b"10 R\n20 W\n");
    assert!(!Records::open(&path, None).unwrap().has_time());
    assert!(info(&path).unwrap().time_range.is_none());
}

#[test]
fn a_failed_import_leaves_no_file() {
    let folder = Folder::new("failed");
    let path = folder.file("a.trace", b"0 R 0\nbad\n");
    let out = folder.0.join("a.cxlt");
    assert!(import(&path, None, None, &out, &mut |_, _| {}).is_err());
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_reader_panics_on_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let folder = Folder::new("fuzz");
        let path = folder.file("bytes", &bytes);
        for format in FORMATS.iter().map(|format| Some(format.name)).chain([None]) {
            let _ = read(&path, format);
        }
    }

    #[test]
    fn no_reader_panics_on_a_damaged_file(
        which in 0usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let folder = Folder::new("mutate");
        let champsim = instruction([64, 0, 192, 0], [0, 128]);
        let mut bytes = [TEXT.to_vec(), LACKEY.to_vec(), CSV.to_vec(), champsim, gzip(TEXT)][which].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let path = folder.file("bytes", &bytes);
        let _ = read(&path, None);
        let _ = read(&path, Some(["text", "lackey", "csv", "champsim", "text"][which]));
    }
}
