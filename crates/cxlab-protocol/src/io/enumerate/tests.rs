use proptest::prelude::*;

use super::*;
use crate::io::space::{DeviceType, FunctionSpec, command, offset};
use crate::io::tree::ComponentBelow;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn device(gib: u64) -> ComponentBelow {
    ComponentBelow::endpoint(FunctionSpec::endpoint(DeviceType::Type3, gib * GIB))
}

fn bridge(below: impl IntoIterator<Item = ComponentBelow>) -> RootComplex {
    RootComplex::one(Hpa(0xfe00_0000), below)
}

fn goal(regions: Vec<Region>) -> Goal {
    Goal {
        mmio_base: Hpa(0x380_0000_0000),
        mmio_bytes: 256 * MIB,
        max_read_request: 4096,
        regions,
    }
}

fn region(base_gib: u64, size_gib: u64, granularity: u64, targets: &[usize]) -> Region {
    Region {
        base: Hpa(base_gib * GIB),
        size: Bytes(size_gib * GIB),
        granularity: Bytes(granularity),
        targets: targets.to_vec(),
        host_only: true,
        lock: false,
    }
}

/// Two root ports. Below the first is a switch with a device, a nested switch with two devices, and
/// an empty port; below the second is a device.
fn nested() -> RootComplex {
    let inner = ComponentBelow::switch([device(4), device(4)]);
    bridge([
        ComponentBelow::switch([device(4), inner, ComponentBelow::Nothing]),
        device(4),
    ])
}

/// Reads a register of 4 bytes.
fn register(bridge: &mut RootComplex, place: RegisterPlace) -> u64 {
    bridge.access(place, 4, None).unwrap()
}

/// The ranges of all BARs in order of address. Checks that they do not overlap, and that routing finds
/// the component registers in each.
fn bars(bridge: &mut RootComplex, log: &EnumerationLog) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for found in &log.functions {
        for bar in &found.bars {
            ranges.push((bar.base.0, bar.base.0 + bar.bytes));
            let header = register(bridge, RegisterPlace::Memory(Hpa(bar.base.0 + 0x1000)));
            assert_eq!(header & 0xffff, 1, "{:?}", found.bdf);
        }
    }
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    ranges
}

fn bdfs(log: &EnumerationLog) -> Vec<(u8, u8)> {
    log.functions
        .iter()
        .map(|found| (found.bdf.bus, found.bdf.device))
        .collect()
}

#[test]
fn buses_are_numbered_depth_first() {
    let mut bridge = nested();
    let log = enumerate(&mut bridge, &goal(vec![])).unwrap();
    // Root port, upstream, downstream, device, downstream, upstream, two downstream with devices,
    // the empty downstream port, and the second root port with its device.
    let expected = [
        (0, 0),
        (1, 0),
        (2, 0),
        (3, 0),
        (2, 1),
        (4, 0),
        (5, 0),
        (6, 0),
        (5, 1),
        (7, 0),
        (2, 2),
        (0, 1),
        (9, 0),
    ];
    assert_eq!(bdfs(&log), expected);
    let buses = |place: usize| {
        let place = RegisterPlace::Bus(log.functions[place].bdf, offset::BUSES);
        register(&mut bridge.clone(), place)
    };
    assert_eq!(buses(0), 0x08_01_00, "the empty port has bus 8");
    assert_eq!(buses(4), 0x07_04_02);
    assert_eq!(buses(11), 0x09_09_00);
}

#[test]
fn every_bar_has_a_place_of_its_own_within_the_windows_above_it() {
    let mut bridge = nested();
    let log = enumerate(&mut bridge, &goal(vec![])).unwrap();
    for found in &log.functions {
        assert_eq!(found.bars.len(), 1);
        assert_eq!(found.bars[0].base.0 % found.bars[0].bytes, 0);
    }
    let ranges = bars(&mut bridge, &log);
    let goal = goal(vec![]);
    assert!(ranges[0].0 >= goal.mmio_base.0);
    assert!(ranges.last().unwrap().1 <= goal.mmio_base.0 + goal.mmio_bytes);
    let behind = RegisterPlace::Memory(Hpa(goal.mmio_base.0 + goal.mmio_bytes));
    assert_eq!(register(&mut bridge, behind), 0xffff_ffff);
}

