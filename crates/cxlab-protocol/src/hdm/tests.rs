use cxlab_engine::units::{Bytes, Dpa, Hpa};
use proptest::prelude::*;

use super::decoder::Interleave;
use super::*;

const KIB: u64 = 1 << 10;

#[test]
fn three_and_six_ways_follow_the_modulo_form_of_the_specification() {
    let base = Hpa(0x1_0000_0000);
    for (ways, slice_bits) in [(3u32, 0), (6, 1), (12, 2)] {
        let decoder = HdmDecoder::new(base, Bytes(12 * 256 * 100), Bytes(256), ways).unwrap();
        for offset in (0..12 * 256 * 100u64).step_by(64) {
            let (target, dpa) = decoder.decode(Hpa(base.0 + offset)).unwrap();
            // DPAOffset[51:IG+8] = HPAOffset[51:IG+IW] / 3, with IG = 0 and IW = 8, 9, 10.
            let high = (offset >> (8 + slice_bits)) / 3;
            assert_eq!(dpa.0, high << 8 | offset & 0xff);
            let slice = (offset >> 8) & ((1 << slice_bits) - 1);
            let group = (offset >> (8 + slice_bits)) % 3;
            assert_eq!(u64::from(target), slice + (group << slice_bits));
        }
    }
}

#[test]
fn power_of_two_ways_remove_the_slice_of_bits() {
    let decoder = HdmDecoder::new(Hpa(0), Bytes(KIB * KIB), Bytes(4 * KIB), 4).unwrap();
    assert_eq!(decoder.decode(Hpa(0x1_2345)), Some((2, Dpa(0x4345))));
    assert_eq!(decoder.decode(Hpa(KIB * KIB)), None);
}

/// Ways of each level of a set with `n` targets.
fn levels(n: u32) -> Vec<u32> {
    let set = InterleaveSet::new(Hpa(0), Bytes(u64::from(n) * KIB), Bytes(256), n).unwrap();
    set.levels().iter().map(|level| level.ways).collect()
}

#[test]
fn sixty_four_targets_are_sixteen_by_four_and_forty_eight_are_sixteen_by_three() {
    assert_eq!(levels(1), [1]);
    assert_eq!(levels(12), [12]);
    assert_eq!(levels(24), [8, 3]);
    assert_eq!(levels(48), [16, 3]);
    assert_eq!(levels(64), [16, 4]);
    assert_eq!(levels(4096), [16, 16, 16]);
    assert_eq!(levels(3072), [16, 16, 12]);
}

#[test]
fn every_legal_number_of_targets_has_legal_levels_that_multiply_to_it() {
    for n in legal_targets() {
        let levels = levels(n);
        assert!(levels.iter().all(|ways| LEGAL_WAYS.contains(ways)), "{n}");
        assert_eq!(levels.iter().product::<u32>(), n);
    }
}

#[test]
fn a_wrong_number_names_what_is_allowed() {
    let error = |n| InterleaveSet::new(Hpa(0), Bytes(KIB * KIB), Bytes(256), n).unwrap_err();
    let text = error(20).to_string();
    for part in ["1, 2, 3, 4, 6, 8, 12, 16, 24, 32", "4096"] {
        assert!(text.contains(part), "{text}");
    }
    let nearest = ["nearest is 16", "nearest is 24"];
    assert!(nearest.iter().any(|end| text.ends_with(end)), "{text}");
    assert_eq!(error(0), InterleaveError::Targets(0));
    assert_eq!(error(6144), InterleaveError::Targets(6144));
    assert!(matches!(error(3), InterleaveError::Size { .. }));
    let granularity = HdmDecoder::new(Hpa(0), Bytes(KIB), Bytes(128), 1).unwrap_err();
    assert!(granularity.to_string().contains("16 KiB"));
    let ways = HdmDecoder::new(Hpa(0), Bytes(KIB), Bytes(256), 5).unwrap_err();
    assert_eq!(ways, InterleaveError::Ways(5));
    let range = HdmDecoder::new(Hpa(u64::MAX), Bytes(KIB), Bytes(256), 1).unwrap_err();
    assert!(matches!(range, InterleaveError::Range { .. }));
}

/// A set decodes as its levels do, and the decoders of all levels read the same address.
#[test]
fn a_set_is_the_composition_of_its_levels() {
    for n in [6, 24, 48, 64, 192, 1024] {
        let size = u64::from(n) * 256 * 9;
        let set = InterleaveSet::new(Hpa(0), Bytes(size), Bytes(256), n).unwrap();
        for hpa in (0..size).step_by(128).map(Hpa) {
            let (target, _) = set.decode(hpa).unwrap();
            for (way, level) in set.route(target).into_iter().zip(set.levels()) {
                let turn = level.granularity.0 * u64::from(level.ways);
                let whole = size.next_multiple_of(turn);
                let one = Interleave::new(Hpa(0), Bytes(whole), level.granularity.0, level.ways);
                assert_eq!(one.unwrap().decode(hpa).map(|(way, _)| way), Some(way));
            }
        }
    }
}

/// The arithmetic as Linux does it: positions by XORALLBITS of maps, then the modulo form
/// (`cxl_xor_hpa_to_spa` of `drivers/cxl/acpi.c`).
fn as_linux_does(offset: u64, ways: u32, maps: &[u64]) -> (u32, u64) {
    let bits = ways.trailing_zeros();
    let mut spa = offset;
    for map in &maps[..bits as usize] {
        let position = map.trailing_zeros();
        let value = u64::from((spa & map).count_ones() % 2);
        spa = spa & !(1 << position) | value << position;
    }
    let granule = spa >> 8;
    let (low, high) = (granule % (1 << bits), granule >> bits);
    let (group, own) = match ways.is_multiple_of(3) {
        true => (high % 3, high / 3),
        false => (0, high),
    };
    ((group << bits | low) as u32, own << 8 | offset & 0xff)
}

