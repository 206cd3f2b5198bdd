//! Reads a process's mappings, working set, CPU time and threads from `/proc`.

use std::fs;
use std::io::{self, Read, Write};

use crate::placement::Region;
use crate::sys::Tid;

/// Bytes read of one `/proc` file at most. The files of a process with many mappings have some MiB.
const MOST_BYTES: u64 = 64 << 20;

fn read(path: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A mapping of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Addresses of the mapping.
    pub region: Region,
    /// Whether the process may read the mapping, and whether it may execute it.
    pub readable: bool,
    pub executable: bool,
    /// Offset of the mapping in its file, in bytes.
    pub offset: u64,
    /// Path of the mapped file, a name of the kernel such as `[heap]`, or empty.
    pub name: String,
}

impl Mapping {
    /// Path of the mapped file, which may be deleted by now. `None` without a file, and for devices.
    pub fn path(&self) -> Option<&str> {
        let path = self.name.strip_suffix(" (deleted)").unwrap_or(&self.name);
        (path.starts_with('/') && !path.starts_with("/dev/")).then_some(path)
    }

    /// Whether the mapping holds memory: it is readable, and neither the kernel's own nor a device.
    fn holds_memory(&self) -> bool {
        let kernels = ["[vvar]", "[vvar_vclock]", "[vdso]", "[vsyscall]"];
        let device = self.name.starts_with("/dev/") && !self.name.starts_with("/dev/shm/");
        self.readable && !kernels.contains(&self.name.as_str()) && !device
    }
}

/// All mappings of a process, by address.
pub fn mappings(pid: Tid) -> io::Result<Vec<Mapping>> {
    read(&format!("/proc/{pid}/maps")).map(|text| parse_maps(&text))
}

/// The mappings that hold memory: readable, and not the kernel's own.
pub fn regions(pid: Tid) -> io::Result<Vec<Region>> {
    mappings(pid).map(|all| memory(&all))
}

/// Address ranges of the mappings that hold memory.
pub fn memory(all: &[Mapping]) -> Vec<Region> {
    let holding = all.iter().filter(|mapping| mapping.holds_memory());
    holding.map(|mapping| mapping.region).collect()
}

fn parse_maps(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_map).collect()
}

fn parse_map(line: &str) -> Option<Mapping> {
    // A name may have spaces, and is behind five words and further spaces.
    let mut rest = line;
    let mut words = [""; 5];
    for word in &mut words {
        let (first, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        (*word, rest) = (first, behind.trim_start());
    }
    let [range, rights, offset, ..] = words;
    Some(Mapping {
        region: parse_range(range)?,
        readable: rights.starts_with('r'),
        executable: rights.as_bytes().get(2) == Some(&b'x'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        name: rest.to_owned(),
    })
}

fn parse_range(text: &str) -> Option<Region> {
    let (start, end) = text.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    (start < end).then_some(Region { start, end })
}

/// Pages of a mapping, or of all mappings of a process, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Resident {
    /// Bytes touched since the reference marks were last cleared.
    pub referenced: u64,
    /// Bytes in large pages.
    pub huge: u64,
    /// Bytes in memory.
    pub resident: u64,
}

/// Sums of [`Resident`] over all mappings of a process.
pub fn resident(pid: Tid) -> io::Result<Resident> {
    read(&format!("/proc/{pid}/smaps")).map(|text| parse_smaps(&text))
}

fn parse_smaps(text: &str) -> Resident {
    let mut sum = Resident::default();
    let mut is_programs = true;
    for line in text.lines() {
        if let Some(mapping) = parse_map(line) {
            // The library of allocation sites keeps its tables in such mappings.
            is_programs = mapping.name != "/dev/zero";
            continue;
        }
        let Some((name, rest)) = line.split_once(':').filter(|_| is_programs) else {
            continue;
        };
        let sum = match name {
            "Referenced" => &mut sum.referenced,
            "AnonHugePages" => &mut sum.huge,
            "Rss" => &mut sum.resident,
            _ => continue,
        };
        let kib = rest.trim().trim_end_matches(" kB").parse::<u64>();
        *sum += kib.unwrap_or(0) << 10;
    }
    sum
}

/// Clears the reference marks of all pages of a process.
pub fn clear_referenced(pid: Tid) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/clear_refs"))?
        .write_all(b"1")
}

