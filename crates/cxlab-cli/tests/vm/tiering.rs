//! Pages that the guest's own kernel moves between memory tiers.

use super::common::Folder;
use super::{root, run};

/// The lines of `tiers`: nanoseconds of a read, per cent of the hot pages on the fast node, and pages promoted and
/// demoted since the beginning. `None` where there is no guest.
fn tiers(mode: &str) -> Option<Vec<[f64; 4]>> {
    let folder = Folder::new(&format!("vm-tiers-{mode}"));
    let program = ["tiers", mode, "448", "16", "1000", "50"];
    let options = ["--memory", "any", "--from-roi"];
    let scenario = root().join("scenarios/vm-tiering.toml");
    let report = run(&folder, &scenario, &program, &options)?;
    let output = report["runs"][0]["output"].as_array().unwrap();
    let lines = output.iter().filter_map(|line| line.as_str());
    let numbers = lines.filter_map(|line| {
        let words = line.split_whitespace();
        let all: Vec<f64> = words
            .filter_map(|word| word.trim_end_matches('%').parse().ok())
            .collect();
        <[f64; 5]>::try_from(all).ok()
    });
    let lines: Vec<[f64; 4]> = numbers.map(|[_, rest @ ..]| rest).collect();
    assert_eq!(lines.len(), 10, "{report:#}");
    Some(lines)
}

#[test]
#[ignore = "minutes: make test-all"]
fn the_guests_kernel_brings_hot_pages_to_its_fast_node_where_it_may_demote_cold_ones() {
    let Some(off) = tiers("off") else {
        return;
    };
    // Nothing moves, and each read of the hot part goes to CXL memory.
    assert!(off.iter().all(|line| line[1..] == off[0][1..]), "{off:?}");
    assert!(off[0][1] < 50.0 && off[0][2..] == [0.0, 0.0], "{off:?}");
    let demote = tiers("demote").unwrap();
    let (first, last) = (demote[0], demote[9]);
    assert!(
        last[1] > 90.0 && last[2] > 4096.0 && last[3] > 1000.0,
        "{demote:?}"
    );
    assert!(
        last[0] < 0.8 * off[9][0] && last[1] >= first[1],
        "{demote:?} {off:?}"
    );
}
