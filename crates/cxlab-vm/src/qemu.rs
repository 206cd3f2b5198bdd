//! The command line of QEMU for a machine. It is made as pure text, so that tests can read it.

use std::path::{Path, PathBuf};

use crate::machine::{MOST_WINDOWS, Machine, Window};

/// A version of QEMU that is known to work with the plugin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// 7.2, of Debian 12: Type 3 devices are persistent memory.
    V7,
    /// 10.0, of Debian 12's backports and of Debian 13. Its Type 3
    /// devices are volatile or persistent memory.
    V10,
}

impl Version {
    /// Parses the output of `qemu-system-x86_64 --version`.
    pub fn from_text(text: &str) -> Option<Version> {
        let number = text.split("version ").nth(1)?;
        match number.split('.').collect::<Vec<_>>()[..] {
            ["7", "2", ..] => Some(Version::V7),
            ["10", "0", ..] => Some(Version::V10),
            _ => None,
        }
    }

    /// Whether the devices of a machine are volatile memory with this version.
    pub fn is_volatile(self, machine: &Machine) -> bool {
        self == Version::V10 && !machine.persistent
    }

    /// Version of QEMU's plugin interface.
    pub fn plugin_api(self) -> u32 {
        match self {
            Version::V7 => 1,
            Version::V10 => 4,
        }
    }
}

/// Files and descriptors that the command line names.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// Path of the kernel.
    pub kernel: &'a Path,
    /// Path of the initial file system.
    pub initrd: &'a Path,
    /// Path of the plugin.
    pub plugin: &'a Path,
    /// Archive with the files of this run alone. `None` while a guest is booted only to be saved.
    pub run: Option<&'a Path>,
    /// Where the guest's memory is stored.
    pub keep: GuestMemoryStore<'a>,
    /// By window, the file that stores its contents permanently. `None` if they end with the guest.
    pub storage: &'a [Option<&'a Path>],
    /// Descriptors that QEMU inherits.
    pub descriptors: Descriptors,
    /// Whether the plugin publishes its time when it has no record,
    /// because other guests wait for it.
    pub in_step: bool,
    /// Whether nothing is counted before a program's first region of interest.
    pub from_interest: bool,
}

/// Descriptors that QEMU inherits.
#[derive(Clone, Copy, Default, Debug)]
pub struct Descriptors {
    /// Descriptor of the memory that is shared with the plugin.
    pub shared: i32,
    /// Descriptor of the monitor, through which a guest is saved and restored.
    pub monitor: Option<i32>,
    /// Descriptors of the memories that guests share, by number. 0 if there is none.
    pub memories: [i32; MOST_WINDOWS],
}

/// Where the guest's memory is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuestMemoryStore<'a> {
    /// In QEMU alone, so that it ends with the guest.
    Nothing,
    /// In files of this folder, where the guest is saved.
    Save(&'a Path),
    /// In QEMU, starting with the contents of the files in this folder, which do not change.
    Restore(&'a Path),
}

/// Clock of the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// The guest's clock follows simulated time.
    Simulated,
    /// The guest's clock is this machine's. Simulated time is reported separately.
    Host,
}

/// Interval of a processor's own time at which the plugin publishes that time,
/// if guests are in step. It is a few hundred instructions, for which QEMU takes
/// far longer than for publishing (*assumed*).
const TELL_PS: u64 = 200_000;

/// Kernel command line. The time stamp counter runs at 2 GHz, which the plugin ensures, so the
/// kernel need not measure it. Mitigations and address randomisation would only cost time here.
const KERNEL: &str = "console=ttyS0 quiet loglevel=1 panic=-1 mitigations=off nokaslr nowatchdog \
                      random.trust_cpu=on tsc=reliable tsc_early_khz=2000000";

/// A path in one of QEMU's lists, where a comma is doubled.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Arguments of QEMU.
#[derive(Default)]
struct Line(Vec<String>);

impl Line {
    fn add(&mut self, option: &str, value: impl Into<String>) {
        self.0.extend([option.to_owned(), value.into()]);
    }

    fn device(&mut self, device: String) {
        self.add("-device", device);
    }

    fn object(&mut self, object: String) {
        self.add("-object", object);
    }
}