/// CPU time of a thread, in nanoseconds.
pub fn cpu_ns(tid: Tid) -> io::Result<u64> {
    let text = read(&format!("/proc/{tid}/schedstat"))?;
    let first = text.split_ascii_whitespace().next();
    valid(first.and_then(|word| word.parse().ok()))
}

/// The parsed value of a file of `/proc`, or an error if the file does not have it.
fn valid<T>(said: Option<T>) -> io::Result<T> {
    said.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Nanoseconds of a clock tick in `/proc`: Linux has 100 ticks a second on x86-64 (`sysconf(_SC_CLK_TCK)`).
const TICK_NS: u64 = 10_000_000;

/// Resources that a thread has used so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ThreadUsage {
    /// CPU time in user space, in nanoseconds, rounded to whole ticks. At each tick the kernel samples
    /// whether the thread runs in user space, and divides the exact CPU time in proportion.
    pub user_ns: u64,
    /// Page faults that needed no reading from storage.
    pub faults: u64,
}

/// Reads the [`ThreadUsage`] of a thread.
pub fn usage(tid: Tid) -> io::Result<ThreadUsage> {
    let stat = stat_of(&format!("/proc/{tid}/task/{tid}/stat"))?;
    Ok(ThreadUsage {
        user_ns: stat.user * TICK_NS,
        faults: stat.faults,
    })
}

/// Fields of `/proc/PID/stat` of a process or thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Start time in clock ticks since boot. Together with the process number it identifies one process for ever.
    pub began: u64,
    /// CPU time in user space, in clock ticks.
    pub user: u64,
    /// Page faults that needed no reading from storage.
    pub faults: u64,
    /// The parent process.
    pub parent: Tid,
    /// Scheduling state: R, S, D, T, t, Z or X.
    pub state: char,
    /// Processor on which the thread ran last.
    pub processor: usize,
}

/// Reads the [`Stat`] of a process or thread.
pub fn stat(tid: Tid) -> io::Result<Stat> {
    stat_of(&format!("/proc/{tid}/stat"))
}

fn stat_of(path: &str) -> io::Result<Stat> {
    valid(parse_stat(&read(path)?))
}

/// The name in parentheses may hold any character, so the fields are counted from the last parenthesis.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let fields: Vec<&str> = fields.collect();
    let number = |at: usize| fields.get(at)?.parse().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        user: number(11)?,
        faults: number(7)?,
        parent: fields.get(1)?.parse().ok()?,
        began: number(19)?,
        processor: number(36)? as usize,
    })
}

/// A line of `/proc/PID/status`, by the name in front of it.
fn status_line<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))
}

/// The process that a thread belongs to.
pub fn process_of(tid: Tid) -> io::Result<Tid> {
    let text = read(&format!("/proc/{tid}/status"))?;
    valid(status_line(&text, "Tgid:").and_then(|rest| rest.trim().parse().ok()))
}

/// Signals that wait for a process to unblock them, one bit each from signal 1.
pub fn pending_signals(pid: Tid) -> io::Result<u64> {
    let text = read(&format!("/proc/{pid}/status"))?;
    let bits = status_line(&text, "ShdPnd:");
    valid(bits.and_then(|rest| u64::from_str_radix(rest.trim(), 16).ok()))
}

/// The program of a process whose file gives rights (set-user-ID, set-group-ID) that the process
/// does not have. `None` if there are none, or if that cannot be seen.
pub fn without_its_rights(pid: Tid) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let exe = format!("/proc/{pid}/exe");
    let file = fs::metadata(&exe).ok()?;
    let status = read(&format!("/proc/{pid}/status")).ok()?;
    let lacks = lacks_rights(file.mode(), (file.uid(), file.gid()), &status)?;
    let name = fs::read_link(&exe).ok()?;
    lacks.then(|| name.display().to_string())
}

/// Whether a file's mode and owner give rights that a process with this status does not have.
fn lacks_rights(mode: u32, (uid, gid): (u32, u32), status: &str) -> Option<bool> {
    let word = |name: &str, at: usize| -> Option<u32> {
        let mut words = status_line(status, name)?.split_ascii_whitespace();
        words.nth(at)?.parse().ok()
    };
    // The second numbers are the effective ones. A process that gave up new rights would not have
    // got any without cxlab.
    let given_up = word("NoNewPrivs:", 0) == Some(1);
    let user = mode & libc::S_ISUID != 0 && word("Uid:", 1)? != uid;
    let group = mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0 && word("Gid:", 1)? != gid;
    Some(!given_up && (user || group))
}

