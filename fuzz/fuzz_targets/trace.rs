//! Trace files in every format, also compressed with gzip. Traces that are read whole are imported,
//! and the imported trace must have the same records.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cxlab_workload::import::{FORMATS, Records};
use cxlab_workload::trace::Record;
use libfuzzer_sys::fuzz_target;

/// Most records of a trace that are read. One row of text may stand for up to 16,384 records.
const MOST_RECORDS: usize = 20_000;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(cxlab_fuzz::folder);

fuzz_target!(|data: &[u8]| {
    let path = FOLDER.join("input");
    std::fs::write(&path, data).expect("a temporary file");
    check(&path, None);
    for format in FORMATS {
        check(&path, Some(format.name));
    }
});

fn check(path: &Path, format: Option<&str>) {
    let Some((records, has_time)) = records(path, format) else {
        return;
    };
    let out = FOLDER.join("imported.cxlt");
    let imported = cxlab_workload::import(path, format, None, &out, &mut |_, _| {});
    match imported {
        Err(error) => assert!(records.is_empty(), "{error}"),
        Ok(summary) => {
            assert_eq!(summary.records(), records.len() as u64);
            assert_eq!(self::records(&out, None), Some((records, has_time)));
        }
    }
}

/// All records of a trace, and whether they have times. `None` if the trace is refused or too long.
fn records(path: &Path, format: Option<&str>) -> Option<(Vec<Record>, bool)> {
    let mut from = Records::open(path, format).ok()?;
    let mut records = Vec::new();
    while let Some(record) = from.next_record().ok()? {
        records.push(record);
        if records.len() > MOST_RECORDS {
            return None;
        }
    }
    Some((records, from.has_time()))
}
