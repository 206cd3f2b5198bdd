//! What a command shows while it works, on a terminal's standard error, and what interrupts it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Counts the requests of a run, or of several.
pub(super) const REQUESTS: [&str; 2] = [
    "{elapsed_precise} {spinner} {pos} requests {per_sec} {msg}",
    "{elapsed_precise} [{bar:30}] {pos}/{len} requests {per_sec}, {eta} left {msg}",
];

/// A bar, which is hidden without a terminal and if `quiet`.
pub(super) fn bar(template: &str, length: Option<u64>, quiet: bool) -> ProgressBar {
    let target = match quiet || !std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr_with_hz(5),
    };
    let bar = ProgressBar::with_draw_target(length, target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Updates a bar until its work is done. Returns at once if the bar is hidden.
pub(super) fn follow(bar: &ProgressBar, done: &AtomicBool, mut update: impl FnMut(&ProgressBar)) {
    while !bar.is_hidden() && !done.load(Ordering::Relaxed) {
        update(bar);
        std::thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}

/// A bar that a thread updates.
pub(super) struct Progress {
    pub(super) bar: ProgressBar,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    pub(super) fn start(
        bar: ProgressBar,
        update: impl FnMut(&ProgressBar) + Send + 'static,
    ) -> Progress {
        let done = Arc::new(AtomicBool::new(false));
        let (stop, shown) = (Arc::clone(&done), bar.clone());
        let updates = move || follow(&shown, &stop, update);
        let thread = (!bar.is_hidden()).then(|| std::thread::spawn(updates));
        Progress { bar, done, thread }
    }

    pub(super) fn stop(self) {
        self.done.store(true, Ordering::Relaxed);
        // A progress bar that failed is no reason to fail the work.
        let _ = self.thread.map(JoinHandle::join);
    }
}

/// Sets the handler of the first interrupt. The second interrupt ends the command at once.
pub(super) fn on_interrupt(act: impl Fn() + Send + 'static) {
    let is_asked = AtomicBool::new(false);
    // Fails only if a handler is set already. An interrupt then ends the run at once.
    let _ = ctrlc::set_handler(move || {
        if is_asked.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        act();
    });
}
