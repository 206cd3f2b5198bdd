//! A link's parameters in a scenario: the single home of their defaults.

use cxlab_engine::catalog::Part;
use cxlab_engine::units::{Bytes, BytesPerSec, Picos};
use cxlab_protocol::flit::{FlitFormat, efficiency};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use cxlab_protocol::Channel;

use crate::credit::{
    CreditReturns, CreditTable, CreditWindows, LEAST_DEFAULT, MOST_CREDITS, MOST_IN_WINDOW,
};

/// PCIe generation, which sets the rate of a lane.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, Debug,
)]
pub enum PcieGeneration {
    /// 8 GT/s, 128b/130b encoding.
    #[serde(rename = "3")]
    Gen3,
    /// 16 GT/s, 128b/130b encoding.
    #[serde(rename = "4")]
    Gen4,
    /// 32 GT/s, 128b/130b encoding.
    #[serde(rename = "5")]
    Gen5,
    /// 64 GT/s, PAM4 in FLIT mode (1b/1b).
    #[serde(rename = "6")]
    Gen6,
    /// 128 GT/s, PAM4 in FLIT mode (1b/1b).
    #[serde(rename = "7")]
    Gen7,
}

impl PcieGeneration {
    /// Raw bytes per second of a lane in one direction, all bits counted.
    const fn raw_lane_rate(self) -> u64 {
        let transfers: u64 = match self {
            PcieGeneration::Gen3 => 8_000_000_000,
            PcieGeneration::Gen4 => 16_000_000_000,
            PcieGeneration::Gen5 => 32_000_000_000,
            PcieGeneration::Gen6 => 64_000_000_000,
            PcieGeneration::Gen7 => 128_000_000_000,
        };
        transfers / 8
    }

    /// Whether lanes carry 128b/130b blocks, whose two bits of sync header CXL may omit. Generations 6 and
    /// 7 have 1b/1b encoding without sync headers (PCIe 6.0 sections 4.2.1 and 4.2.3; CXL 3.1 table 6-15).
    pub const fn has_sync_headers(self) -> bool {
        !matches!(self, PcieGeneration::Gen6 | PcieGeneration::Gen7)
    }

    /// Bytes per second that a lane carries in one direction after line encoding.
    pub const fn lane_rate(self, sync_header_bypass: bool) -> BytesPerSec {
        let raw = self.raw_lane_rate();
        BytesPerSec(match self.has_sync_headers() && !sync_header_bypass {
            true => raw * 128 / 130,
            false => raw,
        })
    }
}

/// Whether the two directions transmit at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Duplex {
    /// Each direction has the whole rate, as in PCIe.
    #[default]
    Full,
    /// The directions share the rate through a bus that turns around. For comparison with buses such as
    /// DDR (ESF section V-D).
    Half,
}

/// How a transmitter turns messages into bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Transmission {
    /// Flits with the specification's slot rules, in the format of `flit`.
    #[default]
    Flit,
    /// Packets: a header of configurable size before each message, for studies of its overhead.
    Packet,
}

/// Sizes of packets in packet transmission.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct PacketHeader {
    /// Size of a message without data (M2S Req, S2M NDR). Default 16 B, a CXL slot.
    pub header: Bytes,
    /// Header of a message with data, before its 64 B. Default 16 B. ESF's figures 16 and 17
    /// follow with 0 B (the payload packet has no header of its own).
    pub data_header: Bytes,
    /// Bytes that the transmitter stages for the wire after arbitration. While fewer bytes are being sent
    /// or staged, the next message may join them. A full transmitter accepts more only when the wire is
    /// free. Default 256 B, the size of a 256 B flit; with 0 B every packet is arbitrated separately.
    pub staging: Bytes,
}

impl Default for PacketHeader {
    fn default() -> Self {
        PacketHeader {
            header: Bytes(16),
            data_header: Bytes(16),
            staging: Bytes(256),
        }
    }
}

impl PacketHeader {
    /// Bytes of a message without data, and of one with data.
    pub fn sizes(&self) -> [u64; 2] {
        [self.header.0, self.data_header.0 + 64]
    }
}

