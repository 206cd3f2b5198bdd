//! Recording with QEMU's user mode and a plugin that reports every access.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::CaptureError;
use super::find_program;

/// The name of QEMU's program, from Debian's package qemu-user.
const QEMU: &str = "qemu-x86_64";
/// The version that works. Debian's later versions are linked statically and load no plugins.
const VERSION: &str = "version 7.2.";
const SOURCES: [(&str, &str); 2] = [
    ("trace.c", include_str!("../../qemu/trace.c")),
    ("qemu.h", include_str!("../../qemu/qemu.h")),
];

/// Deepest nesting of scripts whose interpreters are scripts themselves.
const MOST_SCRIPTS: usize = 4;

/// What the plugin reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PluginReport {
    /// Every access to memory.
    Accesses,
    /// Every access to memory, and the number of instructions between them.
    Times,
    /// Every instruction with its accesses, and the memory that the program maps.
    Instructions,
}

/// A prepared command under QEMU: everything that starting it needs.
pub(super) struct Qemu {
    /// The first line that QEMU prints about its version.
    pub(super) version: String,
    plugin: PathBuf,
    /// The program's name as its argument 0.
    name: OsString,
    /// The program's path and its arguments.
    command: Vec<OsString>,
}

impl Qemu {
    /// Finds QEMU, compiles the plugin in a folder, and finds the command's program.
    ///
    /// # Errors
    /// [`CaptureError::NoQemu`] with the reason.
    pub(super) fn prepare(folder: &Path, command: &[OsString]) -> Result<Qemu, CaptureError> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err(no("it is used on Linux on x86-64 alone".to_owned()));
        }
        let said = Command::new(QEMU).arg("--version").output().map_err(|_| {
            no(format!(
                "`{QEMU}` is not installed; install it with `apt-get install qemu-user`"
            ))
        })?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = said.lines().next().unwrap_or_default().to_owned();
        if !version.contains(VERSION) {
            return Err(no(format!("found {version}; allowed: 7.2")));
        }
        let plugin = compile(folder)?;
        let mut command = command.to_vec();
        let name = command[0].clone();
        command[0] = find_program(&name)
            .ok_or_else(|| no(format!("{name:?} is not found")))?
            .into();
        for _ in 0..MOST_SCRIPTS {
            match interpreter(Path::new(&command[0])) {
                Some(interpreter) => drop(command.splice(0..0, interpreter)),
                None => break,
            }
        }
        if !is_native(Path::new(&command[0])) {
            return Err(no(format!("{:?} is no x86-64 program", command[0])));
        }
        Ok(Qemu {
            version,
            plugin,
            name,
            command,
        })
    }

    /// The command line that runs the program and writes its report to `pipe`.
    pub(super) fn command(&self, pipe: &Path, tells: PluginReport) -> Command {
        let mut command = Command::new(QEMU);
        let mut plugin = OsString::from(&self.plugin);
        plugin.push(",out=");
        plugin.push(pipe);
        plugin.push(match tells {
            PluginReport::Accesses => "",
            PluginReport::Times => ",times=on",
            PluginReport::Instructions => ",instructions=on",
        });
        command.args(["-cpu", "max", "-plugin"]).arg(plugin);
        command.arg("-0").arg(&self.name).args(&self.command);
        command
    }
}

fn no(why: String) -> CaptureError {
    CaptureError::NoQemu(why)
}

fn compile(folder: &Path) -> Result<PathBuf, CaptureError> {
    for (name, text) in SOURCES {
        fs::write(folder.join(name), text).map_err(|error| no(error.to_string()))?;
    }
    let plugin = folder.join("trace.so");
    let done = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-fPIC", "-shared", "-o"])
        .arg(&plugin)
        .arg(folder.join("trace.c"))
        .output()
        .map_err(|_| {
            no(
                "a C compiler (cc) is missing; install it with `apt-get install gcc libc6-dev`"
                    .into(),
            )
        })?;
    match done.status.success() {
        true => Ok(plugin),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            let first = said.lines().next().unwrap_or_default();
            Err(no(format!("its plugin does not compile: {first}")))
        }
    }
}

/// The words that a script's first line (`#! PROGRAM [ARGUMENT]`) puts in front of the script.
/// `env` would start its argument as a further program, so the argument replaces `env`.
fn interpreter(script: &Path) -> Option<Vec<OsString>> {
    let mut start = Vec::new();
    let file = fs::File::open(script).ok()?;
    file.take(256).read_to_end(&mut start).ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line.trim_ascii().splitn(2, u8::is_ascii_whitespace);
    let program = words.next().filter(|program| !program.is_empty())?;
    let argument = words.next().map(<[u8]>::trim_ascii);
    if let (b"/usr/bin/env" | b"/bin/env", Some(name)) = (program, argument)
        && !name.contains(&b' ')
        && !name.contains(&b'=')
    {
        return Some(vec![find_program(OsStr::from_bytes(name))?.into()]);
    }
    let words = std::iter::once(program).chain(argument);
    Some(
        words
            .map(|word| OsStr::from_bytes(word).to_owned())
            .collect(),
    )
}

/// Whether a file is an ELF program of 64 bits for x86-64.
fn is_native(path: &Path) -> bool {
    let mut start = [0; 20];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start.starts_with(b"\x7fELF\x02\x01") && start[18..] == [62, 0]
}
