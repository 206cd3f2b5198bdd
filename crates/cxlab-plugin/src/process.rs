//! The run's side of a medium that has a process of its own.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::ring::{self, Call, Ring};
use crate::{Completion, MediumFailure, PluginError, ROOM, Request};

/// A program that calls [`serve`](crate::serve) with the arguments that follow its own `arguments`.
#[derive(Clone, Debug)]
pub struct Host {
    /// The executable file.
    pub program: PathBuf,
    /// The arguments that make the program serve a medium.
    pub arguments: Vec<OsString>,
}

static HOST: OnceLock<Host> = OnceLock::new();

/// Sets the program that runs media. Only the first call in a process has an effect.
pub fn host(host: Host) {
    let _ = HOST.set(host);
}

/// How long a process may take to end after the medium was destroyed (*assumed*).
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long to wait for the exit status of a process whose socket has closed.
const ENDING: Duration = Duration::from_millis(500);

/// A medium in a process of its own.
pub(crate) struct Medium {
    ring: Ring,
    granule: u32,
    /// The time of the medium's next event, if it is known and no later call can have changed it.
    next: Cell<Option<u64>>,
    link: RefCell<Link>,
}

/// The process of a medium, and the socket to it.
struct Link {
    child: Child,
    /// Carries the settings and the result of creating the medium, and afterwards bytes that
    /// wake the other side.
    socket: UnixStream,
    /// The real time within which a call must return.
    patience: Duration,
    /// What happened to the process, if it has failed.
    broken: Option<MediumFailure>,
}

/// The first byte of the result of creating a medium.
const MADE: u8 = 0;
const BAD_LIBRARY: u8 = 1;
const BAD_CONFIG: u8 = 2;

/// Longest text that is accepted from the other side, in bytes.
const LONGEST: usize = 1 << 16;

/// Sends the result of creating a medium to the run. Called by the medium's process.
pub(crate) fn tell(socket: &mut UnixStream, made: Result<u32, &PluginError>) -> io::Result<()> {
    let (kind, text) = match made {
        Ok(granule) => (MADE, granule.to_string()),
        Err(PluginError::Library(why)) => (BAD_LIBRARY, why.clone()),
        Err(PluginError::Config(why)) => (BAD_CONFIG, why.clone()),
    };
    let text: String = text.chars().take(LONGEST / 4).collect();
    socket.write_all(&[kind])?;
    write_text(socket, &text)
}

pub(crate) fn write_text(socket: &mut UnixStream, text: &str) -> io::Result<()> {
    socket.write_all(&(text.len() as u32).to_le_bytes())?;
    socket.write_all(text.as_bytes())
}