/// Parts that `fabric.link` and its kin may be.
static PARTS: &[Part] = &[
    Part {
        name: "esf",
        summary: "The link of ESF: a port delay of 25 ns at each end and in each direction, a bus time of 1 ns, and no time for error correction.",
        source: "Table III of the paper.",
        validated: "Compared with the paper's figures (`cxlab reproduce esf`).",
        keys: || json!({ "propagation": "1 ns", "port_delay": "25 ns", "fec_delay": "0 ns" }),
    },
    Part {
        name: "gen5-x8",
        summary: "A CXL 1.1 or 2.0 link of eight lanes at 32 GT/s, with 68 B flits: most expanders.",
        source: "CXL 3.1 sections 4.2 and 6.2; delays are cxlab's defaults.",
        validated: "Bandwidth of 45 mixes of a vendor's model (docs/explain/hardware.md).",
        keys: || json!({ "generation": "5", "lanes": 8 }),
    },
    Part {
        name: "gen5-x16",
        summary: "A CXL 1.1 or 2.0 link of sixteen lanes at 32 GT/s, with 68 B flits.",
        source: "CXL 3.1 sections 4.2 and 6.2; delays are cxlab's defaults.",
        validated: "Not validated: no source has a device that fills it.",
        keys: || json!({ "generation": "5", "lanes": 16 }),
    },
    Part {
        name: "retimer",
        summary: "One retimer of 10 ns in each direction.",
        source: "A typical figure of vendors in low-latency mode.",
        validated: "Not validated.",
        keys: || json!({ "retimers": 1, "retimer_delay": "10 ns" }),
    },
    Part {
        name: "retimer-slowest",
        summary: "One retimer of 64 ns in each direction, the longest that PCIe 5.0 allows at 32 GT/s.",
        source: "PCIe 5.0, without SRIS.",
        validated: "Not validated.",
        keys: || json!({ "retimers": 1, "retimer_delay": "64 ns" }),
    },
];

cxlab_engine::preset! {
    /// A link with a name.
    LinkPreset, PARTS
}

/// Parameters of a link between two ports.
// `remote`: the code that serde derives reads and writes all fields; `with_preset` adds presets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct LinkParams {
    /// A part whose values become the defaults. Default: none, so the defaults below apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<LinkPreset>,
    /// PCIe generation of the lanes. Default 6, the generation of CXL 3.x.
    pub generation: PcieGeneration,
    /// Lanes: 1, 2, 4, 8 or 16. Default 16.
    #[schemars(extend("enum" = [1, 2, 4, 8, 16]))]
    pub lanes: u8,
    /// Rate of one direction. Default: the generation's lane rate times the number of lanes.
    pub bandwidth: Option<BytesPerSec>,
    /// Generations 3 to 5: whether blocks omit their sync headers (Sync Header Bypass, CXL 3.1 section
    /// 6.8), which take 1.5 % of the rate. Components negotiate the bypass. Both ends need one reference
    /// clock, and a retimer between them must not add or remove SKP Ordered Sets (table 6-14). Default
    /// true, because firmware of shipped hosts asks for it (coreboot sets `SyncHeaderByPass` for AMD's
    /// Genoa and Turin). Links of PCIe devices never bypass them.
    pub sync_header_bypass: Option<bool>,
    /// Flits or packets. Default flits.
    pub transmission: Transmission,
    /// Flit format. Default: 68 B up to generation 5, 256 B from generation 6 on, as the
    /// specification requires (CXL 3.1 section 6.2).
    pub flit: Option<FlitFormat>,
    /// Packet sizes, for packet transmission.
    pub packet: PacketHeader,
    /// Full or half duplex. Default full.
    pub duplex: Duplex,
    /// Half duplex: how long the bus is idle when it turns around. Default 1 ns, *assumed* (a DDR5
    /// read-to-write turnaround is a few clocks).
    pub turnaround: Picos,
    /// Half duplex: messages that a direction may send before it yields to a waiting opposite direction.
    /// Default 16, *assumed* (a memory controller's drain batch). 1 or more.
    #[schemars(range(min = 1, max = 65535))]
    pub turnaround_burst: u16,
    /// Propagation delay of the wire. Default 1 ns: 20 cm of board (*assumed*; ESF's Table III
    /// has the same bus time).
    pub propagation: Picos,
    /// Delay of a port (PHY, link and transaction layers) in one direction, charged at the transmitting and
    /// at the receiving end of each link. Default 12.5 ns: a CXL port takes 25 ns there and back (Li et
    /// al., "Pond", ASPLOS 2023, section 2, *recollection*).
    pub port_delay: Picos,
    /// Time of forward error correction at the receiving end. Default: 2 ns in standard 256 B flits,
    /// the bound that PCIe 6.0 sets itself (Das Sharma, "PCI Express 6.0 Specification", IEEE Micro
    /// 2022, *recollection*). None in latency-optimized flits, whose halves are forwarded when their
    /// own CRC is right (CXL 3.1 section 6.2.3.1.2), nor in 68 B flits and packets, which have no
    /// forward error correction.
    pub fec_delay: Option<Picos>,
    /// Retimers between the ports: 0 to 2, as PCIe allows (PCIe 5.0 section 4.3). Default 0.
    #[schemars(range(max = 2))]
    pub retimers: u8,
    /// Delay of a retimer in one direction. Default 10 ns, a typical vendor figure; PCIe 5.0
    /// allows 64 ns at 32 GT/s.
    pub retimer_delay: Picos,
    /// Receive buffers. Default: enough to sustain the link's rate over the round trip of a credit.
    pub credits: CreditTable,
    /// Probability that a transmission of a flit (or packet) is corrupted and repeated (link-level retry,
    /// CXL 3.1 section 4.2.8). Default 0. 0 to 0.1.
    #[schemars(range(min = 0.0, max = 0.1))]
    pub flit_error_rate: FlitErrorRate,
    /// Flits that the transmitter keeps for retry. They must cover the link's round trip. Default 255 (the
    /// largest number that the 8-bit sequence arithmetic of a 68 B link covers). 1 to 65535.
    #[schemars(range(min = 1, max = 65535))]
    pub replay_buffer_flits: u16,
}

