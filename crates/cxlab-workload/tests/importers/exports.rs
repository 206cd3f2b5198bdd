//! Traces in the forms of other programs.

use cxlab_engine::units::Picos;
use cxlab_workload::import::{ExportOptions, Records, export, writable};

use super::{Folder, read};

#[test]
fn what_is_exported_is_what_is_imported_again() {
    let folder = Folder::new("exports");
    let timed = b"0x1000 R 1.5\n0x1040 W 12.5\n0xffffffffffffffff R 1000\n";
    for (name, contents) in [("timed", &timed[..]), ("untimed", b"40 R\n80 W\n")] {
        let path = folder.file(name, contents);
        let records = read(&path, Some("text")).unwrap();
        for format in writable() {
            let clock = (format.name == "dramsim3").then_some(Picos(500));
            let options = ExportOptions {
                from: Some("text".to_owned()),
                clock,
            };
            for ending in ["", ".gz"] {
                let out = folder.0.join(format!("{name}.{}{ending}", format.name));
                let count = export(&path, &options, format.name, &out, &mut |_, _| {}).unwrap();
                assert_eq!(count, records.len() as u64);
                let again = read(&out, None).unwrap();
                let has_time = Records::open(&out, None).unwrap().has_time();
                for (one, other) in records.iter().zip(&again) {
                    assert_eq!(one.line, other.line, "{}", format.name);
                    assert_eq!(one.kind, other.kind, "{}", format.name);
                    assert!(!has_time || one.time == other.time, "{}", format.name);
                }
                assert_eq!(again.len(), records.len(), "{}", format.name);
            }
        }
    }
    let cycles = std::fs::read_to_string(folder.0.join("timed.dramsim3")).unwrap();
    let expected = "0x1000 READ 3\n0x1040 WRITE 25\n0xffffffffffffffc0 READ 2000\n";
    assert_eq!(cycles, expected);
}

#[test]
fn an_export_that_cannot_be_right_is_refused_and_leaves_no_file() {
    let folder = Folder::new("no-exports");
    let path = folder.file("a.trace", b"0x1000 R 1\n");
    let empty = folder.file("empty.trace", b"# nothing\n");
    for (path, period, to, words) in [
        (
            &path,
            None,
            "dramsim3",
            "`clock`: found none; allowed: a period",
        ),
        (&path, Some(Picos(0)), "dramsim3", "`clock`: found 0 ps"),
        (
            &path,
            Some(Picos(1)),
            "pin",
            "`clock`: found a clock; allowed: none",
        ),
        (
            &path,
            None,
            "mqsim",
            "`format`: found `mqsim`; allowed: gem5, csv",
        ),
        (&empty, None, "pin", "`records`: found 0"),
    ] {
        let options = ExportOptions {
            from: Some("text".to_owned()),
            clock: period,
        };
        let out = folder.0.join("out");
        let error = export(path, &options, to, &out, &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(!out.exists());
    }
}
