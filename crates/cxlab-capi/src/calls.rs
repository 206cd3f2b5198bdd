//! Arguments: texts and places of results behind the program's pointers.

use std::ffi::{CStr, c_char};

use crate::abi::*;
use crate::status::Failure;

/// The place of a result.
///
/// # Safety
/// The pointer is NULL, or the address of a value that nothing else uses during the call.
pub(crate) unsafe fn out<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: as the caller says.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::null(name))
}

/// A text of the program.
///
/// # Safety
/// The pointer is NULL, or the address of bytes that end with a zero and stay during the call.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: as the caller says.
    let bytes = unsafe { CStr::from_ptr(pointer) };
    bytes.to_str().map_err(|error| {
        let good = error.valid_up_to();
        let message =
            format!("{name}: found bytes that are no UTF-8 after {good} bytes; allowed: UTF-8");
        Failure::new(CXLAB_ERROR_TEXT, message)
    })
}

/// Copies a text and a zero to a buffer of the program, and writes the length of the text.
///
/// # Safety
/// `buffer` has `capacity` bytes; `length` is NULL or the address of a value.
pub(crate) unsafe fn copy_text(
    text: &str,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Result<(), Failure> {
    if buffer.is_null() && capacity > 0 {
        return Err(Failure::null("buffer"));
    }
    // SAFETY: as the caller says.
    if let Some(length) = unsafe { length.as_mut() } {
        *length = text.len();
    }
    if capacity <= text.len() {
        let least = text.len() + 1;
        let message = format!("capacity: found {capacity}; allowed: {least} and more");
        return Err(Failure::new(CXLAB_ERROR_SPACE, message));
    }
    // SAFETY: the buffer has room for the text and a zero.
    unsafe {
        buffer.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        buffer.add(text.len()).write(0);
    }
    Ok(())
}
