//! CSV files with VM demand for `cxlab fleet`. A table that is read must be equal after
//! it is written and read again.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use cxlab_engine::rng::StreamRng;
use cxlab_fleet::DemandChoice;
use cxlab_fleet::demand::{ClusterDemand, Table};
use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(cxlab_fuzz::folder);

fuzz_target!(|data: &[u8]| {
    let parsed = Table::parse(data);
    std::fs::write(FOLDER.join("demand.csv"), data).expect("a temporary file");
    let params = [("path".to_owned(), "demand.csv".into())];
    let choice = DemandChoice {
        kind: "csv".to_owned(),
        params: params.into_iter().collect(),
    };
    let mut demand = choice.build().expect("a path is all that it needs");
    let opened = demand.open(&FOLDER);
    let table = match parsed {
        Ok(table) => table,
        Err((line, message)) => {
            assert!(line > 0 && !message.is_empty());
            let error = opened.expect_err("it is refused above").to_string();
            assert!(error.ends_with(&format!(":{line}: {message}")), "{error}");
            return;
        }
    };
    assert!(opened.is_ok() && demand.most_mib_per_core() > 0.0);
    let rows = &table.rows;
    assert!(rows.is_sorted_by_key(|(_, ask)| ask.start_s));
    assert!(
        rows.iter()
            .all(|(_, ask)| ask.start_s < ask.end_s && ask.cores > 0 && ask.memory_mib > 0)
    );
    let mut asked = 0;
    for index in 0..3 {
        let cluster = ClusterDemand {
            index,
            of: 3,
            cores: 64,
            host_cores: 32,
            span_s: u64::MAX,
        };
        let asks = demand.asks(&cluster, &mut StreamRng::new(1, "demand"));
        asked += asks.len();
    }
    assert_eq!(asked, rows.len());
    assert_eq!(Table::parse(written(&table).as_bytes()), Ok(table));
});

fn written(table: &Table) -> String {
    let mut text = "start_s,lifetime_s,cores,memory_gib,cluster,slowdown,untouched\n".to_owned();
    let shown = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for (cluster, ask) in &table.rows {
        text.push_str(&format!(
            "{},{},{},{},{},{},{}\n",
            ask.start_s,
            ask.end_s - ask.start_s,
            ask.cores,
            f64::from(ask.memory_mib) / 1024.0,
            cluster.map_or(String::new(), |cluster| cluster.to_string()),
            shown(ask.loss),
            shown(ask.untouched),
        ));
    }
    text
}
