//! Back-invalidation snoops in flight.

use cxlab_engine::save_state;
use cxlab_engine::units::LineAddr;
use cxlab_protocol::coherence::dcoh::Peer;
use serde::{Deserialize, Serialize};

/// A snoop message, until the holder has responded for all of its lines.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct SnoopTag {
    peer: Peer,
    first: LineAddr,
    /// Bit mask of lines without a response; zero when the tag is free.
    missing: u8,
}

/// The snoops in flight, by tag: at most one for each holder of each busy line.
pub(super) struct SnoopTags {
    slab: Vec<SnoopTag>,
    free: Vec<u32>,
}

save_state!(SnoopTags {
    values: slab, free;
});

impl SnoopTags {
    pub(super) fn new() -> Self {
        SnoopTags {
            slab: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len() - self.free.len()
    }

    /// Allocates the tag of a snoop of `lines` lines.
    pub(super) fn take(&mut self, peer: Peer, first: LineAddr, lines: u8) -> u32 {
        let snooped = SnoopTag {
            peer,
            first,
            missing: (1 << lines) - 1,
        };
        if let Some(tag) = self.free.pop() {
            self.slab[tag as usize] = snooped;
            return tag;
        }
        self.slab.push(snooped);
        self.slab.len() as u32 - 1
    }

    /// Records a response for `lines` lines from `first` on.
    ///
    /// # Panics
    /// If the response belongs to no snoop.
    pub(super) fn answered(&mut self, tag: u32, peer: Peer, first: LineAddr, lines: u8) {
        let belongs = self.slab.get_mut(tag as usize).and_then(|snooped| {
            let place = first.0.checked_sub(snooped.first.0)?;
            let mask = ((1u16 << lines) - 1).checked_shl(u32::try_from(place).ok()?)?;
            let mask = u8::try_from(mask).ok()?;
            (snooped.peer == peer && snooped.missing & mask == mask).then_some((snooped, mask))
        });
        let Some((snooped, mask)) = belongs else {
            panic!(
                "an answer of {peer:?} for {lines} lines from {first:?} to snoop {tag}, which asked for none"
            )
        };
        snooped.missing &= !mask;
        if snooped.missing == 0 {
            self.free.push(tag);
        }
    }
}
