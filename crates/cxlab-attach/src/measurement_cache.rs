//! Keeps what was measured of this machine in the user's cache folder, so that a run need not measure for two seconds.
//!
//! A file is used if it is of this machine, and complete. The machine is known by its processor,
//! microcode, number of processors, kernel, and whether it is a guest. A file that another user
//! owns or may write, that has another machine's key, or whose content does not fit its check sum
//! or is impossible, is not used: the machine is measured again.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::calibrate::{self, Curve, Latency, Lines, SIZES};
use crate::model::Overlap;
use crate::profile::cost::SampledMachine;
use crate::sys;

/// Version of the format and of the measurement. A change of either needs another number.
const FORMAT: u32 = 3;
/// Most bytes of a file. One has about 2 KiB.
const MOST_BYTES: u64 = 64 << 10;

/// Measurements of a machine.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineMeasurements {
    pub(crate) latency: Latency,
    pub(crate) overlap: Overlap,
    /// Line times in pages of 4 KiB and in large pages.
    pub(crate) small: Curve,
    pub(crate) large: Curve,
    /// Additional time of a touch that marks a page of 4 KiB, in nanoseconds.
    pub(crate) mark_ns: f64,
    /// Additional time of a page fault in a thread with a breakpoint on data, in nanoseconds.
    pub(crate) watched_fault_ns: f64,
}

impl MachineMeasurements {
    /// Measures this machine. `None` if there is no free memory for it.
    fn measure() -> Option<MachineMeasurements> {
        let latency = calibrate::latency()?;
        Some(MachineMeasurements {
            latency,
            overlap: calibrate::overlap(&latency)?,
            small: Curve::measure(false)?,
            large: Curve::measure(true)?,
            mark_ns: calibrate::mark()?,
            watched_fault_ns: calibrate::watched_fault()?,
        })
    }

    /// Whether the values are plausible. The limits are *assumed*: no machine is near them.
    fn is_possible(&self) -> bool {
        let time = |ns: f64| (0.01..=1e5).contains(&ns);
        let curve = |curve: &Curve| {
            let sizes = curve.0.iter().map(|lines| lines.bytes);
            let times = |lines: &Lines| [lines.alone_ns, lines.apart_ns, lines.stream_ns];
            sizes.eq(SIZES) && curve.0.iter().flat_map(times).all(time)
        };
        let Overlap {
            window,
            misses,
            stream,
        } = self.overlap;
        time(self.latency.small_ns)
            && time(self.latency.large_ns)
            && (1..=1 << 16).contains(&window)
            && (1.0..=1e5).contains(&misses)
            && (misses..=1e5).contains(&stream)
            && curve(&self.small)
            && curve(&self.large)
            && (0.0..=1e5).contains(&self.mark_ns)
            && (0.0..=1e5).contains(&self.watched_fault_ns)
    }
}

/// Identity of a machine.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Machine {
    /// Vendor, family, model, stepping and name of the first processor.
    processor: String,
    microcode: String,
    processors: usize,
    kernel: String,
    /// Whether the processor has the hypervisor flag.
    guest: bool,
}

impl Machine {
    fn this() -> Machine {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let version = fs::read_to_string("/proc/sys/kernel/version").unwrap_or_default();
        Machine {
            kernel: format!("{} {}", release.trim(), version.trim()),
            ..Machine::of(&info)
        }
    }

    /// The machine of `/proc/cpuinfo`, without its kernel.
    fn of(info: &str) -> Machine {
        let field = |name: &str| calibrate::processor_field(info, name).unwrap_or_default();
        let processors = info.lines().filter(|line| line.starts_with("processor"));
        let names = ["vendor_id", "cpu family", "model", "stepping", "model name"];
        Machine {
            processor: names.map(field).join(" "),
            microcode: field("microcode").to_owned(),
            processors: processors.count(),
            kernel: String::new(),
            guest: calibrate::is_guest(info),
        }
    }
}

/// The first line of a file. The second line is its check sum.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptHeader {
    format: u32,
    machine: Machine,
    measured: MachineMeasurements,
}

/// FNV-1a with 64 bits. The sum detects damage, but not manipulation.
pub(crate) fn check_sum(text: &str) -> String {
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{sum:016x}")
}

/// The user's cache folder for this: under `$XDG_CACHE_HOME`, or else `~/.cache`.
pub(crate) fn folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    let cache = named("XDG_CACHE_HOME").filter(absolute);
    let cache = cache.or_else(|| Some(named("HOME").filter(absolute)?.join(".cache")));
    cache.map(|cache| cache.join("cxlab/attach"))
}

