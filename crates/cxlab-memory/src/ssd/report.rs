//! Statistics of a drive.

use cxlab_cache::Statistic;
use cxlab_engine::units::{LINE_BYTES, SimTime};
use serde::{Deserialize, Serialize};

use super::drive::Drive;

/// Counters since measurement began.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub(super) struct DriveCounters {
    /// Requests and their lines.
    pub reads: u64,
    pub read_lines: u64,
    pub writes: u64,
    pub written_lines: u64,
    /// Sub-pages: read from the buffer, written again in the buffer, read to complete a short
    /// write, and stalled for lack of room.
    pub buffer_reads: u64,
    pub coalesced: u64,
    pub fills: u64,
    pub blocked_writes: u64,
    /// Translation pages read and written.
    pub translation_reads: u64,
    pub translation_writes: u64,
    /// User sub-pages, and pages, programmed from the buffer.
    pub flushed: u64,
    pub host_pages: u64,
    /// Blocks collected, and the sub-pages and pages moved for that.
    pub collections: u64,
    pub collected: u64,
    pub collected_pages: u64,
    /// Blocks chosen by static wear levelling, and the sub-pages and pages moved for that.
    pub wear_moves: u64,
    pub wear_moved: u64,
    pub wear_pages: u64,
    pub erases: u64,
}

/// Picoseconds in a year of 365.25 days.
const YEAR_PS: f64 = 31_557_600.0 * 1e12;

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

impl Drive {
    pub(super) fn report(&self, now: SimTime, out: &mut Vec<Statistic>) {
        let mut append = |name: &str, value: f64| {
            let name = name.to_owned();
            out.push(Statistic { name, value });
        };
        let counted = &self.counters;
        let nand = &self.nand.stats;
        let span = now.0.saturating_sub(self.measured_from);
        append("host.reads", counted.reads as f64);
        append("host.writes", counted.writes as f64);
        append("host.read_bytes", (counted.read_lines * LINE_BYTES) as f64);
        let written = (counted.written_lines * LINE_BYTES) as f64;
        append("host.written_bytes", written);
        append("buffer.reads", counted.buffer_reads as f64);
        append("buffer.coalesced", counted.coalesced as f64);
        append("buffer.fills", counted.fills as f64);
        append("buffer.blocked", counted.blocked_writes as f64);
        append("buffer.used", f64::from(self.buffer.used()));
        append("mapping.hits", self.cache.hits as f64);
        append("mapping.misses", self.cache.misses as f64);
        append("mapping.reads", counted.translation_reads as f64);
        append("mapping.writes", counted.translation_writes as f64);
        append("flash.reads", nand.reads as f64);
        append("flash.programs", nand.programs as f64);
        append("flash.erases", nand.erases as f64);
        append("flash.multi_plane", nand.multi_plane as f64);
        append("flash.suspends", nand.suspends as f64);
        let (dies, channels) = self.nand.utilization(span);
        append("flash.die_utilization", dies);
        append("flash.channel_utilization", channels);
        append("flush.pages", counted.host_pages as f64);
        append("flush.sub_pages", counted.flushed as f64);
        append("gc.blocks", counted.collections as f64);
        append("gc.sub_pages", counted.collected as f64);
        append("gc.pages", counted.collected_pages as f64);
        append("wear.blocks", counted.wear_moves as f64);
        append("wear.sub_pages", counted.wear_moved as f64);
        append("wear.pages", counted.wear_pages as f64);
        let host = (counted.flushed + counted.translation_writes) as f64;
        let moved = (counted.collected + counted.wear_moved) as f64;
        append("ftl.write_amplification", ratio(host + moved, host));
        let pages = counted.host_pages + counted.collected_pages + counted.wear_pages;
        let programmed = (pages * u64::from(self.geometry.subs) * self.geometry.sub_bytes) as f64;
        append("write_amplification", ratio(programmed, written));
        self.report_wear(span, written, &mut append);
    }

    fn report_wear(&self, span: u64, written: f64, append: &mut impl FnMut(&str, f64)) {
        let blocks = || self.planes.iter().flat_map(|plane| &plane.blocks);
        let opened = blocks().count() as f64;
        let unopened: u32 = self.planes.iter().map(super::blocks::Plane::unopened).sum();
        let all = opened + f64::from(unopened);
        let least = blocks().map(|block| block.erases).min().unwrap_or(0);
        let least = if unopened > 0 { 0 } else { least };
        let most = blocks().map(|block| block.erases).max().unwrap_or(0);
        let sum: f64 = blocks().map(|block| f64::from(block.erases)).sum();
        let mean = ratio(sum, all);
        let offs = blocks().map(|block| f64::from(block.erases) - mean);
        let squares: f64 = offs.map(|off| off * off).sum();
        let squares = squares + f64::from(unopened) * mean * mean;
        append("erases.least", f64::from(least));
        append("erases.most", f64::from(most));
        append("erases.mean", mean);
        append("erases.deviation", ratio(squares, all).sqrt());
        let endurance = f64::from(self.params.cells().endurance);
        append("life.used", ratio(mean, endurance));
        if self.counters.erases > 0 {
            // The remaining erases of all blocks, at the measured rate.
            let periods = (endurance * all - sum).max(0.0) / self.counters.erases as f64;
            append("life.years_left", periods * span as f64 / YEAR_PS);
            append("life.bytes_left", periods * written);
        }
        let physical = self.geometry.physical_bytes() as f64;
        let user = f64::from(self.geometry.user) * self.geometry.sub_bytes as f64;
        append("spare", physical / user - 1.0);
    }
}
