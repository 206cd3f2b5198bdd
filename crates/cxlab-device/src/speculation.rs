//! Lines that a device reads ahead of their request, because a host said that it may ask (`MemSpecRd`; CXL 3.1,
//! section 3.5.3.1). They are few, and searched one by one.

use cxlab_engine::units::{Dpa, SimTime};
use serde::{Deserialize, Serialize};

/// Lines that a device keeps at once; the oldest is forgotten. *Assumed*.
const MOST: usize = 16;

/// Where a line is that was read ahead.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Ahead {
    /// In a medium that tells when it is done, under this number.
    InMedium(u32),
    /// In the controller, from this time on.
    At(SimTime),
}

/// The lines that a device reads ahead, or has.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Speculations {
    lines: Vec<(Dpa, Ahead)>,
}

impl Speculations {
    /// A line is being read ahead.
    pub(crate) fn begin(&mut self, dpa: Dpa, ahead: Ahead) {
        if self.lines.len() == MOST {
            self.lines.remove(0);
        }
        self.lines.push((dpa, ahead));
    }

    /// The medium is done with what it has under this number.
    pub(crate) fn come(&mut self, id: u32, now: SimTime) {
        let is_it = |(_, ahead): &&mut (Dpa, Ahead)| *ahead == Ahead::InMedium(id);
        if let Some((_, ahead)) = self.lines.iter_mut().find(is_it) {
            *ahead = Ahead::At(now);
        }
    }

    /// Whether a line is being read ahead, or was.
    pub(crate) fn has(&self, dpa: Dpa) -> bool {
        self.lines.iter().any(|(other, _)| *other == dpa)
    }

    /// A line is asked for, or written: it is not kept any longer.
    pub(crate) fn take(&mut self, dpa: Dpa) -> Option<Ahead> {
        let place = self.lines.iter().position(|(other, _)| *other == dpa)?;
        Some(self.lines.remove(place).1)
    }
}
