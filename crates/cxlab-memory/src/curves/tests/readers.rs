//! The readers, and errors that name file, line, field, value and what is allowed.

use serde_json::json;

use super::{Folder, error, load};
use crate::curves::read::{MeasuredPoint, csv, mess, mlc};
use crate::testing::{rows, with};

const CSV: &str =
    "# a comment\nread_percent,bandwidth_mb_per_s,latency_ns\n100,1000,100\r\n\n50, 900 ,110\n";

/// The form of the output of MLC v3.9; the numbers are invented.
const MLC: &str = "Intel(R) Memory Latency Checker - v3.9
Command line parameters: --loaded_latency -W2

Measuring Loaded Latencies for the system
Using all the threads from each core if Hyper-threading is enabled
Inject\tLatency\tBandwidth
Delay\t(ns)\tMB/sec
==========================
 00000\t261.50\t 225452.5
 00002\t200.00\t 200000.0
 20000\t 81.96\t   1237.6

Measuring cache-to-cache transfer latency (in ns)...
";

/// The points, each with its line.
fn points(found: &[MeasuredPoint]) -> Vec<(usize, [f64; 3])> {
    let values = |one: &MeasuredPoint| [one.read_percent, one.mb_per_s, one.latency_ns];
    let rows = found.iter().map(|one| (one.line, values(one)));
    rows.collect()
}

#[test]
fn a_csv_file_has_its_points_with_their_lines() {
    let found = csv::read(CSV.as_bytes()).unwrap();
    assert_eq!(
        points(&found),
        [(3, [100.0, 1000.0, 100.0]), (5, [50.0, 900.0, 110.0])]
    );
    for (text, says) in rows(
        r"
        => 1: header: found none; allowed: `read_percent,
        a,b => 1: header: found `a,b`; allowed: `read_percent,
        HEADER|1,2 => 2: row: found 2 values; allowed: 3
        HEADER|101,2,3 => 2: read_percent: found `101`; allowed: 0 to 100
        HEADER|1,-2,3 => 2: bandwidth_mb_per_s: found `-2`; allowed: 0.001 to
        HEADER|1,2,0 => 2: latency_ns: found `0`; allowed: 0.001 to
        HEADER|1,2,NaN => 2: latency_ns: found `NaN`
        HEADER|1,1e8,3 => found `1e8`; allowed: 0.001 to 10000000
        ",
    ) {
        let text = text.replace("HEADER", csv::HEADER).replace('|', "\n");
        let error = csv::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{text:?}: {error}");
    }
    let error = csv::read(b"ab\n\xff").unwrap_err().to_string();
    assert_eq!(error, "2: found bytes that are no UTF-8; allowed: text");
}

/// The first three lines are those of the repository's README, in its unit.
#[test]
fn a_file_of_mess_has_the_mix_of_its_name_and_the_unit_of_the_caller() {
    assert_eq!(mess::read_percent("bwlat_58.txt"), Some(58));
    for name in [
        "bwlat_101.txt",
        "bwlat_.txt",
        "bwlat_+5.txt",
        "bwlat_5.csv",
        "lat_5.txt",
    ] {
        assert_eq!(mess::read_percent(name), None, "{name}");
    }
    let text = b"47600.27    1363.58\n47350.61\t1360.66\n\n47131.86    1368.02\n";
    let found = mess::read(text, 58.0, 1e3 / 2100.0).unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!((found[2].line, found[2].mb_per_s), (4, 47131.86));
    assert!((found[2].latency_ns * 2.1 - 1368.02).abs() < 1e-9);
    // A line of the public file for Graviton 3 and 58 % reads has a negative bandwidth.
    let error = mess::read(b"5703.3 98.98\n-1348.57 97.68\n", 58.0, 1.0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2: bandwidth: found `-1348.57`; allowed: 0.001 to 10000000"
    );
    let error = mess::read(b"24084.4\n", 0.0, 1.0).unwrap_err().to_string();
    assert!(
        error.contains("1: row: found 1 values; allowed: 2"),
        "{error}"
    );
}

