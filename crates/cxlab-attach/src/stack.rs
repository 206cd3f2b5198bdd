//! Calls that led to a place: the stack of a stopped thread, unwound by what its program's files say
//! (DWARF's call frame information), and by frame pointers where they say nothing.

use std::collections::BTreeMap;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};

use crate::images::{self, Images};
use crate::maps::Mapping;
use crate::sys::{self, Registers, Tid};

/// Most calls of a stack that are kept, the innermost ones.
const MOST_CALLS: usize = 128;
/// Bytes of a stack that are read at once.
const AT_ONCE: usize = 32 << 10;

/// Unwinds the stacks of one process.
#[derive(Default)]
pub(crate) struct Stacks {
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
    /// Modules by their first address, with the path of their file.
    modules: BTreeMap<u64, String>,
}

impl Stacks {
    /// Takes over the mappings of the process. A mapping with code from a file is a module.
    pub(crate) fn update(&mut self, pid: Tid, mappings: &[Mapping], images: &mut Images) {
        let is_code = |one: &&Mapping| one.executable && one.name.starts_with('/');
        let code = mappings.iter().filter(is_code);
        let present: BTreeMap<u64, &Mapping> = code.map(|one| (one.region.start, one)).collect();
        self.modules.retain(|start, name| {
            let mapping = present.get(start);
            let stays = mapping.is_some_and(|mapping| mapping.name == *name);
            if !stays {
                self.unwinder.remove_module(*start);
            }
            stays
        });
        for (start, mapping) in present {
            if self.modules.insert(start, mapping.name.clone()).is_none()
                && let Some(module) = module(pid, mapping, images)
            {
                self.unwinder.add_module(module);
            }
        }
    }

    /// Addresses of the calls that led to a stopped thread's place, innermost first: its instruction,
    /// then the calls (an address inside the calling instruction).
    pub(crate) fn unwind(&mut self, tid: Tid, registers: &Registers) -> Vec<u64> {
        let mut near = vec![0; AT_ONCE];
        let count = sys::read_memory(tid, registers.rsp, &mut near).unwrap_or(0);
        near.truncate(count);
        let mut read = |address: u64| -> Result<u64, ()> {
            let mut word = [0; 8];
            let at = address.checked_sub(registers.rsp).map(|at| at as usize);
            match at.and_then(|at| near.get(at..at.checked_add(8)?)) {
                Some(bytes) => word.copy_from_slice(bytes),
                None => {
                    let count = sys::read_memory(tid, address, &mut word).map_err(|_| ())?;
                    if count != word.len() {
                        return Err(());
                    }
                }
            }
            Ok(u64::from_le_bytes(word))
        };
        let from = UnwindRegsX86_64::new(registers.rip, registers.rsp, registers.rbp);
        let mut frames = self
            .unwinder
            .iter_frames(registers.rip, from, &mut self.cache, &mut read);
        let mut found = Vec::new();
        while found.len() < MOST_CALLS
            && let Ok(Some(frame)) = frames.next()
        {
            found.push(frame.address_for_lookup());
        }
        found
    }
}

/// A mapping of code as a module of the unwinder. `None` if the mapped file is no program.
fn module(pid: Tid, mapping: &Mapping, images: &mut Images) -> Option<Module<Vec<u8>>> {
    let found = images::unwinding(pid, mapping)?;
    let moved = images.moved(pid, mapping)?;
    let start = mapping.region.start;
    let range = |section: &Option<(u64, Vec<u8>)>| {
        let (address, data) = section.as_ref()?;
        Some(*address..*address + data.len() as u64)
    };
    let info = ExplicitModuleSectionInfo {
        text_svma: range(&found.text),
        eh_frame_svma: range(&found.eh_frame),
        eh_frame_hdr_svma: range(&found.eh_frame_hdr),
        text: found.text.map(|(_, data)| data),
        eh_frame: found.eh_frame.map(|(_, data)| data),
        eh_frame_hdr: found.eh_frame_hdr.map(|(_, data)| data),
        debug_frame: found.debug_frame,
        ..ExplicitModuleSectionInfo::default()
    };
    let name = mapping.name.clone();
    Some(Module::new(name, start..mapping.region.end, moved, info))
}