#[test]
fn a_function_answers_only_while_its_memory_is_enabled() {
    let mut bridge = bridge([device(4)]);
    let log = enumerate(&mut bridge, &goal(vec![])).unwrap();
    let found = &log.functions[1];
    let at = RegisterPlace::Memory(Hpa(found.bars[0].base.0 + 0x1000));
    assert_ne!(register(&mut bridge, at), 0xffff_ffff);
    let (command, off) = (
        RegisterPlace::Bus(found.bdf, offset::COMMAND),
        command::BUS_MASTER,
    );
    bridge.access(command, 2, Some(off.into())).unwrap();
    assert_eq!(register(&mut bridge, at), 0xffff_ffff);
    let nobody = Bdf {
        bus: 7,
        ..Bdf::default()
    };
    assert_eq!(
        bridge.access(RegisterPlace::Bus(nobody, 0), 2, None),
        Ok(0xffff)
    );
}

#[test]
fn functions_say_what_they_are() {
    let accelerator = ComponentBelow::endpoint(FunctionSpec::endpoint(DeviceType::Type2, GIB));
    let cache = ComponentBelow::endpoint(FunctionSpec::endpoint(DeviceType::Type1, 0));
    let mut bridge = bridge([device(4), accelerator, cache]);
    let log = enumerate(&mut bridge, &goal(vec![])).unwrap();
    let devices: Vec<&FoundFunction> = log.functions.iter().filter(|found| !found.bridge).collect();
    let protocols: Vec<u16> = devices.iter().map(|found| found.protocols).collect();
    assert_eq!(protocols, [0b110, 0b111, 0b011]);
    let memory: Vec<u64> = devices.iter().map(|found| found.memory.0 / GIB).collect();
    assert_eq!(memory, [4, 1, 0]);
    assert!(devices[0].extended.is_empty());
    assert_eq!(devices[1].extended.len(), 3, "ATS, PRI, PASID");
    assert_eq!(devices[0].capabilities.len(), 2, "PCI Express, MSI-X");
}

#[test]
fn all_functions_get_the_least_payload() {
    let small = FunctionSpec {
        max_payload: 128,
        ..FunctionSpec::endpoint(DeviceType::Type3, GIB)
    };
    let control = |below: Vec<ComponentBelow>| {
        let mut bridge = bridge(below);
        let log = enumerate(&mut bridge, &goal(vec![])).unwrap();
        let port = &log.functions[0];
        let place = RegisterPlace::Bus(port.bdf, port.capabilities[0].1 + 8);
        bridge.access(place, 2, None).unwrap()
    };
    // Reads of 4096 bytes have code 5; payloads of 512 have code 2, of 128 code 0.
    assert_eq!(control(vec![device(1)]), 5 << 12 | 2 << 5);
    assert_eq!(
        control(vec![device(1), ComponentBelow::endpoint(small)]),
        5 << 12
    );
}

/// Enumerates the hierarchy and compares its decoding with the plan's arithmetic.
fn decodes_as_planned(mut bridge: RootComplex, regions: Vec<Region>) -> EnumerationLog {
    let goal = goal(regions);
    let log = enumerate(&mut bridge, &goal).unwrap();
    for (number, region) in goal.regions.iter().enumerate() {
        assert_eq!(goal.mismatch(number, &bridge, 64), Ok(None), "{region:?}");
        assert_eq!(bridge.decode(Hpa(region.base.0 + region.size.0)), None);
    }
    log
}

#[test]
fn decoders_take_every_address_where_the_plan_says() {
    decodes_as_planned(bridge([device(4)]), vec![region(16, 4, 256, &[0])]);
    let four = || bridge((0..4).map(|_| device(4)));
    decodes_as_planned(four(), vec![region(16, 16, 1024, &[2, 0, 3, 1])]);
    decodes_as_planned(four(), vec![region(16, 6, 256, &[2, 1])]);
    // Two regions on the same devices; the one at higher addresses is given first.
    let two = vec![region(64, 4, 512, &[0, 1]), region(16, 4, 256, &[3, 1])];
    decodes_as_planned(four(), two);
}