/// All arguments of QEMU.
pub fn arguments(
    machine: &Machine,
    version: Version,
    files: Files<'_>,
    clock: Clock,
) -> Vec<String> {
    let shared = shared_files(machine, &files);
    let storage: Vec<Option<&Path>> = (shared.iter().enumerate())
        .map(|(at, shared)| {
            let stored = files.storage.get(at).copied().flatten();
            shared.as_deref().or(stored)
        })
        .collect();
    let mut line = Line(hardware(machine, version, files.keep, &storage));
    if let Some(monitor) = files.descriptors.monitor {
        line.add("-chardev", format!("socket,id=monitor,fd={monitor}"));
        line.add("-mon", "chardev=monitor,mode=control");
    }
    if matches!(files.keep, GuestMemoryStore::Restore(_)) {
        line.add("-incoming", "defer");
    }
    if let Some(run) = files.run {
        line.add(
            "-fw_cfg",
            format!("name=opt/cxlab/run,file={}", escaped(run)),
        );
    }
    line.add("-kernel", files.kernel.display().to_string());
    line.add("-initrd", files.initrd.display().to_string());
    line.add("-append", KERNEL);
    line.add("-plugin", plugin(machine, files, clock));
    line.0
}

/// By window, the file of its memory if guests share it. A guest that is booted only to be saved has
/// memory of its own there.
fn shared_files(machine: &Machine, files: &Files<'_>) -> Vec<Option<PathBuf>> {
    let file = |window: &Window| {
        let share = window.share.filter(|_| files.run.is_some())?;
        let descriptor = files.descriptors.memories[share.number];
        Some(PathBuf::from(format!("/proc/self/fd/{descriptor}")))
    };
    machine.windows.iter().map(file).collect()
}

/// The arguments that define the machine itself. Two guests with equal ones are equal
/// until a program runs in them.
pub fn hardware(
    machine: &Machine,
    version: Version,
    keep: GuestMemoryStore<'_>,
    storage: &[Option<&Path>],
) -> Vec<String> {
    let mut line = Line::default();
    let mut kind = "q35,cxl=on".to_owned();
    for (at, window) in machine.windows.iter().enumerate() {
        kind.push_str(&format!(
            ",cxl-fmw.{at}.targets.0=bridge{at},cxl-fmw.{at}.size={}M",
            window.size() >> 20
        ));
    }
    line.add("-machine", kind);
    line.add("-accel", "tcg");
    // If the guest saw a hypervisor, its kernel would refuse to commit a region (no flush).
    line.add("-cpu", "max,hypervisor=off");
    line.add("-smp", machine.processors.to_string());
    line.add("-m", own_memory(machine, version));
    // With a NUMA node of its own, QEMU describes the nodes, and the
    // kernel gives each window a node.
    line.object(memory("main", machine.memory_mib << 20, keep));
    line.add("-numa", "node,nodeid=0,memdev=main");
    for flag in ["-nodefaults", "-no-user-config", "-no-reboot"] {
        line.0.push(flag.to_owned());
    }
    line.add(
        "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny",
    );
    line.add("-display", "none");
    line.add("-serial", "stdio");
    if machine.accelerator {
        // Its registers, which the plugin lays over that page.
        line.add("-object", "memory-backend-ram,id=registers,size=4K");
        line.add("-device", "ivshmem-plain,memdev=registers,master=on");
    }
    let mut serial = 0;
    for (at, window) in machine.windows.iter().enumerate() {
        let id = format!("window{at}");
        let contents = match storage.get(at) {
            Some(Some(file)) => in_file(&id, window.size(), file, "on"),
            Some(None) | None => memory(&id, window.size(), keep),
        };
        line.object(contents);
        bridge(at, window, &mut line);
        for (way, device) in window.devices.iter().enumerate() {
            let bus = if window.switched {
                line.device(format!(
                    "cxl-downstream,bus=up{at},id=down{at}.{way},port={way},chassis={at},slot={}",
                    16 + way
                ));
                format!("down{at}.{way}")
            } else {
                format!("root{at}.{way}")
            };
            let id = format!("memory{serial}");
            line.object(never_used(&id, device.capacity, keep));
            let media = if version.is_volatile(machine) {
                format!("volatile-memdev=memory{serial}")
            } else {
                let id = format!("label{serial}");
                line.object(memory(&id, 1 << 20, GuestMemoryStore::Nothing));
                let option = match version {
                    Version::V7 => "memdev",
                    Version::V10 => "persistent-memdev",
                };
                format!("{option}=memory{serial},lsa=label{serial}")
            };
            serial += 1;
            line.device(format!(
                "cxl-type3,bus={bus},{media},id=device{serial},sn={serial}"
            ));
        }
    }
    line.0
}

