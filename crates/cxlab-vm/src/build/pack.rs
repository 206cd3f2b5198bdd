//! The guest's initial file system, made of unpacked packages and compiled programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{BuildError, GUEST, INIT, missing, output};
use crate::cpio::Archive;

/// Programs of the packages. `cxl` is in the package ndctl.
const PROGRAMS: [&str; 4] = ["cxl", "ndctl", "daxctl", "numactl"];
/// Drivers, in the order of loading. Drivers built into the kernel are left out.
const MODULES: [&str; 13] = [
    "libnvdimm",
    "nd_btt",
    "nd_pmem",
    "dax_pmem",
    "device_dax",
    "kmem",
    "cxl_core",
    "cxl_port",
    "cxl_acpi",
    "cxl_pci",
    "cxl_mem",
    "cxl_pmem",
    "dax_cxl",
];
/// Writes the kernel and the initial file system. Returns the kernel's release.
pub(super) fn pack(folder: &Path, unpacked: &Path) -> Result<String, BuildError> {
    let boot = unpacked.join("boot");
    let kernel = names(&boot)?
        .into_iter()
        .find(|name| name.starts_with("vmlinuz-"))
        .ok_or_else(|| missing("the kernel's package has no kernel"))?;
    let release = kernel.trim_start_matches("vmlinuz-").to_owned();
    let to = folder.join("vmlinuz");
    fs::copy(boot.join(&kernel), &to).map_err(|error| output(&to, error))?;
    let mut archive = Archive::default();
    for folder in ["dev", "proc", "sys", "tmp", "run", "usr/bin"] {
        archive.folder(folder);
    }
    archive.file("init", INIT.as_bytes(), true);
    archive.file("bin/busybox", &found(unpacked, "busybox")?, true);
    archive.link("bin/sh", "busybox");
    for (name, _) in GUEST {
        let path = folder.join(name);
        let bytes = fs::read(&path).map_err(|error| output(&path, error))?;
        archive.file(&format!("bin/{name}"), &bytes, true);
    }
    let mut known = BTreeSet::new();
    for name in PROGRAMS {
        let path = at(unpacked, name)?;
        add_program(
            &mut archive,
            &path,
            &format!("usr/bin/{name}"),
            Some(unpacked),
            &mut known,
        )?;
    }
    modules(&mut archive, unpacked, &release)?;
    let to = folder.join("initrd");
    fs::write(&to, archive.finish()).map_err(|error| output(&to, error))?;
    Ok(release)
}

pub(super) fn names(folder: &Path) -> Result<Vec<String>, BuildError> {
    let entries = fs::read_dir(folder).map_err(|error| output(folder, error))?;
    Ok(entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect())
}

/// Path of a program among the unpacked files.
fn at(unpacked: &Path, name: &str) -> Result<PathBuf, BuildError> {
    ["usr/bin", "bin", "usr/sbin", "sbin"]
        .iter()
        .map(|folder| unpacked.join(folder).join(name))
        .find(|path| path.exists())
        .ok_or_else(|| missing(format!("no package has the program {name}")))
}

fn found(unpacked: &Path, name: &str) -> Result<Vec<u8>, BuildError> {
    let path = at(unpacked, name)?;
    fs::read(&path).map_err(|error| output(&path, error))
}

/// Adds a program and the shared libraries that it needs. Libraries of `unpacked` take precedence
/// over this machine's. `known` has the libraries that the archive contains already.
///
/// # Errors
/// [`BuildError`] if the program cannot be read or a library is missing.
pub fn add_program(
    archive: &mut Archive,
    path: &Path,
    to: &str,
    unpacked: Option<&Path>,
    known: &mut BTreeSet<PathBuf>,
) -> Result<(), BuildError> {
    let read = |path: &Path| {
        fs::read(path).map_err(|error| missing(format!("{}: {error}", path.display())))
    };
    archive.file(to, &read(path)?, true);
    for library in libraries(path, unpacked)? {
        if known.insert(library.clone()) {
            // A folder that the loader always searches. The loader itself has a fixed path.
            let name = library.file_name().unwrap_or_default().to_string_lossy();
            let place = match name.starts_with("ld-linux") {
                true => format!("lib64/{name}"),
                false => format!("lib/x86_64-linux-gnu/{name}"),
            };
            archive.file(&place, &read(&library)?, true);
        }
    }
    Ok(())
}

/// Shared libraries of a program, as its loader finds them. Empty for a static program.
fn libraries(path: &Path, unpacked: Option<&Path>) -> Result<Vec<PathBuf>, BuildError> {
    let mut command = Command::new("ldd");
    command.arg(path).env("LC_ALL", "C");
    if let Some(root) = unpacked {
        let folders = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];
        let folders = folders.map(|folder| root.join(folder).display().to_string());
        command.env("LD_LIBRARY_PATH", folders.join(":"));
    }
    let done = command
        .output()
        .map_err(|error| missing(format!("ldd cannot be run: {error}")))?;
    let text = String::from_utf8_lossy(&done.stdout);
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        return Err(missing(format!("{}: {}", path.display(), line.trim())));
    }
    let paths = text.lines().filter_map(|line| {
        let word = line.split_whitespace().find(|word| word.starts_with('/'))?;
        Some(PathBuf::from(word.trim_end_matches(':')))
    });
    Ok(paths.filter(|found| found != path).collect())
}

/// Adds the drivers, and `cxlab/modules` with their names in the order of loading.
fn modules(archive: &mut Archive, unpacked: &Path, release: &str) -> Result<(), BuildError> {
    let mut files = Vec::new();
    for folder in ["lib/modules", "usr/lib/modules"] {
        gather(
            &unpacked.join(folder).join(release).join("kernel/drivers"),
            &mut files,
        );
    }
    let mut list = String::new();
    for module in MODULES {
        let named = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let stem = name.split('.').next().unwrap_or_default().replace('-', "_");
            stem == module
        };
        let Some(path) = files.iter().find(named) else {
            continue;
        };
        let bytes = if path.extension().is_some_and(|end| end == "xz") {
            let mut command = Command::new("xz");
            let done = command.args(["-dc"]).arg(path).output();
            let done = done.map_err(|error| {
                missing(format!(
                    "xz cannot be run ({error}); on Debian: apt-get install xz-utils"
                ))
            })?;
            done.stdout
        } else {
            fs::read(path).map_err(|error| output(path, error))?
        };
        archive.file(&format!("lib/modules/{module}.ko"), &bytes, false);
        list.push_str(&format!("{module}.ko\n"));
    }
    archive.file("cxlab/modules", list.as_bytes(), false);
    Ok(())
}

/// Collects all kernel modules below a folder.
fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            gather(&path, files);
        } else if path.to_string_lossy().contains(".ko") {
            files.push(path);
        }
    }
}
