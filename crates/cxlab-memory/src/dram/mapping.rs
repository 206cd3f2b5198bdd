//! Address mapping: the channel, bank, row and column of an address.
//!
//! A mapping is a list of fields from the most to the least significant address bit, above the
//! bytes of a burst: `Ro` row, `Ba` bank in its group, `Bg` bank group, `Ra` rank, `Pc` pseudo
//! channel, `Co` column (burst in a row), `Ch` channel. A field may be split: `Co2` takes two of
//! its bits, the rightmost part getting the least significant ones. A field without a number takes
//! all its other bits. `RoBaBgRaPcCoCh` is the same as the named mapping `RoBaRaCoCh`.
//!
//! A hash (`hash.rs`) adds further address bits to bits of these fields by exclusive or.

use cxlab_engine::catalog::ParamError;

use super::hash::{BankHash, HashTerm};
use serde::{Deserialize, Serialize};

/// The named mappings and the lists of fields that they stand for.
const NAMED: [(&str, &str); 3] = [
    ("RoBaRaCoCh", "RoBaBgRaPcCoCh"),
    ("ChRaBaRoCo", "ChPcRaBgBaRoCo"),
    ("MOP4CLXOR", "RoCoBaBgRaPcCo2Ch"),
];

pub(super) const FIELDS: [&str; 7] = ["Ch", "Pc", "Ra", "Bg", "Ba", "Co", "Ro"];
pub(super) const CHANNEL: usize = 0;
pub(super) const PSEUDO: usize = 1;
pub(super) const RANK: usize = 2;
pub(super) const GROUP: usize = 3;
pub(super) const BANK: usize = 4;
pub(super) const COLUMN: usize = 5;
pub(super) const ROW: usize = 6;

/// Number of address bits for each field.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldWidths {
    pub channel: u32,
    pub pseudo: u32,
    pub rank: u32,
    pub group: u32,
    pub bank: u32,
    pub column: u32,
    pub row: u32,
    /// Bits for the bytes of a burst.
    pub burst: u32,
}

impl FieldWidths {
    pub(super) fn of(&self, field: usize) -> u32 {
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

    /// Number of bits in an address of the whole memory.
    pub fn total(&self) -> u32 {
        (0..7).map(|field| self.of(field)).sum::<u32>() + self.burst
    }
}

/// The place of a burst in the memory.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct BurstLocation {
    pub channel: u32,
    /// Index in the channel: ((pseudo channel, rank), group, bank).
    pub bank: u32,
    pub row: u32,
    pub column: u32,
}

/// Adjacent address bits that are added (exclusive or) to adjacent bits of a field.
#[derive(Clone, Copy, Debug)]
struct BitRun {
    field: usize,
    shift: u32,
    mask: u64,
    to: u32,
}

impl BitRun {
    /// Whether a term extends the piece by its next bit.
    fn continues(&self, term: &HashTerm) -> bool {
        let length = self.mask.count_ones();
        (term.field, term.bit, term.source) == (self.field, self.to + length, self.shift + length)
    }
}

/// For each bit of each field, the bit of a burst's number, least significant first.
pub(super) type BitLayout = [Vec<u32>; 7];

/// A parsed mapping with its hash.
#[derive(Clone, Debug)]
pub(super) struct AddressMapping {
    pieces: Vec<BitRun>,
    widths: FieldWidths,
}