#[test]
fn another_order_of_devices_is_a_mismatch() {
    let mut bridge = bridge((0..4).map(|_| device(4)));
    let planned = goal(vec![region(16, 16, 256, &[0, 1, 2, 3])]);
    let other = goal(vec![region(16, 16, 256, &[0, 1, 3, 2])]);
    enumerate(&mut bridge, &planned).unwrap();
    assert_eq!(planned.mismatch(0, &bridge, 4), Ok(None));
    let first = Hpa(16 * GIB + 2 * 256);
    assert_eq!(other.mismatch(0, &bridge, 4), Ok(Some(first)));
}

#[test]
fn switches_choose_by_the_bits_above_their_parents() {
    // Two root ports with four devices each: the lowest digit is the port.
    let switch = || ComponentBelow::switch((0..4).map(|_| device(4)));
    let region = region(16, 32, 256, &[0, 4, 1, 5, 2, 6, 3, 7]);
    decodes_as_planned(bridge([switch(), switch()]), vec![region]);
}

#[test]
fn devices_at_different_depths_share_a_region() {
    let mixed = bridge([device(4), ComponentBelow::switch([device(4), device(4)])]);
    decodes_as_planned(mixed, vec![region(16, 8, 256, &[0, 2])]);
}

#[test]
fn regions_that_no_register_can_express_are_refused_with_a_reason() {
    let refused = |mut bridge: RootComplex, region: Region, part: &str| {
        let why = enumerate(&mut bridge, &goal(vec![region])).unwrap_err();
        assert!(why.to_string().contains(part), "{part}: {why}");
    };
    let switch = |count: usize| ComponentBelow::switch((0..count).map(|_| device(4)));
    let devices = |count: usize| bridge((0..count).map(|_| device(4)));
    let two = bridge([switch(2), switch(2)]);
    let irregular = region(16, 16, 256, &[0, 1, 3, 2]);
    refused(two.clone(), irregular, "regular turns");
    let sixteen: Vec<usize> = (0..16).collect();
    let many = bridge((0..16).map(|_| device(1)));
    refused(many, region(16, 16, 256, &sixteen), "8 places");
    refused(two, region(16, 16, 16_384, &[0, 2, 1, 3]), "16 KiB");
    // Only a window over host bridges has three ways: neither a host bridge nor a switch does.
    let three = region(16, 12, 256, &[0, 1, 2]);
    refused(devices(3), three.clone(), "1, 2, 4 or 8");
    refused(bridge([switch(3)]), three, "1, 2, 4 or 8");
    let shared = bridge([switch(2), device(4)]);
    refused(shared, region(16, 12, 256, &[0, 2, 1]), "regular turns");
    refused(devices(2), region(16, 16, 256, &[0, 1, 0, 1]), "twice");
    refused(devices(1), region(16, 4, 256, &[3]), "does not exist");
    let refused = |mut bridge: RootComplex, regions| match enumerate(&mut bridge, &goal(regions)) {
        Err(EnumerateError::Refused { region, .. }) => Some(region),
        _ => None,
    };
    let large = refused(devices(1), vec![region(16, 8, 256, &[0])]);
    assert_eq!(large, Some(0));
    let overlap = vec![region(16, 2, 256, &[0]), region(17, 2, 256, &[1])];
    assert_eq!(refused(devices(2), overlap), Some(1));
    let narrow = Goal {
        mmio_bytes: MIB,
        ..goal(vec![])
    };
    let mmio = enumerate(&mut bridge([device(4)]), &narrow);
    assert!(matches!(mmio, Err(EnumerateError::Mmio { .. })));
}

