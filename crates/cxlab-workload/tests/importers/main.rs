//! Every importer: the traces that it reads, the files that it rejects, and its error messages.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod exports;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use cxlab_workload::import::{FORMATS, Records};
use cxlab_workload::trace::Record;
use cxlab_workload::{FilePlace, OpKind, Summary, TraceError, head, import, info};
use proptest::prelude::*;

/// A temporary folder, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cxlab-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
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

/// The records: kind and line, and the time in picoseconds behind `+` if it is not 0.
fn rows(path: &Path) -> String {
    let records = read(path, None).unwrap();
    let row = |record: &Record| {
        let kind = if record.kind == OpKind::Read {
            'R'
        } else {
            'W'
        };
        let row = format!("{kind}{}", record.line.0);
        match record.time.0 {
            0 => row,
            time => format!("{row}+{time}"),
        }
    };
    records.iter().map(row).collect::<Vec<_>>().join(" ")
}

/// Imports a trace without progress.
fn imported(path: &Path, format: Option<&str>, out: &Path) -> Result<Summary, TraceError> {
    import(path, format, None, out, &mut |_, _| {})
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
    let header = [
        (0x0a, &b"\x03mon"[..]),
        (0x18, &frequency),
        (0x7d, &[1, 2, 3, 4]),
    ];
    let mut bytes = [b"gem5".to_vec(), message(&header)].concat();
    for packet in packets {
        let fields = [0x08, 0x10, 0x18, 0x20].into_iter().zip(packet.chunks(1));
        bytes.extend(message(
            &fields.chain([(0x30, &[9][..])]).collect::<Vec<_>>(),
        ));
    }
    bytes
}

