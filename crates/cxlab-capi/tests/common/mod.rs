//! What the tests of the interface share.

#![allow(dead_code, reason = "each test uses a part")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null;

use cxlab_capi::cxlab_options;
use cxlab_engine::{Monitor, Threads};
use cxlab_host::RequestRow;
use cxlab_plan::load::Loaded;
use cxlab_plan::{Externals, Files, load};
use cxlab_system::report::Report;
use cxlab_system::run::{RunOptions, run};

/// Mean time between two requests in picoseconds: 3 GB/s, which the port can issue without delay.
pub const GAP_PS: u64 = 20_000;

/// The folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `scenarios/spine-leaf-16.toml` with the host `outside` in place of one of its hosts. The other hosts end after
/// `requests` requests, and the run ends when all have completed.
pub fn scenario(outside: &str, requests: u64) -> String {
    let path = root().join("scenarios/spine-leaf-16.toml");
    let text = std::fs::read_to_string(path).expect("a scenario");
    let changes = [
        ("[measure]\nrequests = 400_000\n", String::new()),
        (
            "name = \"host\"\ncount = 8\n",
            format!("name = \"host\"\ncount = 7\nrequests = {requests}\n"),
        ),
        (
            "[[devices]]",
            format!("[[hosts]]\nname = \"outside\"\n{outside}\n\n[[devices]]"),
        ),
    ];
    changes.iter().fold(text, |text, (old, new)| {
        assert!(text.contains(old), "{old}");
        text.replacen(old, new, 1)
    })
}

/// Options that say nothing but their size.
pub fn options() -> cxlab_options {
    cxlab_options {
        bytes: size_of::<cxlab_options>(),
        path: null(),
        text: null(),
        folder: null(),
        set: null(),
        set_count: 0,
        seed: null(),
        can_save: 0,
    }
}

/// The plan of a scenario's text.
pub fn plan(folder: &Path, text: &str) -> Loaded {
    let files = Files::of(folder);
    load::read("scenario.toml", text, &[])
        .and_then(|document| load::resolve(document, files, &Externals::new()))
        .unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)))
}

/// A run with a trace: the rows of the host `outside`, and the report.
pub struct Reference {
    /// Completed requests of the host, in the order of times.
    pub rows: Vec<RequestRow>,
    /// The report of the run.
    pub report: Report,
}

impl Reference {
    /// Runs a scenario.
    pub fn run(folder: &Path, text: &str) -> Reference {
        let loaded = plan(folder, text);
        let hosts = &loaded.plan.hosts;
        let outside = hosts.iter().position(|host| host.name == "outside");
        let outside = outside.expect("the host") as u16;
        let mut rows = Vec::new();
        let mut keep = |new: Vec<RequestRow>| {
            rows.extend(new.into_iter().filter(|row| row.requester == outside));
            Ok(())
        };
        let options = RunOptions {
            seed: loaded.plan.scenario.seed,
            threads: Threads::Exactly(1),
            monitor: &Monitor::default(),
            rows: Some(&mut keep),
        };
        let report = run(&loaded.plan, options).expect("a report");
        Reference { rows, report }
    }

    /// Bytes that the host `outside` reaches.
    pub fn span(requests: u64) -> u64 {
        let loaded = plan(Path::new(""), &scenario("kind = \"external\"", requests));
        let mut hosts = loaded.plan.hosts.iter();
        let outside = hosts.find(|host| host.name == "outside").expect("the host");
        outside.map.span().0
    }
}

/// The numbers of the generator in `examples/coupling`.
pub struct Generator(u64);

impl Default for Generator {
    fn default() -> Self {
        Generator(0x9e37_79b9_7f4a_7c15)
    }
}

impl Generator {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// How many requests have completed, and a hash (FNV-1a) of their ids and times in their order.
pub struct Sum {
    /// Number of requests that have completed.
    pub count: u64,
    /// FNV-1a of id, time of issue and time of completion of each.
    pub hash: u64,
}

impl Default for Sum {
    fn default() -> Self {
        Sum {
            count: 0,
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }
}

impl Sum {
    /// Adds id and times of a request.
    pub fn add(&mut self, numbers: [u64; 3]) {
        self.count += 1;
        for byte in numbers.into_iter().flat_map(u64::to_le_bytes) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// A folder below `folder` with the shared library under the names of an installation.
pub fn library_folder(folder: &Path) -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let built = test.with_file_name("libcxlab_capi.so");
    assert!(built.is_file(), "{} was not built", built.display());
    let place = folder.join("lib");
    std::fs::create_dir(&place).expect("a folder");
    for name in ["libcxlab.so", "libcxlab.so.1"] {
        std::os::unix::fs::symlink(&built, place.join(name)).expect("a link");
    }
    place
}

/// Compiles a source with flags, and links it with the library in [`library_folder`]'s folder.
pub fn compile(compiler: &str, flags: &[&str], source: &Path, library: &Path, program: &Path) {
    let mut command = Command::new(compiler);
    command
        .args(flags)
        .arg("-I")
        .arg(root().join("include"))
        .arg(source)
        .arg("-L")
        .arg(library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .args(["-lcxlab", "-o"])
        .arg(program);
    output(&mut command);
}

/// What a program prints.
pub fn output(command: &mut Command) -> String {
    let done = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        done.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8(done.stdout).expect("UTF-8")
}

/// What the programs in `examples/coupling` print, of a run with a trace of the same requests.
pub fn run_with_trace(folder: &Path, requests: u64) -> String {
    let mut csv = String::from("address,op,time_ps\n");
    let mut generator = Generator::default();
    let lines = Reference::span(requests) / 64;
    let mut time = 0;
    for _ in 0..requests {
        let address = generator.next() % lines * 64;
        let op = if generator.next() % 4 == 0 { "W" } else { "R" };
        writeln!(csv, "{address},{op},{time}").expect("a text");
        time += 1 + generator.next() % (2 * GAP_PS);
    }
    std::fs::write(folder.join("requests.csv"), csv).expect("a trace");
    let workload = "workload = { kind = \"trace\", path = \"requests.csv\", timing = \"timestamps\", \
                    addresses = \"exact\" }";
    let reference = Reference::run(folder, &scenario(workload, requests));
    let mut sum = Sum::default();
    for row in &reference.rows {
        sum.add([row.id, row.issued_ps, row.completed_ps]);
    }
    let Sum { count, hash } = sum;
    format!(
        "completed {count} hash {hash:016x} digest {}\n",
        reference.report.provenance.digest
    )
}
