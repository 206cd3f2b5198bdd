//! Error codes with their texts, and the boundary that no panic crosses.

use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

use ::cxlab_system::session::SessionError;

use crate::abi::*;

/// Why a function fails.
pub(crate) struct Failure {
    pub(crate) code: i32,
    text: Text,
}

/// The text of an error. That of errors which a correct program meets all the time costs nothing.
enum Text {
    Fixed(&'static CStr),
    Owned(String),
    Session(SessionError),
}

impl Failure {
    pub(crate) fn new(code: i32, text: impl Into<String>) -> Failure {
        let text = Text::Owned(text.into());
        Failure { code, text }
    }

    pub(crate) const fn fixed(code: i32, text: &'static CStr) -> Failure {
        let text = Text::Fixed(text);
        Failure { code, text }
    }

    pub(crate) fn null(name: &str) -> Failure {
        Failure::new(
            CXLAB_ERROR_NULL,
            format!("{name}: found NULL; allowed: an address"),
        )
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Failure {
        let code = match &error {
            SessionError::Port { .. } => CXLAB_ERROR_PORT,
            SessionError::Time { .. } => CXLAB_ERROR_TIME,
            SessionError::Size(_) => CXLAB_ERROR_SIZE,
            SessionError::Address { .. } | SessionError::Bytes { .. } => CXLAB_ERROR_ADDRESS,
            SessionError::Full => CXLAB_ERROR_FULL,
            SessionError::Closed => CXLAB_ERROR_CLOSED,
            SessionError::WriteBack => CXLAB_ERROR_KIND,
            SessionError::Snoop { .. } => CXLAB_ERROR_SNOOP,
            SessionError::Endless(_) => CXLAB_ERROR_ENDLESS,
            SessionError::Fault(_) => CXLAB_ERROR_MEDIUM,
        };
        let text = match error {
            SessionError::Full => Text::Fixed(
                c"port: found no room for another request; allowed: after requests were issued",
            ),
            other => Text::Session(other),
        };
        Failure { code, text }
    }
}

thread_local! {
    /// The text of the last error in this thread.
    static LAST: RefCell<Cow<'static, CStr>> = const { RefCell::new(Cow::Borrowed(c"")) };
    /// Functions of the interface in which the thread is.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The message of the panic that was caught last.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The text of the last error in the calling thread, in UTF-8; empty if there was none. It stays until a
/// function fails in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn cxlab_last_error() -> *const c_char {
    LAST.with_borrow(|text| text.as_ptr())
}

fn set_last(text: Text) {
    let owned = |text: String| {
        let text: String = text.chars().filter(|c| *c != '\0').collect();
        Cow::Owned(CString::new(text).unwrap_or_default())
    };
    let text = match text {
        Text::Fixed(text) => Cow::Borrowed(text),
        Text::Owned(text) => owned(text),
        Text::Session(error) => owned(error.to_string()),
    };
    LAST.set(text);
}

/// Keeps the messages of our panics for the error text. Panics of other code go where they went before.
fn keep_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
            match DEPTH.get() {
                0 => before(panic),
                _ => PANIC.set(panic.to_string()),
            }
        }));
    });
}

pub(crate) fn internal(_payload: Box<dyn Any + Send>) -> Failure {
    let message = PANIC.take();
    Failure::new(
        CXLAB_ERROR_INTERNAL,
        format!("internal error, please report it with the scenario and the calls: {message}"),
    )
}

/// Calls a function at the boundary: returns its code, and keeps the text of its error.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), Failure>) -> i32 {
    keep_messages();
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(internal(panic)));
    DEPTH.set(DEPTH.get() - 1);
    match done {
        Ok(()) => CXLAB_OK,
        Err(failure) => {
            set_last(failure.text);
            failure.code
        }
    }
}
