//! The messages of CXL.cache that a device's cache and its host's home agent exchange (CXL 3.1,
//! tables 3-22, 3-25, 3-26 and 3-27).

use serde::{Deserialize, Serialize};

use super::fields::GoState;
use super::message::Snoop;
use crate::opcode::Opcode;

impl Snoop {
    /// The opcode of a snoop from a host to a device's cache.
    pub const fn cache_opcode(self) -> Opcode {
        match self {
            Snoop::Inv => Opcode::SnpInv,
            Snoop::Data => Opcode::SnpData,
            Snoop::Cur => Opcode::SnpCur,
        }
    }

    /// The kind of snoop that an opcode on H2D Req requests.
    pub const fn from_cache_opcode(opcode: Opcode) -> Option<Snoop> {
        match opcode {
            Opcode::SnpInv => Some(Snoop::Inv),
            Opcode::SnpData => Some(Snoop::Data),
            Opcode::SnpCur => Some(Snoop::Cur),
            _ => None,
        }
    }
}

listed! {
    /// A request of a device's cache (D2H Req).
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
    #[repr(u8)]
    pub enum Request {
        /// Requests the value, to be used once.
        RdCurr,
        /// Requests the only copy, with data.
        RdOwn,
        /// Requests a shared copy.
        RdShared,
        /// Requests a copy in any state, as the host chooses.
        RdAny,
        /// Requests the only copy; the device has the data or writes all of them.
        RdOwnNoData,
        /// Writes a whole line into the host's last-level cache.
        ItoMWr,
        /// Writes a whole line where it is: into a cache of the host or into memory.
        WrCur,
        /// Removes the line from every cache.
        ClFlush,
        /// Evicts a clean, exclusive line and offers its data.
        CleanEvict,
        /// Evicts a modified line.
        DirtyEvict,
        /// As `DirtyEvict`, but the host keeps the line in its last-level cache: a push (NC-P) of a
        /// line that the device owned.
        DirtyEvictPush,
        /// Tells the host that the device has dropped a clean line.
        CleanEvictNoData,
        /// Writes 0 to 63 bytes, weakly ordered.
        WoWrInv,
        /// Writes 64 bytes, weakly ordered.
        WoWrInvF,
        /// Writes 0 to 64 bytes, strongly ordered.
        WrInv,
    }
}

impl Request {
    /// Opcode of the request. `CacheFlushed` is not among the requests, because it concerns no line.
    pub const fn opcode(self) -> Opcode {
        match self {
            Request::RdCurr => Opcode::RdCurr,
            Request::RdOwn => Opcode::RdOwn,
            Request::RdShared => Opcode::RdShared,
            Request::RdAny => Opcode::RdAny,
            Request::RdOwnNoData => Opcode::RdOwnNoData,
            Request::ItoMWr => Opcode::ItoMWr,
            Request::WrCur => Opcode::WrCur,
            Request::ClFlush => Opcode::ClFlush,
            Request::CleanEvict => Opcode::CleanEvict,
            Request::DirtyEvict | Request::DirtyEvictPush => Opcode::DirtyEvict,
            Request::CleanEvictNoData => Opcode::CleanEvictNoData,
            Request::WoWrInv => Opcode::WoWrInv,
            Request::WoWrInvF => Opcode::WoWrInvF,
            Request::WrInv => Opcode::WrInv,
        }
    }

    /// The request with this opcode; `push` says whether the message is marked as a push. The mark
    /// changes only `DirtyEvict`: the line of an `ItoMWr` ends in the last-level cache anyway.
    pub fn from_opcode(opcode: Opcode, push: bool) -> Option<Request> {
        let request = Request::ALL.into_iter().find(|r| r.opcode() == opcode)?;
        Some(match (request, push) {
            (Request::DirtyEvict, true) => Request::DirtyEvictPush,
            (other, _) => other,
        })
    }
}

