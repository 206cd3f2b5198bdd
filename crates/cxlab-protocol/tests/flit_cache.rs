//! CXL.cache in flits: CXL 3.1, tables 4-7, 4-8, 4-14 to 4-16 and 4-18.
#![allow(clippy::unwrap_used)]

use cxlab_protocol::Channel::{self, D2hData, D2hReq, D2hRsp, H2dData, H2dReq, H2dRsp};
use cxlab_protocol::flit::{FlitFormat, FlitPacker};

/// How many of a class an open flit takes.
fn most(format: FlitFormat, channel: Channel) -> usize {
    let mut packer = FlitPacker::new(format);
    (0..64)
        .take_while(|_| packer.place(channel).is_some())
        .count()
}

/// Whether these, in this order, leave only `slots` slots with headers.
fn header_slots(format: FlitFormat, messages: &[Channel]) -> u64 {
    let mut packer = FlitPacker::new(format);
    for message in messages {
        assert!(
            packer.place(*message).is_some(),
            "{message:?} of {messages:?}"
        );
    }
    packer.close();
    packer.counters().header_slots
}

#[test]
fn a_68_byte_flit_takes_as_many_of_a_class_as_the_receiver_can_write() {
    let format = FlitFormat::B68;
    for (channel, count) in [
        (D2hReq, 4),
        (D2hRsp, 2),
        (H2dReq, 2),
        (H2dRsp, 4),
        // Four headers of one slot: 16 chunks, 3 of them in this flit.
        (D2hData, 4),
        (H2dData, 4),
    ] {
        assert_eq!(most(format, channel), count, "{channel:?}");
    }
}

#[test]
fn neighbouring_groups_of_a_256_byte_flit_limit_requests_snoops_and_responses() {
    // Groups A and B may hold the maximum, then C and D once more.
    for (channel, count) in [(D2hReq, 8), (D2hRsp, 8), (H2dReq, 4), (H2dRsp, 12)] {
        assert_eq!(most(FlitFormat::B256, channel), count, "{channel:?}");
    }
}

#[test]
fn headers_of_the_four_lines_that_a_flit_has_room_for_share_a_slot() {
    // Slot 0 of a standard flit has room for four headers to the host and three to the device.
    let upstream = header_slots(FlitFormat::B256, &[D2hData, D2hData, D2hData, D2hData]);
    assert_eq!(upstream, 1);
    let three = [H2dData, H2dData, H2dData];
    assert_eq!(header_slots(FlitFormat::B256, &three), 1);
    assert_eq!(header_slots(FlitFormat::B68, &[H2dData; 4]), 1);
}

#[test]
fn a_slot_mixes_only_what_a_format_mixes() {
    let slots = |format, messages: &[Channel]| header_slots(format, messages);
    // Two GO and their data share H1; a GO and a snoop share H0 and no third.
    assert_eq!(slots(FlitFormat::B68, &[H2dData, H2dRsp, H2dRsp]), 1);
    assert_eq!(slots(FlitFormat::B68, &[H2dReq, H2dRsp]), 1);
    assert_eq!(slots(FlitFormat::B68, &[H2dReq, H2dRsp, H2dRsp]), 2);
    // CXL.mem and CXL.cache together: a write completion with snooped data (H0 of D2H).
    assert_eq!(
        slots(FlitFormat::B68, &[D2hData, D2hRsp, D2hRsp, Channel::S2mNdr]),
        1
    );
    // 256-byte flits: a request shares H2 with one snoop response, a data header shares nothing.
    assert_eq!(slots(FlitFormat::B256, &[D2hReq, D2hRsp]), 1);
    assert_eq!(slots(FlitFormat::B256, &[D2hReq, D2hRsp, D2hRsp]), 2);
    assert_eq!(slots(FlitFormat::B256, &[D2hRsp, D2hData]), 2);
}

/// Lines alone, as fast as a link takes them: the closed form of `docs/flit-packing.md`, CXL.cache.
#[test]
fn lines_of_a_device_fill_256_byte_flits_but_for_one_header_slot_in_four_lines() {
    let mut packer = FlitPacker::new(FlitFormat::B256);
    let mut lines = 0_u64;
    for _ in 0..3000 {
        while packer.place(D2hData).is_some() {
            lines += 1;
        }
        packer.close();
    }
    let per_flit = lines as f64 / 3000.0;
    // 14 data slots a flit, 3.5 lines; slot 0 has room for four headers.
    assert!((per_flit - 3.5).abs() < 0.01, "{per_flit}");
}
