//! The report on a host's enumeration.

use cxlab_protocol::io::enumerate::Phase;

use crate::report::{Accesses, EnumerationPhase, EnumerationReport};
use crate::wrapper::enumeration::EnumerationResult;

impl From<&EnumerationResult> for EnumerationReport {
    fn from(done: &EnumerationResult) -> Self {
        let mut accesses = Accesses::default();
        let phases = Phase::ALL.iter().zip(done.phases).map(|(phase, duration)| {
            let [config_reads, config_writes, memory_reads, memory_writes] = done.log.count(*phase);
            accesses.config_reads += config_reads;
            accesses.config_writes += config_writes;
            accesses.memory_reads += memory_reads;
            accesses.memory_writes += memory_writes;
            EnumerationPhase {
                name: phase.name().to_owned(),
                duration_ns: duration.as_nanos_f64(),
                accesses: Accesses {
                    config_reads,
                    config_writes,
                    memory_reads,
                    memory_writes,
                },
            }
        });
        let phases = phases.collect();
        let devices = done.log.functions.iter().filter(|found| !found.bridge);
        EnumerationReport {
            duration_ns: done.duration.as_nanos_f64(),
            functions: done.log.functions.len() as u64,
            devices: devices.count() as u64,
            accesses,
            phases,
        }
    }
}