pub(crate) fn read_text(socket: &mut UnixStream) -> io::Result<String> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::other(format!("found a text of {length} bytes")));
    }
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Medium {
    pub(crate) fn create(
        library: &Path,
        (config, capacity, seed): (&str, u64, u64),
        patience: Duration,
    ) -> Result<Medium, PluginError> {
        let wrong = |why: String| PluginError::Library(format!("`{}`: {why}", library.display()));
        let failed = |error: io::Error| wrong(format!("no process can be begun for it: {error}"));
        let Some(host) = HOST.get() else {
            return Err(wrong(
                "this program has named none that runs it (cxlab_plugin::host); allowed: `in_process = true`"
                    .to_owned(),
            ));
        };
        if config.len() > LONGEST {
            let message = format!("found {} bytes; allowed: at most {LONGEST}", config.len());
            return Err(PluginError::Config(message));
        }
        let memory = Path::new("/dev/shm");
        let mut builder = tempfile::Builder::new();
        builder.prefix("cxlab-plugin-");
        let file = match memory.is_dir() {
            true => builder.tempfile_in(memory),
            false => builder.tempfile(),
        };
        let file = file.map_err(failed)?;
        file.as_file().set_len(ring::BYTES).map_err(failed)?;
        let ring = Ring::new(file.as_file()).map_err(failed)?;
        let (mut socket, theirs) = UnixStream::pair().map_err(failed)?;
        let child = Command::new(&host.program)
            .args(&host.arguments)
            .arg(library)
            .arg(file.path())
            .arg(capacity.to_string())
            .arg(seed.to_string())
            // The child ends with this process, which closes the pipe.
            .stdin(Stdio::piped())
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            // Signals of the terminal are for the run only.
            .process_group(0)
            .spawn();
        let child = child.map_err(failed)?;
        socket.set_read_timeout(Some(patience)).map_err(failed)?;
        let told = write_text(&mut socket, config).and_then(|()| {
            let mut kind = [0];
            socket.read_exact(&mut kind)?;
            Ok((kind[0], read_text(&mut socket)?))
        });
        let mut link = Link {
            child,
            socket,
            patience,
            broken: None,
        };
        let granule = match told {
            Ok((MADE, granule)) => granule.parse().unwrap_or_default(),
            Ok((BAD_CONFIG, why)) => return Err(PluginError::Config(why)),
            Ok((_, why)) => return Err(PluginError::Library(why)),
            Err(error) => {
                let broken = link.end(ring.inside(), "while it was loaded", &error);
                return Err(wrong(broken.0));
            }
        };
        Ok(Medium {
            ring,
            granule,
            next: Cell::new(None),
            link: RefCell::new(link),
        })
    }

    pub(crate) fn granule(&self) -> u32 {
        self.granule
    }

    pub(crate) fn can_accept(&self, now: u64, write: bool) -> Result<bool, MediumFailure> {
        self.ask(Call::CanAccept { now, write })?;
        Ok(self.ring.value() != 0)
    }

    pub(crate) fn enqueue(&self, now: u64, request: &Request) -> Result<(), MediumFailure> {
        let request = *request;
        self.tell(Call::Enqueue { now, request })
    }

    pub(crate) fn next_event(&self) -> Result<u64, MediumFailure> {
        if let Some(next) = self.next.get() {
            return Ok(next);
        }
        self.ask(Call::NextEvent)?;
        let next = self.ring.value();
        self.next.set(Some(next));
        Ok(next)
    }

    pub(crate) fn advance(
        &self,
        now: u64,
        done: &mut [Completion; ROOM],
    ) -> Result<usize, MediumFailure> {
        self.ask(Call::Advance { now })?;
        let count = usize::try_from(self.ring.value()).unwrap_or(usize::MAX);
        self.ring.done(&mut done[..count.min(ROOM)]);
        self.next.set((count < ROOM).then(|| self.ring.next()));
        Ok(count)
    }

    pub(crate) fn begin_measurement(&self, now: u64) -> Result<(), MediumFailure> {
        self.tell(Call::BeginMeasurement { now })
    }

    pub(crate) fn statistic(&self, number: usize) -> Result<Option<(String, f64)>, MediumFailure> {
        let number = number as u64;
        self.ask(Call::Statistic { number })?;
        let there = self.ring.value() != 0;
        Ok(there.then(|| (self.ring.name(), f64::from_bits(self.ring.next()))))
    }

    /// Writes a call that has no answer and may change the time of the next event.
    fn tell(&self, call: Call) -> Result<(), MediumFailure> {
        self.next.set(None);
        self.write(call)
    }

    /// Writes a call and waits until it and all earlier calls are answered.
    fn ask(&self, call: Call) -> Result<(), MediumFailure> {
        self.write(call)?;
        self.wait()
    }

    fn write(&self, call: Call) -> Result<(), MediumFailure> {
        while !self.ring.write(call) {
            self.wait()?;
        }
        Ok(())
    }

    /// Waits until all calls are answered.
    fn wait(&self) -> Result<(), MediumFailure> {
        let mut link = self.link.borrow_mut();
        if let Some(broken) = &link.broken {
            return Err(broken.clone());
        }
        let ring = &self.ring;
        let waited = match ring.must_wake(false) {
            true => link.socket.write_all(&[0]),
            false => Ok(()),
        };
        let until = Instant::now() + link.patience;
        let waited =
            waited.and_then(|()| ring.wait(true, || ring.is_answered(), || link.sleep(until)));
        waited.map_err(|error| {
            let function = ring.inside();
            link.end(function, "between calls", &error)
        })
    }
}

impl Link {
    /// Sleeps until the process writes a byte, or until the time `until`.
    fn sleep(&mut self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        match self.socket.read(&mut [0; 64]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Kills a process that has failed, and keeps and returns the error. `function` is the function
    /// that the process was in; if empty, `outside` says when the process failed.
    fn end(&mut self, function: &str, outside: &str, error: &io::Error) -> MediumFailure {
        let slow = matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
        let ended = if slow { None } else { self.outcome(ENDING) };
        let what = match ended {
            Some(status) => describe(status),
            None if slow => format!("did not return within {:?}", self.patience),
            None => format!("has a process that does not answer ({error})"),
        };
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let broken = MediumFailure(match function {
            "" => format!("the library, {outside}, {what}"),
            _ => format!("`{function}` {what}"),
        });
        self.broken = Some(broken.clone());
        broken
    }

    /// The exit status of the process, if it ends within this time.
    fn outcome(&mut self, within: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + within;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                _ => return None,
            }
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended its process with exit code {code}"),
        (None, Some(signal)) => {
            let name = match signal {
                4 => " (SIGILL)",
                6 => " (SIGABRT)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                _ => "",
            };
            format!("was ended by signal {signal}{name}")
        }
        (None, None) => "ended its process".to_owned(),
    }
}

impl Drop for Medium {
    fn drop(&mut self) {
        let whole = self.link.borrow().broken.is_none();
        if whole && self.ask(Call::Destroy).is_err() {
            return;
        }
        let link = self.link.get_mut();
        drop(link.child.stdin.take());
        if whole && link.outcome(LAST_WORDS).is_none() {
            // The process hangs at its end, where that has no consequence.
            let _ = link.child.kill();
            let _ = link.child.wait();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // For a process whose medium was not created. The process of any other
        // medium has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
