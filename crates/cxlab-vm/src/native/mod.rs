//! Compares the plugin's caches and ring, compiled and run without QEMU, with a
//! plain implementation of the same caches.

#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::ring::{Counters, Kind, ModelWords, Record, WORDS, WORDS_BEHIND};
use crate::sys::{SharedWords, end_with_us};

/// Pseudorandom accesses, drawn as `drive.c` draws them.
struct Drawn {
    state: u64,
    line: u64,
}

/// A cached line: its address in the program, its address in memory, and whether it is modified.
type Line = (u64, u64, bool);

/// Two cache levels as lists of sets. Each set has its newest line first.
struct Plain {
    own_ps: u64,
    first: Vec<Vec<Line>>,
    second: Vec<Vec<Line>>,
    ways: usize,
    walks: Vec<u64>,
    oldest: usize,
    records: Vec<Record>,
    counters: Counters,
}

impl Plain {
    fn post(&mut self, place: u64, kind: u64) {
        self.records.push(Record {
            at_ps: self.own_ps,
            what: place | kind,
        });
    }

    fn access(&mut self, address: u64, place: u64, store: bool) {
        self.counters.accesses += 1;
        let (line, place) = (address / 64, place & !63);
        let sets = self.first.len() as u64;
        let set = &mut self.first[(line % sets) as usize];
        if let Some(at) = set.iter().position(|one| one.0 == line) {
            let mut found = set.remove(at);
            found.2 |= store;
            set.insert(0, found);
            return;
        }
        self.counters.first_misses += 1;
        let near = |walk: &u64| walk.abs_diff(place / 64) <= 1;
        let walk = self.walks.iter().position(near);
        let at = walk.unwrap_or_else(|| {
            self.oldest += 1;
            (self.oldest - 1) % 16
        });
        self.walks[at] = place / 64;
        let looks = walk.is_none() && !store;
        self.own_ps += if looks { 8000 } else { 0 };
        self.second(place, store);
        let set = &mut self.first[(line % sets) as usize];
        set.insert(0, (line, place, store));
        if set.len() > self.ways
            && let Some((_, place, true)) = set.pop()
        {
            self.write_back(place);
        }
    }

    fn second(&mut self, place: u64, store: bool) {
        let at = (place / 64) as usize % self.second.len();
        let set = &mut self.second[at];
        if let Some(found) = set.iter().position(|one| one.1 == place) {
            let line = set.remove(found);
            set.insert(0, line);
            return;
        }
        self.counters.misses += 1;
        self.post(place, u64::from(store));
        let set = &mut self.second[at];
        set.insert(0, (0, place, false));
        if set.len() > self.ways
            && let Some((_, old, true)) = set.pop()
        {
            self.post(old, 2);
        }
    }

    fn write_back(&mut self, place: u64) {
        let at = (place / 64) as usize % self.second.len();
        match self.second[at].iter_mut().find(|one| one.1 == place) {
            Some(line) => line.2 = true,
            None => self.post(place, 2),
        }
    }
}

/// The records and counters that the plugin is expected to give.
fn expected(accesses: u64, sets: usize, ways: usize, lines: u64) -> (Vec<Record>, Counters) {
    let mut plain = Plain {
        own_ps: 0,
        first: vec![Vec::new(); sets],
        second: vec![Vec::new(); 8 * sets],
        ways,
        walks: vec![0; 16],
        oldest: 0,
        records: Vec::new(),
        counters: Counters::default(),
    };
    let mut drawn = Drawn {
        state: 88_172_645_463_325_252,
        line: 0,
    };
    plain.post(64, 3);
    for number in 0..accesses {
        drawn.state ^= drawn.state << 13;
        drawn.state ^= drawn.state >> 7;
        drawn.state ^= drawn.state << 17;
        drawn.line = match number % 8 {
            7 => drawn.line + 1,
            _ => ((drawn.state >> 32) * lines) >> 32,
        };
        let address = drawn.line * 64 + (drawn.state & 63);
        plain.own_ps += 250;
        let place = (address ^ (5 << 12)) | 1 << 63;
        plain.access(address, place, drawn.state >> 40 & 1 == 1);
    }
    plain.post(128, 3);
    (plain.records, plain.counters)
}

/// A test program, in a folder of its own.
struct Program(TempDir);

impl Program {
    fn path(&self) -> PathBuf {
        self.0.path().join("drive")
    }

    /// What it prints.
    fn said<'a>(&self, arguments: impl IntoIterator<Item = &'a &'a str>) -> String {
        let done = Command::new(self.path()).args(arguments).output();
        String::from_utf8(done.unwrap().stdout).unwrap()
    }
}

/// Compiles a test program. `None` without a compiler.
fn compiled(source: &str) -> Option<Program> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Program(tempfile::tempdir().unwrap());
    let done = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("../../adapters/qemu"))
        .arg("-o")
        .arg(program.path())
        .arg(root.join("src/native").join(source))
        .status();
    match done {
        Ok(status) => {
            assert!(status.success(), "{source} does not compile");
            Some(program)
        }
        Err(error) => {
            println!("skipped: cc cannot be run ({error})");
            None
        }
    }
}

