//! Wake-up tokens of wrappers.
//!
//! A wrapper and the component inside it are one component of the engine, so their wake-ups share one space of
//! tokens. The order digest contains the token of each wake-up; new tokens take unused numbers.
//!
//! | phase | component inside | wrapper |
//! |---|---|---|
//! | enumeration | below 2^24: ports of switches. Hosts and devices are idle | software of hosts: 0 and 1; [`CompletionWake`] |
//! | run | below 2^30, and the last 16 | [`FailureWake`] |

/// Wake-ups of a component's completions while hosts enumerate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CompletionWake {
    /// The next completion leaves.
    Departure,
    /// A port may accept the next message of its queue.
    Port(u16),
}

impl CompletionWake {
    const DEPARTURE: u32 = 1 << 24;
    const PORT: u32 = 1 << 25;

    pub(super) fn token(self) -> u32 {
        match self {
            CompletionWake::Departure => Self::DEPARTURE,
            CompletionWake::Port(port) => Self::PORT + u32::from(port),
        }
    }

    /// The wake-up with this token, unless it belongs to the component inside or to software.
    pub(super) fn of(token: u32) -> Option<CompletionWake> {
        match token {
            ..Self::DEPARTURE => None,
            Self::DEPARTURE..Self::PORT => Some(CompletionWake::Departure),
            _ => Some(CompletionWake::Port((token - Self::PORT) as u16)),
        }
    }
}

/// Wake-ups of a component in a system in which something fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FailureWake {
    /// A root port responds to the request with this tag, below 2^30, which it does not send.
    Isolation(u32),
    /// A request of the host may have timed out.
    Timeout,
    /// The next change of the timeline is due.
    Timeline,
}

impl FailureWake {
    const ISOLATION: u32 = 1 << 30;
    const BEYOND_ISOLATION: u32 = 1 << 31;
    const TIMEOUT: u32 = u32::MAX - 17;
    const TIMELINE: u32 = u32::MAX - 16;

    /// The token of the wake-up.
    ///
    /// # Panics
    /// If a tag is 2^30 or larger.
    pub(super) fn token(self) -> u32 {
        match self {
            FailureWake::Isolation(tag) => {
                assert!(
                    tag < Self::BEYOND_ISOLATION - Self::ISOLATION,
                    "tags of requests that are late are not used again"
                );
                Self::ISOLATION + tag
            }
            FailureWake::Timeout => Self::TIMEOUT,
            FailureWake::Timeline => Self::TIMELINE,
        }
    }

    /// The wake-up with this token, unless it belongs to the component inside.
    pub(super) fn of(token: u32) -> Option<FailureWake> {
        match token {
            Self::ISOLATION..Self::BEYOND_ISOLATION => {
                Some(FailureWake::Isolation(token - Self::ISOLATION))
            }
            Self::TIMEOUT => Some(FailureWake::Timeout),
            Self::TIMELINE => Some(FailureWake::Timeline),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_wrappers_are_told_from_those_of_components() {
        let all = [
            FailureWake::Isolation(0),
            FailureWake::Isolation((1 << 30) - 1),
            FailureWake::Timeout,
            FailureWake::Timeline,
        ];
        for wake in all {
            assert_eq!(FailureWake::of(wake.token()), Some(wake));
        }
        for component in [0, (1 << 30) - 1, u32::MAX - 15, u32::MAX] {
            assert_eq!(FailureWake::of(component), None);
        }
        for wake in [CompletionWake::Departure, CompletionWake::Port(u16::MAX)] {
            assert_eq!(CompletionWake::of(wake.token()), Some(wake));
        }
        for other in [0, 1, u32::from(u16::MAX)] {
            assert_eq!(CompletionWake::of(other), None);
        }
    }
}
