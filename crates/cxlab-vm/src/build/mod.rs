//! `cxlab vm build`: builds a kernel, an initial file system and the plugin in a cache folder.
//!
//! Kernel and tools are Debian's. `apt-get download`, which needs no root, downloads them into the
//! folder, where they are unpacked; nothing is installed. The guest's own programs and the plugin
//! are compiled from sources that cxlab embeds.

mod pack;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use cxlab_files::Folder;
use tempfile::TempDir;

use crate::qemu::Version;
use crate::snapshot;

pub use pack::add_program;
use pack::{names, pack};

/// Debian packages with programs that the guest uses.
const TOOLS: [&str; 4] = ["busybox-static", "ndctl", "daxctl", "numactl"];
/// Files that cxlab adds to the guest, by their name there.
const GUEST: [(&str, &str); 10] = [
    ("stream", include_str!("../../guest/stream.c")),
    ("chase", include_str!("../../guest/chase.c")),
    ("table", include_str!("../../guest/table.c")),
    ("tiers", include_str!("../../guest/tiers.c")),
    ("mailbox", include_str!("../../guest/mailbox.c")),
    ("offload", include_str!("../../guest/offload.c")),
    ("roi", include_str!("../../guest/roi.c")),
    ("save", include_str!("../../guest/save.c")),
    ("run-marked", include_str!("../../guest/run-marked.c")),
    ("arrive", include_str!("../../guest/arrive.c")),
];
/// Header files that some of the guest's sources include, by name.
const HEADERS: [(&str, &str); 2] = [
    ("accelerator.h", include_str!("../../guest/accelerator.h")),
    ("shared.h", include_str!("../../guest/shared.h")),
];
const INIT: &str = include_str!("../../guest/init.sh");
const PLUGIN: [(&str, &str); 5] = [
    ("cxlab.c", include_str!("../../qemu/cxlab.c")),
    ("decode.h", include_str!("../../qemu/decode.h")),
    ("filter.h", include_str!("../../qemu/filter.h")),
    ("qemu.h", include_str!("../../qemu/qemu.h")),
    ("ring.h", include_str!("../../qemu/ring.h")),
];
/// Name of the stamp, the file that is written last. The stamp has a line for each thing built, and then [`FILES`].
const STAMP: &str = "built";
/// Start of the stamp's last line, which continues with the name of the folder of the guest's files.
const FILES: &str = "files ";
/// Start of the names of those folders. A number follows.
const GUESTS: &str = "guest-";
/// Start of the names of folders that are not complete yet.
const UNFINISHED: &str = ".cxlab-guest-";

/// Options of [`build`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Cache folder, in which the guest is built.
    pub folder: PathBuf,
    /// Name or path of QEMU.
    pub qemu: String,
    /// Package of the kernel.
    pub kernel: String,
    /// Whether to build even if the guest exists.
    pub again: bool,
}

/// Reason why nothing was built.
#[derive(thiserror::Error, Debug)]
pub enum BuildError {
    /// Something must be installed or chosen first. The text names it and the remedy.
    #[error("{0}")]
    Missing(String),
    /// A file cannot be written.
    #[error("{0}")]
    Output(String),
}

fn output(path: &Path, error: io::Error) -> BuildError {
    BuildError::Output(format!("{}: {error}", path.display()))
}

fn missing(text: impl Into<String>) -> BuildError {
    BuildError::Missing(text.into())
}

/// A guest that is built.
#[derive(Clone, Debug)]
pub struct Image {
    folder: PathBuf,
    /// Text of the stamp: a line for each thing built.
    pub stamp: String,
}

impl Image {
    /// Opens the guest in a cache folder, for a version of QEMU.
    ///
    /// # Errors
    /// [`BuildError::Missing`] if there is no guest, or if it was built for another QEMU or by another cxlab.
    pub fn open(folder: &Path, version: Version) -> Result<Image, BuildError> {
        let how = "build it with: cxlab vm build";
        let stamp = fs::read_to_string(folder.join(STAMP))
            .map_err(|_| missing(format!("no guest in {}; {how}", folder.display())))?;
        let (stamp, files) = stamp.rsplit_once(FILES).unwrap_or((&stamp, ""));
        let files = folder.join(files.trim_end());
        if stamp.lines().next() != Some(first_line(version).as_str()) || !files.is_dir() {
            return Err(missing(format!(
                "the guest in {} was built for another version of cxlab or QEMU; {how}",
                folder.display()
            )));
        }
        Ok(Image {
            folder: files,
            stamp: stamp.to_owned(),
        })
    }

