//! The files beside a scenario, the hashes of all inputs of a plan, and traces that change during a run.

use std::fs::Metadata;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cxlab_files::input;
use cxlab_scenario::Scenario;
use sha2::{Digest, Sha256};

/// Files that a plan refers to.
#[derive(Clone, Default, Debug)]
pub struct Files {
    /// The folder against which relative paths of the scenario are resolved.
    pub scenario_dir: PathBuf,
    /// A trace from the command line, which replaces the scenario's.
    pub trace_override: Option<PathBuf>,
}

impl Files {
    /// Files in a folder, without a trace from the command line.
    pub fn of(folder: impl Into<PathBuf>) -> Files {
        Files {
            scenario_dir: folder.into(),
            trace_override: None,
        }
    }
}

/// The metadata that changes when a file is written to or replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    file: [u64; 2],
}

impl Stamp {
    fn of(found: &Metadata) -> Stamp {
        #[cfg(unix)]
        let file = {
            use std::os::unix::fs::MetadataExt;
            [found.dev(), found.ino()]
        };
        #[cfg(not(unix))]
        let file = [0; 2];
        Stamp {
            length: found.len(),
            modified: found.modified().ok(),
            file,
        }
    }
}

/// Files that a run reads while it goes on, with their metadata at the start.
#[derive(Clone, Default, Debug)]
pub struct Inputs(Vec<(PathBuf, Option<Stamp>)>);

impl Inputs {
    /// Records the metadata of the files, before any component reads them.
    fn new(paths: Vec<PathBuf>) -> Inputs {
        let stamped = paths.into_iter().map(|path| {
            let stamp = std::fs::metadata(&path).ok().as_ref().map(Stamp::of);
            (path, stamp)
        });
        Inputs(stamped.collect())
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|(path, _)| path.as_path())
    }

    /// The first file that has changed since. A file that was removed does not count: components
    /// that have opened it can still read it.
    pub fn changed(&self) -> Option<&Path> {
        let changed = |(path, stamp): &&(PathBuf, Option<Stamp>)| {
            std::fs::metadata(path).is_ok_and(|found| stamp.as_ref() != Some(&Stamp::of(&found)))
        };
        self.0.iter().find(changed).map(|(path, _)| path.as_path())
    }
}

/// Adds a file's content and length to the hashes; the length marks where the next file begins. A
/// file that cannot be read is reported when its source is made.
fn hash(hashers: &mut [Sha256], path: &Path) {
    let mut length: u64 = 0;
    // Opening a pipe may block for ever, and a device may have no end.
    let regular = input::kind(path).is_ok_and(|found| found.is_file);
    if let Some(mut file) = regular.then(|| input::open(path).ok()).flatten() {
        let mut buffer = [0; 1 << 16];
        while let Ok(count @ 1..) = file.read(&mut buffer) {
            length += count as u64;
            for hasher in hashers.iter_mut() {
                hasher.update(&buffer[..count]);
            }
        }
    }
    for hasher in hashers {
        hasher.update(length.to_le_bytes());
    }
}

/// Hashes of everything that can change a result except the seed: version, scenario without its
/// name and execution, and the content of trace files, of the files of media and of a fleet's demand. The
/// second hash leaves out the windows as well.
pub(crate) fn hashes(
    scenario: &Scenario,
    (of_media, traces): (Vec<PathBuf>, Vec<PathBuf>),
    demand: Option<&[u8]>,
) -> ([String; 2], Inputs) {
    let mut value = scenario.to_value();
    let mut text = |without: &[&str]| {
        if let Some(object) = value.as_object_mut() {
            for key in without {
                object.remove(*key);
            }
        }
        value.to_string()
    };
    let texts = [
        text(&["name", "description", "seed", "execution"]),
        text(&["measure"]),
    ];
    let mut hashers = texts.map(|text| {
        let mut hasher = Sha256::new();
        hasher.update(env!("CARGO_PKG_VERSION"));
        hasher.update(text);
        hasher
    });
    for path in &of_media {
        hash(&mut hashers, path);
    }
    let inputs = Inputs::new(traces);
    for path in inputs.paths() {
        hash(&mut hashers, path);
    }
    for hasher in &mut hashers {
        hasher.update(demand.unwrap_or_default());
    }
    let hex = |byte: &u8| format!("{byte:02x}");
    let hashes = hashers.map(|hasher| hasher.finalize()[..16].iter().map(hex).collect());
    (hashes, inputs)
}
