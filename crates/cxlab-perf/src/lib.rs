//! Samples of Linux's perf events: where loads of a program found their data, and how long they took.
//!
//! The kernel writes the same records into a [ring](mod@ring) in memory and, by way of `perf record`, into a
//! [perf.data](mod@file) file. An [`Attr`] says which fields the samples of an event have, [`Record`] is a record,
//! and [`DataSource`] says what the processor knows of a load: PEBS on Intel's processors, IBS on AMD's, SPE on
//! Arm's. [`encode`] writes records, for tests and for executions that are known exactly.
//!
//! Files may come from anybody, so the readers check every length before they use it.
//!
//! Sources, of Linux 6.12: `include/uapi/linux/perf_event.h` and
//! `tools/perf/Documentation/perf.data-file-format.txt`.

mod attr;
mod bytes;
pub mod encode;
pub mod file;
mod record;
pub mod ring;
mod source;

pub use attr::{Attr, Format, Period, flag, kind, read_format};
pub use bytes::RecordError;
pub use record::{Calls, MemoryMapping, Mode, Record, Sample, Task, Weight};
pub use source::{DataSource, LoadOrigin, Operation};
