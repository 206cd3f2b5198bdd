//! gem5's packet traces, which `MemTraceProbe` and `CommMonitor` write.
//!
//! The file begins with `gem5`. Messages of Protocol Buffers follow, each behind its length: a `PacketHeader`,
//! then a `Packet` for each request (`src/proto/packet.proto` and `src/mem/packet.hh` of gem5 at commit b1a44b8,
//! whose numbers of commands are used; 1 and 4, `ReadReq` and `WriteReq`, have been the same since 2012). Ticks
//! become picoseconds by the header's frequency, rounded down. Left out are commands that move no data between a
//! cache and memory: evictions of clean lines, upgrades, fences, and flushes without data.

use std::path::Path;

use cxlab_engine::units::{LINE_BYTES, SimTime};

use super::binary::Bytes;
use super::export::{Form, address};
use super::{Access, AccessSource, Format, Input};
use crate::error::TraceError;
use crate::op::OpKind;
use crate::varint;

pub(super) const FORMAT: Format = Format {
    name: "gem5",
    summary: "gem5's packet traces (protobuf), of MemTraceProbe and CommMonitor",
    endings: &["ptrc", "gem5"],
    detect: |start| start.starts_with(MAGIC),
    open: Some(|input, path| Ok(Box::new(Gem5::new(input, path)?))),
    form: Some(FORM),
};

const MAGIC: &[u8] = b"gem5";
/// Most bytes of a message (*assumed*: a packet has 30, a header one name for each requestor).
const MAX_MESSAGE_BYTES: u64 = 1 << 20;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// Number of the field `tick_freq` of a header, and of the fields of a packet.
const TICK_FREQUENCY: u64 = 3;
const PACKET_FIELDS: [(&str, usize); 4] = [("tick", 1), ("cmd", 2), ("addr", 3), ("size", 4)];

/// What a command does with memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Read,
    Write,
    /// A swap: reads, then writes.
    Swap,
    /// No data move.
    Nothing,
    /// A response or an error, which no trace of requests has.
    Response,
    Unknown,
}

impl Command {
    fn of(number: u64) -> Command {
        match number {
            // ReadReq; prefetches; ReadExReq, ReadCleanReq, ReadSharedReq, LoadLockedReq; LockedRMWReadReq.
            1 | 11..=13 | 22 | 24..=26 | 30 => Command::Read,
            // WriteReq; WritebackDirty, WriteClean; WriteLineReq, StoreCondReq, LockedRMWWriteReq.
            4 | 7 | 9 | 16 | 27 | 32 => Command::Write,
            34 => Command::Swap,
            // WritebackClean, CleanEvict; upgrades; fences; CleanSharedReq, CleanInvalidReq; PrintReq to
            // InvalidateReq; HTMReq, TlbiExtSync.
            8 | 10 | 17 | 18 | 20 | 28 | 38 | 39 | 42 | 44 | 52..=54 | 56 | 59 => Command::Nothing,
            2..=59 => Command::Response,
            _ => Command::Unknown,
        }
    }
}

struct Gem5 {
    bytes: Bytes,
    /// Offset of the message that was read last.
    message_at: u64,
    message: Vec<u8>,
    ticks_per_second: u64,
    /// The second half of a swap.
    store: Option<Access>,
}

impl Gem5 {
    fn new(input: Input, path: &Path) -> Result<Gem5, TraceError> {
        let mut gem5 = Gem5 {
            bytes: Bytes::new(input, path),
            message_at: 0,
            message: Vec::new(),
            ticks_per_second: 0,
            store: None,
        };
        let mut magic = [0; MAGIC.len()];
        let read = gem5.bytes.fill(&mut magic)?;
        if magic != MAGIC {
            let found = String::from_utf8_lossy(&magic[..read]).into_owned();
            return Err(gem5.error("magic", format!("found `{found}`; allowed: `gem5`")));
        }
        if !gem5.advance()? {
            return Err(gem5.error("header", "found none; allowed: a PacketHeader".to_owned()));
        }
        let mut fields = Fields::of(&gem5.message);
        let mut frequency = None;
        while let Some((number, value)) =
            fields.next().map_err(|what| gem5.error("header", what))?
        {
            if number == TICK_FREQUENCY {
                frequency = value;
            }
        }
        gem5.ticks_per_second = match frequency {
            Some(ticks @ 1..) => ticks,
            found => {
                let found = found.map_or("none".to_owned(), |ticks| ticks.to_string());
                let message = format!("found {found}; allowed: ticks per second, 1 and more");
                return Err(gem5.error("tick_freq", message));
            }
        };
        Ok(gem5)
    }

    fn error(&self, field: &'static str, message: String) -> TraceError {
        self.bytes.error(self.message_at, field, message)
    }

