//! Which channel, bank, row and column an address lies in.
//!
//! A mapping is a list of fields from the most to the least significant address bit, above the
//! bytes of a burst: `Ro` row, `Ba` bank in its group, `Bg` bank group, `Ra` rank, `Pc` pseudo
//! channel, `Co` column (burst in a row), `Ch` channel. A field may be split: `Co2` takes two of
//! its bits, least significant first from the right, and a field without a number takes all the
//! others. `RoBaBgRaPcCoCh` is the same as the named mapping `RoBaRaCoCh`.

use cxlab_engine::catalog::ParamError;
use serde::{Deserialize, Serialize};

/// Names of the mappings that have one, and what they stand for.
const NAMED: [(&str, &str); 3] = [
    ("RoBaRaCoCh", "RoBaBgRaPcCoCh"),
    ("ChRaBaRoCo", "ChPcRaBgBaRoCo"),
    ("MOP4CLXOR", "RoCoBaBgRaPcCo2Ch"),
];

const FIELDS: [&str; 7] = ["Ch", "Pc", "Ra", "Bg", "Ba", "Co", "Ro"];
const CHANNEL: usize = 0;
const PSEUDO: usize = 1;
const RANK: usize = 2;
const GROUP: usize = 3;
const BANK: usize = 4;
const COLUMN: usize = 5;
const ROW: usize = 6;

/// How many of each a memory has, as powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widths {
    pub channel: u32,
    pub pseudo: u32,
    pub rank: u32,
    pub group: u32,
    pub bank: u32,
    pub column: u32,
    pub row: u32,
    /// Of the bytes of a burst.
    pub burst: u32,
}

impl Widths {
    fn of(&self, field: usize) -> u32 {
        [
            self.channel,
            self.pseudo,
            self.rank,
            self.group,
            self.bank,
            self.column,
            self.row,
        ][field]
    }

    /// Bits of an address of the whole memory.
    pub fn total(&self) -> u32 {
        (0..7).map(|field| self.of(field)).sum::<u32>() + self.burst
    }
}

/// Where a burst lies.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct Place {
    pub channel: u32,
    /// Over all ranks of the channel: ((pseudo channel, rank), group, bank).
    pub bank: u32,
    pub row: u32,
    pub column: u32,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    field: usize,
    shift: u32,
    mask: u64,
    to: u32,
}

/// A mapping, ready for use.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    pieces: Vec<Piece>,
    widths: Widths,
    xor: bool,
}

impl Mapping {
    pub(super) fn new(text: &str, widths: Widths) -> Result<Mapping, ParamError> {
        let named = NAMED.iter().find(|(name, _)| *name == text);
        let order = named.map_or(text, |(_, order)| order);
        let mut pieces = Vec::new();
        let mut taken = [0; 7];
        let mut shift = 0;
        let tokens = tokens(order)?;
        let mut sized = [0; 7];
        for (field, bits) in &tokens {
            sized[*field] += bits.unwrap_or(0);
        }
        for (field, bits) in tokens.into_iter().rev() {
            let left = widths.of(field) - taken[field];
            // A named mapping may ask for more bits than a small organization has.
            let bits = match bits {
                Some(bits) if named.is_some() => bits.min(left),
                Some(bits) if bits > left => {
                    return Err(wrong(format!(
                        "`{}{bits}` in `{text}`: the field has {} bits, {left} of them left",
                        FIELDS[field],
                        widths.of(field)
                    )));
                }
                Some(bits) => bits,
                None => left.min(widths.of(field).saturating_sub(sized[field])),
            };
            if bits > 0 {
                pieces.push(Piece {
                    field,
                    shift,
                    mask: (1 << bits) - 1,
                    to: taken[field],
                });
            }
            taken[field] += bits;
            shift += bits;
        }
        for (field, name) in FIELDS.iter().enumerate() {
            if taken[field] != widths.of(field) {
                return Err(wrong(format!(
                    "`{text}` places {} of the {} bits of `{name}`",
                    taken[field],
                    widths.of(field)
                )));
            }
        }
        Ok(Mapping {
            pieces,
            widths,
            xor: text == "MOP4CLXOR",
        })
    }

    /// Where the burst of that number lies.
    #[inline]
    pub(super) fn place(&self, burst: u64) -> Place {
        let mut fields = [0u64; 7];
        for piece in &self.pieces {
            fields[piece.field] |= ((burst >> piece.shift) & piece.mask) << piece.to;
        }
        let w = &self.widths;
        if self.xor {
            // As Ramulator 2.1: consecutive bits of the column are added to pseudo channel, rank,
            // bank group, bank and row, so that strides spread over the banks.
            let mut column = fields[COLUMN];
            for field in [PSEUDO, RANK, GROUP, BANK, ROW] {
                let bits = w.of(field);
                fields[field] ^= column & ((1 << bits) - 1);
                column >>= bits;
            }
        }
        let rank = fields[PSEUDO] << w.rank | fields[RANK];
        let bank = (rank << w.group | fields[GROUP]) << w.bank | fields[BANK];
        Place {
            channel: fields[CHANNEL] as u32,
            bank: bank as u32,
            row: fields[ROW] as u32,
            column: fields[COLUMN] as u32,
        }
    }
}

