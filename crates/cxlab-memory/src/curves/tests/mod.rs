//! Tests of the `curves` medium: readers, families, and the running medium against its curves.

mod families;
mod follows;
mod readers;

use std::path::{Path, PathBuf};

use cxlab_engine::catalog::ParamError;
use serde_json::Value;

use super::{CurveFamily, CurveSource, ENTRY};
use crate::Medium;
use crate::curves::read::MeasuredPoint;

/// A folder for the files of a test, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str, files: &[(&str, &str)]) -> Folder {
        let name = format!("cxlab-curves-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Builds and loads a medium.
fn load(folder: &Path, params: Value) -> Result<Box<dyn Medium>, ParamError> {
    let mut medium = (ENTRY.build)(&params)?;
    medium.load(folder)?;
    Ok(medium)
}

/// The error of parameters that are refused when they are built or loaded.
fn error(folder: &Path, params: Value) -> String {
    match load(folder, params) {
        Ok(_) => panic!("it must be refused"),
        Err(error) => error.to_string(),
    }
}

/// A source with points (read percent, MB/s, ns), a line each from line 2.
fn source(points: &[[f64; 3]]) -> CurveSource {
    let points = points.iter().enumerate();
    CurveSource {
        name: "file.csv".to_owned(),
        points: points
            .map(|(at, [read_percent, mb_per_s, latency_ns])| MeasuredPoint {
                line: at + 2,
                read_percent: *read_percent,
                mb_per_s: *mb_per_s,
                latency_ns: *latency_ns,
            })
            .collect(),
    }
}

fn family(points: &[[f64; 3]], noise: f64) -> Result<CurveFamily, String> {
    CurveFamily::new(&[source(points)], noise).map_err(|error| error.to_string())
}
