use super::*;

fn endpoint(device: DeviceType) -> Registers {
    FunctionSpec::endpoint(device, 1 << 30).space()
}

/// IDs and offsets of the capabilities in the extended list.
fn list(space: &Registers) -> Vec<(u16, u64)> {
    let mut found = Vec::new();
    let mut at = u64::from(EXTENDED);
    while at != 0 {
        let header = space.read(at, 4).unwrap();
        found.push((header as u16, at));
        at = header >> 20;
    }
    found
}

/// Offset of the DVSEC with this ID.
fn find(space: &Registers, id: u16) -> Option<u64> {
    let dvsecs = list(space)
        .into_iter()
        .filter(|(number, _)| *number == extended::DVSEC);
    let mut places = dvsecs.map(|(_, at)| at);
    places.find(|at| space.read(at + 8, 2) == Ok(id.into()))
}

#[test]
fn all_ones_in_a_bar_read_back_as_its_size() {
    let mut space = endpoint(DeviceType::Type3);
    space.write(0x10, 4, u32::MAX.into()).unwrap();
    space.write(0x14, 4, u32::MAX.into()).unwrap();
    assert_eq!(space.read(0x10, 8), Ok(!(128u64 * 1024 - 1) | 0b1100));
    space.write(0x10, 8, 0x12_3456_0000).unwrap();
    assert_eq!(space.read(0x10, 8), Ok(0x12_3456_0000 & !0x1_ffff | 0b1100));
    space.write(0x18, 4, u32::MAX.into()).unwrap();
    assert_eq!(space.read(0x18, 4), Ok(0), "there is no second BAR");
}

#[test]
fn numbers_cannot_be_written_and_commands_can() {
    let mut space = endpoint(DeviceType::Type3);
    space.write(0, 4, 0).unwrap();
    assert_eq!(space.read(0, 2), Ok(0x1e98));
    space.write(offset::COMMAND.into(), 2, 0xffff).unwrap();
    assert_eq!(space.read(4, 2), Ok(0x0546));
    assert_eq!(space.read(offset::STATUS.into(), 2), Ok(0x10));
    assert_eq!(space.read(8, 4), Ok(0x0502_1000));
}

#[test]
fn headers_are_those_of_devices_and_of_bridges() {
    let header = |spec: FunctionSpec| spec.space().read(offset::HEADER_TYPE.into(), 1);
    assert_eq!(header(FunctionSpec::endpoint(DeviceType::Type1, 0)), Ok(0));
    for role in [Role::RootPort, Role::UpstreamPort, Role::DownstreamPort] {
        assert_eq!(header(FunctionSpec::port(role, 3)), Ok(1));
    }
    let mut port = FunctionSpec::port(Role::RootPort, 3).space();
    port.write(offset::BUSES.into(), 4, 0xff_05_02_01).unwrap();
    assert_eq!(port.read(offset::BUSES.into(), 4), Ok(0x05_02_01));
    let link = u64::from(STANDARD + pcie::LINK_CAPABILITIES);
    assert_eq!(port.read(link, 4).unwrap() >> 24, 3);
}

#[test]
fn each_type_of_device_says_what_it_speaks() {
    let capability = |device| {
        let space = endpoint(device);
        let at = find(&space, dvsec_id::DEVICE).unwrap();
        space
            .read(at + u64::from(device_dvsec::CAPABILITY), 2)
            .unwrap()
    };
    assert_eq!(capability(DeviceType::Type1), 0b00_0011);
    assert_eq!(capability(DeviceType::Type2), 0b01_0111);
    assert_eq!(capability(DeviceType::Type3), 0b01_0110);
}

#[test]
fn the_control_of_a_device_enables_what_it_has() {
    let mut space = endpoint(DeviceType::Type3);
    let at = find(&space, dvsec_id::DEVICE).unwrap() + u64::from(device_dvsec::CONTROL);
    space.write(at, 2, 0xffff).unwrap();
    assert_eq!(
        space.read(at, 2),
        Ok(0b110),
        "no CXL.cache; CXL.io is always on"
    );
}

#[test]
fn lists_have_what_each_function_must_have() {
    let ids = |space: Registers| -> Vec<u16> {
        list(&space)
            .into_iter()
            .filter(|(id, _)| *id == extended::DVSEC)
            .map(|(_, at)| space.read(at + 8, 2).unwrap() as u16)
            .collect()
    };
    assert_eq!(ids(endpoint(DeviceType::Type2)), [0, 7, 8]);
    assert_eq!(
        ids(FunctionSpec::port(Role::RootPort, 0).space()),
        [3, 7, 8]
    );
    assert_eq!(
        ids(FunctionSpec::port(Role::UpstreamPort, 0).space()),
        [7, 8]
    );
    let with_ats = list(&endpoint(DeviceType::Type1));
    let numbers: Vec<u16> = with_ats.iter().map(|(id, _)| *id).take(3).collect();
    assert_eq!(numbers, [extended::ATS, extended::PRI, extended::PASID]);
    assert_eq!(
        list(&endpoint(DeviceType::Type3))[0].0,
        0,
        "nothing but the list's head"
    );
}

#[test]
fn the_size_of_the_memory_is_in_the_range() {
    let space = FunctionSpec::endpoint(DeviceType::Type3, 68 << 30).space();
    let at = find(&space, dvsec_id::DEVICE).unwrap() + u64::from(device_dvsec::RANGE1);
    assert_eq!(space.read(at, 4), Ok(68 >> 2));
    let low = space.read(at + 4, 4).unwrap();
    assert_eq!(low & 0xf000_0000, (68u64 << 30) & 0xf000_0000);
    assert_eq!(low & 0b11, 0b11);
}