#[test]
fn output_of_mlc_has_the_mix_of_its_header_or_of_the_caller() {
    let found = mlc::read(MLC.as_bytes(), None).unwrap();
    let two_thirds = 100.0 * 2.0 / 3.0;
    assert_eq!(
        points(&found),
        [
            (9, [two_thirds, 225452.5, 261.5]),
            (10, [two_thirds, 200000.0, 200.0]),
            (11, [two_thirds, 1237.6, 81.96]),
        ]
    );
    assert!(mlc::read(MLC.as_bytes(), Some(66.7)).is_ok());
    let reads = MLC.replace("Using all the threads", "Using Read-only traffic type");
    let found = mlc::read(reads.as_bytes(), None).unwrap();
    assert_eq!(found[0].read_percent, 100.0);
    let silent = MLC.replace(" -W2", "");
    assert_eq!(
        mlc::read(silent.as_bytes(), Some(75.0)).unwrap()[0].read_percent,
        75.0
    );
    for (change, says) in rows(
        r"
        -W2 | => 6: mix: the text above the table does not say it
        -W2 | -W23 => 2: mix: found `-W23`; allowed: -W2 to -W17
        (ns) | (clk) => 7: units: found `Delay\t(clk)\tMB/sec`
        200.00 | => 10: row: found 2 values; allowed: 3
        200.00 | -1 => 10: Latency: found `-1`; allowed: 0.001 to
        ",
    ) {
        let (from, to) = change.split_once('|').unwrap();
        let text = MLC.replace(from.trim(), to.trim());
        let error = mlc::read(text.as_bytes(), None).unwrap_err().to_string();
        assert!(error.contains(says), "{change}: {error}");
    }
    let (twice, mix) = (MLC.repeat(2), "2: mix: found 66.67 % reads; allowed: 75 %");
    for (text, given, says) in [
        (MLC, Some(75.0), mix),
        (
            &twice,
            None,
            "table: found a second one, the first is in line 6",
        ),
        (
            "nothing",
            None,
            "1: table: found none; allowed: the output of",
        ),
    ] {
        let error = mlc::read(text.as_bytes(), given).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_folder_of_mess_is_read_in_order_of_its_mixes() {
    let curve = "20000 300\n10000 210\n";
    let files = [
        ("m/bwlat_100.txt", curve),
        ("m/bwlat_2.txt", curve),
        ("m/README.md", "?"),
    ];
    let folder = Folder::new("folder", &files);
    let params = json!({ "file": "m", "format": "mess", "measured_at": "device",
        "latency_unit": "cycles", "clock_mhz": 2100 });
    let medium = load(&folder.0, params).unwrap();
    let files: Vec<_> = medium.files().into_iter().map(|file| file.path).collect();
    assert_eq!(
        files,
        [
            std::path::Path::new("m/bwlat_2.txt"),
            std::path::Path::new("m/bwlat_100.txt")
        ]
    );
    assert_eq!(
        medium.idle_read_ps(),
        Some(100_000),
        "210 clocks of 2.1 GHz"
    );
}

#[test]
fn parameters_that_are_wrong_or_missing_are_refused_by_name() {
    let csv = "read_percent,bandwidth_mb_per_s,latency_ns\n100,1000,100\n100,20000,200\n";
    let files = [
        ("a.csv", csv),
        ("b.csv", csv),
        ("bwlat_x.txt", "1 2\n"),
        ("empty/a", ""),
    ];
    let folder = Folder::new("refused", &files);
    let base = json!({ "file": "a.csv", "measured_at": "device" });
    assert!(load(&folder.0, base.clone()).is_ok());
    for (change, says) in rows(
        r#"
        {"measured_at": null} => measured_at
        {"measured_at": "host"} => `minus`: found none; allowed: with `measured_at = "host"`
        {"minus": "5 ns"} => `minus`: found 5 ns; allowed: none with `measured_at = "device"`
        {"measured_at": "host", "minus": "100 ns"}
            => a.csv:2: latency: found 100 ns at 1000 MB/s; allowed: more than the 100 ns that are subtracted
        {"file": "c.csv"} => c.csv`: it cannot be read
        {"file": []} => `file`: found no name
        {"file": ["a.csv", "b.csv"]} => b.csv:2: mix: found 100 % reads, as in
        {"file": "empty"} => ; allowed: a file; a folder with `format = "mess"`
        {"format": "mess"} => `latency_unit`: found none; allowed: "ns", or "cycles"
        {"format": "mess", "latency_unit": "cycles"}
            => `clock_mhz`: found none; allowed: 1 to 100000
        {"format": "mess", "latency_unit": "ns", "clock_mhz": 5}
            => `clock_mhz`: found 5; allowed: none
        {"format": "mess", "latency_unit": "ns", "file": "empty"}
            => found no file `bwlat_R.txt` in the folder
        {"format": "mess", "latency_unit": "ns", "file": "bwlat_x.txt"}
            => bwlat_x.txt:1: name: found `bwlat_x.txt`; allowed: bwlat_R.txt
        {"latency_unit": "ns"} => `latency_unit`: the format says the unit
        {"read_percents": [5]} => `read_percents`: found 5; allowed: none
        {"format": "mlc", "read_percents": [500]} => `read_percents`: found 500; allowed: 0 to 100
        {"format": "mlc", "read_percents": [5, 6]} => `read_percents`: found 2 values; allowed: 1
        {"noise": "101 %"} => `noise`: found
        {"window": 0} => `window`: found 0; allowed: 1 to 1000000
        {"queue": 62}
            => `queue`: found 62; allowed: 63 to 65536: 20000 MB/s at 200 ns and 100 % reads have 63 lines
        "#,
    ) {
        let mut params = with(base.clone(), &serde_json::from_str(change).unwrap());
        if params["measured_at"].is_null() {
            params.as_object_mut().unwrap().remove("measured_at");
        }
        let error = error(&folder.0, params);
        assert!(error.contains(says), "{change}: {error}");
    }
}
