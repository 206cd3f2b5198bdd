//! The registers of CXL.cache and CXL.mem of a component, with its HDM decoders (CXL 3.1, sections
//! 8.2.3, 8.2.4 and 8.2.4.20; layout as in Linux `drivers/cxl/cxl.h`).
//!
//! Software writes base, size, ways, granularity and targets of a decoder and then commits it. The
//! component checks what it can and sets Committed or Error. A decoder commits only after the one
//! before it and at higher addresses; base and size are multiples of 256 MiB. While a decoder is
//! committed, its fields do not change; a locked decoder stays committed until reset
//! (*recollection*: sections 8.2.4.20.12 and 8.2.4.20.13). Left out: RAS, link, security and
//! back-invalidation capabilities, UIO, passthrough decoders, dynamic capacity.

use cxlab_engine::units::{Bytes, Dpa, Hpa};

use super::space::{AccessError, COMPONENT_BYTES, Registers};
use crate::hdm::HdmDecoder;

/// Offset of the CXL.cache and CXL.mem registers in the block of component registers.
pub const CACHE_MEM: u64 = 0x1000;

/// Offset of the HDM decoder capability in the block. Software finds it through the array
/// of capability headers.
const HDM: usize = 0x1200;

/// ID of the HDM decoder capability.
pub const HDM_CAPABILITY: u32 = 5;

/// Base and size of decoders are multiples of this number of bytes.
pub const DECODER_UNIT: u64 = 256 << 20;

/// Maximum number of targets in a target list.
pub const MAX_LIST: usize = 8;

/// Bits of a decoder's control register.
pub mod control {
    /// The decoder stays committed until reset.
    pub const LOCK: u32 = 1 << 8;
    /// Write 1 to commit the decoder, 0 to release it.
    pub const COMMIT: u32 = 1 << 9;
    /// The decoder is committed and decodes addresses.
    pub const COMMITTED: u32 = 1 << 10;
    /// The decoder could not be committed.
    pub const ERROR: u32 = 1 << 11;
    /// The memory is HDM-H: its host alone keeps it coherent.
    pub const HOST_ONLY: u32 = 1 << 12;
}

/// Offsets within the HDM decoder capability.
pub mod hdm_offset {
    /// Capability: bits 3:0 number of decoders, 7:4 number of targets, 8 and 9 granularities, 11
    /// (3, 6 and 12 ways) and 12 (16 ways). Bits 11 and 12 are zero in host bridges and switches.
    pub const CAPABILITY: u64 = 0x00;
    /// Global control: bit 1 enables all decoders.
    pub const GLOBAL_CONTROL: u64 = 0x04;
    /// First decoder. Each has 32 bytes: base low and high, size low and high, control, and target
    /// list or skip low and high.
    pub const DECODERS: u64 = 0x10;
    /// Number of bytes of one decoder's registers.
    pub const STRIDE: u64 = 0x20;
}

/// Bit of the global control register that enables all decoders.
pub const ENABLE: u32 = 1 << 1;

/// What the decoders of a component select.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decodes {
    /// A port of a root complex or a switch.
    Ports,
    /// An address in device memory of this size in bytes.
    Memory(u64),
}

/// Register code of a number of ways (CXL 3.1, section 8.2.4.20.7); `None` if no decoder has this number.
pub const fn encode_ways(ways: u32) -> Option<u32> {
    match ways {
        1 | 2 | 4 | 8 | 16 => Some(ways.ilog2()),
        3 | 6 | 12 => Some(8 + (ways / 3).ilog2()),
        _ => None,
    }
}

/// Number of ways of a register code; `None` for reserved codes.
pub const fn decode_ways(code: u32) -> Option<u32> {
    match code {
        0..=4 => Some(1 << code),
        8..=10 => Some(3 << (code - 8)),
        _ => None,
    }
}

/// Register code of a granularity from 256 bytes to 16 KiB; `None` for other granularities.
pub const fn encode_granularity(granularity: u64) -> Option<u32> {
    match granularity {
        256 | 512 | 1024 | 2048 | 4096 | 8192 | 16_384 => Some(granularity.ilog2() - 8),
        _ => None,
    }
}

