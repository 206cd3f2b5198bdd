//! The output of Valgrind's Lackey tool with `--trace-mem=yes`.
//!
//! Rows are `I  04000000,3` (instruction fetch), ` L 1fff000,8` (load), ` S ...` (store) and
//! ` M ...` (modify: a load, then a store); addresses are hexadecimal, sizes decimal
//! (<https://valgrind.org/docs/manual/lk-manual.html>). Rows of Valgrind itself begin with `==`,
//! `--` or `**`. Instruction fetches are not accesses here: they count the instructions, from which
//! times can be derived.

use std::path::Path;

use cxlab_engine::units::{Picos, SimTime};

use super::lines::{Lines, decimal, first_line};
use super::{Access, AccessSource, Format, Input};
use crate::error::TraceError;
use crate::op::OpKind;

pub(super) const FORMAT: Format = Format {
    name: "lackey",
    summary: "valgrind --tool=lackey --trace-mem=yes",
    endings: &["lackey"],
    detect,
    open: Some(|input, path| Ok(Box::new(Lackey::new(input, path, Picos::ZERO)))),
    form: None,
};

fn detect(start: &[u8]) -> bool {
    let line = first_line(start);
    let row = [b"I  ", b" L ", b" S ", b" M "]
        .iter()
        .any(|row| line.starts_with(*row));
    line.starts_with(b"==") || row && line.contains(&b',')
}

/// Reads the rows of Lackey's output as accesses.
pub struct Lackey {
    lines: Lines,
    per_instruction: Picos,
    instructions: u64,
    store: Option<Access>,
}

impl Lackey {
    /// Reads rows from `input`, which errors name by `path`. `per_instruction` is the time of an
    /// instruction; with zero, the accesses have no times.
    pub fn new(input: Input, path: &Path, per_instruction: Picos) -> Lackey {
        Lackey {
            lines: Lines::new(input, path),
            per_instruction,
            instructions: 0,
            store: None,
        }
    }

    /// The number of instructions read so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    fn parse(&self) -> Result<Access, TraceError> {
        let lines = &self.lines;
        let rest = lines.line().get(3..).unwrap_or_default();
        let mut fields = rest.splitn(2, |byte| *byte == b',');
        let mut field = || fields.next().unwrap_or_default();
        let (address, size) = (field(), field());
        let address = lines.address(address)?;
        let size = decimal(size.trim_ascii_end())
            .ok_or_else(|| lines.found("size", size, "a decimal number of bytes"))?;
        let time = SimTime(self.instructions.saturating_mul(self.per_instruction.0));
        Access::new(address, size, OpKind::Read, time).map_err(|(field, m)| lines.error(field, m))
    }
}

impl AccessSource for Lackey {
    fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        if let Some(store) = self.store.take() {
            return Ok(Some(store));
        }
        while self.lines.advance()? {
            let row = self.lines.line();
            let kind = match row {
                [b'I', b' ', ..] => {
                    self.instructions += 1;
                    continue;
                }
                [] | [b'=', b'=', ..] | [b'-', b'-', ..] | [b'*', b'*', ..] => continue,
                [b' ', kind, b' ', ..] => *kind,
                _ => b'?',
            };
            let access = match kind {
                b'L' | b'M' => self.parse()?,
                b'S' => self.parse()?.to_write(),
                _ => {
                    let allowed = "`I  `, ` L `, ` S `, ` M `, `==`";
                    return Err(self.lines.found("row", row, allowed));
                }
            };
            self.store = (kind == b'M').then(|| access.to_write());
            return Ok(Some(access));
        }
        Ok(None)
    }

    fn has_time(&self) -> bool {
        self.per_instruction > Picos::ZERO
    }
}
