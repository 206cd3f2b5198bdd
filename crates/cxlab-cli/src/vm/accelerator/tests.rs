//! Commands on the event engine, without a guest.

use std::time::Duration;

use cxlab_plan::{Externals, Files, Plan};
use cxlab_vm::device::{CommandResult, Executor, Launch, PAGE, Page};

use super::Accelerator;
use cxlab_plan::load as files;

/// Virtual address of the first page.
const AT: u64 = 0x7f00_0000_0000;
/// Set in the addresses of windows in records.
const CXL: u64 = 1 << 63;

/// In the place of a change: the host has no operating system.
const NO_OS: &str = "no operating system";

fn plan(changes: &[&str]) -> Plan {
    let text = include_str!("../../../../../scenarios/vm-accelerator.toml");
    let text = match changes.contains(&NO_OS) {
        true => text.replace("[hosts.os]\n", ""),
        false => text.to_owned(),
    };
    let changes = changes.iter().filter(|one| **one != NO_OS);
    let changes: Vec<String> = changes.map(|one| (*one).to_owned()).collect();
    let document = files::read("test.toml", &text, &changes).expect("the text is right");
    let loaded = files::resolve(document, Files::default(), &Externals::new());
    loaded
        .unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)))
        .plan
}

fn kernels() -> Vec<u8> {
    wat::parse_str(include_str!("kernels.wat")).expect("the text is right")
}

/// A launch over pages of zeros; those with odd numbers are in the window.
fn launch(function: &str, arguments: &[u64], items: u64, group: u64, pages: u64) -> Launch {
    let page = |number: u64| Page {
        address: AT + number * PAGE as u64,
        // In neither memory do pages follow each other as in the program.
        place: ((17 * number % 64) * PAGE as u64) | (number % 2 * CXL),
        data: vec![0; PAGE],
    };
    Launch {
        module: kernels(),
        function: function.to_owned(),
        arguments: arguments.to_vec(),
        dimensions: 1,
        global: [items, 1, 1],
        local: [group, 1, 1],
        offset: [0; 3],
        pages: (0..pages).map(page).collect(),
        cached: Vec::new(),
    }
}

/// Stores words from an address on.
fn put(launch: &mut Launch, address: u64, words: impl IntoIterator<Item = u64>) {
    for (at, word) in words.into_iter().enumerate() {
        let offset = (address - AT) as usize + 8 * at;
        let page = &mut launch.pages[offset / PAGE];
        page.data[offset % PAGE..offset % PAGE + 8].copy_from_slice(&word.to_le_bytes());
    }
}

/// The bytes of all pages, in the program's order.
fn bytes(done: &CommandResult) -> Vec<u8> {
    done.pages.concat()
}