/// The registers of one decoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decoder {
    /// First address of the range.
    pub base: Hpa,
    /// Size of the range.
    pub size: Bytes,
    /// Value of the control register.
    pub control: u32,
    /// For ports: the port of each way. Without meaning for memory.
    pub targets: [u8; MAX_LIST],
    /// For memory: number of unused bytes before the decoder's memory.
    pub skip: u64,
}

impl Decoder {
    /// Whether the control register says Committed.
    pub const fn is_committed(&self) -> bool {
        self.control & control::COMMITTED != 0
    }

    /// The decoder's arithmetic; `None` if a code is reserved or the interleave is invalid.
    pub fn arithmetic(&self) -> Option<HdmDecoder> {
        let ways = decode_ways(self.control >> 4 & 0xf)?;
        let granularity = Bytes(256 << (self.control & 0xf));
        HdmDecoder::new(self.base, self.size, granularity, ways).ok()
    }

    fn end(&self) -> u64 {
        self.base.0.saturating_add(self.size.0)
    }
}

/// The component registers of a host bridge, a switch or a device.
#[derive(Clone, PartialEq, Eq)]
pub struct ComponentRegisters {
    registers: Registers,
    decodes: Decodes,
    decoders: u8,
}

impl ComponentRegisters {
    /// Registers as after reset, with `decoders` decoders: 1, or an even number up to 10.
    pub fn new(decodes: Decodes, decoders: u8) -> ComponentRegisters {
        let mut registers = Registers::new(COMPONENT_BYTES as usize);
        let array = CACHE_MEM as usize;
        // Capability header: number 1, version 1, cache and mem version 1, one entry.
        registers.set(array, 4, 1 | 1 << 16 | 1 << 20 | 1 << 24, 0);
        let pointer = (HDM - array) as u64;
        registers.set(
            array + 4,
            4,
            u64::from(HDM_CAPABILITY) | 1 << 16 | pointer << 20,
            0,
        );
        let (targets, ways) = match decodes {
            Decodes::Ports => (MAX_LIST as u64, 0),
            Decodes::Memory(_) => (1, 0b11 << 11),
        };
        let count = u64::from(decoders / 2);
        registers.set(HDM, 4, count | targets << 4 | 0b11 << 8 | ways, 0);
        registers.set(HDM + 4, 4, 0, 0b11);
        let unit = 0xf000_0000;
        let list = match decodes {
            Decodes::Ports => u32::MAX.into(),
            Decodes::Memory(_) => unit,
        };
        for decoder in 0..usize::from(decoders) {
            let at = HDM + 0x10 + 0x20 * decoder;
            let masks = [
                unit,
                u32::MAX.into(),
                unit,
                u32::MAX.into(),
                0x13ff,
                list,
                u32::MAX.into(),
            ];
            for (word, mask) in masks.into_iter().enumerate() {
                registers.set(at + 4 * word, 4, 0, mask);
            }
        }
        ComponentRegisters {
            registers,
            decodes,
            decoders,
        }
    }

    /// Reads a register: 4 bytes in one access (CXL 3.1, section 8.2.2).
    ///
    /// # Errors
    /// If the width is not 4 bytes, or the offset is unaligned or outside the registers.
    pub fn read(&self, offset: u64, width: u32) -> Result<u64, AccessError> {
        if width != 4 {
            return Err(AccessError::Alignment { offset, width });
        }
        self.registers.read(offset, width)
    }

    /// Writes a register. A write that a decoder does not accept changes nothing.
    ///
    /// # Errors
    /// If the width is not 4 bytes, or the offset is unaligned or outside the registers.
    pub fn write(&mut self, offset: u64, width: u32, value: u64) -> Result<(), AccessError> {
        if width != 4 {
            return Err(AccessError::Alignment { offset, width });
        }
        let first = HDM as u64 + hdm_offset::DECODERS;
        let decoder = offset.checked_sub(first).map(|at| at / hdm_offset::STRIDE);
        let Some(number) = decoder.filter(|number| *number < self.decoders.into()) else {
            return self.registers.write(offset, width, value);
        };
        let number = number as u8;
        let committed = self.decoder(number).is_committed();
        if (offset - first) % hdm_offset::STRIDE == 0x10 {
            self.write_control(number, value as u32);
        } else if !committed {
            self.registers.write(offset, width, value)?;
        }
        Ok(())
    }