listed! {
    /// A device's response to a snoop (D2H Rsp).
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
    #[repr(u8)]
    pub enum SnoopResponse {
        /// The line was invalid.
        RspIHitI,
        /// The line was held and is unchanged.
        RspVHitV,
        /// The line was clean and is now invalid.
        RspIHitSE,
        /// The line was clean and is now shared.
        RspSHitSE,
        /// The line was modified and is now shared; data follow.
        RspSFwdM,
        /// The line was modified and is now invalid; data follow.
        RspIFwdM,
        /// The line is modified and unchanged; data follow.
        RspVFwdV,
    }
}

impl SnoopResponse {
    /// Whether the device keeps its copy as it is.
    pub const fn keeps(self) -> bool {
        matches!(self, SnoopResponse::RspVHitV | SnoopResponse::RspVFwdV)
    }

    /// Opcode of the response.
    pub const fn opcode(self) -> Opcode {
        match self {
            SnoopResponse::RspIHitI => Opcode::RspIHitI,
            SnoopResponse::RspVHitV => Opcode::RspVHitV,
            SnoopResponse::RspIHitSE => Opcode::RspIHitSE,
            SnoopResponse::RspSHitSE => Opcode::RspSHitSE,
            SnoopResponse::RspSFwdM => Opcode::RspSFwdM,
            SnoopResponse::RspIFwdM => Opcode::RspIFwdM,
            SnoopResponse::RspVFwdV => Opcode::RspVFwdV,
        }
    }

    /// The response with this opcode; `None` for other messages.
    pub fn from_opcode(opcode: Opcode) -> Option<SnoopResponse> {
        SnoopResponse::ALL
            .into_iter()
            .find(|a| a.opcode() == opcode)
    }

    /// Whether data accompany the response; they arrive after or before it.
    #[inline]
    pub const fn forwards(self) -> bool {
        matches!(
            self,
            SnoopResponse::RspSFwdM | SnoopResponse::RspIFwdM | SnoopResponse::RspVFwdV
        )
    }

    /// Whether a device may give this response to `snoop` (table 3-26).
    pub const fn is_valid_for(self, snoop: Snoop) -> bool {
        match snoop {
            Snoop::Data => matches!(
                self,
                SnoopResponse::RspIHitI
                    | SnoopResponse::RspSHitSE
                    | SnoopResponse::RspSFwdM
                    | SnoopResponse::RspIFwdM
            ),
            Snoop::Inv => {
                matches!(
                    self,
                    SnoopResponse::RspIHitI | SnoopResponse::RspIHitSE | SnoopResponse::RspIFwdM
                )
            }
            Snoop::Cur => !matches!(self, SnoopResponse::RspIHitSE),
        }
    }
}

/// The host's response to a request (H2D Rsp and H2D Data).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HostResponse {
    /// `GO` with this state. `Error` is `GO-Err`: the request has failed.
    Go(GoState),
    /// Requests the data of a write that is not complete.
    WritePull,
    /// Requests the data of a line that is evicted, or owned for a write.
    GoWritePull,
    /// The line is evicted; its data are not wanted.
    GoWritePullDrop,
    /// Requests the data of a write that is ordered in a part of the system.
    FastGoWritePull,
    /// Requests the data of a write that has failed; the host drops them (`GO_ERR_WritePull`).
    GoErrWritePull,
    /// The weakly ordered write is complete.
    ExtCmp,
    /// Data of the line.
    Data,
    /// Data of a failed read, all ones: H2D Data with the bit GO-Err (table 3-21).
    ErrorData,
}

impl HostResponse {
    /// Opcode of the response.
    pub const fn opcode(self) -> Opcode {
        match self {
            HostResponse::Go(_) => Opcode::Go,
            HostResponse::WritePull => Opcode::WritePull,
            HostResponse::GoWritePull => Opcode::GoWritePull,
            HostResponse::GoWritePullDrop => Opcode::GoWritePullDrop,
            HostResponse::FastGoWritePull => Opcode::FastGoWritePull,
            HostResponse::GoErrWritePull => Opcode::GoErrWritePull,
            HostResponse::ExtCmp => Opcode::ExtCmp,
            HostResponse::Data | HostResponse::ErrorData => Opcode::H2dData,
        }
    }

