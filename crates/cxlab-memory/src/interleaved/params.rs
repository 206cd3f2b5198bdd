//! Parameters of interleaved media.

use cxlab_engine::catalog::{ParamError, in_part, in_range, refused};
use cxlab_engine::units::{Bytes, LINE_BYTES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::map::InterleaveMap;
use crate::Medium;
use crate::nested::NestedMedium;

/// Most media in a device.
pub(super) const MAX_MEDIA: usize = 64;

/// The distribution of addresses over media.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Round-robin by granule: granule `g` is in medium `g` modulo the number of media, as in the
    /// HDM decoders of CXL 3.1 (section 8.2.4.20) and the channels of memory controllers.
    #[default]
    Modulo,
    /// Hashed: the number of the medium is the exclusive or of all digits of `g` to the base of the
    /// number of media, so that strides spread too. Needs a power of two of media.
    Xor,
    /// Consecutive ranges of addresses, one in each medium.
    Ranges,
}

/// Parameters of interleaved media.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct InterleavedParams {
    /// The media, one for each channel, of any kind but this one. 1 to 64. Must be given.
    pub media: Vec<NestedMedium>,
    /// Number of times that the list is repeated: `copies = 4` with one medium makes four channels.
    /// 1 to 64, and at most 64 media in all. Default 1.
    #[schemars(range(min = 1, max = 64))]
    pub copies: u32,
    /// The distribution of addresses over media. Default `modulo`.
    pub spread: Spread,
    /// Consecutive bytes in one medium. A power of two from 64 B to 1 GiB. Default 256 B (the least
    /// interleave granularity of CXL 3.1, section 8.2.4.20).
    pub granularity: Bytes,
    /// Capacity of each medium, only for `spread = "ranges"`. The sum is the capacity of the
    /// device. Default: equal parts.
    pub capacities: Option<Vec<Bytes>>,
    /// Pieces of requests that may wait for their medium. Requests are accepted while fewer pieces
    /// wait. 1 to 65536. Default: 16 for each medium (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub queue: Option<u32>,
}

impl Default for InterleavedParams {
    fn default() -> Self {
        InterleavedParams {
            media: Vec::new(),
            copies: 1,
            spread: Spread::Modulo,
            granularity: Bytes(256),
            capacities: None,
            queue: None,
        }
    }
}

/// Interleaved media with checked parameters. Only the device's capacity is still unchecked.
pub(super) struct ResolvedInterleave {
    pub(super) media: Vec<Box<dyn Medium>>,
    pub(super) queue: usize,
    spread: Spread,
    granularity: Bytes,
    capacities: Option<Vec<Bytes>>,
    /// Number of media in the list before it is repeated.
    pub(super) listed: usize,
}

impl InterleavedParams {
    pub(super) fn resolve(&self) -> Result<ResolvedInterleave, ParamError> {
        if self.media.is_empty() {
            let allowed = "a list of media such as [{ kind = \"dram\" }]";
            return Err(refused("media", "none", allowed));
        }
        let count = self.media.len().saturating_mul(self.copies as usize);
        if self.copies == 0 || count > MAX_MEDIA {
            let allowed = format!("1 to {}", MAX_MEDIA / self.media.len().min(MAX_MEDIA));
            return Err(refused("copies", self.copies, allowed));
        }
        let granularity = self.granularity.0;
        if !granularity.is_power_of_two() || !(LINE_BYTES..=1 << 30).contains(&granularity) {
            let allowed = "a power of two, 64 B to 1 GiB";
            return Err(refused("granularity", self.granularity, allowed));
        }
        if self.spread == Spread::Xor && !count.is_power_of_two() {
            let found = format!("`xor` with {count} media");
            return Err(refused(
                "spread",
                found,
                "`xor` with a power of two of media",
            ));
        }
        if let Some(capacities) = &self.capacities {
            if self.spread != Spread::Ranges {
                return Err(ParamError::new(
                    "capacities",
                    "media that are interleaved have equal parts; allowed with `spread = \"ranges\"`",
                ));
            }
            if capacities.len() != count {
                let allowed = format!("{count}, one a medium");
                return Err(refused("capacities", capacities.len(), allowed));
            }
        }
        in_range("queue", self.queue.unwrap_or(1), 1..=65536)?;
        if let Some(at) = self.media.iter().position(|one| one.kind == "interleaved") {
            let allowed = "media that are not interleaved themselves; list theirs here";
            let field = format!("media[{at}].kind");
            return Err(refused(&field, "`interleaved`", allowed));
        }
        let listed = self.media.len();
        let media = (0..count)
            .map(|at| {
                let number = at % listed;
                in_part(&format!("media[{number}]"), self.media[number].build())
            })
            .collect::<Result<_, _>>()?;
        Ok(ResolvedInterleave {
            media,
            queue: self.queue.map_or(16 * count, |queue| queue as usize),
            spread: self.spread,
            granularity: self.granularity,
            capacities: self.capacities.clone(),
            listed,
        })
    }
}

impl ResolvedInterleave {
    /// The capacity of each medium in a device of the given capacity.
    pub(super) fn shares(&self, capacity: Bytes) -> Vec<Bytes> {
        let equal = Bytes(capacity.0 / self.media.len() as u64);
        (self.capacities.clone()).unwrap_or_else(|| vec![equal; self.media.len()])
    }

    pub(super) fn map(&self, capacity: Bytes) -> InterleaveMap {
        InterleaveMap::new(self.spread, self.granularity, &self.shares(capacity))
    }

    pub(super) fn check_capacity(&self, capacity: Bytes) -> Result<(), ParamError> {
        let count = self.media.len();
        match &self.capacities {
            Some(capacities) => {
                let sum: u128 = capacities.iter().map(|one| u128::from(one.0)).sum();
                if sum != u128::from(capacity.0) {
                    let allowed = format!("together the device's capacity, {capacity}");
                    return Err(refused("capacities", format!("{sum} B in all"), allowed));
                }
                for one in capacities {
                    if one.0 == 0 || !one.0.is_multiple_of(self.granularity.0) {
                        let allowed = format!("multiples of `granularity`, {}", self.granularity);
                        return Err(refused("capacities", one, allowed));
                    }
                }
            }
            None => {
                let stripe = self.granularity.0 as u128 * count as u128;
                if capacity.0 == 0 || !u128::from(capacity.0).is_multiple_of(stripe) {
                    let allowed =
                        format!("what divides a medium's part of the device, {capacity} / {count}");
                    return Err(refused("granularity", self.granularity, allowed));
                }
            }
        }
        let shares = self.shares(capacity);
        for (at, (medium, share)) in self.media.iter().zip(shares).enumerate() {
            let part = format!("media[{}]", at % self.listed);
            in_part(&part, medium.check(share))?;
        }
        Ok(())
    }
}