fn started(program: &Program, words: &SharedWords, numbers: [u64; 4]) -> Child {
    let mut command = Command::new(program.path());
    command.arg(words.fd().to_string());
    command.args(numbers.map(|number| number.to_string()));
    end_with_us(&mut command);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Consumes every record until the second mark. The ring is small, so the program waits often. The
/// time that the plugin publishes must not exceed that of any later record.
fn drained(shared: ModelWords<'_>, mut each: impl FnMut(Record)) -> Counters {
    let lane = shared.lane(1);
    let mut tail = 0;
    let mut least = 0;
    loop {
        let now = lane.now_ps();
        let head = lane.head();
        while tail < head {
            let record = lane.record(tail);
            assert!(record.at_ps >= least, "{record:?} after {least} ps");
            each(record);
            if record.kind() == Kind::Mark && record.mark() == 2 {
                let counters = lane.counters();
                lane.charge(0, tail + 1);
                return counters;
            }
            tail += 1;
            lane.charge(0, tail);
        }
        least = now;
        std::thread::yield_now();
    }
}

#[test]
fn the_plugin_tells_of_every_miss_and_write_back_in_order_and_of_nothing_else() {
    let Some(program) = compiled("drive.c") else {
        return;
    };
    for (accesses, sets, ways, lines) in [
        (60_000, 4, 2, 400),
        (60_000, 16, 3, 500),
        (90_000, 64, 1, 1 << 20),
    ] {
        let words = SharedWords::new(WORDS).unwrap();
        let shared = ModelWords::new(words.words()).unwrap();
        let mut child = started(&program, &words, [accesses, sets, ways, lines]);
        let mut records = Vec::new();
        let counters = drained(shared, |record| records.push(record));
        assert!(child.wait().unwrap().success());
        let (wanted, counts) = expected(accesses, sets as usize, ways as usize, lines);
        assert!(wanted.len() > 1000, "{} records", wanted.len());
        let differs = records
            .iter()
            .zip(&wanted)
            .position(|(one, other)| one != other);
        assert_eq!(differs, None, "{sets} sets of {ways}, {lines} lines");
        assert_eq!(records.len(), wanted.len());
        assert_eq!(counters, counts);
    }
}

/// Measures the throughput of caches and ring, by processor time. The test asserts no time.
#[test]
#[ignore = "measures: cargo test --release -p cxlab-vm rate -- --ignored --nocapture"]
fn rate_of_the_filter() {
    let Some(program) = compiled("drive.c") else {
        return;
    };
    for (name, lines) in [
        ("all in the first cache", 256),
        ("half in the second", 2048),
        ("mostly misses", 1 << 20),
    ] {
        let words = SharedWords::new(WORDS).unwrap();
        let shared = ModelWords::new(words.words()).unwrap();
        let accesses = 20_000_000;
        let child = started(&program, &words, [accesses, 64, 8, lines]);
        let mut records = 0u64;
        drained(shared, |_| records += 1);
        let said = child.wait_with_output().unwrap().stdout;
        let seconds: f64 = String::from_utf8_lossy(&said).trim().parse().unwrap();
        println!(
            "{name}: {:.0} M accesses/s, {:.1} M records/s",
            accesses as f64 / seconds / 1e6,
            records as f64 / seconds / 1e6
        );
    }
}

/// Instructions in bytes, as the assembler writes them, and what they are: another 0, atomic 1, a flush 2,
/// `clwb` 3, a fence 4. Of a flush: base, index, shift, offset; no register is 16.
const INSTRUCTIONS: &[(&str, &str, &str)] = &[
    ("clflush (%rax)", "0fae38", "2 0 16 0 0"),
    ("clflush 8(%rsp)", "0fae7c2408", "2 4 16 0 8"),
    ("clflush -0x80(%rbp,%r9,4)", "420fae7c8d80", "2 5 9 2 -128"),
    ("clflushopt (%r13)", "66410fae7d00", "2 13 16 0 0"),
    (
        "clwb 0x12345(%rip)",
        "660fae3545230100",
        "3 16 16 0 4268877",
    ),
    ("clwb (%r12)", "66410fae3424", "3 12 16 0 0"),
    (
        "clflush 0x1000(,%rcx,8)",
        "0fae3ccd00100000",
        "2 16 1 3 4096",
    ),
    ("xsaveopt (%rax)", "0fae30", "0"),
    ("sfence", "0faef8", "4"),
    ("mfence", "0faef0", "4"),
    ("lfence", "0faee8", "0"),
    ("lock xaddq %rax,(%rbx)", "f0480fc103", "1"),
    ("xchgl %eax,(%rcx)", "8701", "1"),
    ("xchgl %ebx,%ecx", "87d9", "0"),
    ("lock cmpxchg16b (%rsi)", "f0480fc70e", "1"),
    ("mov (%rax),%rbx", "488b18", "0"),
];

#[test]
fn the_plugin_knows_atomic_instructions_flushes_and_fences() {
    let Some(program) = compiled("decode.c") else {
        return;
    };
    let said = program.said(INSTRUCTIONS.iter().map(|(_, code, _)| code));
    let wanted: Vec<&str> = INSTRUCTIONS.iter().map(|(_, _, is)| *is).collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), wanted, "{INSTRUCTIONS:?}");
}

#[test]
fn caches_lose_the_lines_that_an_accelerator_has_taken_and_no_others() {
    let Some(program) = compiled("take.c") else {
        return;
    };
    let said = program.said([]);
    let words = WORDS_BEHIND.map(|word| word.to_string()).join(" ");
    // All lines fit the second cache, and each of those taken is missed once.
    let wanted = format!("words {words}\nheld 1500 wrong 0 left 0 kept 750 missed 750\n");
    assert_eq!(said, wanted);
}