    /// The state in the message: the state that a `GO` grants, `Error` in data of a failed read,
    /// `Invalid` in all other responses.
    pub const fn granted(self) -> GoState {
        match self {
            HostResponse::Go(state) => state,
            HostResponse::ErrorData => GoState::Error,
            _ => GoState::Invalid,
        }
    }

    /// The response with this opcode and this granted state. `None` for other messages.
    pub const fn from_opcode(opcode: Opcode, granted: GoState) -> Option<HostResponse> {
        match opcode {
            Opcode::Go => Some(HostResponse::Go(granted)),
            Opcode::WritePull => Some(HostResponse::WritePull),
            Opcode::GoWritePull => Some(HostResponse::GoWritePull),
            Opcode::GoWritePullDrop => Some(HostResponse::GoWritePullDrop),
            Opcode::FastGoWritePull => Some(HostResponse::FastGoWritePull),
            Opcode::GoErrWritePull => Some(HostResponse::GoErrWritePull),
            Opcode::ExtCmp => Some(HostResponse::ExtCmp),
            Opcode::H2dData => Some(match granted {
                GoState::Error => HostResponse::ErrorData,
                _ => HostResponse::Data,
            }),
            _ => None,
        }
    }

    /// Whether the device sends data in return, to the UQID that the response names.
    #[inline]
    pub const fn pulls(self) -> bool {
        matches!(
            self,
            HostResponse::WritePull
                | HostResponse::GoWritePull
                | HostResponse::FastGoWritePull
                | HostResponse::GoErrWritePull
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode::Channel;

    #[test]
    fn opcodes_lead_back_to_what_they_say() {
        for request in Request::ALL {
            let push = request == Request::DirtyEvictPush;
            assert_eq!(Request::from_opcode(request.opcode(), push), Some(request));
        }
        for rsp in SnoopResponse::ALL {
            assert_eq!(SnoopResponse::from_opcode(rsp.opcode()), Some(rsp));
        }
        for snoop in Snoop::ALL {
            assert_eq!(Snoop::from_cache_opcode(snoop.cache_opcode()), Some(snoop));
        }
        for &opcode in Opcode::ALL {
            for state in [GoState::Shared, GoState::Error] {
                if let Some(response) = HostResponse::from_opcode(opcode, state) {
                    assert_eq!(response.opcode(), opcode);
                    let again = HostResponse::from_opcode(opcode, response.granted());
                    assert_eq!(again, Some(response));
                }
            }
        }
    }

    #[test]
    fn every_opcode_of_a_channel_is_known() {
        let count = |channel| {
            let all = Opcode::ALL
                .iter()
                .filter(|opcode| opcode.channel() == channel);
            all.count()
        };
        let known = |is_known: fn(Opcode) -> bool| {
            let all = Opcode::ALL.iter().filter(|&&opcode| is_known(opcode));
            all.count()
        };
        let requests = known(|opcode| Request::from_opcode(opcode, false).is_some());
        // `CacheFlushed` concerns no line.
        assert_eq!(requests, count(Channel::D2hReq) - 1);
        let snoop_responses = known(|opcode| SnoopResponse::from_opcode(opcode).is_some());
        assert_eq!(snoop_responses, count(Channel::D2hRsp));
        let snoops = known(|opcode| Snoop::from_cache_opcode(opcode).is_some());
        assert_eq!(snoops, count(Channel::H2dReq));
        let responses = known(|opcode| {
            let response = HostResponse::from_opcode(opcode, GoState::Shared);
            opcode.channel() == Channel::H2dRsp && response.is_some()
        });
        assert_eq!(responses, count(Channel::H2dRsp));
    }
}
