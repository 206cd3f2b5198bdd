//! Virtual channels of routing states.
//!
//! A routing state is a set of tables with virtual channels of its own. The state in force has
//! its channels for itself. A replaced state keeps its channels for `drain`, and longer if no
//! other state needs them. A state that takes these channels makes switches discard the messages
//! still queued in them.

use cxlab_engine::units::Picos;

const MOST: usize = cxlab_link::MAX_VCS;

/// The allocation of virtual channels to routing states over time.
pub(crate) struct Channels {
    /// Number of virtual channels that the fabric may have.
    most: u8,
    drain: Picos,
    /// By virtual channel: the state that owns it.
    owners: [Option<usize>; MOST],
    /// By state: its virtual channels, as a bit mask.
    channels: Vec<u8>,
    /// By state: when it was replaced; `None` for the one in force.
    replaced: Vec<Option<Picos>>,
}

/// Virtual channels granted to a state that comes into force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    /// When the state may come into force.
    pub(crate) at: Picos,
    /// The virtual channels of the state, as a bit mask.
    pub(crate) channels: u8,
    /// Whether some of the channels belong to the state in force, because there are too few for both.
    pub(crate) overlaps: bool,
}

impl Channels {
    /// The channels of a fabric whose first state, number 0, needs `needed` of them.
    pub(crate) fn new(most: u8, drain: Picos, needed: u8) -> Channels {
        let mut all = Channels {
            most,
            drain,
            owners: [None; MOST],
            channels: Vec::new(),
            replaced: Vec::new(),
        };
        let first = all.grant(needed, Picos::ZERO);
        all.begin(first.channels, first.at);
        all
    }

    /// The channels and the time of a state that needs `needed` channels and is due at `due`. The
    /// state waits until enough channels have drained. If the fabric has too few for this state and
    /// the one in force, the state does not wait.
    pub(crate) fn grant(&self, needed: u8, due: Picos) -> Grant {
        let all = 0..usize::from(self.most).min(MOST);
        let mut free: Vec<(Picos, usize)> = all.map(|vc| (self.free_from(vc), vc)).collect();
        free.sort_unstable();
        free.truncate(usize::from(needed));
        let last = free.last().map_or(Picos::ZERO, |(at, _)| *at);
        let overlaps = last == Picos(u64::MAX);
        Grant {
            at: match overlaps {
                true => due,
                false => due.max(last),
            },
            channels: free.iter().fold(0, |bits, (_, vc)| bits | 1 << vc),
            overlaps,
        }
    }

    /// The time from which another state may take a channel; the end of time while its
    /// state is in force.
    fn free_from(&self, vc: usize) -> Picos {
        let Some(owner) = self.owners[vc] else {
            return Picos::ZERO;
        };
        match self.replaced[owner] {
            Some(at) => Picos(at.0.saturating_add(self.drain.0)),
            None => Picos(u64::MAX),
        }
    }

    /// Puts a new state into force on these channels; returns the number of the state.
    pub(crate) fn begin(&mut self, channels: u8, at: Picos) -> usize {
        let number = self.channels.len();
        self.replace(at);
        self.channels.push(channels);
        self.replaced.push(None);
        for (vc, owner) in self.owners.iter_mut().enumerate() {
            if channels >> vc & 1 == 1 {
                *owner = Some(number);
            }
        }
        number
    }

    /// Puts a state that still has its channels into force again.
    pub(crate) fn resume(&mut self, number: usize, at: Picos) {
        self.replace(at);
        self.replaced[number] = None;
    }

    fn replace(&mut self, at: Picos) {
        for replaced in &mut self.replaced {
            replaced.get_or_insert(at);
        }
    }

    /// Whether a state still has all its channels.
    pub(crate) fn has_all(&self, number: usize) -> bool {
        let owners = self.owners.iter().enumerate();
        let kept = owners.filter(|(_, owner)| **owner == Some(number));
        kept.fold(0, |bits, (vc, _)| bits | 1 << vc) == self.channels[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(time: u64) -> Picos {
        Picos::from_nanos(1000 * time)
    }

    #[test]
    fn states_take_unused_channels_first_and_then_wait_for_those_drained_longest() {
        let mut all = Channels::new(4, us(50), 2);
        let next = all.grant(1, us(10));
        assert_eq!((next.at, next.channels), (us(10), 0b0100));
        assert_eq!(all.begin(next.channels, next.at), 1);
        let next = all.grant(1, us(20));
        assert_eq!((next.at, next.channels), (us(20), 0b1000));
        all.begin(next.channels, next.at);
        // The first state was replaced at 10 us and has drained at 60 us.
        let next = all.grant(2, us(30));
        assert_eq!(
            (next.at, next.channels, next.overlaps),
            (us(60), 0b0011, false)
        );
        assert!(all.has_all(0) && all.has_all(1));
        all.begin(next.channels, next.at);
        assert!(!all.has_all(0) && all.has_all(1));
        // Three fit beside the state of two channels only where both overlap.
        let next = all.grant(3, us(61));
        assert_eq!((next.at, next.overlaps), (us(61), true));
    }

    #[test]
    fn a_state_that_comes_back_has_its_channels_until_another_takes_them() {
        let mut all = Channels::new(2, us(50), 1);
        let next = all.grant(1, us(10));
        let other = all.begin(next.channels, next.at);
        all.resume(0, us(12));
        assert_eq!(all.grant(1, us(13)).at, us(62));
        all.resume(other, us(14));
        assert_eq!(all.grant(1, us(15)).at, us(64));
    }

    #[test]
    fn one_channel_is_taken_at_once() {
        let mut all = Channels::new(1, us(50), 1);
        for number in 1..100 {
            let next = all.grant(1, us(number));
            let expected = Grant {
                at: us(number),
                channels: 1,
                overlaps: true,
            };
            assert_eq!(next, expected);
            assert_eq!(all.begin(next.channels, next.at), number as usize);
        }
    }
}