fn word(done: &CommandResult, address: u64) -> u64 {
    let offset = (address - AT) as usize;
    let bytes = &done.pages[offset / PAGE][offset % PAGE..offset % PAGE + 8];
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn execute(changes: &[&str], launch: Launch) -> Result<CommandResult, String> {
    let plan = plan(changes);
    let accelerator = Accelerator::new(&plan, Duration::from_secs(60));
    accelerator
        .map_err(|_| "refused".to_owned())?
        .execute(launch)
}

/// With translated addresses, and without.
const SYSTEMS: [&[&str]; 2] = [&[], &[NO_OS]];

#[test]
fn kernels_compute_on_the_pages_of_a_program_wherever_they_are() {
    for system in SYSTEMS {
        let (x, y, count) = (AT, AT + 2 * PAGE as u64, 1024);
        let mut axpy = launch("axpy", &[2f64.to_bits(), x, y], count, 64, 4);
        put(&mut axpy, x, (0..count).map(|at| (at as f64).to_bits()));
        put(&mut axpy, y, (0..count).map(|_| 0.5f64.to_bits()));
        let done = execute(system, axpy).expect("it runs");
        for at in 0..count {
            assert_eq!(
                f64::from_bits(word(&done, y + 8 * at)),
                2.0 * at as f64 + 0.5
            );
            assert_eq!(f64::from_bits(word(&done, x + 8 * at)), at as f64);
        }
        assert!(done.time_ps > 0);

        let data = (0..4096u64)
            .map(|at| (at * 7 % 251) as u8)
            .collect::<Vec<_>>();
        let bins = AT + PAGE as u64;
        let mut histogram = launch("histogram", &[4096, AT, bins], 64, 16, 2);
        histogram.pages[0].data.clone_from(&data);
        let done = execute(system, histogram).expect("it runs");
        let after = bytes(&done);
        let found = after[PAGE..PAGE + 1024].chunks(4);
        let found = found.map(|bin| u32::from_le_bytes(bin.try_into().expect("four bytes")));
        for (value, found) in found.enumerate() {
            let wanted = data
                .iter()
                .filter(|one| usize::from(**one) == value)
                .count();
            assert_eq!(found as usize, wanted, "of {value}");
        }

        // Nodes at the ends and beginnings of pages, with pointers as the program has them.
        let nodes = [AT + 8, AT + 3 * PAGE as u64 - 16, AT + PAGE as u64];
        let total = AT + 64;
        let mut walk = launch("walk", &[nodes[0], total], 1, 1, 3);
        put(&mut walk, nodes[0], [nodes[1], 1]);
        put(&mut walk, nodes[1], [nodes[2], 10]);
        put(&mut walk, nodes[2], [0, 100]);
        let done = execute(system, walk).expect("it runs");
        assert_eq!(word(&done, total), 111);
    }
}

#[test]
fn bytes_over_the_border_of_pages_and_barriers_work_as_in_a_program() {
    for system in SYSTEMS {
        let (from, to) = (AT + 100, AT + 2 * PAGE as u64 + 333);
        let mut copy = launch("copy", &[to, from, 5000], 1, 1, 4);
        let data: Vec<u64> = (0..900).map(|at| at * 0x0102_0305).collect();
        put(&mut copy, AT + 96, data);
        let before: Vec<u8> = copy
            .pages
            .iter()
            .flat_map(|page| page.data.clone())
            .collect();
        let after = bytes(&execute(system, copy).expect("it runs"));
        let (from, to) = ((from - AT) as usize, (to - AT) as usize);
        assert_eq!(after[to..to + 5000], before[from..from + 5000]);
        assert_eq!(after[..to], before[..to]);
        assert_eq!(after[to + 5000..], before[to + 5000..]);

        let shift = launch("shift", &[AT, AT + PAGE as u64], 64, 8, 2);
        let done = execute(system, shift).expect("it runs");
        for at in 0..64 {
            assert_eq!(word(&done, AT + 8 * at), at ^ 1);
        }
    }
}

#[test]
fn lines_that_the_host_holds_come_from_its_caches_and_not_from_memory() {
    let walk = |cached: bool| {
        let count = 60;
        let mut walk = launch("walk", &[AT, AT + 8 * 511], 1, 1, 1);
        for at in 0..count {
            let node = AT + 64 * at;
            put(
                &mut walk,
                node,
                [if at + 1 < count { node + 64 } else { 0 }, 1],
            );
            let line = walk.pages[0].place + 64 * at;
            walk.cached.extend(cached.then_some((line, at % 2 == 0)));
        }
        let done = execute(&[], walk).expect("it runs");
        assert_eq!(word(&done, AT + 8 * 511), count);
        done
    };
    let (memory, caches) = (walk(false), walk(true));
    let count = |done: &CommandResult, name: &str| {
        let found = done.counts.iter().find(|(known, _)| known == name);
        found.map_or(0, |(_, count)| *count)
    };
    assert_eq!(count(&memory, "hmc_misses"), count(&caches, "hmc_misses"));
    // A line's read of memory takes at least the controller's 39.6 ns each way more.
    let saved = memory.time_ps - caches.time_ps;
    assert!(saved > 30 * 79_200, "{saved} ps");
}

#[test]
fn elements_share_work_groups() {
    let time = |elements: u32| {
        let change = format!("accelerators[0].device.elements={elements}");
        let axpy = launch("axpy", &[0, AT, AT + 2 * PAGE as u64], 1024, 64, 4);
        execute(&[&change], axpy).expect("it runs").time_ps as f64
    };
    let (one, four) = (time(1), time(4));
    assert!(one / four > 2.5 && one / four < 4.0, "{one} ps, {four} ps");
}

#[test]
fn what_a_kernel_cannot_do_is_said_to_the_program() {
    let fails = |launch: Launch| execute(&[], launch).expect_err("it fails");
    let outside = fails(launch("walk", &[0x1234_0000_0000, AT], 1, 1, 1));
    assert_eq!(
        outside,
        "`walk`: found 8 B at 0x123400000008; allowed: memory that the program has given to the device"
    );
    assert_eq!(
        fails(launch("none", &[], 1, 1, 1)),
        "found no function `none`"
    );
    let arguments = fails(launch("walk", &[AT], 1, 1, 1));
    assert!(
        arguments.starts_with("found 1 arguments for `walk`; allowed: 2"),
        "{arguments}"
    );
    let alone = fails(launch("alone", &[], 2, 2, 1));
    assert!(
        alone.starts_with("`alone`: found 1 of 2 work-items of a group at a barrier"),
        "{alone}"
    );
    let mut low = launch("alone", &[], 1, 1, 1);
    low.pages[0].address = 0x1000;
    assert!(fails(low).starts_with("found a page at 0x1000; allowed: above the 0x10000 bytes"));
    let mut module = launch("alone", &[], 1, 1, 1);
    module.module.truncate(20);
    assert!(!fails(module).is_empty());
}

#[test]
fn an_endless_kernel_is_stopped_at_the_time_limit() {
    let plan = plan(&[]);
    let accelerator = Accelerator::new(&plan, Duration::from_secs(1));
    let Ok(mut accelerator) = accelerator else {
        panic!("refused");
    };
    let why = accelerator.execute(launch("endless", &[], 1, 1, 1));
    assert_eq!(
        why,
        Err("the command was not simulated after 1 s (--timeout)".to_owned())
    );
}

#[test]
fn an_access_to_a_register_takes_the_way_there_and_back() {
    let plan = plan(&[]);
    let Ok(accelerator) = Accelerator::new(&plan, Duration::from_secs(60)) else {
        panic!("refused");
    };
    let (there, both) = accelerator.register_ps();
    let device = &plan.scenario.accelerators[0].device;
    let host = plan.scenario.hosts[0].processor().expect("it has one");
    // The link's own time is what remains: some 50 ns each way.
    let parts = host.root_port_time.0 + device.ingress().0;
    assert!(
        there > parts && there < parts + 60_000,
        "{there} ps of {parts}"
    );
    let parts = parts + device.egress().0 + host.io_time.0;
    assert!(
        both > parts && both < parts + 120_000,
        "{both} ps of {parts}"
    );
}
