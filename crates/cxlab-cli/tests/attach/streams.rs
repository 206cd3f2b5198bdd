//! A program under `cxlab attach` is what it is without: the same bytes on its streams, the same exit
//! code or signal, and the same signals, terminal, descriptors and limits.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use super::*;

/// How long a script may take before it counts as stuck. No result depends on it otherwise.
const STUCK: Duration = Duration::from_secs(90);

/// A name, the shell that runs a script, and the script.
type Case = (&'static str, &'static str, String);

/// Rows: name | shell | script. `RUN` stands before each program that is attached to. The script has a folder of its
/// own with the file `data`.
const CASES: &str = r##"
# Streams.
gzip -t | sh | RUN gzip -c data | gzip -t; echo $?
gzip | sh | RUN gzip -nc data
xz | sh | RUN xz -c data | RUN xz -dc | cmp - data; echo $?
bzip2 | sh | RUN bzip2 -c data | bzip2 -dc | cmp - data; echo $?
standard input | sh | RUN cat < data
both streams | sh | RUN sh -c 'echo out; echo err >&2; exit 3' 2> err; echo $?; cat err
one file for both | sh | RUN sh -c 'echo out; echo err >&2' > both 2>&1; cat both
appended | sh | echo 1 > log; RUN echo 2 >> log; cat log
sort and head | sh | RUN sort -r data | head -n 3
awk and sed | sh | RUN awk '{ print $1 }' data | RUN sed -n 5p
sqlite3 | sh | echo 'select 6 * 7;' | RUN sqlite3 :memory:
perl | sh | RUN perl -ne 'print if /7/' data | cksum
here document | sh | RUN cat << END
  a line
  END
substitution | bash | echo "[$(RUN printf '%s|' a 'b c' '' '*')]"; RUN cat <(echo it)
xargs | sh | printf '1\n2\n' | xargs -n 1 RUN echo
no end is held | sh | mkfifo f; RUN sh -c 'echo a; exec >&-; read x < f' | { cat; echo end; echo > f; }
left behind | sh | RUN sh -c 'sleep 60 > /dev/null 2>&1 & echo $! > pid'; echo $?; kill $(cat pid); echo $?
# Descriptors.
processors | sh | RUN sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; grep ^Cpus_allowed: /proc/self/status'
closed input | sh | RUN cat <&-; echo $?
closed output | sh | RUN /bin/echo hello >&-; echo $?
closed errors | sh | RUN sh -c 'echo x >&2; echo $?' 2>&-
all closed | sh | RUN sh -c 'exit 5' <&- >&- 2>&-; echo $?
descriptors | sh | RUN ls /proc/self/fd 7< data
a descriptor | sh | RUN sh -c 'read x <&7; echo $x' 7< data
# Exit codes and signals.
exit code | sh | exec RUN sh -c 'exit 42'
false | sh | RUN true && ! RUN false && echo right
killed | sh | exec RUN sh -c 'kill -KILL $$'
terminated | sh | exec RUN sh -c 'kill -TERM $$'
segmentation fault | sh | ulimit -c 0; exec RUN perl -e 'kill SEGV, $$'
interrupted | bash | RUN sh -c 'kill -INT $$'; echo $?
broken pipe | bash | RUN yes | head -n 1; echo ${PIPESTATUS[0]}
ignored broken pipe | sh | trap '' PIPE; { RUN cat data data data data; echo $? >&2; } 2> err | head -c 1; cat err
dispositions | sh | trap '' INT USR2; RUN grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status
plain dispositions | sh | RUN grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status
no right to execute | sh | : > plain; RUN ./plain 2> /dev/null; echo $?
script without #! | sh | echo 'echo $0 $1; exit 8' > s; chmod +x s; RUN ./s x; echo $?
exec | sh | RUN sh -c 'exec sh -c "exit 12"'; echo $?
timeout | sh | timeout 1 RUN sleep 60; echo $?
handled signal | sh | mkfifo f; RUN sh -c 'trap "echo got; exit 9" USR1; echo > f; while :; do sleep 0.05; done' &
  read x < f; kill -USR1 $!; wait $!; echo $?
hang-up | sh | mkfifo f; RUN sh -c 'echo > f; exec sleep 60' & read x < f; kill -HUP $!; wait $!; echo $?
interrupt | bash | mkfifo f; set -m; w sh -c 'echo > f; exec sleep 60' & read x < f; kill -INT $!; ended $!
signal of a group | bash | mkfifo f; set -m;
  w perl -e '$SIG{USR1} = sub { $n++ }; open F, ">f"; print F 1; close F;
  for (1..20) { select undef, undef, undef, 0.05 } print "$n\n"' &
  read x < f; kill -USR1 -- -$!; ended $!
# Job control.
stops itself | bash | set -m; w sh -c 'kill -STOP $$; echo goes on; exit 6' & wait $!; echo $?;
  kill -CONT $!; ended $!