impl AddressMapping {
    pub(super) fn new(
        text: &str,
        hash: &BankHash,
        widths: FieldWidths,
    ) -> Result<AddressMapping, ParamError> {
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
            // A named mapping may name more bits than a small organization has.
            let bits = match bits {
                Some(bits) if named.is_some() => bits.min(left),
                Some(bits) if bits > left => {
                    let (name, all) = (FIELDS[field], widths.of(field));
                    let has = format!("the field has {all} bits, {left} of them left");
                    return Err(wrong(format!("`{name}{bits}` in `{text}`: {has}")));
                }
                Some(bits) => bits,
                None => left.min(widths.of(field).saturating_sub(sized[field])),
            };
            if bits > 0 {
                pieces.push(BitRun {
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
            let (placed, all) = (taken[field], widths.of(field));
            if placed != all {
                let message = format!("`{text}` places {placed} of the {all} bits of `{name}`");
                return Err(wrong(message));
            }
        }
        let mut mapping = AddressMapping { pieces, widths };
        let layout = mapping.layout();
        if text == "MOP4CLXOR" {
            mapping.add(&mop_terms(&layout));
        }
        mapping.add(&hash.terms(&layout, &widths)?);
        if !mapping.is_a_bijection() {
            return Err(ParamError::new(
                "hash",
                "the functions give several addresses one place: each must keep its own bit, and \
                 no two may be made of each other",
            ));
        }
        Ok(mapping)
    }

    /// The bit of a burst's number for each bit of each field.
    fn layout(&self) -> BitLayout {
        let mut layout = BitLayout::default();
        for piece in &self.pieces {
            for bit in 0..piece.mask.count_ones() {
                layout[piece.field].push(piece.shift + bit);
            }
        }
        layout
    }

    fn add(&mut self, terms: &[HashTerm]) {
        for term in terms {
            match self.pieces.last_mut() {
                Some(last) if last.continues(term) => last.mask = last.mask << 1 | 1,
                _ => self.pieces.push(BitRun {
                    field: term.field,
                    shift: term.source,
                    mask: 1,
                    to: term.bit,
                }),
            }
        }
    }

    /// Whether each address has its own place: Gaussian elimination over the functions of the bits.
    fn is_a_bijection(&self) -> bool {
        let none = |field| vec![0u64; self.widths.of(field) as usize];
        let mut functions: [Vec<u64>; 7] = std::array::from_fn(none);
        for piece in &self.pieces {
            for bit in 0..piece.mask.count_ones() {
                functions[piece.field][(piece.to + bit) as usize] ^= 1 << (piece.shift + bit);
            }
        }
        let mut reduced: Vec<u64> = Vec::new();
        functions.into_iter().flatten().all(|mut function| {
            for other in &reduced {
                function = function.min(function ^ other);
            }
            reduced.push(function);
            function != 0
        })
    }

    /// The place of a burst by its number.
    #[inline]
    pub(super) fn place(&self, burst: u64) -> BurstLocation {
        let mut fields = [0u64; 7];
        for piece in &self.pieces {
            fields[piece.field] ^= ((burst >> piece.shift) & piece.mask) << piece.to;
        }
        let w = &self.widths;
        let rank = fields[PSEUDO] << w.rank | fields[RANK];
        let bank = (rank << w.group | fields[GROUP]) << w.bank | fields[BANK];
        BurstLocation {
            channel: fields[CHANNEL] as u32,
            bank: bank as u32,
            row: fields[ROW] as u32,
            column: fields[COLUMN] as u32,
        }
    }
}

/// The terms of Ramulator 2.1's `MOP4CLXOR`: consecutive bits of the column are added to pseudo
/// channel, rank, bank group, bank and row, so that strides spread over the banks.
fn mop_terms(layout: &BitLayout) -> Vec<HashTerm> {
    let targets = [PSEUDO, RANK, GROUP, BANK, ROW]
        .into_iter()
        .flat_map(|field| (0..layout[field].len() as u32).map(move |bit| (field, bit)));
    let columns = layout[COLUMN].iter();
    targets
        .zip(columns)
        .map(|((field, bit), source)| HashTerm {
            field,
            bit,
            source: *source,
        })
        .collect()
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
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = &rest[..digits];
        let bits: Option<u32> = number.parse().ok().filter(|bits| (1..=32).contains(bits));
        if bits.is_none() && digits > 0 {
            return Err(wrong(format!("`{number}` bits: allowed are 1 to 32")));
        }
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

    const WIDTHS: FieldWidths = FieldWidths {
        channel: 1,
        pseudo: 0,
        rank: 1,
        group: 2,
        bank: 2,
        column: 7,
        row: 16,
        burst: 6,
    };

    fn hashes() -> [BankHash; 4] {
        let bits = [("Ch0", vec![8, 13, 22]), ("Bg1", vec![21])];
        let bits = bits.map(|(name, sources)| (name.to_owned(), sources));
        [
            BankHash::None,
            BankHash::Permutation,
            BankHash::Fold,
            BankHash::Functions { bits: bits.into() },
        ]
    }

    #[test]
    fn a_mapping_is_a_bijection_of_the_addresses() {
        let texts = [
            "RoBaRaCoCh",
            "ChRaBaRoCo",
            "MOP4CLXOR",
            "RoCo3BaBgRaCoCh",
            "Ro8CoBaCh1BgRaRo",
        ];
        let small = FieldWidths { row: 9, ..WIDTHS };
        for (text, hash) in texts
            .iter()
            .flat_map(|text| hashes().map(|hash| (text, hash)))
        {
            let mapping = AddressMapping::new(text, &hash, small).unwrap();
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
            let all = 1 << (small.total() - small.burst);
            assert_eq!(seen.len(), all, "{text} {hash:?}");
        }
    }

    /// Number of banks in all channels that 64 accesses touch, for each stride of a power of two.
    fn banks_by_stride(text: &str, hash: &BankHash) -> Vec<usize> {
        let mapping = AddressMapping::new(text, hash, WIDTHS).unwrap();
        let bits = WIDTHS.total() - WIDTHS.burst;
        let banks = |shift: u32| {
            let places = (0..64u64).map(|index| mapping.place(index << shift));
            let banks: std::collections::BTreeSet<_> =
                places.map(|place| (place.channel, place.bank)).collect();
            banks.len()
        };
        (0..bits - 5).map(banks).collect()
    }

    #[test]
    fn a_hash_spreads_strides_of_powers_of_two() {
        // Two channels, two ranks, 16 banks; the row starts 13 bits above the burst.
        let none = banks_by_stride("RoBaRaCoCh", &BankHash::None);
        assert!(none[13..].iter().all(|banks| *banks == 1), "{none:?}");
        let permuted = banks_by_stride("RoBaRaCoCh", &BankHash::Permutation);
        assert_eq!(permuted[13], 16, "{permuted:?}");
        for text in ["RoBaRaCoCh", "RoCo3BaBgRaCoCh", "ChRaBaRoCo"] {
            let folded = banks_by_stride(text, &BankHash::Fold);
            let row = if text == "ChRaBaRoCo" { 7 } else { 13 };
            assert_eq!(folded[row..=row + 8], [64; 9], "{folded:?}");
        }
        let folded = banks_by_stride("RoBaRaCoCh", &BankHash::Fold);
        assert!(folded[8..].iter().all(|banks| *banks == 64), "{folded:?}");
    }

    #[test]
    fn a_permutation_adds_the_lowest_row_bits_to_the_bank() {
        let mapping = AddressMapping::new("RoBaRaCoCh", &BankHash::Permutation, WIDTHS).unwrap();
        // The row starts at bit 13: its bits 01 are added to the bank group, 11 to the bank.
        let place = mapping.place(0b1101 << 13 | 1 << 9);
        assert_eq!((place.row, place.bank), (0b1101, 0b0011));
        let place = mapping.place(0b1101 << 13 | 0b11 << 11);
        assert_eq!((place.row, place.bank), (0b1101, 0b0100));
    }

    /// Ramulator's definition: each field takes as many bits of the column as it has itself.
    #[test]
    fn mop4clxor_adds_the_column_to_pseudo_channel_rank_group_bank_and_row() {
        let of = |text| AddressMapping::new(text, &BankHash::None, WIDTHS).unwrap();
        let (plain, hashed) = (of("RoCoBaBgRaPcCo2Ch"), of("MOP4CLXOR"));
        for burst in (0..1u64 << 29).step_by(104_729) {
            let (before, after) = (plain.place(burst), hashed.place(burst));
            let column = before.column;
            let rank = before.bank >> 4 ^ column & 1;
            let group = before.bank >> 2 & 3 ^ column >> 1 & 3;
            let bank = before.bank & 3 ^ column >> 3 & 3;
            let expected = BurstLocation {
                bank: rank << 4 | group << 2 | bank,
                row: before.row ^ column >> 5,
                ..before
            };
            assert_eq!(after, expected, "{burst}");
        }
    }

    #[test]
    fn named_mappings_order_the_fields_as_their_names_say() {
        let at = |text, burst| {
            let mapping = AddressMapping::new(text, &BankHash::None, WIDTHS).unwrap();
            let place = mapping.place(burst);
            (place.channel, place.bank, place.row, place.column)
        };
        // From the lowest bit: channel, column, rank (16 banks), bank group (4 banks).
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
            let error = AddressMapping::new(text, &BankHash::None, WIDTHS).unwrap_err();
            assert!(error.message.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn functions_that_the_memory_does_not_have_or_that_lose_places_are_refused() {
        for (name, sources, hint) in [
            ("Xy0", vec![8], "must be Ch, Pc, Ra, Bg or Ba"),
            ("Ro0", vec![8], "must be Ch, Pc, Ra, Bg or Ba"),
            ("Ch1", vec![8], "`Ch` has 1 bits"),
            ("Bg0", vec![5], "above the 64 bytes of a burst are 6 to 34"),
            ("Bg0", vec![35], "are 6 to 34"),
            // A bit must not be its own source.
            ("Ch0", vec![6], "give several addresses one place"),
        ] {
            let bits = [(name.to_owned(), sources)].into();
            let mapping = AddressMapping::new("RoBaRaCoCh", &BankHash::Functions { bits }, WIDTHS);
            let error = mapping.unwrap_err();
            assert!(error.message.contains(hint), "{name}: {error}");
        }
        // Two bits must not be each other's source.
        let bits = [("Ch0", 15), ("Bg0", 6)].map(|(name, bit)| (name.to_owned(), vec![bit]));
        let bits = bits.into();
        let mapping = AddressMapping::new("RoBaRaCoCh", &BankHash::Functions { bits }, WIDTHS);
        assert!(mapping.is_err());
    }
}
