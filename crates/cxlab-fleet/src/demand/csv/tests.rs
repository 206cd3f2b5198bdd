use proptest::prelude::*;

use super::*;

const GOOD: &str = "start_s,lifetime_s,cores,memory_gib\n0,3600,2,8\n7.5,60,1,1.75\n";

fn trace(path: &str) -> Trace {
    let path = path.to_owned();
    Trace {
        params: Csv { path },
        table: Table::default(),
        content: Vec::new(),
    }
}

fn message(text: &str) -> String {
    let (line, message) = Table::parse(text.as_bytes()).unwrap_err();
    format!("{line}: {message}")
}

#[test]
fn a_file_is_read_in_the_order_of_starts_whatever_its_columns_order() {
    let table = Table::parse(
        b"\xef\xbb\xbf# a comment\r\nmemory_gib, cores,slowdown,start_s,lifetime_s,cluster\r\n\r\n4,2,,9,1,7\n1.75,1,0.02,3,60,\n",
    )
    .unwrap();
    let first = VmRequest {
        start_s: 3,
        end_s: 63,
        cores: 1,
        memory_mib: 1792,
        loss: Some(0.02),
        untouched: None,
    };
    let second = VmRequest {
        start_s: 9,
        end_s: 10,
        cores: 2,
        memory_mib: 4096,
        loss: None,
        untouched: None,
    };
    assert_eq!(table.rows, [(None, first), (Some(7), second)]);
}

#[test]
fn every_mistake_is_located_and_says_what_is_allowed() {
    let head = "start_s,lifetime_s,cores,memory_gib\n";
    let table = [
        ("".to_owned(), "1: found no line with the names"),
        (head.to_owned(), "1: found no VMs"),
        (
            "start,lifetime_s,cores,memory_gib\n".to_owned(),
            "1: found column `start`; allowed: start_s, lifetime_s, cores, memory_gib, cluster, slowdown, untouched; did you mean `start_s`?",
        ),
        (
            "start_s,lifetime_s,cores,memoryGiB\n".to_owned(),
            "did you mean `memory_gib`?",
        ),
        (
            "start_s,lifetime_s,cores\n".to_owned(),
            "1: found no column `memory_gib`; it is needed",
        ),
        (
            "start_s,start_s\n".to_owned(),
            "1: found column `start_s` twice",
        ),
        (format!("{head}1,2,3\n"), "2: found 3 fields; allowed: 4"),
        (
            format!("{head}0,60,2,8\n\n1,2,x,4\n"),
            "4: column `cores`: found \"x\"; allowed: a whole number from 1 to 4096",
        ),
        (
            format!("{head}1,2,1.5,4\n"),
            "2: column `cores`: found \"1.5\"",
        ),
        (format!("{head}1,2,0,4\n"), "2: column `cores`: found \"0\""),
        (
            format!("{head}-1,2,1,4\n"),
            "2: column `start_s`: found \"-1\"",
        ),
        (
            format!("{head}1,nan,1,4\n"),
            "2: column `lifetime_s`: found \"nan\"",
        ),
        (
            format!("{head}1,inf,1,4\n"),
            "2: column `lifetime_s`: found \"inf\"",
        ),
        (
            format!("{head}1,2,1,\n"),
            "2: column `memory_gib`: found \"\"",
        ),
        (
            format!("{head}1,2,1,5e6\n"),
            "2: column `memory_gib`: found \"5e6\"",
        ),
        (
            "start_s,lifetime_s,cores,memory_gib,untouched\n1,2,1,4,1.1\n".to_owned(),
            "2: column `untouched`: found \"1.1\"; allowed: a number from 0 to 1",
        ),
    ];
    for (text, says) in table {
        let found = message(&text);
        assert!(found.contains(says), "{text:?}: {found}");
    }
    let (line, message) = Table::parse(b"start_s\xff\n").unwrap_err();
    assert!(line == 1 && message.contains("UTF-8"));
}

#[test]
fn vms_take_turns_over_clusters_and_none_is_lost() {
    let mut trace = trace("x");
    trace.table = Table::parse(GOOD.as_bytes()).unwrap();
    let cluster = |index| ClusterDemand {
        index,
        of: 2,
        cores: 48,
        host_cores: 48,
        span_s: 100,
    };
    let mut rng = StreamRng::new(1, "unused");
    let found: Vec<usize> = (0..2)
        .map(|index| trace.asks(&cluster(index), &mut rng).len())
        .collect();
    assert_eq!(found, [1, 1]);
    assert_eq!(trace.most_mib_per_core(), 4096.0);
}

proptest! {
    /// Any bytes give a table or a mistake, and every VM of the table is valid.
    #[test]
    fn any_bytes_give_a_table_or_a_located_mistake(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes)?;
    }

    /// Changes, removes or doubles a few bytes of a valid file.
    #[test]
    fn any_change_of_a_good_file_gives_a_table_or_a_located_mistake(
        edits in proptest::collection::vec((0usize..GOOD.len(), any::<u8>(), 0u8..3), 1..6),
    ) {
        let mut bytes = GOOD.as_bytes().to_vec();
        for (at, byte, what) in edits {
            let at = at % bytes.len().max(1);
            match what {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
        check(&bytes)?;
    }
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    match Table::parse(bytes) {
        Ok(table) => {
            prop_assert!(!table.rows.is_empty());
            for (_, ask) in &table.rows {
                prop_assert!(
                    ask.start_s < ask.end_s
                        && (1..=4096).contains(&ask.cores)
                        && ask.memory_mib > 0
                );
            }
        }
        Err((line, message)) => {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
            prop_assert!((1..=lines).contains(&line) && !message.is_empty());
        }
    }
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_device_and_a_folder_are_no_tables() {
    for path in ["/dev/zero", "/tmp"] {
        let mut trace = trace(path);
        let error = trace.open(Path::new(".")).unwrap_err();
        assert!(
            error.to_string().contains("allowed: a regular file"),
            "{error}"
        );
    }
}
