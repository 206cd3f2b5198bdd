//! Programs that run on, whatever becomes of cxlab and of its guard.

use super::*;

struct Running {
    cxlab: Child,
    program: u32,
    folder: Folder,
}

impl Running {
    /// A program without end under memory that is so slow that it is nearly always held.
    fn start(name: &str) -> Option<Running> {
        let folder = Folder::new(name);
        let mut command = attach(&folder, 20_000, &["--quiet", "--"]);
        role(command.args(words()), "forever");
        let mut cxlab = command.spawn().unwrap();
        let stdout = BufReader::new(cxlab.stdout.take().unwrap());
        let found = stdout
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("pid ")?.parse().ok());
        let Some(program) = found else {
            let output = Output::of(name, &cxlab.wait_with_output().unwrap());
            let why = &output.stderr;
            assert!(refused(&output), "the program never began: {why}");
            return None;
        };
        Some(Running {
            cxlab,
            program,
            folder,
        })
    }

    /// Of each of its threads.
    fn fields(&self, name: &str) -> Vec<String> {
        fields(self.program, name)
    }

    /// Waits until nobody traces the program, and sees it run.
    fn assert_runs_on(&self) {
        let free = within(|| self.fields("TracerPid").iter().all(|tracer| tracer == "0"));
        assert!(free, "the program is still traced");
        let states = self.fields("State");
        let wrong = |state: &String| state.starts_with(['T', 't', 'Z', 'X']);
        let is_right = !states.is_empty() && !states.iter().any(wrong);
        assert!(is_right, "{states:?}");
        let before = cpu(self.program);
        assert!(within(|| cpu(self.program) > before + 2), "it stands still");
    }

    fn guard(&self) -> u32 {
        self.fields("TracerPid")[0].parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        signal(self.program, "-KILL");
        let _ = self.cxlab.kill();
        let _ = self.cxlab.wait();
    }
}

/// A field of the status of each thread.
fn fields(pid: u32, name: &str) -> Vec<String> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let of = |folder: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(folder.ok()?.path().join("status")).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    threads.filter_map(of).collect()
}

/// Ticks of CPU time.
fn cpu(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = text.rsplit(')').next().unwrap_or("").to_owned();
    let word = rest.split_ascii_whitespace().nth(11);
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn within(mut done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(30) {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").arg(name).arg(pid.to_string()).status();
}

#[test]
fn killing_cxlab_at_any_moment_leaves_the_program_running_and_unheld() {
    for moment in 0..5 {
        let Some(mut running) = Running::start(&format!("attach-orphan-{moment}")) else {
            return;
        };
        std::thread::sleep(Duration::from_millis(300 + 67 * moment));
        running.cxlab.kill().unwrap();
        running.cxlab.wait().unwrap();
        running.assert_runs_on();
    }
}

#[test]
fn killing_the_guard_leaves_nothing_stopped() {
    let Some(mut running) = Running::start("attach-guard") else {
        return;
    };
    // Nearly always it holds the program, which the kernel then lets go.
    let stopped = |state: &String| state.starts_with('t');
    let stops = || running.fields("State").iter().any(stopped);
    // Longer than a window takes, so it is held. Behind a step it would trap (docs/explain/attach.md).
    let held = within(|| {
        (0..10).all(|_| {
            std::thread::sleep(Duration::from_millis(10));
            stops()
        })
    });
    assert!(held, "the program is never held");
    signal(running.guard(), "-KILL");
    running.assert_runs_on();
    assert_eq!(running.cxlab.wait().unwrap().code(), Some(1));
}

#[test]
fn killing_the_program_ends_cxlab_with_a_report() {
    let Some(mut running) = Running::start("attach-killed") else {
        return;
    };
    std::thread::sleep(Duration::from_millis(500));
    signal(running.program, "-KILL");
    let status = running.cxlab.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9)
    );
    let report = report(&running.folder);
    assert_eq!(report["end"]["killed"], 9);
    assert!(number(&report, "/delay/asked_ns") > 0.0);
}

#[test]
fn a_running_process_is_attached_to_and_let_go() {
    let folder = Folder::new("attach-pid");
    let words = words();
    let mut command = Command::new(&words[0]);
    role(command.args(&words[1..]), "forever");
    let mut program = command.stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let pid = program.id().to_string();
    let cxlab = attach(&folder, 2000, &["--quiet", "--pid", &pid])
        .spawn()
        .unwrap();
    let is_traced = |tracer: &String| tracer != "0";
    let traced = within(|| fields(program.id(), "TracerPid").iter().any(is_traced));
    std::thread::sleep(Duration::from_millis(1500));
    signal(cxlab.id(), "-INT");
    let output = cxlab.wait_with_output().unwrap();
    let states = fields(program.id(), "State");
    let tracers = fields(program.id(), "TracerPid");
    let before = cpu(program.id());
    let runs = within(|| cpu(program.id()) > before + 2);
    program.kill().unwrap();
    program.wait().unwrap();
    let output = Output::of("attach --pid", &output);
    if !traced && refused(&output) {
        return;
    }
    output.ends(0);
    let is_held = |state: &String| state.starts_with(['T', 't']);
    assert!(!states.iter().any(is_held), "{states:?}");
    assert!(!tracers.iter().any(is_traced), "{tracers:?}");
    assert!(runs, "it stands still");
    let report = report(&folder);
    assert_eq!(report["end"], "detached");
    assert!(number(&report, "/delay/charged_ns") > 0.0, "{report:#}");
}