/// A probability. It is compared by its bits, so that link parameters implement `Eq`.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(transparent)]
pub struct FlitErrorRate(pub f64);

impl PartialEq for FlitErrorRate {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for FlitErrorRate {}

cxlab_engine::with_preset!(LinkParams, LinkPreset);

impl Default for LinkParams {
    fn default() -> Self {
        LinkParams {
            preset: None,
            generation: PcieGeneration::Gen6,
            lanes: 16,
            bandwidth: None,
            sync_header_bypass: None,
            transmission: Transmission::Flit,
            flit: None,
            packet: PacketHeader::default(),
            duplex: Duplex::Full,
            turnaround: Picos::from_nanos(1),
            turnaround_burst: 16,
            propagation: Picos::from_nanos(1),
            port_delay: Picos(12_500),
            fec_delay: None,
            retimers: 0,
            retimer_delay: Picos::from_nanos(10),
            credits: CreditTable::default(),
            flit_error_rate: FlitErrorRate(0.0),
            replay_buffer_flits: 255,
        }
    }
}

/// Flits of a RETRY.Req or RETRY.Ack, with the five RETRY.Frame flits before it (CXL 3.1 section 4.2.8.4).
const RETRY_SEQUENCE: u64 = 6;

/// Default time of forward error correction in a standard 256 B flit.
const FEC: Picos = Picos::from_nanos(2);

/// Ratio of the credits of a class to those that a round trip needs: a quarter of them may wait at the
/// receiver until they go back together ([`LinkParams::standalone_threshold`]).
const SPARE: f64 = 4.0 / 3.0;

impl LinkParams {
    /// Rate of one direction.
    pub fn rate(&self) -> BytesPerSec {
        self.bandwidth.unwrap_or(BytesPerSec(
            self.generation.lane_rate(self.bypasses_sync_headers()).0 * u64::from(self.lanes),
        ))
    }

    /// Whether the link bypasses sync headers, if its generation has any.
    pub fn bypasses_sync_headers(&self) -> bool {
        self.sync_header_bypass.unwrap_or(true)
    }

    /// The flit format in use: `flit`, or the generation's default.
    pub fn flit_format(&self) -> FlitFormat {
        self.flit.unwrap_or(match self.generation {
            PcieGeneration::Gen3 | PcieGeneration::Gen4 | PcieGeneration::Gen5 => FlitFormat::B68,
            PcieGeneration::Gen6 | PcieGeneration::Gen7 => FlitFormat::B256,
        })
    }

    /// Bytes of a flit, or of the largest packet.
    pub fn unit_bytes(&self) -> u64 {
        match self.transmission {
            Transmission::Flit => self.flit_format().bytes(),
            Transmission::Packet => self.packet.sizes().into_iter().fold(0, u64::max),
        }
    }

    /// How the link encodes the credits that it returns.
    pub(crate) fn returns(&self) -> CreditReturns {
        match (self.transmission, self.flit_format()) {
            (Transmission::Packet, _) => CreditReturns::Any,
            (Transmission::Flit, FlitFormat::B68) => CreditReturns::Flit68,
            (Transmission::Flit, _) => CreditReturns::Flit256,
        }
    }

    /// Number of freed buffers of a window from which their credits ride on the next message.
    pub fn piggyback_threshold(&self, window: u16) -> u16 {
        self.returns().piggyback_threshold(window)
    }

    /// Number of freed buffers of a window from which their credits go back without a message.
    pub fn standalone_threshold(&self, window: u16) -> u16 {
        self.returns().standalone_threshold(window)
    }

    /// Time of forward error correction, in picoseconds.
    pub fn fec_ps(&self) -> u64 {
        let corrects = self.transmission == Transmission::Flit
            && matches!(self.flit_format(), FlitFormat::B256 | FlitFormat::B256Pbr);
        let default = Picos(u64::from(corrects) * FEC.0);
        self.fec_delay.unwrap_or(default).0
    }

