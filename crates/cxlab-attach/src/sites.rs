//! Allocation sites: which call allocated the memory at an address.
//!
//! A library that the loader puts before the C library (`preload/sites.c`) keeps tables in the program's
//! own memory, and this module reads them from outside. It is compiled for this machine when it is first
//! wanted, into the user's cache folder.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::read::{Object as _, ObjectSymbol as _, ReadCache};

use crate::images::Images;
use crate::maps::Mapping;
use crate::measurement_cache;
use crate::sys::{self, Tid};

const SOURCE: &str = include_str!("../preload/sites.c");
const SYMBOL: &str = "cxlab_allocation_sites";
const MAGIC: u64 = 0x3153_5445_494c_5843;
/// Constants of the library: frames of a site, bits of an address in a table, in a granule and in a page, and the mark of
/// a page whose granules have numbers of their own.
const FRAMES: usize = 24;
const GIB_SHIFT: u32 = 30;
const GRANULE_SHIFT: u32 = 4;
const PAGE_SHIFT: u32 = 12;
const MIXED: u32 = u32::MAX;
const SITES: u32 = 65_536;

/// Compiles the library, or finds it compiled.
///
/// # Errors
/// Reason why the library is not available, as a sentence.
pub(crate) fn library() -> Result<PathBuf, String> {
    let folder = measurement_cache::folder()
        .ok_or("neither XDG_CACHE_HOME nor HOME is set, so that it has no place")?;
    let path = folder.join(format!("sites-{}.so", measurement_cache::check_sum(SOURCE)));
    if is_ours(&path) {
        return Ok(path);
    }
    compile(&folder, &path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("cc cannot be run to compile it ({error})"),
        _ => error.to_string(),
    })?;
    match is_ours(&path) {
        true => Ok(path),
        false => Err(format!(
            "{}: another user owns it or may write it",
            path.display()
        )),
    }
}

/// Whether only this user or root may have written a file and its folder.
fn is_ours(path: &Path) -> bool {
    let safe = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|found| {
            [0, sys::user()].contains(&found.uid())
                && found.mode() & 0o022 == 0
                && !found.is_symlink()
        })
    };
    safe(path) && path.parent().is_some_and(safe)
}

fn compile(folder: &Path, path: &Path) -> io::Result<()> {
    measurement_cache::make(folder)?;
    let own = sys::own();
    let source = path.with_extension(format!("{own}.c"));
    let part = path.with_extension(format!("{own}.part"));
    fs::write(&source, SOURCE)?;
    let done = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-fPIC", "-shared", "-o"])
        .args([&part, &source])
        .arg("-ldl")
        .output();
    let _ = fs::remove_file(&source);
    let done = done?;
    if !done.status.success() {
        let _ = fs::remove_file(&part);
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        return Err(io::Error::other(format!("cc does not compile it: {said}")));
    }
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&part, fs::Permissions::from_mode(0o700))?;
    fs::rename(&part, path)
}

/// The tables of one process.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Tables {
    sites: u64,
    pages: u64,
    granules: u64,
}

/// A site as stored in the tables.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SiteFound {
    pub(crate) most_bytes: u64,
    pub(crate) count: u64,
    /// Return addresses, innermost first.
    pub(crate) calls: Vec<u64>,
}

fn words<const N: usize>(tid: Tid, address: u64) -> Option<[u64; N]> {
    let mut bytes = vec![0; N * 8];
    let count = sys::read_memory(tid, address, &mut bytes).ok()?;
    let mut found = [0; N];
    for (word, bytes) in found.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    (count == bytes.len()).then_some(found)
}

impl Tables {
    /// The tables of a process with the library at this path. `None` without the library.
    pub(crate) fn find(
        pid: Tid,
        library: &Path,
        mappings: &[Mapping],
        images: &mut Images,
    ) -> Option<Tables> {
        let name = library.to_str()?;
        let mapping = mappings.iter().find(|mapping| mapping.name == name)?;
        let cache = ReadCache::new(fs::File::open(library).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let mut symbols = file.dynamic_symbols();
        let symbol = symbols.find(|symbol| symbol.name() == Ok(SYMBOL))?;
        let moved = images.moved(pid, mapping)?;
        let found = words::<4>(pid, symbol.address().wrapping_add(moved))?;
        let [magic, sites, pages, granules] = found;
        (magic == MAGIC).then_some(Tables {
            sites,
            pages,
            granules,
        })
    }

    fn number(self, tid: Tid, roots: u64, shift: u32, address: u64) -> Option<u32> {
        let [table] = words::<1>(tid, roots + (address >> GIB_SHIFT) * 8)?;
        if table == 0 {
            return None;
        }
        let at = (address & ((1 << GIB_SHIFT) - 1)) >> shift;
        let mut bytes = [0; 4];
        let count = sys::read_memory(tid, table + at * 4, &mut bytes).ok()?;
        (count == 4).then(|| u32::from_le_bytes(bytes))
    }

    /// The number of the site that allocated the memory at an address. `None` without such a site.
    pub(crate) fn site(self, tid: Tid, address: u64) -> Option<u32> {
        if address >> 47 != 0 {
            return None;
        }
        let number = match self.number(tid, self.pages, PAGE_SHIFT, address)? {
            MIXED => self.number(tid, self.granules, GRANULE_SHIFT, address)?,
            number => number,
        };
        (1..SITES).contains(&number).then_some(number)
    }

    /// Reads a site from the tables.
    pub(crate) fn read(self, tid: Tid, site: u32) -> Option<SiteFound> {
        const WORDS: usize = 4 + FRAMES;
        let found = words::<WORDS>(tid, self.sites + u64::from(site) * WORDS as u64 * 8)?;
        let [_, _, most_bytes, count, frames @ ..] = found;
        let frames = frames.iter().take_while(|address| **address != 0);
        Some(SiteFound {
            most_bytes,
            count,
            // The call is before the address to which it returns.
            calls: frames.map(|address| address - 1).collect(),
        })
    }
}
