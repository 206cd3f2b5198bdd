//! The header of a trace: magic, version, flags, and a JSON object with the
//! provenance, under one checksum.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

/// The first eight bytes: not text, not UTF-8, and changed by any line-end conversion (as in PNG).
pub const MAGIC: [u8; 8] = [0x89, b'C', b'X', b'L', b'T', b'\r', b'\n', 0x1a];

/// The format version that this code reads and writes.
pub const VERSION: u16 = 1;

/// Flag bit: the records have times.
const HAS_TIME: u16 = 1;

/// Most bytes of the JSON object (*assumed*: far more than a command line and a sentence take).
const MAX_JSON: usize = 1 << 20;

/// Bytes before the JSON object: magic, version, flags, length.
const FIXED: usize = 16;

/// The contents of a trace's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Whether the trace's records have times.
    pub has_time: bool,
    /// How the trace was made, as a text for people.
    pub provenance: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    provenance: String,
}

/// An error in a trace's header, with the offset of the faulty byte.
pub(super) struct HeaderFault {
    pub offset: u64,
    pub field: &'static str,
    pub message: String,
}

impl Header {
    /// Writes the header and returns its length in bytes.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<u64> {
        let json = serde_json::to_vec(&Json {
            provenance: self.provenance.clone(),
        })?;
        if json.len() > MAX_JSON {
            let found = json.len();
            let message = format!("the provenance takes {found} bytes; allowed: {MAX_JSON}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut bytes = Vec::with_capacity(FIXED + json.len() + 4);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((if self.has_time { HAS_TIME } else { 0 }).to_le_bytes());
        bytes.extend((json.len() as u32).to_le_bytes());
        bytes.extend(json);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        out.write_all(&bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Reads a header and returns it with its length in bytes.
    pub(super) fn read(input: &mut impl Read) -> Result<(Header, u64), HeaderFault> {
        let fault = |offset: usize, field, message: String| HeaderFault {
            offset: offset as u64,
            field,
            message,
        };
        let mut bytes = vec![0; FIXED];
        read_part(input, &mut bytes).map_err(|message| fault(0, "magic", message))?;
        if bytes[..8] != MAGIC {
            let message = format!(
                "found {:02x?}; allowed: {MAGIC:02x?} (a .cxlt trace)",
                &bytes[..8]
            );
            return Err(fault(0, "magic", message));
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            let message = format!("found {version}; allowed: {VERSION}");
            return Err(fault(8, "version", message));
        }
        let flags = u16::from_le_bytes([bytes[10], bytes[11]]);
        if flags & !HAS_TIME != 0 {
            let message = format!("found {flags:#06x}; allowed: 0x0000, 0x0001");
            return Err(fault(10, "flags", message));
        }
        let length = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
        if length > MAX_JSON {
            let message = format!("found {length}; allowed: 0 to {MAX_JSON}");
            return Err(fault(12, "length", message));
        }
        bytes.resize(FIXED + length + 4, 0);
        read_part(input, &mut bytes[FIXED..]).map_err(|message| fault(FIXED, "json", message))?;
        let (signed, checksum) = bytes.split_at(FIXED + length);
        if crc32fast::hash(signed).to_le_bytes() != checksum {
            let message = "does not match the header".to_owned();
            return Err(fault(signed.len(), "checksum", message));
        }
        let json: Json = serde_json::from_slice(&signed[FIXED..])
            .map_err(|error| fault(FIXED, "json", error.to_string()))?;
        let header = Header {
            has_time: flags & HAS_TIME != 0,
            provenance: json.provenance,
        };
        Ok((header, bytes.len() as u64))
    }
}

/// Fills `bytes` from `input`, or says why that fails.
pub(super) fn read_part(input: &mut impl Read, bytes: &mut [u8]) -> Result<(), String> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file ends here: it is truncated".to_owned(),
        _ => format!("cannot read: {error}"),
    })
}