    /// Path of the kernel.
    pub fn kernel(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// Path of the initial file system, to which each run appends its own archive.
    pub fn initrd(&self) -> PathBuf {
        self.folder.join("initrd")
    }

    /// Path of the plugin for QEMU.
    pub fn plugin(&self) -> PathBuf {
        self.folder.join("plugin.so")
    }

    /// Whether cxlab adds a program of that name to the guest.
    pub fn has(program: &str) -> bool {
        GUEST.iter().any(|(name, _)| *name == program)
    }
}

/// First line of the stamp. It changes with every file that cxlab embeds.
fn first_line(version: Version) -> String {
    let carried = GUEST.iter().chain(&PLUGIN).chain(&HEADERS);
    let carried = snapshot::name(carried.map(|(_, text)| *text).chain([INIT]));
    format!("cxlab {} {carried} {version:?}", env!("CARGO_PKG_VERSION"))
}

/// An installed QEMU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstalledQemu {
    /// Version, as far as it matters here.
    pub version: Version,
    /// Output of `--version`.
    pub text: String,
}

/// Finds the version of an installed QEMU.
///
/// # Errors
/// [`BuildError::Missing`] if there is no QEMU, or if its version is not known to work.
pub fn qemu_version(qemu: &str) -> Result<InstalledQemu, BuildError> {
    let text = run(Command::new(qemu).arg("--version"), "qemu-system-x86")?;
    match Version::from_text(&text) {
        Some(version) => Ok(InstalledQemu { version, text }),
        None => {
            let found = text.lines().next().unwrap_or_default();
            Err(missing(format!(
                "{qemu}: found {found}; allowed: QEMU 7.2 or 10.0"
            )))
        }
    }
}

/// Builds a guest. `tell` is called with each step. The files are made in a new folder, and an
/// earlier guest stays usable until all of them are complete.
///
/// # Errors
/// [`BuildError`].
pub fn build(options: &Options, tell: &mut dyn FnMut(&str)) -> Result<Image, BuildError> {
    let version = qemu_version(&options.qemu)?.version;
    let folder = &options.folder;
    let asked = format!("package {}", options.kernel);
    if !options.again
        && let Ok(image) = Image::open(folder, version)
        && image.stamp.lines().any(|line| line == asked)
    {
        return Ok(image);
    }
    let _locked = Folder::open(folder).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => missing(format!("{}: {error}", folder.display())),
        _ => output(folder, error),
    })?;
    remove_folders(folder, |name| name.starts_with(UNFINISHED))?;
    let mut making = tempfile::Builder::new();
    making.prefix(UNFINISHED);
    // Permissions as of other folders, reduced by the user's umask.
    #[cfg(unix)]
    making.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let making = making.tempdir_in(folder);
    let making = making.map_err(|error| output(folder, error))?;
    let unpacked = making.path().join("root");
    fs::create_dir(&unpacked).map_err(|error| output(&unpacked, error))?;
    tell("compiling the plugin and the guest's programs");
    compile(making.path(), version)?;
    let packages = packages(&options.kernel)?;
    let names: Vec<&str> = packages.iter().map(String::as_str).collect();
    tell(&format!("downloading {}", names.join(" ")));
    download(folder, &packages)?;
    for package in &packages {
        unpack(folder, package, &unpacked)?;
    }
    tell("packing");
    let release = pack(making.path(), &unpacked)?;
    fs::remove_dir_all(&unpacked).map_err(|error| output(&unpacked, error))?;
    let stamp = format!("{}\n{asked}\nkernel {release}\n", first_line(version));
    let image = Image {
        folder: folder.join(next_name(folder)?),
        stamp,
    };
    publish(folder, making, &image)?;
    Ok(image)
}

/// Gives the folder of a guest's files its name, and then writes the stamp that refers to it. The
/// files of the previous guest stay until the next build, because a run may be starting it.
fn publish(folder: &Path, making: TempDir, image: &Image) -> Result<(), BuildError> {
    let before = fs::read_to_string(folder.join(STAMP)).unwrap_or_default();
    let before = before.rsplit_once(FILES).map(|(_, name)| name.trim_end());
    let name = image.folder.file_name().unwrap_or_default();
    fs::rename(making.keep(), &image.folder).map_err(|error| output(&image.folder, error))?;
    let path = folder.join(STAMP);
    let text = format!("{}{FILES}{}\n", image.stamp, name.to_string_lossy());
    cxlab_files::write_whole(&path, text.as_bytes()).map_err(|error| output(&path, error))?;
    remove_folders(folder, |found| {
        let number = found.strip_prefix(GUESTS).map(str::parse::<u64>);
        matches!(number, Some(Ok(_))) && found != name.to_string_lossy() && Some(found) != before
    })
}

