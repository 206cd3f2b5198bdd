use super::*;

const GIB: u64 = 1 << 30;

/// Offset of a decoder's registers, by the number of the decoder.
fn at(number: u64) -> u64 {
    HDM as u64 + hdm_offset::DECODERS + number * hdm_offset::STRIDE
}

/// Programs and commits a decoder. Returns its control register afterwards.
fn program(
    registers: &mut ComponentRegisters,
    number: u64,
    (base, size): (u64, u64),
    (ways, granularity): (u32, u64),
    list: u64,
) -> u32 {
    let values = [base, base >> 32, size, size >> 32];
    for (word, value) in values.into_iter().enumerate() {
        registers
            .write(at(number) + 4 * word as u64, 4, value & 0xffff_ffff)
            .unwrap();
    }
    registers
        .write(at(number) + 0x14, 4, list & 0xffff_ffff)
        .unwrap();
    registers.write(at(number) + 0x18, 4, list >> 32).unwrap();
    let codes = encode_granularity(granularity).unwrap() | encode_ways(ways).unwrap() << 4;
    registers
        .write(at(number) + 0x10, 4, (codes | control::COMMIT).into())
        .unwrap();
    registers.read(at(number) + 0x10, 4).unwrap() as u32
}

fn enable(registers: &mut ComponentRegisters) {
    registers
        .write(HDM as u64 + hdm_offset::GLOBAL_CONTROL, 4, ENABLE.into())
        .unwrap();
}

fn memory(bytes: u64) -> ComponentRegisters {
    ComponentRegisters::new(Decodes::Memory(bytes), 4)
}

const ALONE: (u32, u64) = (1, 256);

#[test]
fn codes_of_ways_and_granularities_lead_back() {
    for ways in crate::hdm::LEGAL_WAYS {
        assert_eq!(encode_ways(ways).and_then(decode_ways), Some(ways));
    }
    assert_eq!(encode_ways(5), None);
    assert_eq!([5, 7, 11].map(decode_ways), [None; 3]);
    assert_eq!(
        [256, 16_384, 128].map(encode_granularity),
        [Some(0), Some(6), None]
    );
}

#[test]
fn the_capability_array_leads_to_the_decoders() {
    let registers = memory(GIB);
    let header = registers.read(CACHE_MEM, 4).unwrap();
    assert_eq!((header & 0xffff, header >> 24), (1, 1));
    let entry = registers.read(CACHE_MEM + 4, 4).unwrap();
    assert_eq!(entry as u32 & 0xffff, HDM_CAPABILITY);
    let capability = registers.read(CACHE_MEM + (entry >> 20), 4).unwrap();
    assert_eq!(capability & 0xf, 2, "4 decoders");
    assert!(registers.read(CACHE_MEM, 8).is_err());
}

#[test]
fn a_decoder_decodes_when_it_is_committed_and_enabled() {
    let mut registers = memory(4 * GIB);
    let control = program(&mut registers, 0, (16 * GIB, 4 * GIB), (4, 256), 0);
    assert_eq!(
        control & (control::COMMITTED | control::ERROR),
        control::COMMITTED
    );
    let hpa = Hpa(16 * GIB + 0x1_2345);
    assert_eq!(registers.dpa_of(hpa), None, "not enabled");
    enable(&mut registers);
    let plain = HdmDecoder::new(Hpa(16 * GIB), Bytes(4 * GIB), Bytes(256), 4).unwrap();
    assert_eq!(registers.dpa_of(hpa), plain.decode(hpa).map(|(_, dpa)| dpa));
    assert_eq!(registers.dpa_of(Hpa(20 * GIB)), None);
}

#[test]
fn a_second_decoder_lies_behind_the_first_in_the_device_after_what_is_skipped() {
    let mut registers = memory(8 * GIB);
    program(&mut registers, 0, (16 * GIB, GIB), ALONE, 0);
    program(&mut registers, 1, (32 * GIB, 2 * GIB), (2, 4096), GIB);
    enable(&mut registers);
    assert_eq!(registers.dpa_of(Hpa(16 * GIB + 5)), Some(Dpa(5)));
    assert_eq!(
        registers.dpa_of(Hpa(32 * GIB + 8192 + 5)),
        Some(Dpa(2 * GIB + 4096 + 5))
    );
}

