//! Hashes of addresses: address bits that are combined by exclusive or with the bits that select a
//! channel, a rank or a bank. Strides of powers of two then spread over channels, ranks and banks.
//!
//! The row and the column are not hashed, so a hash maps no two addresses to one place. For
//! functions that a scenario gives, `mapping.rs` checks this.

use std::collections::BTreeMap;

use cxlab_engine::catalog::ParamError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mapping::{
    BANK, BitLayout, CHANNEL, COLUMN, FIELDS, FieldWidths, GROUP, PSEUDO, RANK, ROW,
};

/// Address bits that are added (exclusive or) to the bits that select a channel, rank or bank.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum BankHash {
    /// Addresses are not hashed.
    #[default]
    None,
    /// Permutation-based page interleaving (Zhang, Zhu and Zhang, MICRO 2000): each bit of bank
    /// group and bank gets one of the lowest bits of the row. Strides of a power of two up to the
    /// number of banks times their rows spread over all banks of a rank.
    Permutation,
    /// All bits of the row are dealt in turn to the bits of channel, pseudo channel, rank, bank
    /// group and bank, from the lowest address bit up. All bits of the column are dealt to those of
    /// channel and pseudo channel. Every stride of a power of two of a row or more spreads over all
    /// channels and banks. Measured processors have this structure: several row bits in each
    /// function (AMD Zen: Jattke et al., ZenHammer, USENIX Security 2024), and column bits in that
    /// of the channel (Intel: Pessl et al., DRAMA, USENIX Security 2016).
    Fold,
    /// Explicit functions, for example as measured on a machine.
    Functions {
        /// For each bit, named by field and number (`Ch0`, `Bg1`), the bits of the device's byte
        /// address that are added to it. Fields: `Ch` channel, `Pc` pseudo channel, `Ra` rank, `Bg`
        /// bank group, `Ba` bank.
        bits: BTreeMap<String, Vec<u32>>,
    },
}

/// A bit (`source`) of a burst's number that is added to a bit of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HashTerm {
    pub field: usize,
    pub bit: u32,
    pub source: u32,
}

impl BankHash {
    /// The terms that the hash adds to the fields.
    ///
    /// # Errors
    /// A function with a selected bit or an address bit that the memory does not have.
    pub(super) fn terms(
        &self,
        layout: &BitLayout,
        widths: &FieldWidths,
    ) -> Result<Vec<HashTerm>, ParamError> {
        match self {
            BankHash::None => Ok(Vec::new()),
            BankHash::Permutation => Ok(deal(&layout[ROW], &selectors(layout, &[GROUP, BANK]), 1)),
            BankHash::Fold => {
                let all = selectors(layout, &[CHANNEL, PSEUDO, RANK, GROUP, BANK]);
                let mut terms = deal(&layout[ROW], &all, usize::MAX);
                let channels = selectors(layout, &[CHANNEL, PSEUDO]);
                terms.extend(deal(&layout[COLUMN], &channels, usize::MAX));
                Ok(terms)
            }
            BankHash::Functions { bits } => functions(bits, widths),
        }
    }
}

/// The bits of some fields, from the lowest address bit up.
fn selectors(layout: &BitLayout, fields: &[usize]) -> Vec<(usize, u32)> {
    let bits = fields
        .iter()
        .flat_map(|field| (0..layout[*field].len()).map(|bit| (*field, bit as u32)));
    let mut list: Vec<_> = bits.collect();
    list.sort_unstable_by_key(|(field, bit)| layout[*field][*bit as usize]);
    list
}

/// Deals address bits in turn to the bits of fields, for at most `rounds` rounds.
fn deal(sources: &[u32], targets: &[(usize, u32)], rounds: usize) -> Vec<HashTerm> {
    let most = targets.len().saturating_mul(rounds);
    let targets = targets.iter().cycle().take(most);
    sources
        .iter()
        .zip(targets)
        .map(|(source, (field, bit))| HashTerm {
            field: *field,
            bit: *bit,
            source: *source,
        })
        .collect()
}

fn functions(
    bits: &BTreeMap<String, Vec<u32>>,
    widths: &FieldWidths,
) -> Result<Vec<HashTerm>, ParamError> {
    let mut terms = Vec::new();
    for (name, sources) in bits {
        let (field, bit) = selector(name, widths)?;
        for source in sources {
            if !(widths.burst..widths.total()).contains(source) {
                return Err(ParamError::new(
                    format!("hash.bits.{name}"),
                    format!(
                        "{source}: bits of an address above the {} bytes of a burst are {} to {}",
                        1u64 << widths.burst,
                        widths.burst,
                        widths.total() - 1
                    ),
                ));
            }
            terms.push(HashTerm {
                field,
                bit,
                source: source - widths.burst,
            });
        }
    }
    Ok(terms)
}

/// Parses the field and bit of a name such as `Bg1`.
fn selector(name: &str, widths: &FieldWidths) -> Result<(usize, u32), ParamError> {
    let wrong = |message| ParamError::new(format!("hash.bits.{name}"), message);
    let allowed = [CHANNEL, PSEUDO, RANK, GROUP, BANK];
    let field = allowed
        .into_iter()
        .find(|field| name.starts_with(FIELDS[*field]));
    let bit = name.get(2..).and_then(|digits| digits.parse().ok());
    match field.zip(bit) {
        Some((field, bit)) if bit < widths.of(field) => Ok((field, bit)),
        Some((field, _)) => Err(wrong(format!(
            "`{}` has {} bits in this memory",
            FIELDS[field],
            widths.of(field)
        ))),
        None => Err(wrong(
            "must be Ch, Pc, Ra, Bg or Ba and the number of one of its bits, as in `Bg1`"
                .to_owned(),
        )),
    }
}