/// The threads of a process.
pub fn threads(pid: Tid) -> io::Result<Vec<Tid>> {
    let mut threads: Vec<Tid> = fs::read_dir(format!("/proc/{pid}/task"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    threads.sort_unstable();
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_hold_memory_are_found() {
        let text = "\
55d0-55e0 r--p 00000000 08:01 12 /usr/bin/x y
55e0-55f0 ---p 00000000 00:00 0 
55f0-55f1 r-xp 00003000 08:01 12                     /usr/bin/x y
7f00-7f10 rw-p 00000000 00:00 0
7f20-7f30 rw-s 00000000 00:05 7 /dev/dri/card0
7f30-7f40 rw-s 00000000 00:05 7 /dev/shm/a
7ff0-7ff1 r-xp 00000000 00:00 0 [vdso]
7ff2-7ff4 rw-p 00000000 00:00 0 [stack]
garbage
";
        let all = parse_maps(text);
        let starts: Vec<u64> = memory(&all).iter().map(|region| region.start).collect();
        assert_eq!(starts, [0x55d0, 0x55f0, 0x7f00, 0x7f30, 0x7ff2]);
        assert_eq!(
            (all[2].name.as_str(), all[2].offset),
            ("/usr/bin/x y", 0x3000)
        );
        assert_eq!((all[2].executable, all[0].executable), (true, false));
        assert_eq!(all[3].name, "");
    }

    #[test]
    fn working_sets_are_summed() {
        let text = "55d0-55e0 r--p 0 08:01 12 /x\nRss:  12 kB\nReferenced:   8 kB\nAnonHugePages: 0 kB\n\
                    7f00-7f10 rw-p 0 00:00 0\nRss: 4096 kB\nReferenced: 4 kB\nAnonHugePages: 2048 kB\n";
        let found = parse_smaps(text);
        assert_eq!(found.referenced, 12 << 10);
        assert_eq!(found.huge, 2 << 20);
        assert_eq!(found.resident, (4096 + 12) << 10);
    }

    #[test]
    fn a_name_cannot_hide_the_fields_behind_it() {
        let text = "7 (a) b) R) R 1 7 7 0 -1 0 9 0 0 0 31 5 0 0 20 0 1 0 4711 0 0 0 0 0 0 0 0 0 0 0 0 \
                    0 0 0 17 3 0 0";
        assert_eq!(
            parse_stat(text),
            Some(Stat {
                began: 4711,
                user: 31,
                faults: 9,
                parent: 1,
                state: 'R',
                processor: 3
            })
        );
        assert_eq!(parse_stat("7 (x"), None);
    }

    #[test]
    fn a_program_without_the_rights_of_its_file_is_noticed() {
        let status = |euid: u32, given_up: u32| {
            format!(
                "Name:\tx\nUid:\t1000\t{euid}\t1000\t1000\nGid:\t7\t7\t7\t7\nNoNewPrivs:\t{given_up}\n"
            )
        };
        let lacks = |mode, status: &str| lacks_rights(mode, (0, 50), status).unwrap();
        assert!(lacks(0o104_755, &status(1000, 0)));
        assert!(!lacks(0o104_755, &status(0, 0)));
        assert!(!lacks(0o104_755, &status(1000, 1)));
        assert!(!lacks(0o100_755, &status(1000, 0)));
        assert!(lacks(0o102_755, &status(1000, 0)));
        // Without the right to execute, the bit marks files for mandatory locks.
        assert!(!lacks(0o102_745, &status(1000, 0)));
        assert_eq!(lacks_rights(0o104_755, (0, 0), ""), None);
    }

    #[test]
    fn this_process_can_be_looked_at() {
        let own = crate::sys::own();
        assert!(!regions(own).unwrap().is_empty());
        assert!(resident(own).unwrap().resident > 0);
        assert!(threads(own).unwrap().contains(&own));
        assert_eq!(process_of(own).unwrap(), own);
        assert!(stat(own).unwrap().began > 0);
    }
}
