//! Parameters of the `curves` medium.

use cxlab_engine::catalog::{ParamError, in_range, refused};
use cxlab_engine::units::{PartsPerMillion, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file, or several.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(untagged)]
pub enum CurveFiles {
    /// One file, or a folder of Mess.
    One(String),
    /// Several files.
    Many(Vec<String>),
}

/// The format of curve files.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum CurveFormat {
    /// Columns `read_percent,bandwidth_mb_per_s,latency_ns` under a header with these names.
    #[default]
    Csv,
    /// Files of Mess, named `bwlat_R.txt` by their read percent R: bandwidth in MB/s and latency.
    Mess,
    /// Output of `mlc --loaded_latency`.
    Mlc,
}

/// The point at which the latencies of a file were measured.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum MeasuredAt {
    /// At the memory itself: the medium takes the latencies of the file.
    Device,
    /// At a host, from load to use. The latencies include host, links and switches, of which `minus`
    /// is subtracted.
    Host,
}

/// The unit of latencies in files of Mess.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyUnit {
    /// Nanoseconds.
    Ns,
    /// Clocks of `clock_mhz`.
    Cycles,
}

/// Parameters of the `curves` medium.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct CurvesParams {
    /// The file with the curves, relative to the folder of the scenario. With several files, a list.
    /// With `format = "mess"` also a folder, of which all files `bwlat_*.txt` are read.
    pub file: CurveFiles,
    /// The format of the files. Default `csv`.
    #[serde(default)]
    pub format: CurveFormat,
    /// Where the latencies were measured. No default, because with the wrong value links are charged
    /// twice or not at all.
    pub measured_at: MeasuredAt,
    /// With `measured_at = "host"`, and required there: the part of the latency that the rest of the
    /// simulated system provides without load (host, links, switches, device controller). It is
    /// subtracted from every latency.
    #[serde(default)]
    pub minus: Option<Picos>,
    /// With `format = "mess"`, and required there: the unit of the latencies. The folders of the public
    /// repository differ, and the files do not say it.
    #[serde(default)]
    pub latency_unit: Option<LatencyUnit>,
    /// With `latency_unit = "cycles"`, and required there: the clock in MHz. 1 to 100000. The clock of
    /// the older files of Mess for CXL is 2100.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    pub clock_mhz: Option<u32>,
    /// With `format = "mlc"`: the share of reads of each file in percent, if the output does not say it.
    /// 0 to 100. Default: as in the output.
    #[serde(default)]
    #[schemars(inner(range(min = 0, max = 100)))]
    pub read_percents: Vec<f64>,
    /// Largest distance of a point from the monotone lower envelope of its curve, in latency or in
    /// bandwidth. Points above the envelope are left out, and points farther from it are refused. At
    /// most 100 %. Default 5 % (*assumed*).
    #[serde(default = "noise")]
    pub noise: PartsPerMillion,
    /// Lines of 64 bytes over which mix and load are averaged: the response to a change of load takes a
    /// few times the time of that many lines at the peak. 1 to 1000000. Default 2000 (*assumed*).
    #[serde(default = "window")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub window: u32,
    /// Most requests in the medium. At least as many as the fullest point of the curves has in flight
    /// by Little's law, at most 65536. Default: twice as many, and at least 16 (*assumed*).
    #[serde(default)]
    #[schemars(range(min = 1, max = 65536))]
    pub queue: Option<u32>,
}

fn noise() -> PartsPerMillion {
    PartsPerMillion(50_000)
}

fn window() -> u32 {
    2000
}

impl CurvesParams {
    /// Checks everything but the files.
    pub(super) fn check(&self) -> Result<(), ParamError> {
        let is_empty = match &self.file {
            CurveFiles::One(one) => one.is_empty(),
            CurveFiles::Many(many) => many.is_empty() || many.iter().any(String::is_empty),
        };
        if is_empty {
            let allowed = "the name of a file from the scenario's folder, or a list of names";
            return Err(refused("file", "no name", allowed));
        }
        self.check_format()?;
        match (self.measured_at, self.minus) {
            (MeasuredAt::Host, None) => {
                let allowed = "with `measured_at = \"host\"` the unloaded latency of host, links and \
                               switches, such as \"90 ns\", or \"0 ns\" if the system has none";
                return Err(refused("minus", "none", allowed));
            }
            (MeasuredAt::Device, Some(minus)) => {
                let allowed = "none with `measured_at = \"device\"`";
                return Err(refused("minus", minus, allowed));
            }
            _ => {}
        }
        if self.noise > PartsPerMillion(1_000_000) {
            return Err(refused("noise", self.noise, "0 % to 100 %"));
        }
        in_range("window", self.window, 1..=1_000_000)?;
        in_range("queue", self.queue.unwrap_or(1), 1..=65536)
    }

    /// Checks the keys that only some formats have.
    fn check_format(&self) -> Result<(), ParamError> {
        let is_mess = self.format == CurveFormat::Mess;
        match (is_mess, self.latency_unit) {
            (true, None) => {
                let allowed = "\"ns\", or \"cycles\" with `clock_mhz`; files of Mess do not say it";
                return Err(refused("latency_unit", "none", allowed));
            }
            (false, Some(_)) => {
                let message = "the format says the unit; allowed with `format = \"mess\"`";
                return Err(ParamError::new("latency_unit", message));
            }
            _ => {}
        }
        match (self.latency_unit, self.clock_mhz) {
            (Some(LatencyUnit::Cycles), Some(1..=100_000)) => {}
            (Some(LatencyUnit::Cycles), found) => {
                let found = found.map_or("none".to_owned(), |found| found.to_string());
                return Err(refused("clock_mhz", found, "1 to 100000"));
            }
            (_, Some(found)) => {
                let allowed = "none without `latency_unit = \"cycles\"`";
                return Err(refused("clock_mhz", found, allowed));
            }
            _ => {}
        }
        if let Some(first) = self.read_percents.first()
            && self.format != CurveFormat::Mlc
        {
            let allowed = "none; the format says the mix, except `format = \"mlc\"`";
            return Err(refused("read_percents", first, allowed));
        }
        let mut percents = self.read_percents.iter().copied();
        percents.try_for_each(|percent| in_range("read_percents", percent, 0.0..=100.0))
    }
}
