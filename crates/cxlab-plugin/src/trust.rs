//! Which libraries may be run. A scenario names a library, and its author may be somebody else than
//! the user. Running the library therefore needs the user's permission: for all libraries of a
//! command, or for libraries in a list.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest, Sha256};

use crate::PluginError;

/// The environment variable that has the effect of [`trust_all`] when its value is `1`.
pub const VARIABLE: &str = "CXLAB_TRUST_PLUGINS";

/// Most bytes of the list that are read.
const LONGEST: u64 = 1 << 20;

static ALL: AtomicBool = AtomicBool::new(false);

/// Permits this process to run every library from now on.
pub fn trust_all() {
    ALL.store(true, Ordering::Relaxed);
}

/// Path of the user's list of trusted libraries; `None` without a home folder. Each line is an
/// absolute path, or `sha256:` with the hash of the content in hexadecimal. Lines that begin
/// with `#` are comments.
pub fn list() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = match named("XDG_CONFIG_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(named("HOME")?).join(".config"),
    };
    Some(folder.join("cxlab/trusted-plugins"))
}

/// Checks that a library may be run.
///
/// # Errors
/// When the user has not permitted the library; the message says how to permit it. When the
/// library cannot be read.
pub fn check(library: &Path) -> Result<(), PluginError> {
    let variable = std::env::var_os(VARIABLE).is_some_and(|value| value == "1");
    if ALL.load(Ordering::Relaxed) || variable {
        return Ok(());
    }
    let shown = library.display();
    let unreadable =
        |error: std::io::Error| PluginError::Library(format!("`{shown}` cannot be read: {error}"));
    let path = library.canonicalize().map_err(unreadable)?;
    let hash = hash(&path).map_err(unreadable)?;
    let list = list();
    let entries = list.as_deref().map(read).unwrap_or_default();
    let trusted = |line: &str| match line.strip_prefix("sha256:") {
        Some(wanted) => wanted.trim().eq_ignore_ascii_case(&hash),
        None => Path::new(line)
            .canonicalize()
            .is_ok_and(|named| named == path),
    };
    if entries.lines().map(str::trim).any(trusted) {
        return Ok(());
    }
    let place = list.map_or_else(String::new, |list| {
        format!(", or a line `sha256:{hash}` in {}", list.display())
    });
    Err(PluginError::Library(format!(
        "`{shown}` is somebody's program, and nobody has said that it may run; allowed: with --trust-plugins, with \
         {VARIABLE}=1 in the environment{place} (docs/guide/plugins.md)"
    )))
}

/// Reads the list. A list that cannot be read permits no library.
fn read(list: &Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(list);
    match file.map(|file| file.take(LONGEST).read_to_string(&mut text)) {
        Ok(Ok(_)) => text,
        _ => String::new(),
    }
}

fn hash(path: &Path) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    std::io::copy(&mut BufReader::new(std::fs::File::open(path)?), &mut hasher)?;
    let bytes = hasher.finalize();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
