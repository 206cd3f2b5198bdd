//! A check of single writer and multiple readers, for builds with debug assertions.
//!
//! Simulated caches hold no bytes, so a stale copy would still show the newest value: values alone
//! do not reveal the error. Here each line has a version number, and every write increments it. A
//! holder records the version when the protocol gives it the line. When the holder uses its copy
//! later, no other holder may have written the line.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::LineAddr;

/// Version of each line of one coherence domain, shared by the domain's components.
pub type LineVersions = Arc<Mutex<BTreeMap<u64, u64>>>;

/// The versions known to the holders of one component (its cores, or its cache).
#[derive(Debug)]
pub struct VersionAudit {
    versions: LineVersions,
    held: BTreeMap<(u16, u64), u64>,
}

/// Each component that shares the versions saves them; all saved copies are equal.
impl SaveState for VersionAudit {
    fn save(&self, out: &mut StateWriter) {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        out.value("audit", &(&*versions, &self.held));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        (*versions, self.held) = from.value("audit")?;
        Ok(())
    }
}

impl VersionAudit {
    /// An audit in which no holder has a line.
    pub fn new(versions: LineVersions) -> VersionAudit {
        VersionAudit {
            versions,
            held: BTreeMap::new(),
        }
    }

    fn version(&self, line: LineAddr) -> u64 {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.get(&line.0).copied().unwrap_or(0)
    }

    /// Records that the protocol gave `holder` the line.
    pub fn filled(&mut self, holder: u16, line: LineAddr) {
        let version = self.version(line);
        self.held.insert((holder, line.0), version);
    }

    /// Checks that the copy in `holder` is up to date when the holder uses it.
    ///
    /// # Panics
    /// If another holder has written the line since `holder` got it.
    pub fn used(&mut self, holder: u16, line: LineAddr) {
        let held = self.held.get(&(holder, line.0)).copied();
        let version = self.version(line);
        assert_eq!(
            held,
            Some(version),
            "holder {holder} uses a copy of {line:?} that it should have lost"
        );
    }

    /// Records that a holder writes the line; `None` is a device that writes by DMA.
    pub fn written(&mut self, holder: Option<u16>, line: LineAddr) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let version = versions.entry(line.0).or_default();
        *version += 1;
        if let Some(holder) = holder {
            self.held.insert((holder, line.0), *version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "should have lost")]
    fn a_stale_copy_is_found() {
        let versions = LineVersions::default();
        let (mut holder, mut writer) = (
            VersionAudit::new(Arc::clone(&versions)),
            VersionAudit::new(versions),
        );
        holder.filled(0, LineAddr(7));
        holder.used(0, LineAddr(7));
        writer.filled(0, LineAddr(7));
        writer.written(Some(0), LineAddr(7));
        writer.used(0, LineAddr(7));
        holder.used(0, LineAddr(7));
    }
}
