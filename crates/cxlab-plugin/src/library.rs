//! A library in this process: its function table is checked, and its functions are wrapped so that
//! they are safe to call.

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::{ABI, Completion, PluginError, Request};

/// Size of the buffer for the library's error message, in bytes.
const ERROR_BYTES: usize = 512;
/// Longest name of a statistic, in characters.
const MAX_NAME: usize = 128;

type Create = unsafe extern "C" fn(*const c_char, u64, u64, *mut c_char, usize) -> *mut c_void;
type Destroy = unsafe extern "C" fn(*mut c_void);
type Granule = unsafe extern "C" fn(*mut c_void) -> u32;
type CanAccept = unsafe extern "C" fn(*mut c_void, u64, c_int) -> c_int;
type Enqueue = unsafe extern "C" fn(*mut c_void, u64, *const Request);
type NextEvent = unsafe extern "C" fn(*mut c_void) -> u64;
type Advance = unsafe extern "C" fn(*mut c_void, u64, *mut Completion, usize) -> usize;
type Statistic = unsafe extern "C" fn(*mut c_void, usize, *mut *const c_char, *mut f64) -> c_int;
type BeginMeasurement = unsafe extern "C" fn(*mut c_void, u64);

/// The function table of a library of version 1. Pointers that may be null are options.
#[repr(C)]
#[derive(Clone, Copy)]
struct TableV1 {
    abi: u32,
    bytes: u32,
    create: Option<Create>,
    destroy: Option<Destroy>,
    granule: Option<Granule>,
    can_accept: Option<CanAccept>,
    enqueue: Option<Enqueue>,
    next_event: Option<NextEvent>,
    advance: Option<Advance>,
    statistic: Option<Statistic>,
}

/// The function table of a library of this version, `struct cxlab_medium_table` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
struct Table {
    v1: TableV1,
    begin_measurement: Option<BeginMeasurement>,
}

/// The functions of a checked table: only `statistic` and `begin_measurement` may be missing.
#[derive(Clone, Copy)]
struct Functions {
    create: Create,
    destroy: Destroy,
    granule: Granule,
    can_accept: CanAccept,
    enqueue: Enqueue,
    next_event: NextEvent,
    advance: Advance,
    statistic: Option<Statistic>,
    begin_measurement: Option<BeginMeasurement>,
}

/// A loaded library with a checked function table.
#[derive(Clone)]
pub struct Library {
    functions: Functions,
    /// Keeps the library loaded.
    _library: Arc<libloading::Library>,
}

impl Library {
    /// Loads a library from a path and checks its table.
    ///
    /// # Errors
    /// Says what is wrong with the library.
    #[expect(unsafe_code, reason = "loading a library and reading its table")]
    pub fn open(path: &Path) -> Result<Library, PluginError> {
        let shown = path.display();
        let wrong = |why: String| PluginError::Library(format!("`{shown}`: {why}"));
        // SAFETY: the library's constructors run; the user chose the library.
        let library = unsafe { libloading::Library::new(path) };
        let library = library.map_err(|error| match error.source() {
            Some(why) => wrong(format!("{error}: {why}")),
            None => wrong(error.to_string()),
        })?;
        type Export = unsafe extern "C" fn() -> *const TableV1;
        // SAFETY: the symbol is only used as the function that the header declares.
        let export = unsafe { library.get::<Export>(c"cxlab_medium") };
        let export = export
            .map(|symbol| *symbol)
            .map_err(|_| wrong("found no function `cxlab_medium`".to_owned()))?;
        // SAFETY: the function takes nothing.
        let table = unsafe { export() };
        if table.is_null() || !table.is_aligned() {
            return Err(wrong("`cxlab_medium` returns no table".to_owned()));
        }
        // SAFETY: every version of the table begins with these two numbers.
        let (abi, bytes) = unsafe { ((*table).abi, (*table).bytes) };
        let [first, this] = [size_of::<TableV1>(), size_of::<Table>()];
        let (table, begin_measurement) = match (abi, bytes as usize) {
            // SAFETY: version and size say that the table is whole.
            (1, bytes) if bytes == first => (unsafe { *table }, None),
            (ABI, bytes) if bytes == this => {
                // SAFETY: as above; the table of this version begins with that of version 1, and
                // both have the same alignment.
                let table = unsafe { *table.cast::<Table>() };
                (table.v1, table.begin_measurement)
            }
            _ => {
                return Err(wrong(format!(
                    "found interface {abi} with a table of {bytes} bytes; allowed: 1 with {first} \
                     and {ABI} with {this}"
                )));
            }
        };
        let missing = |name: &str| wrong(format!("the table has no `{name}`"));
        let functions = Functions {
            create: table.create.ok_or_else(|| missing("create"))?,
            destroy: table.destroy.ok_or_else(|| missing("destroy"))?,
            granule: table.granule.ok_or_else(|| missing("granule"))?,
            can_accept: table.can_accept.ok_or_else(|| missing("can_accept"))?,
            enqueue: table.enqueue.ok_or_else(|| missing("enqueue"))?,
            next_event: table.next_event.ok_or_else(|| missing("next_event"))?,
            advance: table.advance.ok_or_else(|| missing("advance"))?,
            statistic: table.statistic,
            begin_measurement,
        };
        Ok(Library {
            functions,
            _library: Arc::new(library),
        })
    }

