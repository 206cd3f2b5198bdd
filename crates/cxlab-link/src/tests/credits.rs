//! Credits: never negative, never above capacity, and all on their way back.

use cxlab_engine::rng::StreamRng;

use super::*;
use crate::credit::{BUFFERS, Buffer, FlowControl};
use crate::parcel::Credits;

fn capacities(of: &[(u8, u8)]) -> [u8; BUFFERS] {
    let mut table = [0; BUFFERS];
    of.iter()
        .for_each(|(buffer, credits)| table[*buffer as usize] = *credits);
    table
}

fn named(credits: Credits) -> Vec<(u8, u8)> {
    credits
        .entries
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Whether a message can go to a buffer; it goes then.
fn goes(flow: &mut FlowControl, buffer: Buffer) -> bool {
    let Some(place) = flow.with_credit(buffer) else {
        return false;
    };
    place.spend();
    flow.count_sent();
    true
}

#[test]
fn as_many_go_as_there_are_credits_and_one_more_for_each_that_comes_back() {
    let mut flow = FlowControl::new(&capacities(&[(0, 3), (1, 1)]));
    let request = Buffer::of(Channel::M2sReq, 0);
    for left in [2, 1, 0] {
        assert!(goes(&mut flow, request));
        assert_eq!(flow.credits(request), left);
    }
    assert!(!goes(&mut flow, request));
    assert!(
        goes(&mut flow, Buffer::of(Channel::M2sRwd, 0)),
        "another class has its own"
    );
    assert_eq!(flow.unreturned(), 4);
    flow.credit(request, 1);
    assert_eq!(flow.unreturned(), 3);
    assert!(goes(&mut flow, request));
    assert!(!goes(&mut flow, request));
}

#[test]
fn a_virtual_channel_without_buffers_never_goes() {
    let mut flow = FlowControl::new(&capacities(&[(0, 1)]));
    assert!(!goes(&mut flow, Buffer::of(Channel::M2sReq, 1)));
}

#[test]
#[should_panic(expected = "more credits than buffers")]
fn more_credits_than_buffers_are_our_mistake() {
    FlowControl::new(&capacities(&[(0, 2)])).credit(Buffer(0), 1);
}

#[test]
fn credits_are_conserved_whatever_the_order_of_sends_and_returns() {
    let vcs = 3;
    let table = crate::CreditTable {
        m2s_req: 1,
        m2s_rwd: 5,
        s2m_ndr: 9,
        ..Default::default()
    };
    let capacity = table.by_buffer(vcs);
    let mut sender = FlowControl::new(&capacity);
    let mut returns = FlowControl::new(&capacity);
    let (mut buffered, mut on_their_way): (Vec<Buffer>, Vec<Credits>) = Default::default();
    let mut rng = StreamRng::new(1, "credits");
    for step in 0..100_000 {
        let channel = Channel::ALL[rng.below(Channel::COUNT as u64) as usize];
        let vc = rng.below(3) as u8;
        let buffer = Buffer::of(channel, vc);
        match rng.below(3) {
            0 if goes(&mut sender, buffer) => buffered.push(buffer),
            0 => assert_eq!(sender.credits(buffer), 0),
            1 if !buffered.is_empty() => {
                let at = rng.below(buffered.len() as u64) as usize;
                if returns.free(buffered.swap_remove(at)) {
                    on_their_way.push(returns.take());
                }
            }
            1 => on_their_way.push(returns.take()),
            _ => {
                let at = rng.below(on_their_way.len().max(1) as u64) as usize;
                if at < on_their_way.len() {
                    for (buffer, count) in named(on_their_way.swap_remove(at)) {
                        sender.credit(Buffer(buffer), count);
                    }
                }
            }
        }
        if step % 64 > 0 {
            continue;
        }
        let all = (0..vcs).flat_map(|vc| Channel::ALL.map(|class| (class, Buffer::of(class, vc))));
        for (channel, buffer) in all {
            let returning = on_their_way.iter().flat_map(|credits| credits.entries);
            let returning: u32 = returning
                .filter(|(number, _)| *number == buffer.0)
                .map(|(_, count)| u32::from(count))
                .sum();
            let held = buffered.iter().filter(|other| **other == buffer).count() as u32;
            let here = u32::from(sender.credits(buffer)) + u32::from(returns.waiting(buffer));
            assert_eq!(
                here + held + returning,
                u32::from(table.of(channel)),
                "{buffer:?}"
            );
        }
    }
}

#[test]
fn a_quarter_of_a_buffer_goes_back_alone_and_less_waits_for_a_ride() {
    for (capacity, quarter) in [(1, 1), (3, 1), (7, 1), (8, 2), (128, 32), (255, 63)] {
        let mut returns = FlowControl::new(&capacities(&[(3, capacity)]));
        for freed in 1..quarter {
            assert!(!returns.free(Buffer(3)), "{freed} of {capacity} wait");
        }
        assert!(returns.free(Buffer(3)), "{quarter} of {capacity} do not");
        assert_eq!(named(returns.take()), [(3, quarter)]);
        assert_eq!(
            (returns.waiting(Buffer(3)), named(returns.take())),
            (0, vec![])
        );
    }
}

#[test]
fn one_ride_takes_credits_of_every_buffer_that_has_a_sixteenth_waiting() {
    let mut returns = FlowControl::new(&capacities(&[(0, 128), (1, 128), (2, 128), (9, 15)]));
    for (buffer, freed) in [(0, 8), (1, 7), (2, 11)] {
        for _ in 0..freed {
            assert!(!returns.free(Buffer(buffer)));
        }
    }
    assert_eq!(named(returns.take()), [(0, 8), (2, 11)]);
    assert_eq!(returns.waiting(Buffer(1)), 7);
    assert!(!returns.free(Buffer(1)));
    assert_eq!(named(returns.take()), [(1, 8)]);
    returns.free(Buffer(9));
    assert_eq!(
        named(returns.take()),
        [(9, 1)],
        "less than sixteen never wait"
    );
}

#[test]
fn the_buffer_that_must_not_wait_is_in_the_return_that_it_asks_for() {
    // Four buffers have credits that may wait; the fifth has room for one message, so a
    // transmitter waits for this very credit, and nothing else need ever go back.
    let mut returns = FlowControl::new(&capacities(&[
        (0, 128),
        (1, 128),
        (2, 128),
        (3, 128),
        (7, 1),
    ]));
    for buffer in 0..4 {
        assert!(!returns.free(Buffer(buffer)));
    }
    assert!(returns.free(Buffer(7)), "one of one is more than a quarter");
    let taken = named(returns.take_first(Buffer(7)));
    assert!(
        taken.contains(&(7, 1)),
        "{taken:?} go back, the credit that is asked for stays"
    );
}
