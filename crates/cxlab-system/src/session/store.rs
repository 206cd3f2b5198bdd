//! The bytes that a program loads into the memory behind external ports.
//!
//! Timed requests of requesters carry no data: the simulation has times and states, and no bytes.
//! So the program reads and writes bytes here, without time. Bytes that kernels of the scenario's
//! own hosts store are in `cxlab_workload::Image` and cannot be read here.

use std::collections::BTreeMap;

use cxlab_engine::units::{Hpa, LINE_BYTES};
use cxlab_host::AddressMap;
use serde::{Deserialize, Serialize};

use super::SessionError;

/// Bytes of devices, by device and line. A line that is not there has zeros.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Store {
    lines: BTreeMap<(u16, u64), Line>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Line([[u8; 32]; 2]);

impl Store {
    pub(super) fn read(
        &self,
        map: &AddressMap,
        address: u64,
        bytes: &mut [u8],
    ) -> Result<(), SessionError> {
        check(map, address, bytes.len())?;
        for (key, first, part) in parts(map, address, bytes.len()) {
            let into = &mut bytes[part.clone()];
            match self.lines.get(&key) {
                Some(line) => {
                    into.copy_from_slice(&line.0.as_flattened()[first..first + part.len()])
                }
                None => into.fill(0),
            }
        }
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        map: &AddressMap,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), SessionError> {
        check(map, address, bytes.len())?;
        for (key, first, part) in parts(map, address, bytes.len()) {
            let line = self.lines.entry(key).or_insert(Line([[0; 32]; 2]));
            let into = &mut line.0.as_flattened_mut()[first..first + part.len()];
            into.copy_from_slice(&bytes[part]);
        }
        Ok(())
    }
}

fn check(map: &AddressMap, address: u64, size: usize) -> Result<(), SessionError> {
    let end = address.checked_add(size as u64);
    match end.is_some_and(|end| end <= map.span().0) {
        true => Ok(()),
        false => Err(SessionError::Bytes {
            address,
            size: size as u64,
            span: map.span(),
        }),
    }
}

/// Device and line of each part of some bytes, where the part begins in the line, and which bytes it is.
fn parts(
    map: &AddressMap,
    address: u64,
    size: usize,
) -> impl Iterator<Item = ((u16, u64), usize, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == size {
            return None;
        }
        let hpa = address + at as u64;
        let first = (hpa % LINE_BYTES) as usize;
        let count = (LINE_BYTES as usize - first).min(size - at);
        let Some((device, dpa)) = map.locate(Hpa(hpa - first as u64)) else {
            unreachable!("a map has no gaps")
        };
        let part = at..at + count;
        at = part.end;
        Some(((device.0, dpa.0 / LINE_BYTES), first, part))
    })
}
