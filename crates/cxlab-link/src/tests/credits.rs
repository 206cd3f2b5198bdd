//! Credits: their number is never negative, never above the window, and every credit comes back.

use cxlab_engine::rng::StreamRng;

use super::*;
use crate::credit::{BufferId, CreditReturns, FlowControl};
use crate::parcel::Credits;

/// Flow control of one virtual channel with these windows by class, and no buffers of other classes.
fn flow(of: &[(Channel, u16)]) -> FlowControl {
    flow_in(of, CreditReturns::Any)
}

/// Flow control as by `flow`, with an encoding of credit returns.
fn flow_in(of: &[(Channel, u16)], returns: CreditReturns) -> FlowControl {
    let mut windows = [0; Channel::COUNT];
    for (class, window) in of {
        windows[class.index()] = *window;
    }
    FlowControl::new(&windows, 1, returns)
}

fn named(credits: Credits) -> Vec<(u8, u8)> {
    let returned = credits.entries.into_iter();
    returned.filter(|(_, count)| *count > 0).collect()
}

/// Sends a message to a buffer if a credit is at hand. Returns whether it was sent.
fn goes(flow: &mut FlowControl, buffer: BufferId) -> bool {
    let Some(state) = flow.with_credit(buffer) else {
        return false;
    };
    state.spend();
    flow.count_sent();
    true
}

#[test]
fn as_many_go_as_there_are_credits_and_one_more_for_each_that_comes_back() {
    let mut flow = flow(&[(Channel::M2sReq, 3), (Channel::M2sRwd, 1)]);
    let request = BufferId::of(Channel::M2sReq, 0);
    for left in [2, 1, 0] {
        assert!(goes(&mut flow, request));
        assert_eq!(flow.credits(request), left);
    }
    assert!(!goes(&mut flow, request));
    let other = BufferId::of(Channel::M2sRwd, 0);
    assert!(goes(&mut flow, other), "another class has its own");
    assert_eq!(flow.unreturned(), 4);
    flow.credit(request, 1);
    assert_eq!(flow.unreturned(), 3);
    assert!(goes(&mut flow, request));
    assert!(!goes(&mut flow, request));
}

#[test]
fn a_virtual_channel_without_buffers_never_goes() {
    let mut flow = flow(&[(Channel::M2sReq, 1)]);
    assert!(!goes(&mut flow, BufferId::of(Channel::M2sReq, 1)));
}

#[test]
#[should_panic(expected = "more credits than were used")]
fn more_credits_than_were_used_are_our_mistake() {
    flow(&[(Channel::M2sReq, 2)]).credit(BufferId(0), 1);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "more credits than buffers")]
fn credits_of_another_class_than_was_used_are_our_mistake() {
    let mut flow = flow(&[(Channel::M2sReq, 2), (Channel::S2mNdr, 2)]);
    assert!(goes(&mut flow, BufferId::of(Channel::M2sReq, 0)));
    flow.credit(BufferId::of(Channel::S2mNdr, 0), 1);
}

#[test]
fn credits_are_conserved_whatever_the_order_of_sends_and_returns() {
    use CreditReturns::{Any, Flit68, Flit256};
    for returns in [Any, Flit68, Flit256] {
        are_conserved(returns);
    }
}