fn tokens(order: &str) -> Result<Vec<(usize, Option<u32>)>, ParamError> {
    let mut list = Vec::new();
    let mut rest = order;
    while !rest.is_empty() {
        let field = FIELDS
            .iter()
            .position(|name| rest.starts_with(name))
            .ok_or_else(|| {
                wrong(format!(
                    "`{order}` is not known at `{rest}`: expected RoBaRaCoCh, ChRaBaRoCo, MOP4CLXOR \
                     or a list of Ro, Ba, Bg, Ra, Pc, Co, Ch, each with a number of bits if it is \
                     split"
                ))
            })?;
        rest = &rest[2..];
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let bits = match &rest[..digits] {
            "" => None,
            number => Some(
                number
                    .parse()
                    .ok()
                    .filter(|bits| (1..=32).contains(bits))
                    .ok_or_else(|| wrong(format!("`{number}` bits: allowed are 1 to 32")))?,
            ),
        };
        rest = &rest[digits..];
        list.push((field, bits));
    }
    Ok(list)
}

fn wrong(message: String) -> ParamError {
    ParamError::new("mapping", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: Widths = Widths {
        channel: 1,
        pseudo: 0,
        rank: 1,
        group: 2,
        bank: 2,
        column: 7,
        row: 16,
        burst: 6,
    };

    #[test]
    fn a_mapping_is_a_bijection_of_the_addresses() {
        for text in [
            "RoBaRaCoCh",
            "ChRaBaRoCo",
            "MOP4CLXOR",
            "RoCo3BaBgRaCoCh",
            "Ro8CoBaCh1BgRaRo",
        ] {
            let small = Widths { row: 9, ..WIDTHS };
            let mapping = Mapping::new(text, small).unwrap_or_else(|error| panic!("{error}"));
            let mut seen: Vec<_> = (0..1u64 << (small.total() - small.burst))
                .map(|burst| {
                    let place = mapping.place(burst);
                    assert!(place.channel < 2 && place.bank < 32, "{text}");
                    assert!(place.row < 512 && place.column < 128, "{text}");
                    (place.channel, place.bank, place.row, place.column)
                })
                .collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 1 << (small.total() - small.burst), "{text}");
        }
    }

    #[test]
    fn named_mappings_order_the_fields_as_their_names_say() {
        let at = |text, burst| match Mapping::new(text, WIDTHS) {
            Ok(mapping) => {
                let place = mapping.place(burst);
                (place.channel, place.bank, place.row, place.column)
            }
            Err(error) => panic!("{error}"),
        };
        // Channel lowest, then the column, the rank (16 banks), the bank group (4 banks).
        assert_eq!(at("RoBaRaCoCh", 1), (1, 0, 0, 0));
        assert_eq!(at("RoBaRaCoCh", 2), (0, 0, 0, 1));
        assert_eq!(at("RoBaRaCoCh", 1 << 8), (0, 16, 0, 0));
        assert_eq!(at("RoBaRaCoCh", 1 << 9), (0, 4, 0, 0));
        assert_eq!(at("RoBaRaCoCh", 1 << 13), (0, 0, 1, 0));
        assert_eq!(at("ChRaBaRoCo", 1 << 7), (0, 0, 1, 0));
        assert_eq!(at("ChRaBaRoCo", 1 << 28), (1, 0, 0, 0));
    }

    #[test]
    fn a_mapping_that_loses_bits_or_is_misspelt_is_refused() {
        for (text, hint) in [
            ("RoBaRaCo", "`RoBaRaCo` places 0 of the 1 bits of `Ch`"),
            ("RoBaXxCoCh", "at `XxCoCh`"),
            ("RoBaBgRaCo9Ch", "has 7 bits"),
            ("RoBaBgRaCo4Ch", "places 4 of the 7 bits of `Co`"),
            ("RoBaBgRaCoCo5Co5Ch", "has 7 bits, 2 of them left"),
            ("RoBaBgRaCo0Ch", "allowed are 1 to 32"),
        ] {
            let error = Mapping::new(text, WIDTHS).map(|_| ()).unwrap_err();
            assert!(error.message.contains(hint), "{text}: {error}");
        }
    }
}
