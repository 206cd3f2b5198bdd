//! The medium's side, in the process that the medium runs in.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::library::{Library, Medium};
use crate::process::{read_text, tell};
use crate::ring::{CREATE, Call, Ring};
use crate::{Completion, PluginError, ROOM};

/// Serves one medium until the run has no further use for it, and returns the exit code.
/// `arguments` are those that follow the arguments of a [`Host`](crate::Host). Standard output is a
/// socket to the run, and standard input closes when the run ends.
pub fn serve(arguments: &[OsString]) -> u8 {
    match served(arguments) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("error: this is for cxlab itself, which runs media of plug-ins so: {why}");
            2
        }
    }
}

fn served(arguments: &[OsString]) -> Result<(), String> {
    let [library, memory, capacity, seed] = arguments else {
        return Err(format!("found {} arguments; allowed: 4", arguments.len()));
    };
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse().ok());
    let (Some(capacity), Some(seed)) = (number(capacity), number(seed)) else {
        return Err("found no numbers".to_owned());
    };
    let memory = PathBuf::from(memory);
    let ring = File::options().read(true).write(true).open(&memory);
    let ring = ring.and_then(|file| Ring::new(&file));
    let ring = ring.map_err(|error| format!("{}: {error}", memory.display()))?;
    // The run also removes the file, if it lives.
    let _ = std::fs::remove_file(&memory);
    let mut socket = take_socket().map_err(|error| error.to_string())?;
    std::thread::spawn(end_with_the_run);
    let config = read_text(&mut socket).map_err(|error| error.to_string())?;
    let medium = create(&ring, Path::new(library), (&config, capacity, seed));
    let made = medium.as_ref().map(Medium::granule);
    let told = tell(&mut socket, made);
    let (Ok(medium), Ok(())) = (medium, told) else {
        return Ok(());
    };
    // Answering fails when the run has ended.
    let _ = answer_all(&ring, medium, &mut socket);
    Ok(())
}

fn create(
    ring: &Ring,
    library: &Path,
    (config, capacity, seed): (&str, u64, u64),
) -> Result<Medium, PluginError> {
    let library = Library::open(library)?;
    ring.enter(CREATE);
    let medium = library.create(config, capacity, seed);
    ring.enter(0);
    medium
}

/// Takes the socket from standard output, which becomes a copy of standard error,
/// because libraries may print.
#[expect(unsafe_code, reason = "giving a descriptor its number")]
fn take_socket() -> io::Result<UnixStream> {
    let socket = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: both descriptors are open, and nothing has written to standard output.
    if unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(UnixStream::from(socket))
}

/// Whether the run has destroyed the medium.
static DONE: AtomicBool = AtomicBool::new(false);

/// Ends this process when the run has ended, even in the middle of a library function.
#[expect(unsafe_code, reason = "ending without the library's own last words")]
fn end_with_the_run() {
    let mut bytes = [0; 64];
    while !matches!(io::stdin().read(&mut bytes), Ok(0)) {}
    if !DONE.load(Ordering::SeqCst) {
        // SAFETY: it takes nothing and does not return.
        unsafe { libc::_exit(0) }
    }
}

fn answer_all(ring: &Ring, medium: Medium, socket: &mut UnixStream) -> io::Result<()> {
    let mut medium = Some(medium);
    loop {
        let sleep = || match socket.read(&mut [0; 64])? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            _ => Ok(()),
        };
        ring.wait(false, || ring.call().is_some(), sleep)?;
        let Some(Some(call)) = ring.call() else {
            return Err(io::Error::other("found what is no call"));
        };
        ring.enter(call.function());
        let last = call == Call::Destroy;
        if last {
            medium.take();
            DONE.store(true, Ordering::SeqCst);
        } else if let Some(medium) = &medium {
            answer(ring, medium, call);
        }
        ring.enter(0);
        ring.answered();
        if ring.must_wake(true) {
            socket.write_all(&[0])?;
        }
        if last {
            return Ok(());
        }
    }
}

fn answer(ring: &Ring, medium: &Medium, call: Call) {
    match call {
        Call::CanAccept { now, write } => ring.set_value(medium.can_accept(now, write).into()),
        Call::Enqueue { now, request } => medium.enqueue(now, &request),
        Call::NextEvent => ring.set_value(medium.next_event()),
        Call::Advance { now } => {
            let mut done = [Completion::default(); ROOM];
            let count = medium.advance(now, &mut done);
            ring.set_done(&done[..count.min(ROOM)]);
            ring.set_value(count as u64);
            if count < ROOM {
                ring.enter(Call::NextEvent.function());
                ring.set_next(medium.next_event());
            }
        }
        Call::BeginMeasurement { now } => medium.begin_measurement(now),
        Call::Statistic { number } => {
            let found = medium.statistic(usize::try_from(number).unwrap_or(usize::MAX));
            ring.set_value(found.is_some().into());
            if let Some((name, value)) = found {
                ring.set_name(&name);
                ring.set_next(value.to_bits());
            }
        }
        Call::Destroy => {}
    }
}
