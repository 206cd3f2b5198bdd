//! Reading the files of a medium: names, sizes, and errors that name the parameter.

use std::io::Read;
use std::path::{Path, PathBuf};

use cxlab_engine::catalog::{ParamError, refused};
use cxlab_files::input;

use super::family::{CurveFamily, CurveSource};
use super::params::{CurveFiles, CurveFormat, CurvesParams, LatencyUnit};
use super::read::{MeasuredPoint, ReadError, csv, mess, mlc, shown};

/// Largest size of a file: 16 MiB, a hundred thousand points and more.
const MAX_BYTES: u64 = 16 << 20;
/// Most files of a family: one for each whole percent.
const MAX_FILES: usize = 101;

/// Reads the files and checks the family. Returns it with the paths of its files, relative to
/// `folder`.
pub(super) fn load(
    params: &CurvesParams,
    folder: &Path,
) -> Result<(CurveFamily, Vec<PathBuf>), ParamError> {
    let files = list(params, folder)?;
    if !(1..=MAX_FILES).contains(&files.len()) {
        let allowed = format!("1 to {MAX_FILES} files");
        return Err(refused("file", format!("{} files", files.len()), allowed));
    }
    let given = &params.read_percents;
    if !given.is_empty() && given.len() != files.len() {
        let allowed = format!("{}, one for each file", files.len());
        let found = format!("{} values", given.len());
        return Err(refused("read_percents", found, allowed));
    }
    let mut sources = Vec::new();
    for (at, path) in files.iter().enumerate() {
        let path = folder.join(path);
        let name = path.display().to_string();
        let content =
            content(&path).map_err(|why| ParamError::new("file", format!("`{name}`: {why}")))?;
        let points = points(params, &path, given.get(at).copied(), &content)
            .map_err(|error| ParamError::new("file", format!("{name}:{error}")))?;
        sources.push(CurveSource { name, points });
    }
    let noise = params.noise.0 as f64 * 1e-6;
    let mut family = CurveFamily::new(&sources, noise)
        .map_err(|error| ParamError::new("file", error.to_string()))?;
    if let Some(minus) = params.minus {
        let ns = minus.0 as f64 * 1e-3;
        (family.less(ns)).map_err(|error| ParamError::new("minus", error.to_string()))?;
    }
    Ok((family, files))
}

/// The files that the parameter names; for a folder, its files in order of their mixes.
fn list(params: &CurvesParams, folder: &Path) -> Result<Vec<PathBuf>, ParamError> {
    let one = match &params.file {
        CurveFiles::One(one) => one,
        CurveFiles::Many(many) => return Ok(many.iter().map(PathBuf::from).collect()),
    };
    let path = folder.join(one);
    if !input::kind(&path).is_ok_and(|found| found.is_dir) {
        return Ok(vec![PathBuf::from(one)]);
    }
    if params.format != CurveFormat::Mess {
        let found = format!("the folder `{}`", path.display());
        let allowed = "a file; a folder with `format = \"mess\"`";
        return Err(refused("file", found, allowed));
    }
    let unreadable = |error: std::io::Error| {
        let message = format!("`{}`: it cannot be read: {error}", path.display());
        ParamError::new("file", message)
    };
    let mut found = Vec::new();
    for name in input::names(&path).map_err(unreadable)? {
        let name = name.to_string_lossy().into_owned();
        if mess::is_curve(&name) {
            found.push((mess::read_percent(&name), name));
        }
    }
    found.sort();
    if found.is_empty() {
        let what = format!("no file `bwlat_R.txt` in the folder `{}`", path.display());
        let allowed = "a folder of Mess, a file, or a list of files";
        return Err(refused("file", what, allowed));
    }
    let paths = found.iter().map(|(_, name)| Path::new(one).join(name));
    Ok(paths.collect())
}

/// The content of a regular file of bounded size. The error says what is wrong.
fn content(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    // Opening a pipe may block for ever, and a device may have no end.
    if !input::kind(path).map_err(unreadable)?.is_file {
        return Err("it is no regular file".to_owned());
    }
    let mut content = Vec::new();
    let file = input::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut content)
        .map_err(unreadable)?;
    match content.len() as u64 > MAX_BYTES {
        true => Err("found more than 16 MiB; allowed: at most 16 MiB".to_owned()),
        false => Ok(content),
    }
}

/// The points of one file.
fn points(
    params: &CurvesParams,
    path: &Path,
    read_percent: Option<f64>,
    content: &[u8],
) -> Result<Vec<MeasuredPoint>, ReadError> {
    match params.format {
        CurveFormat::Csv => csv::read(content),
        CurveFormat::Mlc => mlc::read(content, read_percent),
        CurveFormat::Mess => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(percent) = mess::read_percent(&name) else {
                let message = format!("name: found `{}`; allowed: {}", shown(&name), mess::NAME);
                return Err(ReadError { line: 1, message });
            };
            let unit_ns = match (params.latency_unit, params.clock_mhz) {
                (Some(LatencyUnit::Cycles), Some(mhz)) => 1e3 / f64::from(mhz),
                _ => 1.0,
            };
            mess::read(content, f64::from(percent), unit_ns)
        }
    }
}