#[test]
fn a_device_without_a_decoder_left_is_named() {
    let regions = vec![region(16, 1, 256, &[0]), region(32, 1, 256, &[0])];
    let mut spec = FunctionSpec::endpoint(DeviceType::Type3, 4 * GIB);
    spec.decoders = 1;
    let mut bridge = bridge([ComponentBelow::endpoint(spec)]);
    let error = enumerate(&mut bridge, &goal(regions)).unwrap_err();
    assert_eq!(error, EnumerateError::Decoders(1));
}

#[test]
fn the_log_has_every_access_and_its_phases_in_order() {
    let mut reset = bridge([device(4)]);
    let log = enumerate(&mut reset.clone(), &goal(vec![region(16, 4, 256, &[0])])).unwrap();
    assert!(log.accesses.is_sorted_by_key(|access| access.phase));
    // Two BARs and an empty pair: 2 reads and 2 writes for each half of a pair. A bridge has one pair.
    let pairs = (1 + 3) * 2;
    assert_eq!(log.count(Phase::Size), [pairs * 2, pairs * 2, 0, 0]);
    // Host bridge and device: 7 writes, a commit and its check each; then two enables.
    assert_eq!(log.count(Phase::Decode), [0, 1, 2, 2 * 7 + 2]);
    // When replayed on the same hierarchy, every read returns the same value.
    for access in &log.accesses {
        assert_eq!(perform(&mut reset, access, access.value), access.value);
    }
    let device = Some((0, cxlab_engine::units::Dpa(5)));
    assert_eq!(reset.decode(Hpa(16 * GIB + 5)), device);
}

/// Performs an access on a hierarchy. A write writes `value` instead of the access's value.
fn perform(bridge: &mut RootComplex, access: &Access, value: u64) -> u64 {
    let write = access.write.then_some(value);
    let found = bridge.access(access.target.place(), access.width.into(), write);
    if access.write {
        access.value
    } else {
        found.unwrap()
    }
}

/// Runs the software access by access; `corrupt` returns the value that is actually written.
fn step_by_step(
    bridge: &mut RootComplex,
    goal: &Goal,
    mut corrupt: impl FnMut(usize, &Access) -> u64,
) -> Result<EnumerationLog, EnumerateError> {
    let mut software = Enumeration::new(bridge.tables(), goal.clone());
    let mut answer = None;
    for number in 0.. {
        match software.next(answer) {
            EnumerationStep::Access(access) => {
                let value = corrupt(number, &access);
                answer = Some(Ok(perform(bridge, &access, value)));
            }
            EnumerationStep::Done(result) => return result,
        }
    }
    unreachable!()
}

#[test]
fn software_that_stops_at_each_access_does_the_same() {
    let goal = goal(vec![region(16, 8, 256, &[0, 3])]);
    let mut whole = nested();
    let log = enumerate(&mut whole, &goal).unwrap();
    let mut stepped = nested();
    let found = step_by_step(&mut stepped, &goal, |_, access| access.value);
    assert_eq!(found, Ok(log));
    assert_eq!(goal.mismatch(0, &stepped, 4), Ok(None));
}

#[test]
fn wrong_bits_in_decoders_are_refused_or_a_mismatch() {
    let goal = goal(vec![region(16, 8, 256, &[0, 1, 2, 3])]);
    let reset = bridge((0..4).map(|_| device(4)));
    let log = enumerate(&mut reset.clone(), &goal).unwrap();
    let host = reset.bridges[0].component_base.0;
    let mut wrong = 0;
    for (number, access) in log.accesses.iter().enumerate() {
        let Target::Memory(at) = access.target else {
            continue;
        };
        if access.phase != Phase::Decode || !access.write {
            continue;
        }
        let of_port = (host..host + 0x1_0000).contains(&at.0);
        let bits: &[u32] = match at.0 & 0xff {
            // Enable.
            0x04 => &[1],
            // The base, low and high; a size that is too small. If a single component decodes too
            // much, it takes no address that another component decodes.
            0x10 => &[28, 31],
            0x14 => &[0],
            0x18 => &[],
            0x1c => &[1],
            // Granularity, ways, commit.
            0x20 => &[0, 4, 9],
            // The first four targets of eight, or the skip.
            0x24 if of_port => &[0, 9, 31],
            0x24 => &[28],
            0x28 if of_port => &[],
            0x28 => &[0],
            other => panic!("a write at {other:#x}"),
        };
        for bit in bits {
            let mut bridge = reset.clone();
            let flip = |at: usize, access: &Access| match at == number {
                true => access.value ^ 1 << bit,
                false => access.value,
            };
            let refused = step_by_step(&mut bridge, &goal, flip).is_err();
            let mismatch = goal.mismatch(0, &bridge, 4).unwrap();
            assert!(refused || mismatch.is_some(), "bit {bit} at {:#x}", at.0);
            wrong += 1;
        }
    }
    assert!(wrong > 40, "{wrong}");
}

