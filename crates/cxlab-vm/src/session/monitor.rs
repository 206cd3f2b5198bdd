//! QEMU's monitor (QMP, lines of JSON): saves a guest that waits, and restores it.
//!
//! The guest's memory is stored in files (`qemu::Keep`), so only the state of its devices is transferred, about a
//! megabyte. The capability "x-ignore-shared" leaves memory in shared files out.

use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::SessionError;
use crate::sys::inherited;

/// Time between two status queries.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longest time for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// This process's end of the monitor connection, and the end that QEMU inherits.
pub(super) struct Line {
    ours: UnixStream,
    theirs: UnixStream,
}

impl Line {
    pub(super) fn new() -> Result<Line, SessionError> {
        let (ours, theirs) = UnixStream::pair()?;
        inherited(&theirs)?;
        Ok(Line { ours, theirs })
    }

    /// Number of the descriptor in QEMU.
    pub(super) fn number(&self) -> i32 {
        self.theirs.as_raw_fd()
    }

    /// Opens the monitor, once QEMU has started.
    pub(super) fn open(self) -> Result<Monitor, SessionError> {
        // Only QEMU may have its end open, so that its exit closes the connection.
        drop(self.theirs);
        self.ours.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        let reader = BufReader::new(self.ours.try_clone()?);
        let mut monitor = Monitor {
            writer: self.ours,
            reader,
            major: 0,
        };
        let greeting = monitor.read()?;
        let major = &greeting["QMP"]["version"]["qemu"]["major"];
        monitor.major = major.as_u64().unwrap_or_default();
        monitor.ask("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }
}

pub(super) struct Monitor {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
    /// Major version of QEMU.
    major: u64,
}

impl Monitor {
    fn read(&mut self) -> Result<Value, SessionError> {
        let mut line = String::new();
        let count = self.reader.read_line(&mut line);
        match count {
            Ok(0) => Err(wrong("it closed its monitor".to_owned())),
            Ok(_) => serde_json::from_str(&line)
                .map_err(|error| wrong(format!("its monitor said {line:?}: {error}"))),
            Err(error) => Err(wrong(format!("its monitor: {error}"))),
        }
    }

    /// Executes a command and returns its response.
    fn ask(&mut self, command: &str, arguments: Value) -> Result<Value, SessionError> {
        let question = json!({ "execute": command, "arguments": arguments });
        writeln!(self.writer, "{question}").map_err(|error| wrong(error.to_string()))?;
        loop {
            let answer = self.read()?;
            if let Some(error) = answer.get("error") {
                let text = error["desc"].as_str().unwrap_or("no reason");
                return Err(wrong(format!("{command}: {text}")));
            }
            if let Some(value) = answer.get("return") {
                return Ok(value.clone());
            }
        }
    }

    fn leave_memory_out(&mut self) -> Result<(), SessionError> {
        let capability = json!({ "capability": "x-ignore-shared", "state": true });
        self.ask(
            "migrate-set-capabilities",
            json!({ "capabilities": [capability] }),
        )?;
        Ok(())
    }

    /// Stops the guest and writes the state of its devices to a file.
    pub(super) fn save(&mut self, to: &Path) -> Result<(), SessionError> {
        self.ask("stop", json!({}))?;
        self.leave_memory_out()?;
        // A socket at a short path, because those longer than 107 bytes do not work, in a folder that
        // other users cannot enter.
        let mut folder = tempfile::Builder::new();
        let folder = folder.permissions(Permissions::from_mode(0o700));
        let folder = folder.prefix("cxlab-").tempdir()?;
        let path = folder.path().join("state");
        let listener = UnixListener::bind(&path)?;
        let mut file = File::create(to)?;
        let uri = format!("unix:{}", path.display());
        thread::scope(|scope| {
            let copied = scope.spawn(|| {
                let (mut stream, _) = listener.accept()?;
                stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
                io::copy(&mut stream, &mut file)?;
                file.sync_all()
            });
            let asked = self.ask("migrate", json!({ "uri": uri }));
            if asked.is_err() {
                // QEMU will not connect, so this connection ends the thread's wait.
                drop(UnixStream::connect(&path));
            }
            let saved = asked.and_then(|_| self.migrated());
            let copied = copied
                .join()
                .map_err(|_| wrong("its state could not be copied".to_owned()))?;
            saved?;
            Ok(copied?)
        })
    }

    fn migrated(&mut self) -> Result<(), SessionError> {
        self.until("query-migrate", |answer| match answer["status"].as_str() {
            Some("completed") => Some(Ok(())),
            Some("failed" | "cancelled") => Some(Err(wrong(format!(
                "the guest cannot be saved: {}",
                answer["error-desc"].as_str().unwrap_or("no reason")
            )))),
            _ => None,
        })
    }

    /// Reads the state of the devices from a file, and resumes the guest.
    pub(super) fn restore(&mut self, state: &File) -> Result<(), SessionError> {
        self.leave_memory_out()?;
        // Version 10 warns of `fd:`, and 7.2 does not know `file:`. The path is that of the
        // descriptor, because the snapshot may be removed meanwhile.
        let number = state.as_raw_fd();
        let uri = match self.major {
            ..=7 => format!("fd:{number}"),
            _ => format!("file:/proc/self/fd/{number}"),
        };
        self.ask("migrate-incoming", json!({ "uri": uri }))?;
        self.until("query-status", |answer| match answer["status"].as_str() {
            Some("inmigrate") | None => None,
            Some(_) => Some(Ok(())),
        })?;
        self.ask("cont", json!({}))?;
        Ok(())
    }

    fn until(
        &mut self,
        question: &str,
        done: impl Fn(&Value) -> Option<Result<(), SessionError>>,
    ) -> Result<(), SessionError> {
        let began = Instant::now();
        loop {
            if let Some(result) = done(&self.ask(question, json!({}))?) {
                return result;
            }
            if began.elapsed() > RESPONSE_TIMEOUT {
                return Err(wrong(format!("{question}: no end of it")));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

fn wrong(text: String) -> SessionError {
    SessionError::Qemu(text)
}
