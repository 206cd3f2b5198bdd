//! Files that a program's code and variables are from, and places in them.

use std::fs::File;

use indexmap::IndexSet;
use object::read::{Object as _, ObjectSegment as _, ReadCache};
use object::{ObjectSection as _, ReadRef as _};

use crate::maps::Mapping;
use crate::recording::{CodePlace, Recording};
use crate::sys::Tid;

/// Largest section that is kept to unwind stacks (*assumed*: the largest programs have some tens of MiB).
const MOST_SECTION: u64 = 256 << 20;

/// Part of a file that the loader maps.
#[derive(Clone, Copy)]
struct LoadedSegment {
    offset: u64,
    bytes: u64,
    address: u64,
}

/// Sections with unwind information.
#[derive(Clone, Default)]
pub(crate) struct Unwinding {
    pub(crate) eh_frame: Option<(u64, Vec<u8>)>,
    pub(crate) eh_frame_hdr: Option<(u64, Vec<u8>)>,
    pub(crate) debug_frame: Option<Vec<u8>>,
    pub(crate) text: Option<(u64, Vec<u8>)>,
}

/// A file, with the parts that could be read.
#[derive(Default)]
struct Image {
    loaded: Vec<LoadedSegment>,
}

/// Files that were seen, by path. Numbers of files never change.
#[derive(Default)]
pub(crate) struct Images {
    paths: IndexSet<String>,
    images: Vec<Image>,
}

/// Path of a mapping's file in the file system of its process.
fn path(pid: Tid, name: &str) -> String {
    format!("/proc/{pid}/root{name}")
}

impl Images {
    /// The number of a mapping's file. `None` if the mapping is of no file, or is a device.
    pub(crate) fn number(&mut self, pid: Tid, mapping: &Mapping) -> Option<u32> {
        let name = mapping.path()?;
        let (number, is_new) = self.paths.insert_full(name.to_owned());
        if is_new {
            self.images.push(read(&path(pid, name)).unwrap_or_default());
        }
        Some(number as u32)
    }

    /// The place of an address in a mapping of a file. In files that are not programs it is the offset.
    pub(crate) fn place(&self, image: u32, mapping: &Mapping, address: u64) -> CodePlace {
        let offset = address - mapping.region.start + mapping.offset;
        CodePlace {
            image: Some(image),
            address: self.images[image as usize].address(offset),
        }
    }

    /// Difference between addresses in the process and the file's own addresses. `None` if the mapping has no file.
    pub(crate) fn moved(&mut self, pid: Tid, mapping: &Mapping) -> Option<u64> {
        let image = self.number(pid, mapping)?;
        let start = mapping.region.start;
        Some(start.wrapping_sub(self.place(image, mapping, start).address))
    }

    pub(crate) fn into_paths(self) -> Vec<String> {
        self.paths.into_iter().collect()
    }
}

impl Image {
    /// The file's own address of the byte at `offset`.
    fn address(&self, offset: u64) -> u64 {
        // The first and the last page of a part also hold what is beside it in the file.
        let parts = self.loaded.iter();
        let parts = parts.filter(|part| part.offset & !0xfff <= offset);
        let part = parts.max_by_key(|part| {
            let end = part.offset.saturating_add(part.bytes);
            (offset < end, part.offset)
        });
        part.map_or(offset, |part| {
            part.address.wrapping_add(offset).wrapping_sub(part.offset)
        })
    }
}

/// Converts places that are given as offsets in a file to the file's own addresses. Places in files that cannot be read
/// do not change.
pub fn to_addresses(recording: &mut Recording) {
    let images = recording.images.iter();
    let images: Vec<Image> = images.map(|path| read(path).unwrap_or_default()).collect();
    for place in &mut recording.places {
        if let Some(image) = place.image.and_then(|image| images.get(image as usize)) {
            place.address = image.address(place.address);
        }
    }
}

/// Whether an untrusted path names a regular file, which can be read to its end.
pub(crate) fn is_file(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file())
}

fn read(path: &str) -> Option<Image> {
    if !is_file(path) {
        return None;
    }
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let loaded = file.segments().map(|segment| {
        let (offset, bytes) = segment.file_range();
        LoadedSegment {
            offset,
            bytes,
            address: segment.address(),
        }
    });
    Some(Image {
        loaded: loaded.collect(),
    })
}

/// Unwind sections of a mapping's file. `None` if the file is no program.
pub(crate) fn unwinding(pid: Tid, mapping: &Mapping) -> Option<Unwinding> {
    let cache = ReadCache::new(File::open(path(pid, mapping.path()?)).ok()?);
    (&cache).len().ok()?;
    let file = object::File::parse(&cache).ok()?;
    let section = |name: &str| {
        let section = file.section_by_name(name)?;
        if section.size() > MOST_SECTION {
            return None;
        }
        let data = section.uncompressed_data().ok()?;
        (!data.is_empty()).then(|| (section.address(), data.into_owned()))
    };
    Some(Unwinding {
        eh_frame: section(".eh_frame"),
        eh_frame_hdr: section(".eh_frame_hdr"),
        debug_frame: section(".debug_frame").map(|(_, data)| data),
        text: section(".text"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps;
    use crate::sys;

    /// The place of a function of this program, as its symbol table says it.
    #[test]
    fn an_address_in_the_process_is_found_in_its_file() {
        let here = unwinding as *const () as u64;
        let own = sys::own();
        let all = maps::mappings(own).unwrap();
        let holds = |one: &&Mapping| (one.region.start..one.region.end).contains(&here);
        let mapping = all.iter().find(holds).unwrap();
        let mut images = Images::default();
        let image = images.number(own, mapping).unwrap();
        assert_eq!(images.number(own, mapping), Some(image));
        let place = images.place(image, mapping, here);
        let data = std::fs::read(&mapping.name).unwrap();
        let file = object::File::parse(&*data).unwrap();
        use object::ObjectSymbol as _;
        let symbol = file.symbols().find(|symbol| {
            symbol.address() == place.address
                && symbol.name().is_ok_and(|name| name.contains("unwinding"))
        });
        assert!(symbol.is_some(), "{place:?}");
        assert!(unwinding(own, mapping).unwrap().eh_frame.is_some());
    }
}
