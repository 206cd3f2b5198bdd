//! `cxlab vm`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use cxlab_engine::units::Picos;

/// Subcommands of `cxlab vm`.
#[derive(Subcommand)]
pub(super) enum VmCommand {
    /// Build a guest from Debian's packages: kernel, tools, the plugin for QEMU
    Build(BuildArgs),
    /// Start a guest for each of the scenario's hosts and run a program in them, once for each memory
    Run(Box<RunArgs>),
}

#[derive(Args)]
struct Common {
    /// Where the guest is built [default: the user's cache folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// QEMU
    #[arg(long, value_name = "PROGRAM", default_value = "qemu-system-x86_64")]
    qemu: String,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Args)]
pub(super) struct BuildArgs {
    #[command(flatten)]
    common: Common,
    /// The kernel's package
    #[arg(
        long,
        value_name = "PACKAGE",
        default_value = "linux-image-cloud-amd64"
    )]
    kernel: String,
    /// Build also what is there already, from what packages are now
    #[arg(long)]
    again: bool,
}

#[derive(Args)]
pub(super) struct RunArgs {
    /// Scenario file (TOML)
    scenario: PathBuf,
    /// Change a value of the scenario, e.g. --set fabric.link.lanes=8 (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    common: Common,
    /// The only host that is a guest, by name; all others are idle
    #[arg(long, value_name = "NAME", conflicts_with = "hosts")]
    host: Option<String>,
    /// Hosts that are guests, by name, against one fabric; all others are idle [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    hosts: Vec<String>,
    /// How far a guest may be ahead of another where they meet, with its unit; 0 ns is the exact order of
    /// simulated time [default: 0 ns]
    #[arg(long, value_name = "TIME")]
    window: Option<Picos>,
    /// Memory that the program is bound to: `local`, devices' names, `any` (not bound), or `all` in
    /// turn; of one host only: HOST=NAME (repeatable)
    #[arg(long, value_name = "[HOST=]NAME", default_value = "all")]
    memory: Vec<String>,
    /// Another program for one host: words with spaces between (repeatable)
    #[arg(long = "program", value_name = "HOST=WORDS")]
    programs: Vec<String>,
    /// Leave CXL memory as a character device, whose name the program finds in CXLAB_DAX
    #[arg(long)]
    devdax: bool,
    /// Use CXL memory as storage whose contents stay in files of DIR: a file system at /pmem, mapped
    /// directly, with CXLAB_PMEM its device
    #[arg(long, value_name = "DIR", conflicts_with_all = ["devdax", "boot"])]
    pmem: Option<PathBuf>,
    /// Processors of the guest
    #[arg(long, value_name = "N", default_value_t = 1)]
    cpus: u32,
    /// A file or folder to take along, at the same path or at GUEST (repeatable)
    #[arg(long = "file", value_name = "PATH[:GUEST]")]
    files: Vec<String>,
    /// Count nothing, and run as fast as QEMU does, until the program's first `roi begin`
    #[arg(long)]
    from_roi: bool,
    /// Restore the guest where its program said `save`, and count from the first `roi begin` behind; the first
    /// such run goes there and saves the guest
    #[arg(long, conflicts_with_all = ["boot", "pmem"])]
    from_save: bool,
    /// Leave the guest's clock as it is: simulated time is only reported
    #[arg(long)]
    host_clock: bool,
    /// Boot the guest, instead of restoring one that waits for its program
    #[arg(long)]
    boot: bool,
    /// Longest time for all, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Where report.json and console.txt go [default: out/NAME-vm]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The program and its arguments: `stream` or `chase`, which the guest has, or one of this machine
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
impl RunArgs {
    /// Whether nothing is counted until the program's first region of interest.
    fn skips(&self) -> bool {
        self.from_roi || self.from_save
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(super) fn vm(_command: VmCommand) -> Result<(), super::failure::Failure> {
    Err(super::failure::Failure::mistake(
        "`cxlab vm` is not supported on this system; it needs Linux on x86-64",
    ))
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod accelerator;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod guest;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod hosts;
pub(crate) mod memory;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod report;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod start;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) use start::vm;
