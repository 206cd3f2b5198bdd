//! Folders of results.

use std::io::{self, Write};
use std::path::Path;

use cxlab_files::WholeFile;

pub use cxlab_files::{is_special, write_whole};

/// Bytes that must fit before a long run begins: about what a small report takes.
const PROBE_BYTES: usize = 1 << 16;

/// Makes sure before a long run that its results can be written, and removes what a killed one left in the making.
///
/// # Errors
/// The folder cannot be made, or a file in it cannot be created and written.
pub fn prepare_dir(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    cxlab_files::sweep(dir)?;
    // It goes when it is dropped, and nobody else has a file of this name.
    let mut probe = WholeFile::create(&dir.join(".cxlab-probe"))?;
    probe.write_all(&[0; PROBE_BYTES])?;
    probe.flush()
}