    /// Creates a medium of `capacity` bytes.
    ///
    /// # Errors
    /// What the library says about the configuration.
    #[expect(unsafe_code, reason = "a call into the library")]
    pub fn create(&self, config: &str, capacity: u64, seed: u64) -> Result<Medium, PluginError> {
        let text = CString::new(config)
            .map_err(|_| PluginError::Config("found a zero character".to_owned()))?;
        let mut error = [0u8; ERROR_BYTES];
        // SAFETY: the text ends with a zero, and the buffer has the length that is given.
        let medium = unsafe {
            (self.functions.create)(
                text.as_ptr(),
                capacity,
                seed,
                error.as_mut_ptr().cast(),
                error.len(),
            )
        };
        if let Some(medium) = NonNull::new(medium) {
            return Ok(Medium {
                medium,
                library: self.clone(),
            });
        }
        let end = error.iter().position(|byte| *byte == 0);
        let why = String::from_utf8_lossy(&error[..end.unwrap_or(error.len())]).into_owned();
        Err(PluginError::Config(if why.is_empty() {
            "the library refuses it without saying why".to_owned()
        } else {
            why
        }))
    }
}

/// A medium that a library has created in this process.
pub struct Medium {
    medium: NonNull<c_void>,
    library: Library,
}

// SAFETY: the header says that a medium may be called from any thread, by one at a time; a `Medium` is not
// `Sync`, so that there is one.
#[expect(unsafe_code, reason = "the header promises it")]
unsafe impl Send for Medium {}

#[expect(unsafe_code, reason = "calls into the library")]
impl Medium {
    /// Bytes that the medium reads and writes at a time.
    pub fn granule(&self) -> u32 {
        // SAFETY: the medium was created by this library and lives.
        unsafe { (self.library.functions.granule)(self.medium.as_ptr()) }
    }

    /// Whether the medium can accept one more request at time `now`.
    pub fn can_accept(&self, now: u64, write: bool) -> bool {
        let write = c_int::from(write);
        // SAFETY: as above.
        unsafe { (self.library.functions.can_accept)(self.medium.as_ptr(), now, write) != 0 }
    }

    /// Passes a request to the medium.
    pub fn enqueue(&self, now: u64, request: &Request) {
        // SAFETY: as above, and the request lives as long as the call.
        unsafe { (self.library.functions.enqueue)(self.medium.as_ptr(), now, request) }
    }

    /// The time of the medium's next event, or [`NEVER`].
    pub fn next_event(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (self.library.functions.next_event)(self.medium.as_ptr()) }
    }

    /// Advances the medium to time `now`, writes its completions to `done`, and returns how many the
    /// library claims to have written.
    pub fn advance(&self, now: u64, done: &mut [Completion]) -> usize {
        let (first, room) = (done.as_mut_ptr(), done.len());
        // SAFETY: as above, and the slice has room for as many as is said.
        unsafe { (self.library.functions.advance)(self.medium.as_ptr(), now, first, room) }
    }

    /// Starts the statistics anew at `now`, if the library can.
    pub fn begin_measurement(&self, now: u64) {
        if let Some(begin) = self.library.functions.begin_measurement {
            // SAFETY: as above.
            unsafe { begin(self.medium.as_ptr(), now) }
        }
    }

    /// The name and value of a statistic by number, from 0; `None` after the last.
    pub fn statistic(&self, number: usize) -> Option<(String, f64)> {
        let statistic = self.library.functions.statistic?;
        let (mut name, mut value) = (std::ptr::null(), 0.0);
        // SAFETY: as above, and both places live as long as the call.
        let there = unsafe { statistic(self.medium.as_ptr(), number, &mut name, &mut value) };
        if there == 0 || name.is_null() {
            return None;
        }
        // SAFETY: the header says that a name ends with a zero and stays until the next call.
        let name = unsafe { CStr::from_ptr(name) };
        let name = name.to_string_lossy().chars().take(MAX_NAME).collect();
        Some((name, value))
    }
}

impl Drop for Medium {
    #[expect(unsafe_code, reason = "a call into the library")]
    fn drop(&mut self) {
        // SAFETY: the medium was created by this library, lives, and is not used again.
        unsafe { (self.library.functions.destroy)(self.medium.as_ptr()) }
    }
}