/// Adds the host bridge of a window with its root ports, and its switch if it has one.
fn bridge(at: usize, window: &Window, line: &mut Line) {
    let number = 16 + at * 24;
    line.device(format!("pxb-cxl,bus_nr={number},bus=pcie.0,id=bridge{at}"));
    let ports = match window.switched {
        true => 1,
        false => window.devices.len(),
    };
    // A host bridge with one root port has no decoder of its own, but one with two root ports has.
    for port in 0..=ports {
        line.device(format!(
            "cxl-rp,bus=bridge{at},id=root{at}.{port},port={port},chassis={at},slot={port}"
        ));
    }
    if window.switched {
        line.device(format!("cxl-upstream,bus=root{at}.0,id=up{at}"));
    }
}

/// First address, in bytes, that QEMU gives to windows, or one below it.
const WINDOWS_FROM: u64 = 4 << 30;

/// Arguments for the guest's own memory, and the address space for it.
///
/// Linux 6.1 finds no place for a region at an address below its size (`gfr_continue` in
/// kernel/resource.c takes the difference of the two for one that wrapped). QEMU reserves addresses
/// below the windows for memory that is never plugged in. With as much of that as the largest
/// window, all windows begin high enough.
fn own_memory(machine: &Machine, version: Version) -> String {
    let own = machine.memory_mib;
    let largest = machine.windows.iter().map(Window::size).max().unwrap_or(0);
    match version {
        Version::V7 if largest > WINDOWS_FROM => {
            format!("{own}M,slots=1,maxmem={}M", own + (largest >> 20))
        }
        Version::V7 | Version::V10 => format!("{own}M"),
    }
}

/// A memory backend that reserves no memory of this machine before it is used.
fn memory(id: &str, bytes: u64, keep: GuestMemoryStore<'_>) -> String {
    let (file, share) = match keep {
        GuestMemoryStore::Nothing => {
            return format!(
                "memory-backend-ram,id={id},size={}M,reserve=off",
                bytes >> 20
            );
        }
        GuestMemoryStore::Save(folder) => (folder.join(format!("{id}.memory")), "on"),
        GuestMemoryStore::Restore(folder) => (folder.join(format!("{id}.memory")), "off"),
    };
    in_file(id, bytes, &file, share)
}

fn in_file(id: &str, bytes: u64, file: &Path, share: &str) -> String {
    format!(
        "memory-backend-file,id={id},size={}M,reserve=off,share={share},mem-path={}",
        bytes >> 20,
        escaped(file)
    )
}

/// The memory of a device. The window's memory overlays it, so it need not be saved.
fn never_used(id: &str, bytes: u64, keep: GuestMemoryStore<'_>) -> String {
    let share = match keep {
        GuestMemoryStore::Save(_) => ",share=on",
        GuestMemoryStore::Nothing | GuestMemoryStore::Restore(_) => "",
    };
    memory(id, bytes, GuestMemoryStore::Nothing) + share
}

