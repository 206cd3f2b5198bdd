//! A memory that is known by its bandwidth-latency curves: measured latencies for each bandwidth and mix
//! of reads and writes.
//!
//! The method is that of Mess (Esmaili-Dokht et al., "A Mess of Memory System Benchmarking, Simulation
//! and Application Profiling", MICRO 2024, arXiv 2405.10170): the latency of a request is that of the
//! curve at the load of the recent past. Mess measures the load as bandwidth. This medium measures it as
//! the number of lines in flight, which by Little's law says the same on each curve. The number in flight
//! also distinguishes the points of a saturated memory, where the bandwidth is the same at every latency,
//! and the feedback is stable there: a closed loop of N requests can have no more than N in flight.
//!
//! For each request:
//!
//! 1. The share of reads is averaged over `window` lines, and selects two neighbouring curves, whose
//!    times are weighted.
//! 2. The lines in flight are averaged over the time `T` of `window` lines at the peak: a span `t`
//!    without arrivals leaves the part `T / (T + t)` of the average, and a request adds the time that its
//!    lines are in the medium, divided by `T`.
//! 3. The curve gives the latency at this number in flight (`table.rs`).
//! 4. The request completes after that latency, in order of arrival, and no sooner than one line at the
//!    peak rate of the mix after the one before it. This wait for the bus is part of the curve's latency:
//!    its average is subtracted from the latency, of which at least the unloaded latency is left.
//!
//! So at a steady bandwidth `b` the mean latency is that of the curve at `b`, and no interval has more
//! lines than the peak allows.
//!
//! Writes complete as reads do. Left out: addresses, banks, rows and refresh. Two request streams with the
//! same bandwidth and mix have the same latency.

mod family;
mod load;
mod memory;
mod params;
pub mod read;
mod table;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cxlab_cache::MemoryBackend;
use cxlab_engine::catalog::{Entry, ParamError, read_params, refused};
use schemars::JsonSchema;

use crate::{InputFile, Medium, MediumNote, MediumSite};
pub use family::{Curve, CurveError, CurveFamily, CurveSource};
use memory::CurveMemory;
pub use params::{CurveFiles, CurveFormat, CurvesParams, LatencyUnit, MeasuredAt};
use table::LatencyTable;

/// Most requests in the medium.
const MAX_QUEUE: u32 = 65536;
/// Least default of `queue` (*assumed*).
const LEAST_QUEUE: u32 = 16;

pub(crate) const ENTRY: Entry<Box<dyn Medium>> = Entry {
    name: "curves",
    summary: "a memory known by measured bandwidth-latency curves: of Mess, of MLC, or a CSV file",
    schema: <CurvesParams as JsonSchema>::json_schema,
    build: |params| {
        let params: CurvesParams = read_params(params)?;
        params.check()?;
        Ok(Box::new(CurvesMedium {
            params,
            loaded: None,
        }))
    },
};

/// Checked parameters, and the content of their files once it was read.
struct CurvesMedium {
    params: CurvesParams,
    loaded: Option<LoadedCurves>,
}

/// What the files say.
struct LoadedCurves {
    files: Vec<PathBuf>,
    family: CurveFamily,
    table: Arc<LatencyTable>,
    queue: u32,
}

impl CurvesMedium {
    fn loaded(&self) -> &LoadedCurves {
        match &self.loaded {
            Some(loaded) => loaded,
            None => unreachable!("a medium is loaded before it is used"),
        }
    }

    /// The bound on requests in the medium, checked against the fullest point.
    fn queue(&self, family: &CurveFamily) -> Result<u32, ParamError> {
        let (read_percent, point, in_flight) = family.fullest();
        let says = |needed: f64| {
            format!(
                "{} MB/s at {} ns and {read_percent} % reads have {needed:.0} lines of 64 bytes in flight, \
                 by Little's law",
                point.mb_per_s, point.latency_ns
            )
        };
        let needed = in_flight.ceil();
        if needed > f64::from(MAX_QUEUE) {
            let message = format!("latency: {}; allowed: at most {MAX_QUEUE}", says(needed));
            let error = family.point_error(read_percent, point.line, message);
            return Err(ParamError::new("file", error.to_string()));
        }
        let needed = needed as u32;
        match self.params.queue {
            Some(queue) if queue < needed => {
                let allowed = format!("{needed} to {MAX_QUEUE}: {}", says(f64::from(needed)));
                Err(refused("queue", queue, allowed))
            }
            Some(queue) => Ok(queue),
            None => Ok((2 * needed).clamp(LEAST_QUEUE, MAX_QUEUE)),
        }
    }
}

impl Medium for CurvesMedium {
    fn load(&mut self, folder: &Path) -> Result<(), ParamError> {
        let (family, files) = load::load(&self.params, folder)?;
        self.loaded = Some(LoadedCurves {
            queue: self.queue(&family)?,
            table: Arc::new(LatencyTable::new(&family)),
            family,
            files,
        });
        Ok(())
    }

    fn backend(&self, _site: MediumSite) -> Box<dyn MemoryBackend> {
        let loaded = self.loaded();
        Box::new(CurveMemory::new(
            Arc::clone(&loaded.table),
            self.params.window,
            loaded.queue,
        ))
    }

    fn keeps_state(&self) -> bool {
        false
    }

    fn latency_follows_load(&self) -> bool {
        true
    }

    fn files(&self) -> Vec<InputFile> {
        let files = self.loaded().files.iter();
        let file = |path: &PathBuf| InputFile {
            field: "file".to_owned(),
            path: path.clone(),
        };
        files.map(file).collect()
    }

    fn notes(&self, outstanding: Option<u32>) -> Vec<MediumNote> {
        let family = &self.loaded().family;
        let mut notes = Vec::new();
        let left_out: usize = family.curves().iter().map(|curve| curve.left_out).sum();
        if left_out > 0 {
            let kept: usize = family.curves().iter().map(|curve| curve.points.len()).sum();
            let noises = family.curves().iter().map(|curve| curve.largest_noise);
            let message = format!(
                "leaves out {left_out} of {} points: their latency is above the monotone lower envelope of their \
                 curve, by up to {:.2} % of latency or bandwidth",
                left_out + kept,
                100.0 * noises.fold(0.0, f64::max)
            );
            notes.push(MediumNote::new("file", message));
        }
        let (read_percent, point, in_flight) = family.fullest();
        if let Some(outstanding) = outstanding.filter(|most| f64::from(*most) < in_flight) {
            let message = format!(
                "will not be reached: {} MB/s at {} ns and {read_percent} % reads have {:.0} lines in flight, and \
                 the device keeps at most {outstanding} requests, its `controller.contexts`",
                point.mb_per_s, point.latency_ns, in_flight
            );
            notes.push(MediumNote::new("file", message));
        }
        notes
    }

    fn idle_read_ps(&self) -> Option<u64> {
        let unloaded = self.loaded().table.constant_unloaded_ps();
        unloaded.map(|unloaded| (unloaded + 0.5) as u64)
    }
}