/// A name that no folder of a guest's files has.
fn next_name(folder: &Path) -> Result<String, BuildError> {
    let names = names(folder)?;
    let number = |name: &String| name.strip_prefix(GUESTS)?.parse().ok();
    let numbers = names.iter().filter_map(number);
    let next = numbers.max().unwrap_or(0_u64).saturating_add(1);
    Ok(format!("{GUESTS}{next}"))
}

fn remove_folders(folder: &Path, is_old: impl Fn(&str) -> bool) -> Result<(), BuildError> {
    for name in names(folder)? {
        let path = folder.join(&name);
        if is_old(&name) && path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(&path).map_err(|error| output(&path, error))?;
        }
    }
    Ok(())
}

/// Runs a program of `package`, and returns its standard output.
fn run(command: &mut Command, package: &str) -> Result<String, BuildError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.env("LC_ALL", "C").output().map_err(|error| {
        missing(format!(
            "{name} cannot be run ({error}); on Debian: apt-get install {package}"
        ))
    })?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    Err(missing(format!("{name} failed: {last}")))
}

fn compile(folder: &Path, version: Version) -> Result<(), BuildError> {
    let sources = folder.join("source");
    fs::create_dir_all(&sources).map_err(|error| output(&sources, error))?;
    let write = |name: &str, text: &str| {
        let path = sources.join(name);
        fs::write(&path, text).map_err(|error| output(&path, error))?;
        Ok(path)
    };
    for (name, text) in PLUGIN {
        write(name, text)?;
    }
    let api = format!("-DCXLAB_QEMU_API={}", version.plugin_api());
    let mut plugin = Command::new("cc");
    plugin.args(["-std=gnu11", "-O2", "-fPIC", "-shared", &api, "-o"]);
    plugin.args([folder.join("plugin.so"), sources.join("cxlab.c")]);
    run(&mut plugin, "gcc libc6-dev")?;
    for (name, text) in HEADERS {
        write(name, text)?;
    }
    for (name, text) in GUEST {
        let source = write(&format!("{name}.c"), text)?;
        let mut program = Command::new("cc");
        // The flag keeps the compiler from replacing a kernel's loops by calls of memcpy and the like.
        program.args(["-std=gnu11", "-O3", "-fno-tree-loop-distribute-patterns"]);
        program.args(["-static", "-o"]);
        program.args([folder.join(name), source]);
        run(&mut program, "gcc libc6-dev")?;
    }
    Ok(())
}

/// The packages of the kernel and the tools, and those of the libraries that they need.
fn packages(kernel: &str) -> Result<Vec<String>, BuildError> {
    let mut packages: BTreeSet<String> = TOOLS.iter().map(|name| (*name).to_owned()).collect();
    let mut open: Vec<String> = packages.iter().cloned().collect();
    while let Some(package) = open.pop() {
        for needed in needs(&package)? {
            let library = needed.starts_with("lib") && needed != "libc6";
            if library && packages.insert(needed.clone()) {
                open.push(needed);
            }
        }
    }
    // A metapackage such as that of the newest kernel depends on the package that has the kernel.
    let mut needed = needs(kernel)?.into_iter();
    let image = needed.find(|name| name.starts_with("linux-image-"));
    packages.insert(image.unwrap_or_else(|| kernel.to_owned()));
    Ok(packages.into_iter().collect())
}

fn needs(package: &str) -> Result<Vec<String>, BuildError> {
    let mut command = Command::new("apt-cache");
    command.args(["depends", "--important", package]);
    let text = run(&mut command, "apt").map_err(|error| {
        missing(format!(
            "{error}; is the package list there (as root: apt-get update)?"
        ))
    })?;
    let depends = |line: &str| Some(line.trim().strip_prefix("Depends: ")?.to_owned());
    Ok(text.lines().filter_map(depends).collect())
}

fn download(folder: &Path, packages: &[String]) -> Result<(), BuildError> {
    let downloads = folder.join("packages");
    fs::create_dir_all(&downloads).map_err(|error| output(&downloads, error))?;
    let mut command = Command::new("apt-get");
    command.current_dir(&downloads);
    command.arg("download").args(packages);
    run(&mut command, "apt").map(drop)
}

fn unpack(folder: &Path, package: &str, unpacked: &Path) -> Result<(), BuildError> {
    let downloads = folder.join("packages");
    let entries = fs::read_dir(&downloads).map_err(|error| output(&downloads, error))?;
    let start = format!("{package}_");
    let newest = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&start))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .max();
    let (_, file) = newest.ok_or_else(|| missing(format!("apt-get did not bring {package}")))?;
    let mut command = Command::new("dpkg-deb");
    command.arg("-x").arg(file).arg(unpacked);
    run(&mut command, "dpkg").map(drop)
}
