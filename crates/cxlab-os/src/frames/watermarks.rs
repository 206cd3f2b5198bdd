//! Watermarks: how much memory of a node stays free for which purpose.

use cxlab_engine::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of a node's watermarks. Defaults are Linux's (`mm/page_alloc.c`,
/// `calculate_min_free_kbytes` and `__setup_per_zone_wmarks`, 6.x).
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct WatermarkParams {
    /// Free memory below which only reclaim allocates (`min_free_kbytes`). Default: 4 times the
    /// square root of the capacity, both in KiB, between 128 KiB and 256 MiB. (Linux computes the
    /// value for all nodes together and divides it by size; here each node has its own.)
    pub min: Option<Bytes>,
    /// Distance of `low` from `min`, and of `high` from `low`, in ten-thousandths of the capacity
    /// (`watermark_scale_factor`); at least a quarter of `min`. 0 to 3000. Default 10.
    #[schemars(range(min = 0, max = 3000))]
    pub scale: u32,
}

impl Default for WatermarkParams {
    fn default() -> Self {
        WatermarkParams {
            min: None,
            scale: 10,
        }
    }
}

/// Watermarks of free memory, in bytes, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Watermarks {
    /// Below this, ordinary allocation fails.
    pub min: u64,
    /// Below this, allocation prefers the next node, and background reclaim begins.
    pub low: u64,
    /// Above this, background reclaim ends.
    pub high: u64,
}

impl WatermarkParams {
    /// No watermarks: all memory can be allocated.
    pub const NONE: WatermarkParams = WatermarkParams {
        min: Some(Bytes(0)),
        scale: 0,
    };

    /// The watermarks of a node of this capacity.
    pub fn of(self, capacity: Bytes) -> Watermarks {
        let kib = 1 << 10;
        let default = || (4 * (capacity.0 / kib).isqrt()).clamp(128, 256 << 10) * kib;
        let min = self.min.map_or_else(default, |min| min.0);
        let scaled = u128::from(capacity.0) * u128::from(self.scale) / 10_000;
        let step = (min / 4).max(u64::try_from(scaled).unwrap_or(u64::MAX));
        Watermarks {
            min,
            low: min.saturating_add(step),
            high: min.saturating_add(step).saturating_add(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_16_gib_keeps_what_linux_keeps() {
        // int_sqrt(16 GiB in KiB * 16) = 16384 KiB; the scale of 10 gives 16 GiB / 1000.
        let marks = WatermarkParams::default().of(Bytes(16 << 30));
        assert_eq!(marks.min, 16_384 << 10);
        assert_eq!(marks.low - marks.min, (16 << 30) / 1000);
        assert_eq!(marks.high - marks.low, (16 << 30) / 1000);
    }

    #[test]
    fn none_keeps_nothing() {
        let marks = WatermarkParams::NONE.of(Bytes(16 << 30));
        assert_eq!(marks, Watermarks::default());
    }
}