fn are_conserved(how: CreditReturns) {
    let vcs = 3;
    let windows = std::array::from_fn(|class| [1, 5, 9, 128, 1023][class % 5]);
    let mut sender = FlowControl::new(&windows, vcs, how);
    let mut returns = FlowControl::new(&windows, vcs, how);
    let (mut buffered, mut on_their_way): (Vec<BufferId>, Vec<Credits>) = Default::default();
    let mut rng = StreamRng::new(1, "credits");
    for step in 0..100_000 {
        let channel = Channel::ALL[rng.below(Channel::COUNT as u64) as usize];
        let vc = rng.below(3) as u8;
        let buffer = BufferId::of(channel, vc);
        match rng.below(3) {
            0 if goes(&mut sender, buffer) => buffered.push(buffer),
            0 => assert_eq!(sender.credits(buffer), 0),
            1 if !buffered.is_empty() => {
                let at = rng.below(buffered.len() as u64) as usize;
                let buffer = buffered.swap_remove(at);
                if returns.free(buffer) {
                    on_their_way.push(returns.take_first(buffer));
                }
            }
            1 => on_their_way.push(returns.take(step / 4)),
            _ => {
                let at = rng.below(on_their_way.len().max(1) as u64) as usize;
                if at < on_their_way.len() {
                    for (buffer, count) in named(on_their_way.swap_remove(at)) {
                        sender.credit(BufferId(buffer), count);
                    }
                }
            }
        }
        if step % 64 > 0 {
            continue;
        }
        let buffers =
            (0..vcs).flat_map(|vc| Channel::ALL.map(|class| (class, BufferId::of(class, vc))));
        for (channel, buffer) in buffers {
            let returning = on_their_way.iter().flat_map(|credits| credits.entries);
            let returning = returning.filter(|(number, _)| *number == buffer.0);
            let returning: u16 = returning.map(|(_, count)| u16::from(count)).sum();
            let held = buffered.iter().filter(|other| **other == buffer).count() as u16;
            let sum = sender.credits(buffer) + returns.waiting(buffer) + held + returning;
            assert_eq!(sum, windows[channel.index()], "{buffer:?}");
        }
    }
}

#[test]
fn a_quarter_of_a_window_goes_back_alone_and_less_waits_for_a_ride() {
    // By window: a quarter and a sixteenth, in packets and in flits.
    let sizes = [
        (1, [1, 1], [1, 1]),
        (7, [1, 1], [1, 1]),
        (8, [2, 1], [1, 1]),
        (16, [4, 1], [4, 1]),
        (64, [16, 4], [16, 4]),
        (128, [32, 8], [16, 8]),
        (255, [32, 8], [16, 8]),
        (256, [64, 16], [16, 16]),
        (1023, [128, 32], [16, 16]),
        (4095, [128, 128], [16, 16]),
    ];
    let class = Channel::S2mDrs;
    let buffer = BufferId::of(class, 0);
    for (window, in_packets, in_flits) in sizes {
        for (how, [quarter, sixteenth]) in [
            (CreditReturns::Any, in_packets),
            (CreditReturns::Flit68, in_flits),
            (CreditReturns::Flit256, in_flits),
        ] {
            assert_eq!(how.standalone_threshold(window), quarter);
            assert_eq!(how.piggyback_threshold(window), sixteenth);
            let mut returns = flow_in(&[(class, window)], how);
            for freed in 1..quarter {
                assert!(!returns.free(buffer), "{freed} of {window} wait");
            }
            assert!(returns.free(buffer), "{quarter} of {window} do not");
            assert_eq!(named(returns.take(0)), [(buffer.0, quarter as u8)]);
            assert_eq!(returns.waiting(buffer), 0);
            assert_eq!(named(returns.take(1)), []);
        }
    }
}

#[test]
fn one_ride_takes_credits_of_every_buffer_that_has_a_sixteenth_waiting() {
    use Channel::{H2dRsp, M2sReq, M2sRwd, S2mNdr};
    let mut returns = flow(&[(M2sReq, 128), (M2sRwd, 128), (S2mNdr, 128), (H2dRsp, 15)]);
    for (class, freed) in [(M2sReq, 8), (M2sRwd, 7), (S2mNdr, 11)] {
        for _ in 0..freed {
            assert!(!returns.free(BufferId::of(class, 0)));
        }
    }
    assert_eq!(named(returns.take(0)), [(0, 8), (2, 11)]);
    assert_eq!(returns.waiting(BufferId(1)), 7);
    assert!(!returns.free(BufferId(1)));
    assert_eq!(named(returns.take(0)), [(1, 8)]);
    let small = BufferId::of(H2dRsp, 0);
    returns.free(small);
    let taken = named(returns.take(0));
    assert_eq!(taken, [(small.0, 1)], "less than sixteen never wait");
}