/// Records of drmemtrace: type, size and address, behind a header of version 7.
fn memtrace(entries: &[(u16, u16, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, size, address) in [(25, 0, 7)].iter().chain(entries) {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(address.to_le_bytes());
    }
    bytes
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
fn each_format_is_recognised_and_read_also_in_gzip() {
    let folder = Folder::new("formats");
    let champsim = [
        instruction([64, 0, 192, 0], [0, 128]),
        instruction([0; 4], [0; 2]),
    ]
    .concat();
    let gem5 = gem5(&[[3, 1, 64, 8], [4, 7, 127, 2], [5, 10, 0, 64], [6, 34, 1, 1]]);
    let memtrace = memtrace(&[
        (22, 4, 99),
        (10, 3, 0x40_0000),
        (0, 8, 60),
        (1, 4, 128),
        (4, 0, 64),
        (26, 0, 0),
    ]);
    let blocks = |kind, lines: std::ops::Range<u64>, time| {
        let rows = lines.map(|line| format!("{kind}{line}+{time}"));
        rows.collect::<Vec<_>>().join(" ")
    };
    let mqsim = [blocks('R', 16..24, 100_000), blocks('W', 128..136, 250_000)].join(" ");
    for (format, contents, expected) in [
        ("text", TEXT, "R64 W65+12500 R288230376151711743"),
        (
            "lackey",
            LACKEY,
            "R64 R65 R128 W128 W2147221533 W2147221534",
        ),
        ("csv", CSV, "R1+1000000 W2+2500000 W3+2500000"),
        ("champsim", &champsim, "R1 R3 W2"),
        ("gem5", &gem5, "R1+1500 W1+2000 W2+2000 R0+3000 W0+3000"),
        ("drmemtrace", &memtrace, "R0 R1 W2 R1"),
        ("pin", PIN, "R64 W64 W65"),
        (
            "perf-script",
            PERF,
            "R33292353+12000002000000 W2+12000003500000",
        ),
        ("mqsim", MQSIM, &mqsim),
        ("msr", MSR, "R2 W0+1000000 W1+1000000"),
        ("dramsim3", b"0x40 READ 0\n80 WRITE 12\n", "R1 W2"),
        ("ramulator", b"LD 0x40\nST 128\n", "R1 W2"),
    ] {
        let plain = folder.file(&format!("{format}.unknown"), contents);
        let packed = folder.file(&format!("{format}.gz"), &gzip(contents));
        for path in [plain, packed] {
            assert_eq!(rows(&path), expected, "{format}");
            assert_eq!(info(&path).unwrap().format, format);
            let out = folder.0.join("out.cxlt");
            let summary = imported(&path, None, &out).unwrap();
            let records = expected.split(' ').count() as u64;
            assert_eq!(summary.records(), records, "{format}");
            assert_eq!(rows(&out), expected, "{format}");
            let bytes = std::fs::metadata(&out).unwrap().len();
            assert_eq!(summary.bytes, bytes, "{format}");
        }
    }
    let files = std::fs::read_dir(&folder.0).unwrap().count();
    let whole = 2 * (FORMATS.len() - 1) + 1;
    assert_eq!(files, whole, "no partial file is left");
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
    let filter = Some("32 KiB/8".parse().unwrap());
    let found = import(&path, None, filter, &out, &mut |_, _| {}).unwrap();
    let counts = (found.accesses, found.reads, found.writes);
    assert_eq!(counts, (100, 1, 0));
    let provenance = info(&out).unwrap().provenance;
    let ending = "(text); through caches of 32 KiB/8";
    assert!(provenance.ends_with(ending), "{provenance}");
}

/// Mistakes in text: `FORMAT LINE: CONTENTS => WORDS`, where the error is in that line.
const WRONG_LINES: &[&str] = &[
    "text 2: 0x10 R 0\nxyz R 0\n => `address`: found `xyz`",
    "text 1: 10 Q 0\n => `operation`: found `Q`; allowed: R, W",
    "text 1: 10 R 0.0001\n => `time`: found `0.0001`; allowed: nanoseconds",
    "text 1: 10 R 0 1\n => found `1`; allowed: three fields",
    "text 1: 12345678901234567 R 0\n => allowed: a hexadecimal number",
    "lackey 1:  L 10,0\n => `size`: found 0; allowed: 1 to",
    "lackey 1:  L ffffffffffffffff,2\n => `address`: found",
    "lackey 2:  L 10,8\n L 10,8 => the last row has no newline: it may be cut",
    "text 2: 10 R 100\n30 R 30 => the last row has no newline: it may be cut",
    "csv 3: address,op\n12,R\n13, => the last row has no newline: it may be cut",
    "text 2: 10 R 100\n20 W\n30 R 300\n => `time`: found none; allowed: nanoseconds, \
     as in the first row (line 1)",
    "text 3: # none\n10 R\n20 W 5\n => `time`: found `5`; allowed: none, \
     as in the first row (line 2)",
    "lackey 1: hello\n => `row`: found `hello`; allowed",
    "csv 1: address,op,time\n => `column`: found `time`; allowed: address",
    "csv 1: address,op,op\n => each column once",
    "csv 1: address\n => found no `op`",
    "csv 2: address,op\n12,X\n => `op`: found `X`; allowed: R, W",
    "csv 2: address,op\n12,R,3\n => found `3`; allowed: 2 values",
    "pin 1: 0x40: X 0x40\n => `operation`: found `X`; allowed: R, W",
    "perf-script 1: 1.0: zz 5 |OP LOAD|\n => `address`: found `zz`",
    "perf-script 1: 40 5 |OP LOAD|\n => `time`: found none; allowed: seconds",
    "perf-script 1: 1.0: 40 5 |OP JUMP|\n => `operation`: found `JUMP`",
    "mqsim 1: 1 0 0 8 2\n => `type`: found `2`; allowed: 0 (write), 1 (read)",
    "mqsim 1: 1 0 36028797018963968 8 1\n => `sector`: found `36028797018963968`",
    "msr 2: 9,a,0,Read,0,64,1\n8,a,0,Read,0,64,1\n => `timestamp`: found `8`; allowed",
    "dramsim3 1: 0x40 READ x\n => `cycle`: found `x`",
    "ramulator 1: LD 0x40 7\n => found `7`; allowed: two fields",
];

/// Checks the place and the words of an error in a file.
fn check_mistake(format: &str, contents: &[u8], place: FilePlace, words: &str) {
    let folder = Folder::new("mistakes");
    let path = folder.file("input", contents);
    let error = read(&path, Some(format)).unwrap_err();
    assert_eq!(error.place, place, "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&path.display().to_string()), "{text}");
    assert!(text.contains(words), "{text}");
}

#[test]
fn mistakes_in_text_are_named_by_file_line_field_value_and_what_is_allowed() {
    for row in WRONG_LINES {
        let (case, words) = row.split_once(" => ").unwrap();
        let (place, contents) = case.split_once(": ").unwrap();
        let (format, line) = place.split_once(' ').unwrap();
        let line = FilePlace::Line(line.parse().unwrap());
        check_mistake(format, contents.as_bytes(), line, words);
    }
    let long = [b"0 R 0\n".to_vec(), vec![b'a'; 70_000]].concat();
    check_mistake("text", &long, FilePlace::Line(2), "longer than");
}

#[test]
fn mistakes_in_bytes_are_named_by_file_offset_field_value_and_what_is_allowed() {
    let packet = |fields| gem5(&[fields]);
    let mut branch = instruction([64, 0, 0, 0], [0; 2]).repeat(2);
    branch[72] = 7;
    let later = memtrace(&[(0, 8, 64), (51, 0, 0)]);
    for (format, contents, offset, words) in [
        (
            "gem5",
            &b"gem6"[..],
            0,
            "`magic`: found `gem6`; allowed: `gem5`",
        ),
        (
            "gem5",
            &packet([1, 2, 0, 64]),
            21,
            "`cmd`: found 2; allowed: a trace of requests",
        ),
        (
            "gem5",
            &packet([1, 60, 0, 64]),
            21,
            "`cmd`: found 60; allowed: the commands",
        ),
        (
            "gem5",
            &packet([1, 1, 0, 0]),
            21,
            "`size`: found 0; allowed: 1 to",
        ),
        (
            "gem5",
            &packet([1, 1, 0, 64])[..25],
            21,
            "`message`: the file ends within",
        ),
        (
            "gem5",
            b"gem5\x02\x18\x00",
            4,
            "`tick_freq`: found 0; allowed",
        ),
        (
            "drmemtrace",
            &memtrace(&[])[..7],
            0,
            "found 7 bytes of a record",
        ),
        (
            "drmemtrace",
            &later,
            24,
            "`type`: found 51; allowed: 0 to 50",
        ),
        ("drmemtrace", b"", 0, "`header`: found none"),
        (
            "champsim",
            &branch,
            72,
            "`is_branch`: found 7; allowed: 0, 1",
        ),
        ("champsim", &branch[..70], 64, "found 6 bytes of a record"),
    ] {
        check_mistake(format, contents, FilePlace::Offset(offset), words);
    }
}

#[test]
fn what_cannot_be_read_at_all_says_what_to_do() {
    let folder = Folder::new("unreadable");
    let xz = folder.file("a.champsimtrace.xz", b"\xfd7zXZ\0rest");
    let error = read(&xz, None).unwrap_err().to_string();
    assert!(error.contains("xz -dc"), "{error}");
    assert!(error.contains("| gzip"), "{error}");
    let (unknown, none) = (folder.file("a.bin", b""), folder.0.join("none"));
    for (path, format, words) in [
        (&unknown, None, "allowed: cxlt, gem5"),
        (&unknown, Some("elf"), "found `elf`"),
        (&folder.0, None, "is a folder"),
        (&none, None, "cannot open"),
    ] {
        let error = read(path, format).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let mut cut = gzip(TEXT);
    cut.truncate(cut.len() - 9);
    assert!(read(&folder.file("cut.gz", &cut), Some("text")).is_err());
}

#[test]
fn what_has_no_records_is_no_trace() {
    let folder = Folder::new("nothing");
    let out = folder.0.join("out.cxlt");
    let zeros = folder.file("zeros", &[0; 640]);
    let error = read(&zeros, None).unwrap_err().to_string();
    assert!(error.contains("neither contents nor name"), "{error}");
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
        let error = imported(&path, Some(format), &out).unwrap_err();
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
    assert!(imported(&path, None, &out).is_err());
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