stops as at a terminal | bash | set -m; w sh -c 'kill -TSTP $$; echo goes on; exit 6' & wait $!; echo $?;
  kill -CONT -- -$!; ended $!
is told to stop | bash | set -m; mkfifo f g; w sh -c 'echo > f; read x < g; echo $x' & read x < f;
  kill -TSTP $!; wait $!; echo $?; kill -CONT $!; echo it > g; ended $!
is stopped | bash | set -m; mkfifo f; w sh -c 'trap "echo went on; exit 3" CONT; echo $$ > f; while :; do sleep 0.05; done' &
  read pid < f; kill -STOP $!; until grep -q '^State:.[Tt]' /proc/$pid/status; do sleep 0.05; done; echo stopped;
  kill -CONT $!; ended $!
a terminal | sh | script -qec "RUN sh -c 'test -t 0 && test -t 1 && test -t 2 && echo yes; exit 4'" /dev/null; echo $?
key of a terminal | sh | mkfifo f g; { read x < f; printf '\003'; read x < g; } |
  script -qec "RUN sh -c 'trap \"echo key > log; echo > g; exit 5\" INT; echo > f; while :; do sleep 0.05; done'" \
  /dev/null > /dev/null; echo $?; cat log
no terminal | sh | setsid -w RUN sh -c 'test -t 0 || echo none; : < /dev/tty || echo none' 2> /dev/null
# Surroundings.
folder | sh | mkdir in; cd in; RUN sh -c 'pwd; ls -a'; ls -a
environment | sh | LD_PRELOAD= A='b c' RUN env | sort
limits | sh | umask 027; ulimit -n 77; ulimit -c 0; ulimit -s 4096; RUN sh -c 'umask; ulimit -a'
nice | sh | nice -n 5 RUN nice
processors | sh | taskset -c 0 RUN nproc
"##;

/// The rows of [`CASES`]. A line that begins with blanks continues the script above.
fn cases() -> Vec<Case> {
    let mut cases = Vec::<Case>::new();
    for line in CASES.lines() {
        match line.splitn(3, " | ").collect::<Vec<_>>()[..] {
            [name, shell, script] if !line.starts_with(' ') => {
                cases.push((name, shell, script.to_owned()));
            }
            _ if line.starts_with(' ') => {
                let (.., script) = cases.last_mut().unwrap();
                *script += &format!("\n{}", line.trim());
            }
            _ => assert!(line.is_empty() || line.starts_with('#'), "{line}"),
        }
    }
    cases
}

/// Jobs have the same name with and without, and end however often a shell says that they are stopped
/// (codes 147 and 148).
const JOBS: &str = "w() { exec RUN \"$@\"; }; \
    ended() { while wait $1; s=$?; [ $s = 147 ] || [ $s = 148 ]; do sleep 0.05; done; echo $s; }; ";

/// Programs that a system may be without.
const OPTIONAL: [&str; 10] = [
    "bash", "bzip2", "gzip", "perl", "script", "setsid", "sqlite3", "taskset", "timeout", "xz",
];

/// The program that a case needs and the system does not have.
fn missing((_, shell, script): &Case) -> Option<&'static str> {
    let mut words = script
        .split(|c: char| !c.is_ascii_alphanumeric())
        .chain([*shell]);
    words.find_map(|word| {
        let program = OPTIONAL.into_iter().find(|program| *program == word)?;
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .stdout(Stdio::null())
            .status();
        (!found.is_ok_and(|status| status.success())).then_some(program)
    })
}

