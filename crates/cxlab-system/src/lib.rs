//! System, run and report of a plan, and their views.
//!
//! `Scenario -> Plan -> System -> Run -> Report`: each arrow is one function, each noun one type,
//! and nothing flows back. No modules import each other in a circle. Upper rows use lower ones:
//!
//! | modules | hold |
//! |---|---|
//! | `fleet`, `analytic` | fleets of pods; the form of a plan without events |
//! | `seeds`, `table`, `chart`, `picture`, `describe`, `requests`, `layout` | views of plans and reports |
//! | `session` | a system that another program drives |
//! | `run`, `checkpoint`, `position` | warm-up and measurement, and their state in a file |
//! | `perfetto` | a trace of a window of a run |
//! | `assembly` | from counters to a report, its bottleneck and its notes |
//! | `readings`, `batches`, `samples`, `intervals`, `laws` | counters of a window, confidence intervals, laws of a run |
//! | `report`, `series` | the schema of the report |
//! | `system`, `wrapper`, `host` | components and wires |

pub mod analytic;
mod assembly;
mod batches;
mod chart;
pub mod checkpoint;
pub mod describe;
pub mod fleet;
pub mod host;
mod intervals;
mod laws;
pub mod layout;
pub mod output;
pub mod perfetto;
pub mod picture;
mod position;
mod readings;
pub mod report;
pub mod requests;
pub mod run;
mod samples;
pub mod seeds;
mod series;
pub mod session;
mod statistics;
pub mod system;
pub mod table;
mod wrapper;
