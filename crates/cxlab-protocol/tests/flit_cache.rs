//! CXL.cache in flits: CXL 3.1, tables 4-7, 4-8, 4-14 to 4-16 and 4-18.
#![allow(clippy::unwrap_used)]

use cxlab_protocol::Channel::{self, D2hData, D2hReq, D2hRsp, H2dData, H2dReq, H2dRsp};
use cxlab_protocol::flit::{FlitFormat, FlitPacker};

/// Number of messages of a class that an open flit accepts.
fn most(format: FlitFormat, channel: Channel) -> usize {
    let mut packer = FlitPacker::new(format);
    (0..64)
        .take_while(|_| packer.place(channel).is_some())
        .count()
}

/// Number of slots that hold headers after these messages were placed in this order.
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
    let slots = header_slots;
    // Two GO and their data share H1; a GO and a snoop share H0, but not with a third message.
    assert_eq!(slots(FlitFormat::B68, &[H2dData, H2dRsp, H2dRsp]), 1);
    assert_eq!(slots(FlitFormat::B68, &[H2dReq, H2dRsp]), 1);
    assert_eq!(slots(FlitFormat::B68, &[H2dReq, H2dRsp, H2dRsp]), 2);
    // CXL.mem and CXL.cache together: a write completion with snooped data (H0 of D2H).
    let both = [D2hData, D2hRsp, D2hRsp, Channel::S2mNdr];
    assert_eq!(slots(FlitFormat::B68, &both), 1);
    // 256-byte flits: a request shares H2 with one snoop response; a data header shares nothing.
    assert_eq!(slots(FlitFormat::B256, &[D2hReq, D2hRsp]), 1);
    assert_eq!(slots(FlitFormat::B256, &[D2hReq, D2hRsp, D2hRsp]), 2);
    assert_eq!(slots(FlitFormat::B256, &[D2hRsp, D2hData]), 2);
}

/// Only lines, as fast as a link accepts them: the closed form of `docs/explain/flit-packing.md`, CXL.cache.
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
    // 14 data slots per flit, 3.5 lines; slot 0 has room for four headers.
    assert!((per_flit - 3.5).abs() < 0.01, "{per_flit}");
}

/// Only lines with byte enables, as fast as a link accepts them: each has a fifth data slot (CXL
/// 3.1, sections 3.2.3.3.1 and 4.3.3.2).
#[test]
fn byte_enables_take_a_data_slot_behind_their_line() {
    for (format, channel, lines, flits) in [
        // A header in slot 0 and three chunks beside it. Two chunks roll over, beside the next
        // header and its first chunk. The other four are a flit of their own. Several headers in a
        // slot are for whole lines.
        (FlitFormat::B68, Channel::M2sRwd, 2, 3),
        (FlitFormat::B68, D2hData, 2, 3),
        // Six slots of the fifteen.
        (FlitFormat::B256, Channel::M2sRwd, 5, 2),
        // Five of the fourteen slots that slot 0 leaves; headers share slot 0.
        (FlitFormat::B256, D2hData, 14, 5),
    ] {
        let mut packer = FlitPacker::new(format);
        let (mut placed, mut begun) = (0, 0);
        while begun < 3000 {
            while packer.place_with_trailer(channel).is_some() {
                placed += 1;
            }
            begun += packer.close();
        }
        let expected = f64::from(begun) * f64::from(lines) / f64::from(flits);
        let off = f64::from(placed) - expected;
        assert!(
            off.abs() <= 8.0,
            "{format:?} {channel:?}: {placed} lines in {begun} flits"
        );
    }
}

#[test]
fn a_line_with_byte_enables_shares_no_flit_of_68_bytes_with_another() {
    let mut packer = FlitPacker::new(FlitFormat::B68);
    assert!(packer.place(D2hData).is_some());
    assert!(packer.place_with_trailer(D2hData).is_none());
    packer.close();
    // One chunk of the first line remains.
    assert!(packer.place_with_trailer(D2hData).is_some());
    assert!(packer.place(D2hData).is_none());
    let mut packer = FlitPacker::new(FlitFormat::B256);
    assert!(packer.place(D2hData).is_some());
    assert!(packer.place_with_trailer(D2hData).is_some());
    packer.close();
    assert_eq!(packer.counters().header_slots, 1);
    assert_eq!(packer.counters().data_slots, 9);
}