#[test]
fn bad_programming_is_refused() {
    let refused = |control: u32| control & (control::COMMITTED | control::ERROR) == control::ERROR;
    let (first, whole) = ((16 * GIB, GIB), (0, 2 * GIB));
    // More memory than the device has, with and without interleaving and skip.
    assert!(refused(program(&mut memory(GIB), 0, whole, ALONE, 0)));
    assert!(!refused(program(&mut memory(GIB), 0, whole, (2, 256), 0)));
    assert!(refused(program(
        &mut memory(GIB),
        0,
        whole,
        (2, 256),
        256 << 20
    )));
    // Three faults: the decoder before is not committed; the ranges overlap; the decoder is
    // below the one before.
    assert!(refused(program(&mut memory(8 * GIB), 1, first, ALONE, 0)));
    let mut registers = memory(8 * GIB);
    assert!(!refused(program(&mut registers, 0, first, ALONE, 0)));
    for (base, wrong) in [(16 * GIB + (512 << 20), true), (0, true), (17 * GIB, false)] {
        let control = program(&mut registers, 1, (base, GIB), ALONE, 0);
        assert_eq!(refused(control), wrong, "{base:#x}");
    }
    // More ways than a target list has entries for, and a factor of three, which only devices have.
    for ways in [16, 3, 6, 12] {
        let mut ports = ComponentRegisters::new(Decodes::Ports, 4);
        let range = (0, u64::from(ways) << 30);
        assert!(refused(program(&mut ports, 0, range, (ways, 256), 0)));
        let capable = |registers: &ComponentRegisters| registers.read(HDM as u64, 4).unwrap() >> 11;
        assert_eq!((capable(&ports), capable(&memory(GIB))), (0, 0b11));
        assert!(!refused(program(
            &mut memory(GIB),
            0,
            range,
            (ways, 256),
            0
        )));
    }
    // Reserved codes: granularity 7, ways 5.
    for codes in [7u32, 5 << 4] {
        let mut registers = memory(8 * GIB);
        registers.write(at(0) + 8, 4, GIB).unwrap();
        let control = (codes | control::COMMIT).into();
        registers.write(at(0) + 0x10, 4, control).unwrap();
        let control = registers.read(at(0) + 0x10, 4).unwrap();
        assert!(refused(control as u32), "{codes:#x}");
    }
    // A size that cannot be divided evenly among three ways.
    assert!(refused(program(
        &mut memory(8 * GIB),
        0,
        (0, GIB),
        (3, 256),
        0
    )));
}

#[test]
fn what_is_committed_stays_until_it_is_given_up_and_what_is_locked_for_ever() {
    let mut registers = memory(8 * GIB);
    program(&mut registers, 0, (16 * GIB, GIB), ALONE, 0);
    registers.write(at(0), 4, 0).unwrap();
    registers.write(at(0) + 4, 4, 0).unwrap();
    assert_eq!(registers.decoder(0).base, Hpa(16 * GIB), "committed");
    registers.write(at(0) + 0x10, 4, 0).unwrap();
    assert!(!registers.decoder(0).is_committed());
    registers.write(at(0) + 4, 4, 8).unwrap();
    assert_eq!(registers.decoder(0).base, Hpa(8 << 32));
    let lock = control::COMMIT | control::LOCK;
    registers.write(at(0) + 0x10, 4, lock.into()).unwrap();
    registers.write(at(0) + 0x10, 4, 0).unwrap();
    assert!(registers.decoder(0).is_committed());
}

#[test]
fn low_bits_of_base_and_size_do_not_exist() {
    let mut registers = memory(8 * GIB);
    registers.write(at(0), 4, 0xffff_ffff).unwrap();
    assert_eq!(registers.decoder(0).base.0 % DECODER_UNIT, 0);
}

#[test]
fn ports_are_named_by_the_target_list() {
    let mut ports = ComponentRegisters::new(Decodes::Ports, 2);
    program(&mut ports, 0, (0, 4 * GIB), (4, 1024), 0x09_07_02_05);
    enable(&mut ports);
    let found = [0, 1024, 2048, 3072, 4096].map(|at| ports.port_of(Hpa(at)));
    assert_eq!(found, [5, 2, 7, 9, 5].map(Some));
}
