//! QoS telemetry: a device tells its load with each answer, and a logical device that takes more than
//! its share is told sooner (CXL 3.1, section 3.3.4, *recollection*).
//!
//! The internal load is how many requests are inside: in the receive buffers, in the medium, or on
//! their way out. For each host, which is one logical device of an MLD, completions are counted
//! over a window; its limit is a fraction of the device's bandwidth, and what it is allocated one of all
//! completions of the window. They make of the internal load what is told:
//!
//! | in the last window the host got | internal load | told |
//! |---|---|---|
//! | more than its limit | any | the internal load, and at least moderate overload |
//! | at most what it is allocated | severe overload | moderate overload |
//! | at most what it is allocated | moderate overload | optimal |
//! | else | any | the internal load |
//!
//! What a host does not use of its allocation is not given to others: they may take it, and are told the internal load.

use cxlab_engine::units::{BytesPerSec, LINE_BYTES, Picos, SimTime};
use cxlab_protocol::{DevLoad, PortId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a user says of a device's telemetry.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct QosParams {
    /// Requests inside from which on the load is optimal, below that light. 1 to 65536. Default 28
    /// (*assumed*; the specification leaves it to the device). Hosts change nothing under optimal load, so a wide
    /// range of it lets them stay at rates that are not those of their shares.
    #[schemars(range(min = 1, max = 65536))]
    pub optimal: u32,
    /// From which on it is moderate overload. 1 to 65536. Default 32 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub moderate: u32,
    /// From which on it is severe overload. 1 to 65536. Default 128 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub severe: u32,
    /// Over which completions of a host are counted (completion collection interval). 100 ns to 1 ms.
    /// Default 1 us (*assumed*).
    pub window: Picos,
    /// What limits are fractions of. Default: none; needed with limits.
    pub bandwidth: Option<BytesPerSec>,
    /// Shares of hosts. A host without one is allocated nothing and has no limit. Default: none.
    pub shares: Vec<ShareParams>,
}

impl Default for QosParams {
    fn default() -> Self {
        QosParams {
            optimal: 28,
            moderate: 32,
            severe: 128,
            window: Picos::from_nanos(1000),
            bandwidth: None,
            shares: Vec::new(),
        }
    }
}

/// The share of a host, whose logical device it is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct ShareParams {
    /// The host, by name.
    pub host: String,
    /// QoS Allocated BW Fraction, in 256ths of what the device serves at the time: a host that gets no more is told
    /// less overload. 0 to 256, in all at most 256.
    #[schemars(range(max = 256))]
    pub allocated: u16,
    /// QoS BW Limit Fraction, in 256ths of `bandwidth`: more is overload for it, whatever others do.
    /// 1 to 256. Default: no limit.
    #[serde(default)]
    #[schemars(range(min = 1, max = 256))]
    pub limit: Option<u16>,
}

/// A share, resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The host.
    pub host: PortId,
    /// In 256ths.
    pub allocated: u16,
    /// In 256ths.
    pub limit: Option<u16>,
}

/// What telemetry is built from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosConfig {
    /// What the user said; shares by name are not looked at.
    pub params: QosParams,
    /// How many edge ports there are, from which requests may come.
    pub edge_ports: usize,
    /// Shares of some of them.
    pub shares: Vec<Share>,
}

/// The account of a host.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
struct Account {
    /// The part of all lines of a window that it is allocated, in 256ths, and the lines that it may have at most.
    allocated: u64,
    limit: u64,
    /// Lines in this window so far, and in the last one.
    lines: u64,
    last: u64,
}

/// Telemetry of a device.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Telemetry {
    steps: [u32; 3],
    window: u64,
    /// Lines of a window at the whole bandwidth.
    whole: u64,
    /// The window that is counted now.
    current: u64,
    /// Lines of all hosts in the last one.
    served: u64,
    accounts: Vec<Account>,
    /// Answers with each load, since measurement began.
    pub(crate) told: [u64; DevLoad::ALL.len()],
}

/// So many 256ths of a whole.
fn part(whole: u64, of: u16) -> u64 {
    whole * u64::from(of) / 256
}

impl Telemetry {
    pub(crate) fn new(config: &QosConfig) -> Telemetry {
        let params = &config.params;
        let whole = params.bandwidth.map_or(0, |rate| {
            let bytes = u128::from(rate.0) * u128::from(params.window.0) / 1_000_000_000_000;
            bytes as u64 / LINE_BYTES
        });
        let accounts = vec![
            Account {
                limit: u64::MAX,
                ..Account::default()
            };
            config.edge_ports
        ];
        let mut telemetry = Telemetry {
            steps: [params.optimal, params.moderate, params.severe],
            window: params.window.0,
            whole,
            current: 0,
            served: 0,
            accounts,
            told: [0; DevLoad::ALL.len()],
        };
        for share in &config.shares {
            telemetry.set_share(share);
        }
        telemetry
    }

    /// From now on a host has this share (Set QoS Allocated BW, Set QoS BW Limit); what it got in this
    /// window and the last one is counted as before.
    pub(crate) fn set_share(&mut self, share: &Share) {
        let account = &mut self.accounts[share.host.0 as usize];
        account.allocated = share.allocated.into();
        account.limit = (share.limit).map_or(u64::MAX, |limit| part(self.whole, limit));
    }