    /// Reads the next message into `message`; false at the end of the file.
    fn advance(&mut self) -> Result<bool, TraceError> {
        self.message_at = self.bytes.offset();
        let cut = || "the file ends within a message: it is truncated".to_owned();
        let (mut length, mut shift) = (0u64, 0);
        loop {
            let mut byte = [0];
            if self.bytes.fill(&mut byte)? == 0 {
                return match shift {
                    0 => Ok(false),
                    _ => Err(self.error("length", cut())),
                };
            }
            length |= u64::from(byte[0] & 0x7f) << shift;
            shift += 7;
            if byte[0] < 0x80 {
                break;
            }
            if shift > 28 {
                let message = "found more than 32 bits; allowed: a varint";
                return Err(self.error("length", message.to_owned()));
            }
        }
        if length > MAX_MESSAGE_BYTES {
            let message = format!("found {length}; allowed: up to {MAX_MESSAGE_BYTES} bytes");
            return Err(self.error("length", message));
        }
        self.message.resize(length as usize, 0);
        let read = self.bytes.fill(&mut self.message)?;
        match read as u64 == length {
            true => Ok(true),
            false => Err(self.error("message", cut())),
        }
    }

    /// The packet of the message that was read last: tick, command, address and size.
    fn packet(&self) -> Result<[u64; 4], TraceError> {
        let mut found = [None; 5];
        let mut fields = Fields::of(&self.message);
        while let Some((number, value)) =
            fields.next().map_err(|what| self.error("packet", what))?
        {
            if let Some(place) = found.get_mut(number as usize) {
                *place = value;
            }
        }
        let mut packet = [0; 4];
        for (value, (name, number)) in packet.iter_mut().zip(PACKET_FIELDS) {
            let missing = "found none; allowed: a number in each packet";
            *value = found[number].ok_or_else(|| self.error(name, missing.to_owned()))?;
        }
        Ok(packet)
    }

    fn time(&self, tick: u64) -> Result<SimTime, TraceError> {
        let ps = u128::from(tick) * PS_PER_SECOND / u128::from(self.ticks_per_second);
        u64::try_from(ps).map(SimTime).map_err(|_| {
            let allowed = "times of which 64 bits hold the picoseconds";
            self.error("tick", format!("found {tick}; allowed: {allowed}"))
        })
    }
}

impl AccessSource for Gem5 {
    fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        if let Some(store) = self.store.take() {
            return Ok(Some(store));
        }
        while self.advance()? {
            let [tick, command, address, size] = self.packet()?;
            let what = Command::of(command);
            let kind = match what {
                Command::Read | Command::Swap => OpKind::Read,
                Command::Write => OpKind::Write,
                Command::Nothing => continue,
                wrong => {
                    let response = "a trace of requests, and this is a response or an error";
                    let allowed = match wrong {
                        Command::Response => response,
                        _ => "the commands of src/mem/packet.hh, 1 to 59",
                    };
                    return Err(self.error("cmd", format!("found {command}; allowed: {allowed}")));
                }
            };
            let access = Access::new(address, size, kind, self.time(tick)?)
                .map_err(|(field, message)| self.error(field, message))?;
            self.store = (what == Command::Swap).then(|| access.to_write());
            return Ok(Some(access));
        }
        Ok(None)
    }

    fn has_time(&self) -> bool {
        true
    }
}

/// A tick is a picosecond.
const FORM: Form = Form {
    begin: |bytes, _| {
        bytes.extend(MAGIC);
        let mut header = vec![1 << 3 | 2, 5];
        header.extend(b"cxlab");
        put_field(&mut header, TICK_FREQUENCY, PS_PER_SECOND as u64);
        put_message(bytes, &header);
    },
    row: |bytes, record, _| {
        let command = match record.kind {
            OpKind::Read => 1,
            OpKind::Write => 4,
        };
        let mut packet = Vec::with_capacity(32);
        let values = [record.time.0, command, address(record), LINE_BYTES];
        for ((_, number), value) in PACKET_FIELDS.iter().zip(values) {
            put_field(&mut packet, *number as u64, value);
        }
        put_message(bytes, &packet);
    },
    end: b"",
    has_cycles: false,
};

fn put_message(bytes: &mut Vec<u8>, message: &[u8]) {
    varint::put(message.len() as u64, bytes);
    bytes.extend(message);
}

fn put_field(message: &mut Vec<u8>, number: u64, value: u64) {
    varint::put(number << 3, message);
    varint::put(value, message);
}

/// The fields of a message: number, and value where it is a varint.
struct Fields<'a> {
    message: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn of(message: &[u8]) -> Fields<'_> {
        Fields { message, at: 0 }
    }

    fn varint(&mut self) -> Result<u64, String> {
        varint::get(self.message, &mut self.at).ok_or_else(|| {
            "found a number without an end; allowed: varints of up to 64 bits".to_owned()
        })
    }

    fn skip(&mut self, bytes: u64) -> Result<(), String> {
        let end = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| self.at.checked_add(bytes));
        match end.filter(|end| *end <= self.message.len()) {
            Some(end) => self.at = end,
            None => return Err("found a field that is longer than its message".to_owned()),
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(u64, Option<u64>)>, String> {
        if self.at == self.message.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Some(self.varint()?),
            1 => self.skip(8).map(|()| None)?,
            2 => {
                let length = self.varint()?;
                self.skip(length).map(|()| None)?
            }
            5 => self.skip(4).map(|()| None)?,
            wire => return Err(format!("found wire type {wire}; allowed: 0, 1, 2, 5")),
        };
        Ok(Some((tag >> 3, value)))
    }
}