/// Runs a script in a folder, with its words for `RUN`. `None` if it is stuck.
fn run(folder: &Path, (_, shell, script): &Case, words: &str) -> Option<(Vec<u8>, ExitStatus)> {
    std::fs::create_dir_all(folder).unwrap();
    let lines: String = (0..20_000)
        .map(|line| format!("{line} {}\n", line * 7919))
        .collect();
    std::fs::write(folder.join("data"), lines).unwrap();
    let script = format!("{JOBS}{script}").replace("RUN ", words);
    // A test that runs in the background of a shell inherits that SIGINT is ignored.
    let mut child = Command::new("env")
        .args(["--default-signal", shell, "-c", &script])
        .current_dir(folder)
        .env_remove("BASH_ENV")
        .env("XDG_CACHE_HOME", CACHE)
        .env("LC_ALL", "C")
        .env("PWD", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let errors = std::thread::spawn(move || {
        let mut said = Vec::new();
        err.read_to_end(&mut said).map(|_| said)
    });
    let output = std::thread::spawn(move || {
        let mut said = Vec::new();
        out.read_to_end(&mut said).map(|_| said)
    });
    let began = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if began.elapsed() > STUCK => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut said = output.join().unwrap().unwrap();
    said.extend(b"--- errors\n");
    // What a shell says of its jobs, at a time of its own.
    let errors = errors.join().unwrap().unwrap();
    let lines = errors.split_inclusive(|byte| *byte == b'\n');
    let of_jobs = |line: &&[u8]| line.starts_with(b"[1]") || *line == b"\n";
    said.extend(lines.filter(|line| !of_jobs(line)).flatten());
    Some((said, status))
}

#[test]
fn a_program_is_the_same_with_and_without() {
    let folder = Folder::new("attach-streams");
    let scenario = folder.file("one.toml", SCENARIO.as_bytes());
    let words = format!(
        "'{}' attach --report /dev/null '{}' -- ",
        env!("CARGO_BIN_EXE_cxlab"),
        scenario.display()
    );
    // This measures the machine, if no test has, for all programs.
    let first = ("first", "sh", "RUN true".to_owned());
    let Some((said, status)) = run(&folder.path("first"), &first, &words) else {
        panic!("stuck")
    };
    let output = Output {
        command: first.2.clone(),
        code: status.code(),
        stdout: String::new(),
        stderr: String::from_utf8_lossy(&said).into_owned(),
    };
    if refused(&output) {
        return;
    }
    output.ends(0);
    common::check_all(&cases(), |number, case| {
        if let Some(program) = missing(case) {
            println!("skipped: {}: {program} is not installed", case.0);
            return None;
        }
        let own = folder.path(&format!("{number}"));
        // The same folder for both, so that names in messages are the same.
        let plain = run(&own, case, "");
        std::fs::remove_dir_all(&own).unwrap();
        let attached = run(&own, case, &words);
        let shown = |ran: &Option<(Vec<u8>, ExitStatus)>| match ran {
            None => "stuck".to_owned(),
            Some((said, status)) => {
                let said: String = String::from_utf8_lossy(said).chars().take(600).collect();
                format!("{:?} {:?}\n{said}", status.code(), status.signal())
            }
        };
        (plain.is_none() || plain != attached).then(|| {
            let (name, alone, attached) = (case.0, shown(&plain), shown(&attached));
            format!("## {name}\n--- alone: {alone}\n--- attached: {attached}")
        })
    });
}

/// With `--report` nothing is added to standard error. A file is replaced; what a link leads to is appended to, and
/// the link stays.
#[test]
fn the_report_goes_to_a_file_or_through_a_link() {
    let folder = Folder::new("attach-report");
    let (file, link) = (folder.path("page"), folder.path("link"));
    std::fs::write(&file, "old\n").unwrap();
    std::os::unix::fs::symlink("page", &link).unwrap();
    for (path, begins) in [
        (&link, "old\n\none (attach): "),
        (&file, "\none (attach): "),
    ] {
        let mut command = attach(&folder, 100, &["--report"]);
        command.arg(path);
        command.args(["--", "sh", "-c", "echo out; echo err >&2"]);
        let Some(output) = ended(&mut command, 0) else {
            return;
        };
        assert_eq!(output.stdout, "out\n");
        assert_eq!(output.stderr, "err\n");
        let page = std::fs::read_to_string(&file).unwrap();
        assert!(page.starts_with(begins), "{page}");
    }
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    for (path, said) in [("no/such/folder/page", "--report"), (".", "found a folder")] {
        let run = folder.path("run");
        let mut command = attach(&folder, 100, &["--report", path, "--", "touch"]);
        finish(command.arg(&run)).ends(2).says(&[said]);
        assert!(!run.exists(), "{path}");
    }
}

/// A set-user-ID program has no rights of its owner while it is traced. The report says so.
#[test]
fn a_set_user_id_program_without_its_rights_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("attach-rights");
    let out = folder.path("out");
    std::fs::create_dir_all(&out).unwrap();
    let program = folder.path("its-own-id");
    std::fs::copy("/usr/bin/id", &program).unwrap();
    let all = [
        (out.parent().unwrap(), 0o777),
        (out.as_path(), 0o777),
        (program.as_path(), 0o4755),
    ];
    for (path, mode) in all {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut plain = Command::new(&program);
    let Some(mut alone) = as_nobody(plain.arg("-u")) else {
        return;
    };
    if finish(&mut alone).stdout != "0\n" {
        println!("skipped: the file system of this test gives no rights (nosuid)");
        return;
    }
    let attached = attach(&folder, 100, &["--", "sh", "-c", "./its-own-id -u"]);
    let mut attached = as_nobody(&attached).unwrap();
    let output = finish(attached.current_dir(folder.path("")).stdin(Stdio::null()));
    if refused(&output) {
        return;
    }
    assert_eq!(output.stdout, "65534\n", "{}", output.stderr);
    let report = report(&folder);
    let notes = report["notes"].to_string();
    let is_named = notes.contains("its-own-id is a set-user-ID");
    assert!(is_named && output.stderr.contains("set-user-ID"), "{notes}");
}