/// A component that may be below a port: nothing, a device with 1 to 8 units of 256 MiB, or a switch.
fn below() -> impl Strategy<Value = ComponentBelow> {
    let kinds = [DeviceType::Type1, DeviceType::Type2, DeviceType::Type3];
    let endpoint = (proptest::sample::select(kinds.to_vec()), 1u64..9).prop_map(|(kind, units)| {
        let bytes = if kind.has_mem() { units * 256 * MIB } else { 0 };
        ComponentBelow::endpoint(FunctionSpec::endpoint(kind, bytes))
    });
    let leaf = prop_oneof![1 => Just(()).prop_map(|()| ComponentBelow::Nothing), 4 => endpoint];
    leaf.prop_recursive(3, 16, 4, |inner| {
        proptest::collection::vec(inner, 1..4).prop_map(ComponentBelow::switch)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_hierarchy_is_found_whole_and_each_device_has_its_addresses(
        below in proptest::collection::vec(below(), 1..4),
    ) {
        let mut bridge = bridge(below);
        let specs: Vec<FunctionSpec> = bridge.endpoints().iter().map(|device| device.spec).collect();
        let mut base = 4 * GIB;
        let mut goal = goal(vec![]);
        goal.mmio_bytes = GIB;
        // Ports have ten decoders, so ten devices with memory get a region of their own.
        let with_memory = specs.iter().enumerate().filter(|(_, spec)| spec.memory_bytes > 0);
        for (device, spec) in with_memory.take(10) {
            goal.regions.push(Region {
                base: Hpa(base),
                size: Bytes(spec.memory_bytes),
                granularity: Bytes(256),
                targets: vec![device],
                host_only: true,
                lock: true,
            });
            base += spec.memory_bytes;
        }
        let log = enumerate(&mut bridge, &goal).unwrap();
        let devices: Vec<&FoundFunction> = log.functions.iter().filter(|found| !found.bridge).collect();
        prop_assert_eq!(devices.len(), specs.len());
        for (found, spec) in devices.iter().zip(&specs) {
            prop_assert_eq!(found.memory.0, spec.memory_bytes);
        }
        bars(&mut bridge, &log);
        for region in 0..goal.regions.len() {
            prop_assert_eq!(goal.mismatch(region, &bridge, 4), Ok(None));
        }
    }
}

/// A root complex of `host_bridges` host bridges, each with `ports` root ports. Below each port is
/// a device, or a switch of `below` devices if that is more than one.
fn several(host_bridges: usize, ports: usize, below: usize) -> RootComplex {
    let port = || match below {
        1 => device(4),
        _ => ComponentBelow::switch((0..below).map(|_| device(4))),
    };
    let bridge = |_| (0..ports).map(|_| port()).collect();
    let bridges = (0..host_bridges).map(bridge).collect();
    RootComplex::new(Hpa(1 << 50), bridges, Vec::new())
}

/// A region over all devices of [`several`], and its window. Consecutive granules go to the host
/// bridges in turn, then to their ports, then to those of switches. The region has 1 GiB of each
/// device, from a base on that is a multiple of 256 MiB.
fn over_all(
    (host_bridges, ports, below): (usize, usize, usize),
    base: u64,
    granularity: u64,
    maps: &[u64],
) -> (Region, FixedWindow) {
    let ways = host_bridges * ports * below;
    let device = |turn: usize| {
        let (bridge, rest) = (turn % host_bridges, turn / host_bridges);
        let (port, last) = (rest % ports, rest / ports);
        (bridge * ports + port) * below + last
    };
    let targets: Vec<usize> = (0..ways).map(device).collect();
    let region = Region {
        base: Hpa(base),
        ..region(0, ways as u64, granularity, &targets)
    };
    let all: Vec<usize> = (0..host_bridges).collect();
    let window = FixedWindow::in_turns(region.base, region.size, region.granularity, &all, maps);
    (region, window.unwrap())
}

/// Shapes of [`several`] that decoders can interleave over: each level below the window has a
/// power of two of ways.
const SHAPES: &[(usize, usize, usize)] = &[
    (2, 1, 1),
    (4, 1, 1),
    (2, 2, 1),
    (2, 2, 2),
    (4, 2, 2),
    (2, 8, 1),
    (2, 1, 4),
    (8, 2, 1),
    (16, 1, 1),
    (3, 1, 1),
    (3, 2, 1),
    (3, 2, 2),
    (3, 4, 1),
    (6, 1, 1),
    (6, 2, 1),
    (6, 1, 2),
    (12, 1, 1),
];

proptest! {
    /// Decoding level by level by window, host bridge, switch and device gives the plan's address.
    #[test]
    fn windows_over_host_bridges_decode_as_planned(
        shape in proptest::sample::select(SHAPES),
        granularity in proptest::sample::select(vec![256u64, 1024, 4096]),
        unit in 0..9u64,
        xor in any::<bool>(),
        shares in proptest::collection::vec(0..u64::MAX, 64),
    ) {
        let maps = crate::hdm::xor_maps(Bytes(granularity)).to_vec();
        let maps = if xor { maps } else { Vec::new() };
        // XOR maps reach below 2 GiB; without them, any multiple of 256 MiB is a valid base.
        let base = unit * if xor { 2 * GIB } else { 256 * MIB };
        let (region, window) = over_all(shape, base, granularity, &maps);
        let set = region.set(&window).unwrap();
        let mut root = several(shape.0, shape.1, shape.2);
        root.windows = vec![window];
        // The granularity of the last level of ports ends at 16 KiB.
        let above = (1 << shape.0.trailing_zeros()) * if shape.2 > 1 { shape.1 as u64 } else { 1 };
        prop_assume!(granularity * above <= 16 << 10);
        let goal = goal(vec![region.clone()]);
        enumerate(&mut root, &goal).unwrap();
        prop_assert_eq!(goal.mismatch(0, &root, 8), Ok(None));
        for share in shares {
            let hpa = Hpa(base + share % region.size.0);
            let (target, dpa) = set.decode(hpa).unwrap();
            let device = region.targets[target as usize];
            prop_assert_eq!(root.decode(hpa), Some((device, dpa)), "{:#x}", hpa.0);
        }
    }
}

#[test]
fn each_host_bridge_has_buses_and_addresses_of_its_own() {
    let mut root = several(2, 2, 1);
    let (region, window) = over_all((2, 2, 1), 0, 256, &[]);
    root.windows = vec![window];
    let goal = goal(vec![region]);
    let log = enumerate(&mut root, &goal).unwrap();
    let all = [0, 128].map(|bus| [(bus, 0), (bus + 1, 0), (bus, 1), (bus + 2, 0)]);
    assert_eq!(bdfs(&log), all.concat());
    let half = goal.mmio_base.0 + goal.mmio_bytes / 2;
    for found in &log.functions {
        let bars = found.bars.iter();
        assert!(bars.clone().count() > 0);
        let upper = |bar: &Bar| bar.base.0 >= half;
        assert!(bars.clone().all(|bar| upper(bar) == (found.bdf.bus >= 128)));
    }
    // One decoder in each of two host bridges and four devices, and one enable for each.
    assert_eq!(log.count(Phase::Decode)[3], 6 * 7 + 6);
}

#[test]
fn a_level_has_the_granularity_and_ways_that_linux_programs() {
    // Granularity and ways of the host bridge, of the switch, and of the device.
    let levels = |shape: (usize, usize, usize), granularity| {
        let mut root = several(shape.0, shape.1, shape.2);
        let (region, window) = over_all(shape, 0, granularity, &[]);
        root.windows = vec![window];
        enumerate(&mut root, &goal(vec![region])).unwrap();
        let fields = |component: &crate::io::component::ComponentRegisters| {
            let control = component.decoder(0).control;
            let ways = crate::io::component::decode_ways(control >> 4 & 0xf).unwrap();
            (256 << (control & 0xf), ways)
        };
        let mut components = vec![&root.bridges[1].component];
        components.extend(root.switches().last().map(|switch| &switch.up.component));
        components.extend(root.endpoints().last().map(|device| &device.component));
        components.into_iter().map(fields).collect::<Vec<_>>()
    };
    assert_eq!(levels((4, 2, 2), 256), [(1024, 2), (2048, 2), (256, 16)]);
    assert_eq!(levels((2, 8, 1), 512), [(1024, 8), (512, 16)]);
    // "For purposes of address bit routing, use power-of-2 math for switch ports."
    assert_eq!(levels((3, 2, 2), 256), [(256, 2), (512, 2), (256, 12)]);
    assert_eq!(levels((6, 2, 1), 256), [(512, 2), (256, 12)]);
    assert_eq!(levels((12, 1, 1), 256), [(1024, 1), (256, 12)]);
}

#[test]
fn windows_that_linux_refuses_are_refused_with_a_reason() {
    let refused = |shape: (usize, usize, usize), region: &Region, windows, part: &str| {
        let mut root = several(shape.0, shape.1, shape.2);
        root.windows = windows;
        let why = enumerate(&mut root, &goal(vec![region.clone()])).unwrap_err();
        assert!(why.to_string().contains(part), "{part}: {why}");
    };
    let four = (2, 2, 1);
    let (region, window) = over_all(four, 4 * GIB, 512, &[]);
    refused(four, &region, vec![], "no fixed memory window");
    let altered = |alter: fn(&mut FixedWindow), part: &str| {
        let mut window = window.clone();
        alter(&mut window);
        refused(four, &region, vec![window], part);
    };
    altered(|low| low.size = Bytes(GIB), "no fixed memory window");
    let other = "its granularity is not that of its window";
    altered(|coarse| coarse.granularity = Bytes(1024), other);
    let five = |window: &mut FixedWindow| window.host_bridges = vec![0, 1, 0, 1, 0];
    altered(five, "other than 1, 2, 3, 4");
    let few = |window: &mut FixedWindow| {
        window.host_bridges = vec![0, 1];
        window.xor_maps = vec![0x400];
    };
    altered(few, "XOR map 0");
    let mut swapped = region.clone();
    swapped.targets.swap(0, 1);
    let same = || vec![window.clone()];
    refused(four, &swapped, same(), "takes the host bridges");
    let mut one = region.clone();
    one.targets.truncate(1);
    refused(four, &one, same(), "times a power of two");
    let unaligned = Region {
        base: Hpa(256 * MIB),
        size: Bytes(GIB),
        ..region.clone()
    };
    let wide = FixedWindow {
        base: Hpa(0),
        size: Bytes(GIB * 8),
        xor_maps: vec![1 << 29 | 512],
        ..window.clone()
    };
    refused(four, &unaligned, vec![wide], "alignment of its base");
    // Three root ports below a host bridge are refused with every window.
    let (region, window) = over_all((2, 3, 1), 0, 256, &[]);
    refused((2, 3, 1), &region, vec![window], "times a power of two");
    // With sixteen host bridges at 4 KiB, the granularity of the next level would be 64 KiB.
    let (region, window) = over_all((16, 1, 1), 0, 4096, &[]);
    refused((16, 1, 1), &region, vec![window], "ends at 16 KiB");
}