#[test]
fn xor_chooses_as_linux_does() {
    let maps = xor_maps(Bytes(256));
    for ways in LEGAL_WAYS {
        let size = Bytes(u64::from(ways) << 28);
        let set = InterleaveSet::new(Hpa(0), size, Bytes(256), ways).unwrap();
        let xored = set.with_xor(&maps).unwrap();
        let mut differ = 0;
        for hpa in (0..size.0).step_by((size.0 / 5003) as usize) {
            let found = xored.decode(Hpa(hpa)).unwrap();
            let (target, dpa) = as_linux_does(hpa, ways, &maps);
            assert_eq!(found, (target, Dpa(dpa)), "{ways} ways, {hpa:#x}");
            differ += u32::from(Some(found) != set.decode(Hpa(hpa)));
        }
        let bits = ways.trailing_zeros();
        assert_eq!(differ > 1000, bits > 0, "{ways} ways: {differ}");
    }
}

#[test]
fn a_bit_is_the_xor_of_its_map_and_the_address_in_the_target_stays() {
    let set = InterleaveSet::new(Hpa(0), Bytes(1 << 30), Bytes(256), 2).unwrap();
    // Bits 8, 11, 17 and 25.
    let set = set.with_xor(&[0x202_0900]).unwrap();
    for (hpa, target, dpa) in [
        (0, 0, 0),
        (0x100, 1, 0),
        (0x800, 1, 0x400),
        (0x900, 0, 0x400),
        (0x2_0042, 1, 0x1_0042),
        (0x202_0900, 0, 0x101_0400),
    ] {
        assert_eq!(set.decode(Hpa(hpa)), Some((target, Dpa(dpa))), "{hpa:#x}");
    }
}

#[test]
fn xor_spreads_a_stride_that_modulo_sends_to_one_target() {
    let set = InterleaveSet::new(Hpa(0), Bytes(1 << 30), Bytes(256), 4).unwrap();
    let maps = [0x40_4100, 0x80_8200];
    let xored = set.with_xor(&maps).unwrap();
    let targets = |set: &InterleaveSet| {
        let mut counts = [0; 4];
        for line in 0..4096u64 {
            let (target, _) = set.decode(Hpa(line * (16 << 10))).unwrap();
            counts[target as usize] += 1;
        }
        counts
    };
    assert_eq!(targets(&set), [4096, 0, 0, 0]);
    assert_eq!(targets(&xored), [1024; 4]);
}

#[test]
fn a_wrong_map_is_refused() {
    let set = InterleaveSet::new(Hpa(0), Bytes(1 << 30), Bytes(512), 4).unwrap();
    let few = set.with_xor(&[0x200]).unwrap_err();
    let (found, needed) = (1, 2);
    assert_eq!(few, InterleaveError::XorMaps { found, needed });
    let low = set.with_xor(&[0x200, 0x600]).unwrap_err();
    assert!(low.to_string().contains("0x400"), "{low}");
    assert!(set.with_xor(&xor_maps(Bytes(512))).is_ok());
    let zero = set.with_xor(&[0, 0]).unwrap_err();
    assert!(matches!(zero, InterleaveError::XorMap { number: 0, .. }));
}

fn any_set() -> impl Strategy<Value = InterleaveSet> {
    let targets = proptest::sample::select(legal_targets().collect::<Vec<_>>());
    let maps = proptest::option::of(proptest::array::uniform4(0..1u64 << 40));
    (targets, 0..=6u32, 0..1u64 << 40, 1..8u64, maps).prop_map(|(n, ig, base, turns, maps)| {
        let granularity = 256u64 << ig;
        let size = granularity * u64::from(n) * turns;
        let set = InterleaveSet::new(Hpa(base * 256), Bytes(size), Bytes(granularity), n);
        let set = set.unwrap();
        let Some(mut maps) = maps else {
            return set;
        };
        for (bit, map) in (granularity.ilog2()..).zip(&mut maps) {
            *map = *map & !((2 << bit) - 1) | 1 << bit;
        }
        set.with_xor(&maps).unwrap()
    })
}

proptest! {
    #[test]
    fn decode_and_encode_are_inverse(set in any_set(), share in 0..u64::MAX) {
        let hpa = Hpa(set.interleave.base + share % set.interleave.size);
        let (target, dpa) = set.decode(hpa).unwrap();
        prop_assert!(target < set.targets() && dpa.0 < set.target_size().0);
        prop_assert_eq!(set.encode(target, dpa), hpa);
        let target = (share % u64::from(set.targets())) as u32;
        let dpa = Dpa(share % set.target_size().0);
        prop_assert_eq!(set.decode(set.encode(target, dpa)), Some((target, dpa)));
    }

    #[test]
    fn each_target_gets_its_share_densely_and_once(
        ways in proptest::sample::select(LEGAL_WAYS.to_vec()), turns in 1..20u64,
    ) {
        let share = 256 * turns;
        let size = Bytes(share * u64::from(ways));
        let decoder = HdmDecoder::new(Hpa(1 << 30), size, Bytes(256), ways).unwrap();
        let mut seen = vec![false; (size.0 / 64) as usize];
        for line in 0..size.0 / 64 {
            let (target, dpa) = decoder.decode(Hpa((1 << 30) + 64 * line)).unwrap();
            prop_assert!(dpa.0 < share);
            let index = (u64::from(target) * share + dpa.0) / 64;
            prop_assert!(!std::mem::replace(&mut seen[index as usize], true));
        }
        prop_assert!(seen.into_iter().all(|line| line));
    }
}
