//! The encoding of a line's holders: at most three agents, with numbers below three.

use cxlab_protocol::coherence::dcoh::{Filter, Peer, Peers};

use cxlab_protocol::coherence::message::Snoop;

use super::{Coded, coded};

pub fn peer(number: usize) -> Peer {
    Peer::new(number).unwrap()
}

impl Coded for Peer {
    const COUNT: u64 = 4;

    fn code(self) -> u64 {
        self.index() as u64
    }

    fn value(code: u64) -> Peer {
        peer(code as usize)
    }
}

impl Coded for Peers {
    const COUNT: u64 = 8;

    fn code(self) -> u64 {
        self.0
    }

    fn value(code: u64) -> Peers {
        Peers(code)
    }
}

impl Coded for Filter {
    const COUNT: u64 = 4 * Peers::COUNT;

    fn code(self) -> u64 {
        let kind = match self {
            Filter::Invalid => 0,
            Filter::Shared(_) => 1,
            Filter::Any(_) => 2,
        };
        kind + 4 * self.holders().code()
    }

    fn value(code: u64) -> Filter {
        let holders = Peers(code / 4);
        match code % 4 {
            0 => Filter::Invalid,
            1 => Filter::Shared(holders),
            _ => Filter::Any(holders.iter().next().unwrap()),
        }
    }
}

coded!(enum Snoop, Snoop::ALL);

fn rename_all(peers: Peers, name: impl Fn(Peer) -> Peer) -> Peers {
    peers.iter().map(name).fold(Peers::NONE, Peers::with)
}

/// Gives the holders of a line, those that are snooped, and the requester other numbers.
pub fn rename(
    filter: &mut Filter,
    waiting: &mut Peers,
    requester: &mut Peer,
    name: impl Fn(Peer) -> Peer,
) {
    *filter = match *filter {
        Filter::Invalid => Filter::Invalid,
        Filter::Shared(peers) => Filter::Shared(rename_all(peers, &name)),
        Filter::Any(owner) => Filter::Any(name(owner)),
    };
    *waiting = rename_all(*waiting, &name);
    *requester = name(*requester);
}