/// Makes a folder that is this user's alone.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}

/// Whether a host of that name with that processor is this machine. False if the name of either is unknown.
pub fn is_this_machine(host: Option<&str>, processor: Option<&str>) -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    host == Some(read("/proc/sys/kernel/hostname").trim())
        && processor == calibrate::processor_field(&info, "model name")
}

/// Measurements of this machine, new or cached. `None` if there is no free memory to measure.
pub fn this_machine(again: bool) -> Option<SampledMachine> {
    let (measured, _) = measured(again)?;
    Some(SampledMachine {
        local_ns: measured.latency.large_ns,
        lookup_ns: Some(measured.small.at(0).alone_ns),
        overlap: measured.overlap,
        cpu_ns: None,
    })
}

/// Measurements of this machine, with a note for the user on their origin. With `again`, cached measurements are not
/// used. `None` if there is no free memory to measure.
pub(crate) fn measured(again: bool) -> Option<(MachineMeasurements, String)> {
    measured_in(
        folder().as_deref(),
        &Machine::this(),
        again,
        MachineMeasurements::measure,
    )
}

fn measured_in(
    folder: Option<&Path>,
    machine: &Machine,
    again: bool,
    measure: impl FnOnce() -> Option<MachineMeasurements>,
) -> Option<(MachineMeasurements, String)> {
    let Some(folder) = folder else {
        let note = "this machine was measured now, which is not kept: neither XDG_CACHE_HOME nor HOME \
                    is set";
        return Some((measure()?, note.to_owned()));
    };
    // Machines may share a home, so each has a file of its own.
    let key = serde_json::to_string(machine).unwrap_or_default();
    let path = folder.join(format!("{}.measured", check_sum(&key)));
    let mut note = "this machine was measured now".to_owned();
    if !again {
        match read(&path, machine) {
            Ok(measured) => {
                let note = format!(
                    "this machine was measured before (--recalibrate measures again): {}",
                    path.display()
                );
                return Some((measured, note));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let _ = write!(note, ", because {} was not used: {error}", path.display());
            }
        }
    }
    let measured = measure()?;
    if let Err(error) = write(&path, machine, &measured) {
        let _ = write!(note, "; it is not kept: {}: {error}", path.display());
    }
    Some((measured, note))
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn read(path: &Path, machine: &Machine) -> io::Result<MachineMeasurements> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.len() > MOST_BYTES {
        return Err(refused("it is no file that cxlab wrote"));
    }
    if found.uid() != sys::user() || found.mode() & 0o022 != 0 {
        return Err(refused("another user owns it or may write it"));
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    let damaged = || refused("it is damaged, or of another version");
    let (line, check) = text.trim_end().split_once('\n').ok_or_else(damaged)?;
    if check_sum(line) != check {
        return Err(damaged());
    }
    let kept: KeptHeader = serde_json::from_str(line).map_err(|_| damaged())?;
    if kept.format != FORMAT || kept.machine != *machine {
        return Err(refused("it is of another machine or version"));
    }
    if !kept.measured.is_possible() {
        return Err(refused("its values are impossible"));
    }
    Ok(kept.measured)
}

/// Writes the file beside its place and renames it, so that no reader sees a part.
fn write(path: &Path, machine: &Machine, measured: &MachineMeasurements) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make(folder)?;
    let kept = KeptHeader {
        format: FORMAT,
        machine: machine.clone(),
        measured: measured.clone(),
    };
    let line = serde_json::to_string(&kept)?;
    let text = format!("{line}\n{}\n", check_sum(&line));
    let part = path.with_extension(format!("{}.part", sys::own()));
    let _ = fs::remove_file(&part);
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn sample() -> MachineMeasurements {
        let curve = Curve(
            SIZES
                .map(|bytes| Lines {
                    bytes,
                    alone_ns: 90.5,
                    apart_ns: 9.25,
                    stream_ns: 4.75,
                })
                .to_vec(),
        );
        MachineMeasurements {
            latency: Latency {
                small_ns: 130.25,
                large_ns: 101.75,
            },
            overlap: Overlap::default(),
            small: curve.clone(),
            large: curve,
            mark_ns: 470.5,
            watched_fault_ns: 1300.0,
        }
    }

    const INFO: &str = "processor : 0\nvendor_id : AuthenticAMD\ncpu family : 25\nmodel : 17\nmodel name : x\n\
                        stepping : 1\nmicrocode : 0xa1\nflags : fpu hypervisor\n\nprocessor : 1\n";

    /// A folder of a test's own, which is removed at the end.
    struct Temporary(TempDir);

    impl Temporary {
        fn new() -> Temporary {
            Temporary(tempfile::tempdir().unwrap())
        }

        fn file(&self) -> PathBuf {
            let mut files = fs::read_dir(self.0.path()).unwrap();
            files.next().unwrap().unwrap().path()
        }

        /// What is known of the machine, and whether it was measured for that.
        fn ask(&self, machine: &Machine, again: bool) -> (MachineMeasurements, String, bool) {
            let mut measured = false;
            let (found, note) = measured_in(Some(self.0.path()), machine, again, || {
                measured = true;
                Some(sample())
            })
            .unwrap();
            (found, note, measured)
        }
    }

    #[test]
    fn a_machine_is_measured_once_and_again_when_asked() {
        let folder = Temporary::new();
        let machine = Machine::of(INFO);
        assert!(machine.guest && machine.processors == 2);
        assert_eq!(machine.processor, "AuthenticAMD 25 17 1 x");
        let (first, _, measured) = folder.ask(&machine, false);
        assert!(measured);
        let (second, note, measured) = folder.ask(&machine, false);
        assert!(!measured && note.contains("--recalibrate"), "{note}");
        assert_eq!(first, second);
        assert!(folder.ask(&machine, true).2);
        // Another kernel or microcode is another machine.
        let info = INFO.replace("0xa1", "0xa2");
        assert!(folder.ask(&Machine::of(&info), false).2);
        let kernel = Machine {
            kernel: "6".to_owned(),
            ..machine
        };
        assert!(folder.ask(&kernel, false).2);
    }

    #[test]
    fn a_damaged_or_foreign_file_is_measured_again() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Temporary::new();
        let machine = Machine::of(INFO);
        folder.ask(&machine, false);
        let path = folder.file();
        let good = fs::read_to_string(&path).unwrap();
        let (line, _) = good.split_once('\n').unwrap();
        let signed = |line: &str| format!("{line}\n{}\n", check_sum(line));
        assert_eq!(signed(line), good);
        let all = [
            ("cut", good[..good.len() / 2].to_owned()),
            ("empty", String::new()),
            ("a digit", good.replacen("101.75", "107.75", 1)),
            (
                "machine",
                signed(&line.replace("\"processors\":2", "\"processors\":3")),
            ),
            ("field", signed(&line.replacen('{', "{\"more\":1,", 1))),
            (
                "format",
                signed(&line.replace("\"format\":3", "\"format\":1")),
            ),
            ("long", format!("{good}{}", "\n".repeat(1 << 17))),
        ];
        for (what, bad) in all {
            assert_ne!(bad, good, "{what}");
            fs::write(&path, bad).unwrap();
            let (_, note, measured) = folder.ask(&machine, false);
            assert!(measured && note.contains("was not used"), "{what}: {note}");
            // And it is good again.
            assert!(!folder.ask(&machine, false).2, "{what}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let (_, note, measured) = folder.ask(&machine, false);
        assert!(measured && note.contains("may write it"), "{note}");
        let moved = folder.0.path().join("moved");
        fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &path).unwrap();
        assert!(folder.ask(&machine, false).2);
    }

    /// A right check sum does not make an impossible value right.
    #[test]
    fn impossible_values_are_not_used() {
        let folder = Temporary::new();
        let machine = Machine::of(INFO);
        let mut bad = Vec::new();
        for ns in [0.0, -1.0, 1e9, f64::NAN] {
            let mut one = sample();
            one.latency.large_ns = ns;
            bad.push(one);
        }
        let mut one = sample();
        one.overlap.stream = 0.5;
        bad.push(one);
        let mut one = sample();
        one.small.0.pop();
        bad.push(one);
        folder.ask(&machine, false);
        let path = folder.file();
        for one in bad {
            assert!(!one.is_possible());
            write(&path, &machine, &one).unwrap();
            assert!(folder.ask(&machine, false).2);
        }
    }

    #[test]
    fn nothing_is_kept_where_there_is_no_folder() {
        let machine = Machine::of(INFO);
        let (_, note) = measured_in(None, &machine, false, || Some(sample())).unwrap();
        assert!(note.contains("XDG_CACHE_HOME"), "{note}");
        // A folder that cannot be made.
        let path = Path::new("/proc/no/such");
        let (_, note) = measured_in(Some(path), &machine, false, || Some(sample())).unwrap();
        assert!(note.contains("is not kept"), "{note}");
    }
}