    fn write_control(&mut self, number: u8, value: u32) {
        let at = HDM + 0x20 + 0x20 * usize::from(number);
        let old = self.registers.word(at);
        let commit = value & control::COMMIT != 0;
        let new = if old & control::COMMITTED != 0 {
            if commit || old & control::LOCK != 0 {
                return;
            }
            value & 0x13ff
        } else {
            let fields = value & 0x13ff;
            self.registers.force(at, 4, fields.into());
            match (commit, self.accepts(number)) {
                (false, _) => fields,
                (true, true) => fields | control::COMMITTED,
                (true, false) => fields | control::ERROR,
            }
        };
        self.registers.force(at, 4, new.into());
    }

    /// Whether a decoder can be committed with its current registers.
    fn accepts(&self, number: u8) -> bool {
        let decoder = self.decoder(number);
        let Some(arithmetic) = decoder.arithmetic() else {
            return false;
        };
        let after = match number.checked_sub(1).map(|before| self.decoder(before)) {
            Some(before) => before.is_committed() && before.end() <= decoder.base.0,
            None => true,
        };
        let later = (number + 1..self.decoders).any(|later| self.decoder(later).is_committed());
        let fits = match self.decodes {
            // Only devices have 3, 6, 12 and 16 ways (section 8.2.4.20.7).
            Decodes::Ports => [1, 2, 4, 8].contains(&arithmetic.ways()),
            Decodes::Memory(bytes) => {
                let own = decoder.size.0 / u64::from(arithmetic.ways());
                let first = self.dpa_base(number);
                first.checked_add(own).is_some_and(|end| end <= bytes)
            }
        };
        after && !later && fits
    }

    /// The DPA at which a decoder's memory begins.
    fn dpa_base(&self, number: u8) -> u64 {
        let before = (0..number)
            .map(|number| self.decoder(number))
            .map(|decoder| {
                let ways = decoder
                    .arithmetic()
                    .map_or(1, |arithmetic| arithmetic.ways());
                decoder.skip + decoder.size.0 / u64::from(ways)
            });
        before
            .sum::<u64>()
            .saturating_add(self.decoder(number).skip)
    }

    /// The registers of a decoder.
    pub fn decoder(&self, number: u8) -> Decoder {
        let at = HDM + 0x10 + 0x20 * usize::from(number);
        let word = |place: usize| self.registers.word(at + 4 * place);
        let long = |place: usize| u64::from(word(place + 1)) << 32 | u64::from(word(place));
        Decoder {
            base: Hpa(long(0)),
            size: Bytes(long(2)),
            control: word(4),
            targets: long(5).to_le_bytes(),
            skip: long(5),
        }
    }

    /// Number of HDM decoders.
    pub fn decoders(&self) -> u8 {
        self.decoders
    }

    fn matching(&self, hpa: Hpa) -> Option<(u8, Decoder, u32, Dpa)> {
        if self.registers.word(HDM + 4) & ENABLE == 0 {
            return None;
        }
        (0..self.decoders).find_map(|number| {
            let decoder = self.decoder(number);
            let (way, dpa) = decoder.arithmetic()?.decode(hpa)?;
            decoder
                .is_committed()
                .then_some((number, decoder, way, dpa))
        })
    }

    /// The port that the committed decoders select for an address. `None` if no decoder matches.
    pub fn port_of(&self, hpa: Hpa) -> Option<u8> {
        let (_, decoder, way, _) = self.matching(hpa)?;
        decoder.targets.get(way as usize).copied()
    }

    /// The DPA that the committed decoders select for an address. `None` if no decoder matches.
    pub fn dpa_of(&self, hpa: Hpa) -> Option<Dpa> {
        let (number, _, _, dpa) = self.matching(hpa)?;
        Some(Dpa(self.dpa_base(number) + dpa.0))
    }
}

#[cfg(test)]
mod tests;