/// A link that is trained again returns whole windows, in returns of at most 255 credits.
#[test]
fn a_window_of_more_than_255_goes_back_in_several_entries() {
    let class = Channel::S2mDrs;
    let buffer = BufferId::of(class, 0);
    let (mut here, mut far) = (flow(&[(class, 1023)]), flow(&[(class, 1023)]));
    here.fail();
    far.fail();
    far.restore(|_| 23);
    loop {
        let entries = named(far.take_all());
        if entries.is_empty() {
            break;
        }
        for (buffer, count) in entries {
            here.credit(BufferId(buffer), count);
        }
    }
    assert_eq!((here.credits(buffer), here.unreturned()), (1000, 23));
}

#[test]
fn the_buffer_that_must_not_wait_is_in_the_return_that_it_asks_for() {
    // Four buffers have credits that may wait. The fifth has room for one message, so a transmitter waits
    // for this very credit, and no later event need return anything.
    let windows = std::array::from_fn(|class| if class == 7 { 1 } else { 128 });
    let mut returns = FlowControl::new(&windows, 1, CreditReturns::Any);
    for buffer in 0..4 {
        assert!(!returns.free(BufferId(buffer)));
    }
    assert!(
        returns.free(BufferId(7)),
        "one of one is more than a quarter"
    );
    let taken = named(returns.take_first(BufferId(7)));
    assert!(
        taken.contains(&(7, 1)),
        "{taken:?} go back, not what is asked for"
    );
}

/// A flit has three credit fields. Each returns credits of one of the classes that share it, in a number
/// that the format can express (CXL 3.1, tables 4-4 and 4-19). Remaining credits go in later flits.
#[test]
fn a_flit_returns_credits_of_three_classes_in_the_steps_of_its_format() {
    use Channel::{M2sReq, M2sRwd, S2mBisnp, S2mDrs, S2mNdr};
    let classes = [M2sReq, M2sRwd, S2mNdr, S2mDrs, S2mBisnp];
    let steps: [(CreditReturns, &[u8]); 2] = [
        (CreditReturns::Flit68, &[16, 2, 1]),
        (CreditReturns::Flit256, &[16, 1, 1, 1]),
    ];
    for (how, expected) in steps {
        let mut returns = flow_in(&classes.map(|class| (class, 256)), how);
        for class in classes.repeat(19) {
            returns.free(BufferId::of(class, 0));
        }
        let fields = |class: Channel| match class {
            M2sReq | S2mBisnp => 0,
            M2sRwd | S2mDrs => 1,
            _ => 2,
        };
        let mut back = [0; Channel::COUNT];
        for flit in 0..2 {
            let returned = named(returns.take(flit));
            let used = returned.iter().map(|(buffer, count)| {
                assert_eq!(*count, 16, "{how:?}");
                let named = |class: &&Channel| BufferId::of(**class, 0).0 == *buffer;
                let class = *classes.iter().find(named).unwrap();
                back[class.index()] += u32::from(*count);
                fields(class)
            });
            let used: Vec<i32> = used.collect();
            assert_eq!(used.len(), 3 - flit as usize, "{how:?}: {returned:?}");
            assert_eq!(named(returns.take(flit)), [], "the flit's fields are used");
        }
        assert_eq!(classes.map(|class| back[class.index()]), [16; 5]);
        // The remaining credits of a buffer that need not wait for a message.
        let request = BufferId::of(M2sReq, 0);
        let mut rest = Vec::new();
        while returns.waiting(request) > 0 {
            let taken = named(returns.take_first(request));
            rest.extend(taken.into_iter().filter(|(buffer, _)| *buffer == request.0));
        }
        let rest: Vec<u8> = rest.into_iter().map(|(_, count)| count).collect();
        assert_eq!(rest, expected[1..], "{how:?}");
    }
}
