//! A medium inside another medium: its parameters, and one interface to it whether completions come
//! from `enqueue` or from `advance`.

use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::choice;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;

use crate::completion_queue::CompletionQueue;
use crate::{CATALOG, InputFile, Medium, MediumNote};

choice!(
    /// A medium of the catalog with its parameters.
    NestedMedium,
    CATALOG,
    Box<dyn Medium>
);
/// The files of a part; their fields are prefixed with the part's name.
pub(crate) fn files_within(part: &str, medium: &dyn Medium) -> Vec<InputFile> {
    let mut files = medium.files();
    for file in &mut files {
        file.field = format!("{part}.{}", file.field);
    }
    files
}

/// The notes of a part; their fields are prefixed with the part's name.
pub(crate) fn notes_within(part: &str, medium: &dyn Medium) -> Vec<MediumNote> {
    let mut notes = medium.notes(None);
    for note in &mut notes {
        note.field = format!("{part}.{}", note.field);
    }
    notes
}

/// A medium driven by the medium around it.
pub(crate) struct InnerMedium {
    backend: Box<dyn MemoryBackend>,
    known: CompletionQueue,
}

save_state!(InnerMedium {
    states: backend, known;
});

impl InnerMedium {
    pub(crate) fn new(backend: Box<dyn MemoryBackend>) -> Self {
        InnerMedium {
            backend,
            known: CompletionQueue::with_capacity(64),
        }
    }

    /// Passes the request to the medium if that has room, and returns whether it did.
    #[inline]
    pub(crate) fn offer(&mut self, now: u64, request: MemoryRequest) -> bool {
        let now = SimTime(now);
        if !self.can_accept(now, request.write) {
            return false;
        }
        self.enqueue(now, request);
        true
    }

    /// Whether the medium has room: see [`MemoryBackend::can_accept`].
    #[inline]
    pub(crate) fn can_accept(&mut self, now: SimTime, write: bool) -> bool {
        self.backend.can_accept(now, write)
    }

    /// Passes a request to the medium, which must have room.
    #[inline]
    pub(crate) fn enqueue(&mut self, now: SimTime, request: MemoryRequest) {
        if let Some(at) = self.backend.enqueue(now, request) {
            self.known.push(at.0, request.id);
        }
    }

    /// Least time of a completion: see [`MemoryBackend::soonest`].
    pub(crate) fn soonest(&self, at: SimTime) -> SimTime {
        self.backend.soonest(at)
    }

    /// Granule of the medium: see [`MemoryBackend::granule`].
    pub(crate) fn granule(&self) -> u32 {
        self.backend.granule()
    }

    #[inline]
    pub(crate) fn next_event(&self) -> Option<u64> {
        let told = self.backend.next_event().map(|at| at.0);
        match (told, self.known.next()) {
            (Some(told), Some(known)) => Some(told.min(known)),
            (told, known) => told.or(known),
        }
    }

    #[inline]
    pub(crate) fn advance(&mut self, now: u64, done: &mut Vec<Completion>) {
        self.backend.advance(SimTime(now), done);
        self.known.drain(now, done);
    }

    /// Warms the medium: see [`MemoryBackend::warm`].
    pub(crate) fn warm(&mut self, request: MemoryRequest) {
        self.backend.warm(request);
    }

    pub(crate) fn begin_measurement(&mut self, now: SimTime) {
        self.backend.begin_measurement(now);
    }

    /// Appends the medium's statistics, whose names get `prefix`.
    pub(crate) fn statistics(&self, now: SimTime, prefix: &str, out: &mut Vec<Statistic>) {
        let first = out.len();
        self.backend.statistics(now, out);
        for one in &mut out[first..] {
            one.name.insert_str(0, prefix);
        }
    }
}
