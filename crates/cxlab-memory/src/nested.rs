//! A medium inside another: how it is named, and driven whether its completions come by `advance`
//! or are known at once.

use cxlab_engine::catalog::ParamError;
use cxlab_engine::choice;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;

use crate::backend::{Completion, MemoryBackend, MemoryRequest, Statistic};
use crate::finished::Finished;
use crate::{CATALOG, InputFile, Medium};

choice!(
    /// A medium of the catalog.
    NestedMedium,
    CATALOG,
    Box<dyn Medium>
);
/// A mistake in a part, with the part's name before the field's.
pub(crate) fn within(part: &str, error: ParamError) -> ParamError {
    let field = match error.field.as_str() {
        "" => part.to_owned(),
        field => format!("{part}.{field}"),
    };
    ParamError::new(field, error.message)
}

/// The files of a part, with the part's name before the fields'.
pub(crate) fn files_within(part: &str, medium: &dyn Medium) -> Vec<InputFile> {
    let mut files = medium.files();
    for file in &mut files {
        file.field = format!("{part}.{}", file.field);
    }
    files
}

/// A medium that is driven by the one around it.
pub(crate) struct Nested {
    backend: Box<dyn MemoryBackend>,
    known: Finished,
}

save_state!(Nested {
    states: backend, known;
});

impl Nested {
    pub(crate) fn new(backend: Box<dyn MemoryBackend>) -> Self {
        Nested {
            backend,
            known: Finished::with_capacity(64),
        }
    }

    /// Gives the medium a request, if it has room.
    #[inline]
    pub(crate) fn offer(&mut self, now: u64, request: MemoryRequest) -> bool {
        let now = SimTime(now);
        if !self.can_accept(now, request.write) {
            return false;
        }
        self.enqueue(now, request);
        true
    }

    /// As of the medium.
    #[inline]
    pub(crate) fn can_accept(&mut self, now: SimTime, write: bool) -> bool {
        self.backend.can_accept(now, write)
    }

    /// Gives the medium a request that it has room for.
    #[inline]
    pub(crate) fn enqueue(&mut self, now: SimTime, request: MemoryRequest) {
        if let Some(at) = self.backend.enqueue(now, request) {
            self.known.push(at.0, request.id);
        }
    }

    /// As of the medium.
    pub(crate) fn soonest(&self, at: SimTime) -> SimTime {
        self.backend.soonest(at)
    }

    /// As of the medium.
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

    /// As of the medium.
    pub(crate) fn warm(&mut self, request: MemoryRequest) {
        self.backend.warm(request);
    }

    pub(crate) fn begin_measurement(&mut self, now: SimTime) {
        self.backend.begin_measurement(now);
    }

    /// Its statistics, behind a prefix unless they have it by themselves, as those of `dram` do.
    pub(crate) fn statistics(&self, now: SimTime, prefix: &str, out: &mut Vec<Statistic>) {
        let first = out.len();
        self.backend.statistics(now, out);
        for one in &mut out[first..] {
            if !one.name.starts_with(prefix) {
                one.name.insert_str(0, prefix);
            }
        }
    }
}
