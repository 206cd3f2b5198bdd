//! Prints the tables of `docs/explain/attach.md` as measured on this machine. `make attach-table`
//! runs it in some minutes, on an idle machine.
//!
//! `table CXLAB SCENARIO` runs that program on that scenario (one host, one device;
//! `scenarios/direct.toml`) with the programs of `load.rs`, which must be in the same folder, and
//! with real programs if they are installed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

/// Number of runs, of which the median counts.
const RUNS: usize = 3;
/// Number of pairs of runs, alone and attached, of which the median slowdown counts.
const PAIRS: usize = 7;
/// Media latency at which `unloaded_ns` is measured. Added latency is counted from there.
const MEDIUM_NS: u64 = 46;

struct Bench {
    cxlab: PathBuf,
    scenario: PathBuf,
    load: PathBuf,
    folder: PathBuf,
    /// Latency of the scenario's memory without load.
    unloaded_ns: f64,
}

/// Time and output of a run.
struct Ran {
    seconds: f64,
    printed: String,
}

fn run(command: &mut Command) -> Ran {
    let began = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let seconds = began.elapsed().as_secs_f64();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let why = text(&output.stderr);
    assert!(output.status.success(), "{command:?}: {why}");
    let printed = text(&output.stdout);
    Ran { seconds, printed }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The number after a word that a program of `load.rs` prints.
fn said(printed: &str, word: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

impl Bench {
    /// Runs `cxlab attach` with these options on a command. The report is in the
    /// folder of the bench.
    fn attach(&self, options: &[&str], command: &[String]) -> Ran {
        self.attach_to(options, &[&["--".to_owned()], command].concat())
    }

    /// Like `attach`, with all words that follow the options.
    fn attach_to(&self, options: &[&str], behind: &[String]) -> Ran {
        let mut attach = Command::new(&self.cxlab);
        attach
            .arg("attach")
            .arg(&self.scenario)
            .arg("--out")
            .arg(self.folder.join("out"))
            .arg("--quiet")
            .args(options)
            .args(behind);
        run(&mut attach)
    }

    fn report(&self) -> Value {
        let path = self.folder.join("out/report.json");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn load(&self, words: &str) -> Vec<String> {
        let program = self.load.display().to_string();
        let words = words.split(' ').map(str::to_owned);
        std::iter::once(program).chain(words).collect()
    }
}

fn number(report: &Value, pointer: &str) -> f64 {
    let found = report.pointer(pointer).and_then(Value::as_f64);
    found.unwrap_or(f64::NAN)
}

/// What `--verify` says beside its numbers.
fn notes_of(report: &Value) -> impl Iterator<Item = &str> {
    let said = report.pointer("/verified/notes").and_then(Value::as_array);
    said.into_iter().flatten().filter_map(Value::as_str)
}

fn plain(command: &[String]) -> Ran {
    run(Command::new(&command[0]).args(&command[1..]))
}

/// Real programs: a name, the program that must be installed, and a script in the folder of the files.
const REAL: [(&str, &str, &str); 17] = [
    ("gzip, 24 MB", "gzip", "gzip -c text > /dev/null"),
    (
        "sqlite3, 200,000 rows",
        "sqlite3",
        "sqlite3 :memory: 'create table t(a integer primary key, b); with recursive n(i) as \
         (select 1 union all select i+1 from n where i < 200000) insert into t select i, \
         hex(i * 7919) from n; create index x on t(b); select count(*) from t where b like \
         \"%37%\";' > /dev/null",
    ),
    (
        "redis-server and 20,000 requests",
        "redis-server",
        "redis-server --port 0 --unixsocket redis --save '' > /dev/null & until \
         redis-cli -s redis ping > /dev/null 2>&1; do sleep 0.01; done; \
         redis-benchmark -s redis -n 20000 -r 100000 -t set,get -q > /dev/null; \
         redis-cli -s redis shutdown nosave; wait",
    ),
    (
        "python3, dictionary of 400,000",
        "python3",
        "python3 -c 'd = {str(i): i for i in range(400000)}; print(sum(d.values()))'",
    ),
    ("bzip2, 24 MB", "bzip2", "bzip2 -c text > /dev/null"),
    ("xz -1, 24 MB", "xz", "xz -1 -T1 -c text > /dev/null"),
    (
        "sort, a million lines",
        "sort",
        "LC_ALL=C sort -k4 text > /dev/null",
    ),
    (
        "awk, sums by key",
        "awk",
        "awk '{ s[$2 % 5000] += $4 } END { for (k in s) t += s[k]; print t }' text",
    ),
    (
        "sed, three substitutions",
        "sed",
        "sed -e 's/line/row/' -e 's/of/in/' -e 's/[0-9]*$/x/' text > /dev/null",
    ),
    (
        "grep, a pattern",
        "grep",
        "for i in 1 2 3 4; do grep -cE '(1|7)+9.*of 3.*[0-4]$' text; done",
    ),
    (
        "perl, words counted",
        "perl",
        "perl -ne '$c{$_}++ for split; END { print scalar(keys %c) }' text",
    ),
    (
        "sha256sum, 24 MB eight times",
        "sha256sum",
        "cat text text text text text text text text | sha256sum",
    ),
    (
        "tar and gzip -1",
        "tar",
        "tar -cf - text file.c | gzip -1 > /dev/null",
    ),
    (
        "git, a file added",
        "git",
        "rm -rf repository && git init -q repository && cp text repository && cd repository && \
         git add text && git -c user.name=a -c user.email=a@b commit -qm one",
    ),
    (
        "node, arrays sorted",
        "node",
        "node -e 'let s = 1; const next = () => (s = (s * 48271) % 2147483647); \
         console.log(Array.from({ length: 400000 }, next).sort((a, b) => a - b)[7])'",
    ),
    (
        "python3, sums in a loop",
        "python3",
        "python3 -c 'print(sum(i * i % 7 for i in range(6000000)))'",
    ),
    ("gcc -O2, one file", "gcc", "gcc -O2 -c -o /dev/null file.c"),
];

/// Writes the files that the real programs work on.
fn files(folder: &Path) -> std::io::Result<()> {
    let text: String = (0..1_000_000u64)
        .map(|line| format!("line {line} of {}\n", line.wrapping_mul(7919) % 1_000_003))
        .collect();
    std::fs::write(folder.join("text"), text)?;
    let code: String = (0..600)
        .map(|number| {
            format!(
                "int f{number}(int *a, int n) {{ int s = {number}; for (int i = 0; i < n; i++) \
                 s += a[i] * (i ^ s); return s; }}\n"
            )
        })
        .collect();
    std::fs::write(folder.join("file.c"), code)
}

fn slowdowns(bench: &Bench) {
    println!("### Slowdown with nothing added\n");
    println!("| program | alone, s | attached, s | slowdown | stood still, of alone |");
    println!("|---|---|---|---|---|");
    let (mut all, mut real_ones) = (Vec::new(), Vec::new());
    let own = [
        ("pointer chase, 64 MiB", "chase 64 10000000"),
        ("random reads, 64 MiB", "random 64 60000000"),
        ("mmap and read, 64 MiB", "stream 64 200"),
        ("mmap and write, 64 MiB", "write 64 100"),
        ("malloc by sbrk and write, 64 KiB", "heap 64 30 64"),
        ("malloc by mmap and write, 1 MiB", "heap 64 30 1024"),
        ("calloc and write, 64 KiB", "zeroed 64 30 64"),
        ("computing only", "spin 500"),
    ];
    let own = own.map(|(name, words)| (name, "", bench.load(words)));
    let real = REAL.map(|(name, needs, script)| {
        let script = format!("cd {}\n{script}", bench.folder.display());
        let command = ["sh", "-c", &script].map(str::to_owned);
        (name, needs, command.to_vec())
    });
    for (name, needs, command) in own.into_iter().chain(real) {
        let there = Command::new("sh")
            .args(["-c", &format!("command -v {needs}")])
            .stdout(Stdio::null())
            .status();
        if !needs.is_empty() && !there.is_ok_and(|status| status.success()) {
            println!("| {name} | not installed | | | |");
            continue;
        }
        // The runs alternate, because the time of a program changes with the machine's neighbours.
        let pairs: Vec<[f64; 3]> = (0..PAIRS)
            .map(|_| {
                let alone = plain(&command).seconds;
                // `cxlab` calibrates the machine before the program starts, so only the program's own
                // time counts.
                bench.attach(&["--local-latency", "1 ms"], &command);
                let report = bench.report();
                let taken = number(&report, "/delay/taken_ns") / 1e9;
                [alone, number(&report, "/real_s"), taken]
            })
            .collect();
        let of = |value: fn(&[f64; 3]) -> f64| median(pairs.iter().map(value).collect());
        let slowdown = of(|[alone, attached, _]| attached / alone);
        all.push(slowdown);
        if !needs.is_empty() {
            real_ones.push(slowdown);
        }
        println!(
            "| {name} | {:.3} | {:.3} | {slowdown:.2} | {:.2} |",
            of(|[alone, ..]| *alone),
            of(|[_, attached, _]| *attached),
            of(|[alone, _, taken]| taken / alone),
        );
    }
    let most = real_ones.iter().copied().fold(0.0, f64::max);
    println!(
        "\nMedian slowdown: {:.2}; of {} real programs: {:.2}, {most:.2} at most.\n",
        median(all),
        real_ones.len(),
        median(real_ones),
    );
}

/// A pointer chase with added latency: its own clock against the accounts of the report.
fn added(bench: &Bench) {
    println!("### A pointer chase over 256 MiB, 10,000,000 steps\n");
    println!(
        "| added, ns | a step alone, ns | longer by (own clock) | against alone + added | asked, s | held, s | \
         taken by attaching, s | charged over asked |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let command = bench.load("chase 256 10000000");
    let step = |ran: &Ran| said(&ran.printed, "step ").unwrap_or(f64::NAN);
    let local = format!("--local-latency={} ps", (bench.unloaded_ns * 1e3).round());
    for added in [0, 100, 200, 400, 2000] {
        let memory = format!(
            "devices[0].memory={{ kind = \"fixed\", latency = \"{} ns\" }}",
            MEDIUM_NS + added
        );
        let mut rows: Vec<[f64; 6]> = Vec::new();
        for _ in 0..RUNS {
            // The runs alternate, because the time of a step by itself changes
            // with the machine's neighbours.
            let alone = step(&plain(&command));
            let ran = bench.attach(&["--set", &memory, &local], &command);
            let report = bench.report();
            let seconds = |name| number(&report, &format!("/delay/{name}_ns")) / 1e9;
            let charged = seconds("charged");
            rows.push([
                step(&ran),
                seconds("asked"),
                seconds("held"),
                seconds("taken"),
                charged,
                alone,
            ]);
        }
        let of = |at: usize| median(rows.iter().map(|row| row[at]).collect());
        let (step, asked, alone) = (of(0), of(1), of(5));
        println!(
            "| {added} | {alone:.0} | {:.0} | {:+.1} % | {asked:.4} | {:.4} | {:.4} | {} |",
            step - alone,
            100.0 * (step / (alone + added as f64) - 1.0),
            of(2),
            of(3),
            match asked > 0.0 {
                true => format!("{:.4}", of(4) / asked),
                false => "nothing asked".to_owned(),
            }
        );
    }
    println!();
}

/// A program that has made two arrays, with their mappings.
struct Two {
    child: Child,
    /// Bytes of the second array.
    second: u64,
    /// Bytes of its mappings that hold memory.
    mapped: u64,
}

impl Two {
    fn start(command: &[String]) -> Two {
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut next = || {
            let line = lines.next().and_then(Result::ok).unwrap_or_default();
            let number = |word: &str| word.parse().unwrap_or(0);
            line.split(' ').skip(1).map(number).collect::<Vec<u64>>()
        };
        let [_pid, first, second] = [next(), next(), next()];
        assert!(
            second[0] < first[0],
            "Linux maps from the top down: {first:?} {second:?}"
        );
        let second = second[1];
        let path = format!("/proc/{}/maps", child.id());
        let maps = std::fs::read_to_string(&path).unwrap_or_default();
        let mapped = maps.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let readable = words.next()?.starts_with('r');
            let kernels = line.ends_with("[vdso]") || line.contains("[vvar");
            let number = |text| u64::from_str_radix(text, 16).ok();
            (readable && !kernels).then_some(number(end)? - number(start)?)
        });
        let mapped = mapped.sum();
        // What the program prints later is not read. The pipe has room for it.
        std::mem::forget(lines);
        Two {
            child,
            second,
            mapped,
        }
    }

    /// The placement with the second array alone in CXL memory, which was mapped last. Ends the program,
    /// which was started only for that.
    fn all_but_second(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        format!("local-first:{}", self.mapped - self.second)
    }
}

/// Share of the first pool in the lines that were read and written back.
fn moved_to_first(report: &Value) -> f64 {
    let moved = |pool: usize| {
        let of = |what: &str| number(report, &format!("/pools/{pool}/{what}"));
        of("misses") + of("write_backs")
    };
    moved(0) / (moved(0) + moved(1))
}

/// Two chases in two pools, one of which is the host's own. cxlab attaches after the arrays are
/// made, and from the beginning. In the second case, making an array counts as well: its lines are
/// read once and written back once.
fn shares(bench: &Bench) {
    const STEPS: f64 = 20e6;
    const MADE: f64 = 2.0 * (64 << 20) as f64 / 64.0;
    println!("### Which pool: A steps in one array for B in the other\n");
    println!(
        "| A : B | true share | found, by --pid | true share, with the making | found, from the beginning |"
    );
    println!("|---|---|---|---|---|");
    for (a, b) in [(1, 9), (1, 3), (1, 1), (3, 1), (9, 1)] {
        let command = bench.load(&format!("two 64 {STEPS:.0} {a} {b}"));
        let local = Two::start(&command).all_but_second();
        let options = ["--local-latency", "1 ms", "--placement", &local];
        let mut two = Two::start(&command);
        let pid = two.child.id().to_string();
        bench.attach_to(&[&options[..], &["--pid", &pid]].concat(), &[]);
        let _ = two.child.wait();
        let by_pid = moved_to_first(&bench.report());
        bench.attach(&options, &command);
        let share = f64::from(a) / f64::from(a + b);
        println!(
            "| {a} : {b} | {share:.2} | {by_pid:.3} | {:.3} | {:.3} |",
            (share * STEPS + MADE) / (STEPS + 2.0 * MADE),
            moved_to_first(&bench.report())
        );
    }
    println!();
}

/// The event engine on the exact execution, with this run and the model beside it: errors of delay,
/// and of slowdown, which have bounds.
fn verified(bench: &Bench) {
    println!("### Slowdown and delay against the event engine on the exact execution\n");
    println!(
        "| fabric | program | engine, delay, ms | engine, slowdown | every miss known: slowdown | delay | in samples: \
         slowdown | delay | this run: slowdown, model's time | slowdown, engine's time | slowdown, CPU time | delay |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let custom = |switches: &str, links: &str| {
        format!("fabric.topology={{ kind = \"custom\", switches = {switches}, links = {links} }}")
    };
    let fabrics = [
        ("local", "fabric.topology={ kind = \"direct\" }".to_owned()),
        ("direct", "fabric.topology={ kind = \"direct\" }".to_owned()),
        (
            "switched",
            custom("[\"a\"]", "[[\"host\", \"a\"], [\"a\", \"mem\"]]"),
        ),
        (
            "two levels",
            custom(
                "[\"a\", \"b\"]",
                "[[\"host\", \"a\"], [\"a\", \"b\"], [\"b\", \"mem\"]]",
            ),
        ),
    ];
    // The last number bounds the error of the slowdown, in per cent.
    let programs = [
        ("pointer chase", "chase 128 4000000", "cxl", 10.0),
        ("random reads", "random 128 16000000", "cxl", 10.0),
        ("stream", "stream 128 8", "cxl", 20.0),
        ("two pools, 1 : 3", "two 64 4000000 1 3", "half", 20.0),
    ];
    let own = "slowdown_error_percent";
    let sides: [(&str, &[(&str, &str)]); 3] = [
        ("exact", &[("exact", own)]),
        ("sampled", &[("sampled", own)]),
        (
            "run",
            &[
                ("run_modelled", own),
                ("run", "same_local_error_percent"),
                ("run", own),
            ],
        ),
    ];
    let mut beyond: Vec<String> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for (name, topology) in fabrics {
        for (program, words, placement, bound) in programs {
            let command = bench.load(words);
            let placement = match (name, placement) {
                ("local", _) => "local-first:1TiB".to_owned(),
                // All memory but the second array is the host's own.
                (_, "half") => Two::start(&command).all_but_second(),
                (_, all) => all.to_owned(),
            };
            let options = ["--verify", "--set", &topology, "--placement", &placement];
            bench.attach(&options, &command);
            let report = bench.report();
            let found =
                |side: &str, what: &str| number(&report, &format!("/verified/{side}/{what}"));
            let mut row = format!(
                "| {name} | {program} | {:.3} | {:.4}",
                found("engine", "delay_ns") / 1e6,
                found("engine", "slowdown")
            );
            for (side, slowdowns) in &sides {
                for (of, slowdown) in *slowdowns {
                    let error = found(of, slowdown);
                    if error.is_nan() || error.abs() > bound {
                        beyond.push(format!("{name}, {program}, {of}/{slowdown}: {error:+.1}"));
                    }
                    row += &format!(" | {error:+.1} %");
                }
                row += &format!(" | {:+.1} %", found(side, "error_percent"));
            }
            println!("{row} |");
            notes.extend(notes_of(&report).map(|note| format!("{name}, {program}: {note}")));
        }
    }
    println!("\nSlowdowns beyond 10 % (chase, random reads) or 20 % (stream, two pools):");
    match beyond.is_empty() {
        true => println!("none."),
        false => beyond.iter().for_each(|row| println!("- {row}")),
    }
    println!();
    notes.iter().for_each(|note| println!("- {note}"));
    println!();
}

/// A program of `load.rs`, and one that does the same work in one thread if it has more.
struct Kind {
    name: &'static str,
    words: &'static str,
    alone: Option<&'static str>,
    /// How often the program does that.
    times: f64,
    /// Whether the second array alone is in CXL memory.
    half: bool,
    /// Further options of the command.
    options: &'static [&'static str],
}

const fn kind(name: &'static str, words: &'static str) -> Kind {
    Kind {
        name,
        words,
        alone: None,
        times: 1.0,
        half: false,
        options: &[],
    }
}

/// Programs of many kinds, behind one switch: slowdown by the event engine on the exact execution, and by
/// native runs, over the model's time.
#[expect(clippy::too_many_lines, reason = "one program after the other")]
fn programs(bench: &Bench) {
    const BOUND: f64 = 25.0;
    let kinds = [
        kind("a line of each of 16,384 pages", "scattered 64 10000000"),
        kind("the same in a fixed order", "sparse 64 10000000"),
        Kind {
            // A cache whose sets are known, which that of this machine is not.
            options: &["--llc", "8MiB"],
            // Further steps are like these, and fewer take less time than a few windows.
            alone: Some("conflicts 512 256 10000000"),
            times: 4.0,
            ..kind(
                "lines of the same sets of a cache",
                "conflicts 512 256 40000000",
            )
        },
        kind("random reads in large pages", "huge 64 15000000"),
        kind("phases: walk, computing, stream", "phases 64 20 300000"),
        kind("binary searches in 64 MiB", "search 64 1200000"),
        Kind {
            // Further look-ups are like these.
            alone: Some("table 32 8000000"),
            times: 5.0,
            ..kind("hash table, uneven keys", "table 32 40000000")
        },
        Kind {
            alone: Some("sort 32"),
            times: 12.0,
            ..kind("sorting 32 MiB, 12 times", "sort 32 12")
        },
        kind("matrix product, 360 x 360", "matrix 360"),
        kind("sums over a graph of a million", "graph 1000000 6"),
        kind("five-point stencil", "stencil 32 15"),
        Kind {
            // Further rounds are like these.
            alone: Some("text 16 3"),
            times: 2.0,
            ..kind("counting words, six times", "text 16 6")
        },
        kind("chase in code made at run time", "code 64 3000000"),
        Kind {
            alone: Some("chase 64 4000000"),
            ..kind("four forks, one after the other", "forks 4 64 1000000")
        },
        Kind {
            alone: Some("two 64 6000000 3000000 3000000"),
            half: true,
            ..kind("two threads, two pools", "threads 64 3000000")
        },
    ];
    println!("### Programs of many kinds\n");
    println!(
        "| program | slowdown by the engine | by the runs | error | delay, ms, by the engine | by the runs | \
         lines, millions, by the engine | by the runs |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let topology = "fabric.topology={ kind = \"custom\", switches = [\"a\"], links = [[\"host\", \"a\"], \
                    [\"a\", \"mem\"]] }";
    let (mut beyond, mut notes) = (Vec::new(), Vec::new());
    for kind in kinds {
        let command = bench.load(kind.words);
        let place = |words: &str| match kind.half {
            true => Two::start(&bench.load(words)).all_but_second(),
            false => "cxl".to_owned(),
        };
        let alone = kind.alone.unwrap_or(kind.words);
        let on = ["--set", topology, "--placement"];
        let placement = place(alone);
        let options = [&on[..], &[&placement], kind.options, &["--verify"]].concat();
        bench.attach(&options, &bench.load(alone));
        let report = bench.report();
        let of = |what: &str| number(&report, &format!("/verified/engine/{what}"));
        let (delay, slowdown) = (kind.times * of("delay_ns"), of("slowdown"));
        let engine_lines = kind.times * (of("misses") + of("prefetches"));
        let placement = place(kind.words);
        let options = [&on[..], &[&placement], kind.options].concat();
        let runs: Vec<[f64; 3]> = (0..RUNS)
            .map(|_| {
                bench.attach(&options, &command);
                let report = bench.report();
                let asked_s = number(&report, "/delay/asked_ns") / 1e9;
                let pools = report["pools"].as_array().cloned().unwrap_or_default();
                let lines: f64 = pools.iter().map(|pool| number(pool, "/misses")).sum();
                let slowdown = 1.0 + asked_s / number(&report, "/modelled_s");
                [slowdown, asked_s * 1e3, lines]
            })
            .collect();
        let list = |of: &dyn Fn(&[f64; 3]) -> String| {
            let all: Vec<String> = runs.iter().map(of).collect();
            all.join(", ")
        };
        let error = |[run, ..]: &[f64; 3]| 100.0 * (run / slowdown - 1.0);
        println!(
            "| {} | {slowdown:.3} | {} | {} % | {:.0} | {} | {:.1} | {} |",
            kind.name,
            list(&|[run, ..]| format!("{run:.3}")),
            list(&|run| format!("{:+.1}", error(run))),
            delay / 1e6,
            list(&|[_, delay, _]| format!("{delay:.0}")),
            engine_lines / 1e6,
            list(&|[.., lines]| format!("{:.1}", lines / 1e6)),
        );
        if !runs.iter().all(|run| error(run).abs() <= BOUND) {
            beyond.push(kind.name);
        }
        notes.extend(notes_of(&report).map(|note| format!("{}: {note}", kind.name)));
    }
    println!(
        "\nBeyond {BOUND} %: {}.\n",
        match beyond.is_empty() {
            true => "none".to_owned(),
            false => beyond.join("; "),
        }
    );
    notes.iter().for_each(|note| println!("- {note}"));
    println!();
}

/// A table that can be printed: its name, and the function that prints it.
type Table = (&'static str, fn(&Bench));

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [own, cxlab, scenario, parts @ ..] = &words[..] else {
        panic!("table CXLAB SCENARIO [slowdown|added|shares|verified|programs ...]");
    };
    let folder = std::env::temp_dir().join(format!("cxlab-table-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    files(&folder)?;
    let mut bench = Bench {
        cxlab: cxlab.into(),
        scenario: scenario.into(),
        load: Path::new(own).with_file_name("load"),
        folder: folder.clone(),
        unloaded_ns: 0.0,
    };
    bench.attach(&[], &["true".to_owned()]);
    let report = bench.report();
    bench.unloaded_ns = number(&report, "/devices/0/unloaded_ns");
    println!(
        "{}, {} processors; local memory {:.0} ns, last level cache {} MiB, overlap {}\n",
        std::env::consts::ARCH,
        std::thread::available_parallelism().map_or(0, |count| count.get()),
        number(&report, "/local_latency_ns"),
        number(&report, "/llc_bytes") as u64 >> 20,
        report["overlap"]
    );
    let tables: [Table; 5] = [
        ("slowdown", slowdowns),
        ("added", added),
        ("shares", shares),
        ("verified", verified),
        ("programs", programs),
    ];
    for (name, print) in tables {
        if parts.is_empty() || parts.iter().any(|part| part == name) {
            print(&bench);
        }
    }
    std::fs::remove_dir_all(folder)
}