fn plugin(machine: &Machine, files: Files<'_>, clock: Clock) -> String {
    let mut text = format!(
        "{},fd={},instruction={}",
        escaped(files.plugin),
        files.descriptors.shared,
        machine.instruction_ps
    );
    for cache in &machine.caches {
        text.push_str(&format!(
            ",cache={}:{}:{}",
            cache.sets, cache.ways, cache.access_ps
        ));
    }
    for (at, window) in machine.windows.iter().enumerate() {
        let key = match (window.share, files.run) {
            (Some(_), Some(_)) => "shared",
            _ => "window",
        };
        text.push_str(&format!(",{key}=window{at}:{}", window.base));
    }
    if machine.flushes() {
        text.push_str(",flushes=on");
    }
    // A guest that is only saved has no memory for them.
    if machine.accelerator && files.run.is_some() {
        text.push_str(",registers=registers");
    }
    let clock = match clock {
        Clock::Simulated => "on",
        Clock::Host => "off",
    };
    text.push_str(&format!(",clock={clock}"));
    if files.from_interest {
        text.push_str(&format!(",begin={}", crate::pace::INTEREST[0]));
    }
    if files.in_step {
        text.push_str(&format!(",tell={TELL_PS}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Cache, Device, Share};

    fn files() -> Files<'static> {
        Files {
            kernel: Path::new("/cache/vmlinuz"),
            initrd: Path::new("/out/initrd"),
            plugin: Path::new("/cache/plugin-1.so"),
            run: Some(Path::new("/out/run")),
            keep: GuestMemoryStore::Nothing,
            storage: &[],
            descriptors: Descriptors {
                shared: 5,
                ..Descriptors::default()
            },
            in_step: false,
            from_interest: false,
        }
    }

    /// A window of devices of 512 MiB.
    fn window(base: u64, switched: bool, devices: &[&str]) -> Window {
        let device = |name: &&str| Device {
            name: (*name).to_owned(),
            capacity: 512 << 20,
        };
        Window {
            base,
            granularity: 256,
            switched,
            devices: devices.iter().map(device).collect(),
            share: None,
        }
    }

    fn machine() -> Machine {
        let cache = |sets, access_ps| Cache {
            sets,
            ways: 8,
            access_ps,
        };
        Machine {
            memory_mib: 1024,
            processors: 1,
            instruction_ps: 500,
            caches: vec![cache(64, 1000), cache(1024, 10_000)],
            windows: vec![
                window(0, false, &["dram"]),
                window(512 << 20, true, &["a", "b"]),
            ],
            persistent: false,
            accelerator: false,
        }
    }

    /// The arguments as text, with one option a line.
    fn text(version: Version) -> String {
        let line = arguments(&machine(), version, files(), Clock::Simulated);
        line.join(" ").replace(" -", "\n-")
    }

    #[track_caller]
    fn has(text: &str, part: &str) {
        assert!(text.contains(part), "{part} in {text}");
    }

    #[test]
    fn the_command_line_of_7_2_is_what_was_seen_to_work() {
        assert_eq!(text(Version::V7), GOLDEN.trim());
    }

    #[test]
    fn version_10_has_volatile_devices_without_labels() {
        let text = text(Version::V10);
        assert!(!text.contains("lsa="), "{text}");
        assert_eq!(text.matches("volatile-memdev=memory").count(), 3);
        assert!(text.contains("cxl-type3,bus=down1.1,volatile-memdev=memory2,id=device3,sn=3"));
    }

    #[test]
    fn devices_of_version_10_are_persistent_where_the_machine_says_so() {
        let persistent = Machine {
            persistent: true,
            ..machine()
        };
        let line = hardware(&persistent, Version::V10, GuestMemoryStore::Nothing, &[]).join(" ");
        assert!(!line.contains("volatile-memdev="), "{line}");
        let device = "cxl-type3,bus=down1.1,persistent-memdev=memory2,lsa=label2,id=device3,sn=3";
        has(&line, device);
        let line = |machine| hardware(machine, Version::V7, GuestMemoryStore::Nothing, &[]);
        assert_eq!(line(&persistent), line(&machine()), "7.2 has no other");
    }

    #[test]
    fn windows_of_7_2_begin_at_addresses_above_the_largest_ones_size() {
        let own = |version, capacity| {
            let mut machine = machine();
            machine.windows[0].devices[0].capacity = capacity;
            let line = hardware(&machine, version, GuestMemoryStore::Nothing, &[]);
            let option = line.iter().position(|word| word == "-m").expect("-m");
            line[option + 1].clone()
        };
        assert_eq!(own(Version::V7, 4 << 30), "1024M");
        assert_eq!(own(Version::V7, 8 << 30), "1024M,slots=1,maxmem=9216M");
        assert_eq!(own(Version::V10, 8 << 30), "1024M");
    }

    #[test]
    fn a_guest_that_is_saved_has_its_memory_in_files_that_later_ones_map_privately() {
        let folder = Path::new("/cache/snapshots/a");
        let line = |keep| hardware(&machine(), Version::V7, keep, &[]);
        let saved = line(GuestMemoryStore::Save(folder));
        let restored = line(GuestMemoryStore::Restore(folder));
        let main = |share| {
            format!(
                "memory-backend-file,id=main,size=1024M,reserve=off,share={share},\
                 mem-path=/cache/snapshots/a/main.memory"
            )
        };
        assert!(saved.contains(&main("on")) && restored.contains(&main("off")));
        // Otherwise the machines must be equal.
        let both = saved.iter().zip(&restored);
        let apart: Vec<_> = both.filter(|(one, other)| one != other).collect();
        // Memory, windows, devices.
        assert_eq!(apart.len(), 1 + 2 + 3, "{apart:?}");
        let mut apart = apart.into_iter();
        assert!(apart.all(|(one, _)| one.starts_with("memory-backend-")));
    }

    #[test]
    fn what_persists_lies_in_a_file_that_is_shared() {
        let storage = [None, Some(Path::new("/data/b.pmem"))];
        let keep = GuestMemoryStore::Restore(Path::new("/cache/snapshots/a"));
        let line = hardware(&machine(), Version::V7, keep, &storage);
        for (at, end) in [
            (0, "share=off,mem-path=/cache/snapshots/a/window0.memory"),
            (1, "share=on,mem-path=/data/b.pmem"),
        ] {
            let start = format!("memory-backend-file,id=window{at},");
            let own = |word: &&String| word.starts_with(&start) && word.ends_with(end);
            assert_eq!(line.iter().filter(own).count(), 1, "{line:?}");
        }
    }

    #[test]
    fn only_versions_that_were_tried_are_known() {
        let found = |number: &str| Version::from_text(&format!("QEMU emulator version {number}"));
        assert_eq!(found("7.2.22 (Debian 1:7.2+dfsg-7)"), Some(Version::V7));
        assert_eq!(found("10.0.2 (Debian)"), Some(Version::V10));
        assert_eq!(found("8.2.0"), None);
        assert_eq!(Version::from_text("no version here"), None);
    }

    #[test]
    fn a_comma_in_a_path_does_not_end_an_option() {
        let files = Files {
            plugin: Path::new("/a,b/p.so"),
            ..files()
        };
        let line = arguments(&machine(), Version::V7, files, Clock::Host);
        let plugin = line.last().map(String::as_str).unwrap_or_default();
        assert!(plugin.starts_with("/a,,b/p.so,fd=5,"), "{plugin}");
        assert!(plugin.ends_with(",clock=off"));
    }

    #[test]
    fn the_plugin_is_told_when_to_begin_and_that_others_wait_for_it() {
        let files = Files {
            in_step: true,
            from_interest: true,
            ..files()
        };
        let line = arguments(&machine(), Version::V7, files, Clock::Simulated);
        let plugin = line.last().map(String::as_str).unwrap_or_default();
        let end = ",clock=on,begin=3,tell=200000";
        assert!(plugin.ends_with(end), "{plugin}");
    }

    #[test]
    fn memory_that_guests_share_is_one_file_but_for_a_guest_that_is_only_saved() {
        let mut machine = machine();
        machine.windows[1].share = Some(Share {
            number: 2,
            coherent: false,
        });
        let mut running = Files {
            keep: GuestMemoryStore::Restore(Path::new("/cache/snapshots/a")),
            ..files()
        };
        running.descriptors.memories[2] = 9;
        let line = |files| arguments(&machine, Version::V7, files, Clock::Simulated).join(" ");
        let run = line(running);
        let memory = "id=window1,size=1024M,reserve=off,share=on,mem-path=/proc/self/fd/9 ";
        has(&run, memory);
        has(
            &run,
            ",window=window0:0,shared=window1:536870912,flushes=on",
        );
        let saved = line(Files {
            run: None,
            keep: GuestMemoryStore::Save(Path::new("/cache/snapshots/a")),
            ..running
        });
        has(&saved, "mem-path=/cache/snapshots/a/window1.memory ");
        has(&saved, ",window=window1:536870912");
    }

    const GOLDEN: &str = include_str!("qemu-7.2.txt");
}