    /// Constant delay of a crossing in the two ports, in picoseconds, with forward error correction.
    pub fn ports_ps(&self) -> u64 {
        2 * self.port_delay.0 + self.fec_ps()
    }

    /// Constant delay of a crossing between the ports, in picoseconds: wire and retimers.
    pub fn flight_ps(&self) -> u64 {
        self.propagation.0 + u64::from(self.retimers) * self.retimer_delay.0
    }

    /// Constant delay of a crossing, in picoseconds: ports, wire and retimers.
    pub fn crossing_ps(&self) -> u64 {
        self.flight_ps() + self.ports_ps()
    }

    /// Time that one 64-byte line takes in one direction of a link full of lines, in picoseconds: the
    /// shorter of the times for reads alone and for writes alone.
    pub fn line_ps(&self) -> f64 {
        let bytes = match self.transmission {
            Transmission::Flit => {
                let format = self.flit_format();
                let reads = efficiency(format, 1.0).s2m.transactions_per_flit;
                let writes = efficiency(format, 0.0).m2s.transactions_per_flit;
                format.bytes() as f64 / reads.max(writes)
            }
            Transmission::Packet => self.packet.sizes()[1] as f64,
        };
        bytes * 1e12 / self.rate().0 as f64
    }

    /// Round trip of a credit, in picoseconds. It starts when a transmitter spends the credit on a
    /// message and ends when the credit is back, if the receiver's link layer frees the buffer without
    /// delay. The round trip is the crossing there and back, plus the bytes that may occupy the wire
    /// before the message or the credit. In flits these are a flit that has begun, the two that a line
    /// may span, and one for the way back. In packet transmission they are the staged bytes, the packet,
    /// and one for the way back.
    pub fn credit_round_ps(&self) -> u64 {
        let bytes = match self.transmission {
            Transmission::Flit => 4 * self.unit_bytes(),
            Transmission::Packet => self.packet.staging.0 + 2 * self.unit_bytes(),
        };
        let sending = u128::from(bytes) * 1_000_000_000_000 / u128::from(self.rate().0.max(1));
        2 * self.crossing_ps() + u64::try_from(sending).unwrap_or(u64::MAX / 4)
    }

    /// Credits of a class that sustain the link's rate, without an upper limit: a third more than the lines
    /// that fit in the round trip of a credit.
    pub fn credits_needed(&self) -> u64 {
        (self.credit_round_ps() as f64 * SPARE / self.line_ps()).ceil() as u64
    }

    /// Credits of a message class: the scenario's value, or those that the link's rate needs.
    pub fn credits_of(&self, channel: Channel) -> u16 {
        let given = self.credits.of(channel);
        given.unwrap_or_else(|| self.default_credits())
    }

    /// Credits of a class for which the scenario gives no number.
    fn default_credits(&self) -> u16 {
        let needed = self.credits_needed();
        needed.clamp(u64::from(LEAST_DEFAULT), u64::from(MOST_CREDITS)) as u16
    }

    /// Most messages of each class between a transmitter and the component at the far end, with those whose
    /// credit is on its way back. `pipelines` is the constant time that the components at both ends spend
    /// before and after the link, in both directions.
    ///
    /// A real receiver returns a credit when its link layer has handed the message on, not when the
    /// component's pipeline has finished with it. In this model, components return credits when a message
    /// has left their pipeline. A window therefore holds the credits plus the messages in the pipelines:
    /// those that pass in the pipelines' time at the rate that the credits or the link allow.
    pub fn windows(&self, pipelines: Picos) -> CreditWindows {
        let round = self.credit_round_ps() as f64;
        let fastest = SPARE / self.line_ps();
        let default = self.default_credits();
        Channel::ALL.map(|channel| {
            let credits = f64::from(self.credits.of(channel).unwrap_or(default));
            let beside = pipelines.0 as f64 * (credits / round).min(fastest);
            (credits + beside).round().min(f64::from(MOST_IN_WINDOW)) as u16
        })
    }

    /// Time from a broken flit's end to the start of its next transmission, in picoseconds: the way there,
    /// and the retry request's way back. In 68 B flits the request is a RETRY.Req after five RETRY.Frame
    /// flits, and its response is a RETRY.Ack after as many (CXL 3.1 section 4.2.8.4). In 256 B flits both
    /// are fields of the flit header.
    pub fn retry_round_trip_ps(&self) -> u64 {
        let control = match self.returns() {
            CreditReturns::Flit68 => 2 * RETRY_SEQUENCE * self.unit_bytes(),
            _ => 0,
        };
        2 * self.crossing_ps() + self.rate().time_for(Bytes(control)).0
    }
}
