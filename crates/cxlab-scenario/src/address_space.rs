//! The address space: which hosts see which memory, and how devices are interleaved.

use std::borrow::Cow;

use cxlab_engine::units::Bytes;
use cxlab_protocol::hdm::xor_maps;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How hosts use a region.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Each host has memory of its own, which no other sees (pooling).
    #[default]
    Exclusive,
    /// All hosts see the same memory. The device keeps their caches coherent if it is hdm-db;
    /// otherwise their software must.
    Shared,
    /// One memory, assigned to one host at a time: first to the first of the region's hosts, later
    /// to the host that an event adds it to.
    Moving,
    /// Blocks of 256 MiB, each on one device and assigned to at most one host at a time. The fabric manager grants a
    /// host the blocks that it needs (`demand`), by `fabric_manager.policy`; no host has any at first.
    Pooled,
}

/// Memory of Type 3 devices that is given to hosts.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct RegionGroup {
    /// The region's name.
    pub name: String,
    /// Capacity for each host, or of the memory that all share: a multiple of 256 MiB on each device.
    pub capacity: Bytes,
    /// How hosts use the region. Default exclusive.
    #[serde(default)]
    pub sharing: Sharing,
    /// The devices that the region is interleaved over: names of devices, or of groups of them.
    /// Default: all Type 3 devices.
    #[serde(default)]
    pub devices: Vec<String>,
    /// The hosts of the region: names of hosts, or of groups of them. Default: all.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Whether hosts have the region's memory from the beginning. Otherwise its addresses have no
    /// memory until an event adds it. Default true.
    #[serde(
        default = "crate::defaults::yes",
        skip_serializing_if = "crate::defaults::is_yes"
    )]
    pub initially_added: bool,
}

/// How devices share the address space.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct AddressMapParams {
    /// Bytes of consecutive addresses on one device before the next takes over: 256 B to 16 KiB,
    /// a power of two (CXL 3.1 section 8.2.4.20.7). Default 256 B.
    pub granularity: Bytes,
    /// Devices that an address window is interleaved over: 2^k or 3 * 2^k, dividing the number of
    /// devices. Default: the largest that divides it, so all devices where that is possible.
    pub ways: Option<u32>,
    /// How a window chooses among its devices. Default `modulo`.
    pub arithmetic: Arithmetic,
    /// With `xor`: the XOR maps that the platform publishes (CXIMS structure of the CEDT), one for each bit of
    /// the ways, from the lowest on. The lowest bit of map `i` is bit `i` above the granularity. Default: those
    /// of Linux's test of the arithmetic, 0x2020900, 0x4041200, 0x1010400 and 0x800 for 256 B.
    pub xor_maps: Option<Vec<u64>>,
}

/// The interleave arithmetic of a window over host bridges (CFMWS of the CEDT; CXL 3.1 table 9-22).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Arithmetic {
    /// The bits above the granularity select the device, and for a factor of three the rest of the address modulo three.
    #[default]
    Modulo,
    /// Each bit that selects the device is the XOR of several address bits, so that strides reach
    /// all devices. A factor of three stays a modulo.
    Xor,
}

impl Default for AddressMapParams {
    fn default() -> Self {
        AddressMapParams {
            granularity: Bytes(256),
            ways: None,
            arithmetic: Arithmetic::Modulo,
            xor_maps: None,
        }
    }
}

impl AddressMapParams {
    /// The XOR maps; `None` where the arithmetic is modulo.
    pub fn xor_maps(&self) -> Option<Cow<'_, [u64]>> {
        match (self.arithmetic, &self.xor_maps) {
            (Arithmetic::Modulo, _) => None,
            (Arithmetic::Xor, Some(maps)) => Some(Cow::Borrowed(maps)),
            (Arithmetic::Xor, None) => Some(Cow::Owned(xor_maps(self.granularity).to_vec())),
        }
    }
}