    /// Measurement begins.
    pub(crate) fn begin_measurement(&mut self) {
        self.told = [0; DevLoad::ALL.len()];
    }

    /// A request of a host's is answered, with so many inside: what the answer says.
    pub(crate) fn answer(&mut self, now: SimTime, host: PortId, inside: u32) -> DevLoad {
        let window = now.0 / self.window;
        if window != self.current {
            let next = window == self.current + 1;
            self.served = 0;
            for account in &mut self.accounts {
                account.last = if next { account.lines } else { 0 };
                account.lines = 0;
                self.served += account.last;
            }
            self.current = window;
        }
        let passed = self.steps.iter().filter(|step| inside >= **step).count();
        let internal = DevLoad::ALL[passed];
        let account = &mut self.accounts[host.0 as usize];
        account.lines += 1;
        let told = if account.last > account.limit {
            internal.max(DevLoad::Moderate)
        } else if account.last * 256 <= account.allocated * self.served {
            internal.within_share()
        } else {
            internal
        };
        self.told[told as usize] += 1;
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hosts at a device of 64 lines a window; the first is allocated a quarter, the second
    /// limited to a half.
    fn telemetry() -> Telemetry {
        Telemetry::new(&QosConfig {
            params: QosParams {
                optimal: 2,
                moderate: 4,
                severe: 6,
                window: Picos(1000),
                bandwidth: Some(BytesPerSec(64 * 64 * 1_000_000_000)),
                shares: Vec::new(),
            },
            edge_ports: 3,
            shares: vec![
                Share {
                    host: PortId(0),
                    allocated: 64,
                    limit: None,
                },
                Share {
                    host: PortId(1),
                    allocated: 0,
                    limit: Some(128),
                },
            ],
        })
    }

    /// What hosts are told with so many inside, after each had so many lines in a window.
    fn told(lines: [u64; 3], inside: u32) -> [DevLoad; 3] {
        let mut telemetry = telemetry();
        for (host, lines) in lines.into_iter().enumerate() {
            for _ in 0..lines {
                telemetry.answer(SimTime(500), PortId(host as u16), 0);
            }
        }
        [0, 1, 2].map(|host| telemetry.answer(SimTime(1500), PortId(host), inside))
    }

    #[test]
    fn what_is_inside_is_the_load() {
        use DevLoad::{Light, Moderate, Optimal, Severe};
        let expected = [
            (1, Light),
            (2, Optimal),
            (3, Optimal),
            (4, Moderate),
            (5, Moderate),
            (6, Severe),
        ];
        for (inside, load) in expected {
            assert_eq!(told([20, 20, 20], inside)[2], load, "{inside}");
        }
    }

    #[test]
    fn who_takes_what_it_is_allocated_hears_of_less_overload() {
        // A quarter of what all get, which is half of what the device can do.
        assert_eq!(told([8, 23, 1], 1)[0], DevLoad::Light);
        assert_eq!(told([8, 23, 1], 2)[0], DevLoad::Optimal);
        assert_eq!(told([8, 23, 1], 4)[0], DevLoad::Optimal);
        assert_eq!(told([8, 23, 1], 6)[0], DevLoad::Moderate);
        assert_eq!(told([9, 22, 1], 6)[0], DevLoad::Severe);
        let alone = told([8, 23, 1], 6)[2];
        assert_eq!(alone, DevLoad::Severe, "allocated nothing");
    }

    #[test]
    fn who_takes_more_than_its_limit_hears_of_overload() {
        assert_eq!(told([0, 32, 0], 0)[1], DevLoad::Light);
        assert_eq!(told([0, 33, 0], 0)[1], DevLoad::Moderate);
        assert_eq!(told([0, 33, 0], 6)[1], DevLoad::Severe);
    }

    #[test]
    fn a_share_that_is_set_counts_from_the_next_answer_on() {
        let mut telemetry = telemetry();
        for _ in 0..33 {
            telemetry.answer(SimTime(500), PortId(1), 0);
        }
        let told = |telemetry: &mut Telemetry| telemetry.answer(SimTime(1500), PortId(1), 0);
        assert_eq!(told(&mut telemetry), DevLoad::Moderate);
        let mut share = Share {
            host: PortId(1),
            allocated: 0,
            limit: Some(136),
        };
        telemetry.set_share(&share);
        assert_eq!(told(&mut telemetry), DevLoad::Light, "34 lines of 64");
        share.limit = None;
        telemetry.set_share(&share);
        assert_eq!(told(&mut telemetry), DevLoad::Light);
    }

    #[test]
    fn a_window_without_answers_is_an_empty_one() {
        let mut telemetry = telemetry();
        for _ in 0..40 {
            telemetry.answer(SimTime(500), PortId(1), 0);
        }
        assert_eq!(
            telemetry.answer(SimTime(2500), PortId(1), 0),
            DevLoad::Light
        );
        assert_eq!(telemetry.told, [41, 0, 0, 0]);
    }
}
