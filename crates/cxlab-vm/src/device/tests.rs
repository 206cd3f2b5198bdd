//! Commands of a program against an executor that does what the test says.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::ring::{WORDS_WITH_DEVICE, zeros};

/// Where the guest's own memory is in QEMU.
const MEMORY: u64 = 1 << 40;
/// Physical pages of the guest.
const PAGES: usize = 64;
/// Physical addresses of the command and of its table.
const COMMAND: u64 = 0x1000;
const TABLE: u64 = 0x2000;
/// Virtual address of the first page that a command may access. Physical memory has these pages in reverse order.
const FIRST: u64 = 0x40_0000;
const THERE: u64 = 300;
const BOTH: u64 = 700;

/// Memory of a guest, which the test changes too.
#[derive(Clone)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    fn set(&self, address: u64, words: &[u64]) {
        for (at, word) in words.iter().enumerate() {
            let from = address as usize + 8 * at;
            self.0.lock().unwrap()[from..from + 8].copy_from_slice(&word.to_le_bytes());
        }
    }

    fn word(&self, address: u64) -> u64 {
        let bytes = self.0.lock().unwrap();
        let from = address as usize;
        u64::from_le_bytes(bytes[from..from + 8].try_into().unwrap())
    }
}

impl Physical for Bytes {
    fn extents(&self) -> Vec<Extent> {
        vec![Extent {
            memory: MEMORY,
            guest: 0,
            bytes: (PAGES * PAGE) as u64,
            place: 0,
        }]
    }

    fn read(&self, memory: u64, bytes: &mut [u8]) -> io::Result<()> {
        let from = (memory - MEMORY) as usize;
        bytes.copy_from_slice(&self.0.lock().unwrap()[from..from + bytes.len()]);
        Ok(())
    }

    fn write(&self, memory: u64, bytes: &[u8]) -> io::Result<()> {
        let from = (memory - MEMORY) as usize;
        self.0.lock().unwrap()[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// Adds the first argument to the first word of each page, in a time of the second. Keeps the launches.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Launch>>>);

impl Executor for Told {
    fn elements(&self) -> u64 {
        4
    }

    fn register_ps(&self) -> (u64, u64) {
        (THERE, BOTH)
    }

    fn execute(&mut self, launch: Launch) -> Result<CommandResult, String> {
        if launch.function == "fail" {
            return Err("it cannot".to_owned());
        }
        let mut pages: Vec<Vec<u8>> = launch.pages.iter().map(|page| page.data.clone()).collect();
        for page in &mut pages {
            let word = u64::from_le_bytes(page[..8].try_into().unwrap());
            let sum = word.wrapping_add(launch.arguments[0]);
            page[..8].copy_from_slice(&sum.to_le_bytes());
        }
        let done = CommandResult {
            time_ps: launch.arguments[1],
            pages,
            counts: vec![("hits".to_owned(), 3)],
        };
        self.0.lock().unwrap().push(launch);
        Ok(done)
    }
}

/// A command's words, for `pages` pages from [`FIRST`] on.
fn command(function: &str, arguments: &[u64], pages: u64) -> Vec<u64> {
    let mut words = vec![0; PAGE / 8];
    words[..13].copy_from_slice(&[1, 0, 0, 1, 8, 0, 0, 4, 0, 0, 0, 0, 0]);
    (words[1], words[2]) = (FIRST + 4096 * (pages - 1), 16);
    words[13] = arguments.len() as u64;
    words[14..14 + arguments.len()].copy_from_slice(arguments);
    (words[30], words[31], words[40]) = (pages, 1, TABLE);
    let mut name = [0; 64];
    name[..function.len()].copy_from_slice(function.as_bytes());
    for (word, letters) in words[32..40].iter_mut().zip(name.chunks(8)) {
        *word = u64::from_le_bytes(letters.try_into().unwrap());
    }
    words
}

/// Physical address of a page from [`FIRST`] on.
fn physical(page: u64) -> u64 {
    (PAGES as u64 - 1 - page) * 4096
}

struct Guest<'a> {
    device: Device<'a>,
    memory: Bytes,
    told: Told,
    shared: ModelWords<'a>,
}

impl<'a> Guest<'a> {
    /// A guest that has written a command over so many pages.
    fn new(words: &'a [AtomicU64], pages: u64, command: &[u64]) -> Guest<'a> {
        let memory = Bytes(Arc::new(Mutex::new(vec![0; PAGES * PAGE])));
        memory.set(COMMAND, command);
        for page in 0..pages {
            let entry = [FIRST + 4096 * page, physical(page)];
            memory.set(TABLE + 16 * page, &entry);
        }
        let (shared, told) = (ModelWords::new(words).unwrap(), Told::default());
        let (own, executor) = (memory.clone(), told.clone());
        Guest {
            device: Device::new(shared, Box::new(own), Box::new(executor)),
            memory,
            told,
            shared,
        }
    }

    fn store(&mut self, now: u64, offset: u64, value: u64) {
        let access = access(Operation::Store, offset, 8, value);
        let (reply, until) = self.device.access(now, offset, access);
        assert_eq!((reply, until), (None, now), "a store is posted");
    }

    fn load(&mut self, now: u64, offset: u64, bytes: usize) -> u64 {
        let access = access(Operation::Load, offset, bytes, 0);
        let (reply, until) = self.device.access(now, offset, access);
        assert_eq!(until, now + BOTH);
        reply.unwrap()
    }

    fn submit(&mut self, now: u64) {
        self.store(now, register::COMMAND, COMMAND);
        self.store(now, register::DOORBELL, 1);
    }

    fn message(&mut self) -> String {
        let letters = (0..1024).map(|at| self.load(0, register::MESSAGE + at, 1) as u8);
        let letters: Vec<u8> = letters.take_while(|letter| *letter != 0).collect();
        String::from_utf8(letters).unwrap()
    }
}

fn access(operation: Operation, offset: u64, bytes: usize, value: u64) -> Access {
    Access {
        operation,
        offset: offset as usize % 64,
        bytes,
        locked: false,
        cached: false,
        value,
    }
}

fn words() -> Vec<AtomicU64> {
    zeros(WORDS_WITH_DEVICE)
}

#[test]
fn a_command_changes_memory_when_the_program_is_told_that_it_is_done() {
    let words = words();
    let mut guest = Guest::new(&words, 3, &command("add", &[5, 10_000], 3));
    guest.memory.set(physical(1), &[100]);
    guest.submit(1000);
    // It is busy from 1,000 to 11,000; what a load is told is as of its arrival.
    assert_eq!(guest.load(11_000 - THERE - 1, register::DONE, 8), 0);
    assert_eq!(guest.memory.word(physical(1)), 100);
    assert_eq!(guest.load(11_000 - THERE, register::DONE, 8), 1);
    let after = [0, 1, 2].map(|page| guest.memory.word(physical(page)));
    assert_eq!(after, [5, 105, 5]);
    assert_eq!(guest.load(20_000, register::TIME, 8), 10_000);
    assert_eq!(guest.load(20_000, register::FAILED, 8), 0);
    let counts = guest.device.counts();
    let numbers = (counts.commands, counts.busy_ps, counts.items, counts.lines);
    assert_eq!(numbers, (1, 10_000, 8, 3));
    assert_eq!(counts.sums, [("hits".to_owned(), 3)]);
}

#[test]
fn the_executor_has_the_pages_by_virtual_addresses_and_the_lines_that_caches_hold() {
    let words = words();
    let mut guest = Guest::new(&words, 2, &command("add", &[1, 1], 2));
    guest.memory.set(physical(1), &[0x1111, 0x2222]);
    // As the plugin lists them: one is modified in one of two caches, one is of no page of the command.
    let inside = physical(0) + 64;
    let listed = [inside, inside | 1, physical(9), physical(1)];
    guest.shared.list(&listed);
    guest.submit(0);
    let launches = guest.told.0.lock().unwrap();
    let launch = &launches[0];
    let addresses: Vec<u64> = launch.pages.iter().map(|page| page.address).collect();
    assert_eq!(addresses, [FIRST, FIRST + 4096]);
    assert_eq!(launch.cached, [(physical(1), false), (inside, true)]);
    assert_eq!(launch.module[..8], 0x1111u64.to_le_bytes());
    assert_eq!(launch.module.len(), 16);
    assert_eq!((launch.global, launch.local), ([8, 1, 1], [4, 1, 1]));
}

#[test]
fn caches_lose_the_lines_that_a_command_has_changed() {
    let words = words();
    let mut guest = Guest::new(&words, 2, &command("add", &[1, 1], 2));
    guest.submit(0);
    assert!(guest.shared.taken().is_empty());
    guest.load(1000, register::DONE, 8);
    assert_eq!(guest.shared.taken(), [physical(0), physical(1)]);
}

#[test]
fn commands_are_done_one_after_another_and_see_what_those_before_have_stored() {
    let words = words();
    let mut guest = Guest::new(&words, 1, &command("add", &[5, 1000], 1));
    guest.submit(0);
    guest.submit(10);
    assert_eq!(guest.load(1000 - THERE, register::DONE, 8), 1);
    assert_eq!(guest.memory.word(physical(0)), 5);
    assert_eq!(guest.load(2000 - THERE - 1, register::DONE, 8), 1);
    assert_eq!(guest.load(2000 - THERE, register::DONE, 8), 2);
    assert_eq!(guest.memory.word(physical(0)), 10);
    assert_eq!(guest.device.counts().races, 0);
}

#[test]
fn a_doorbell_that_never_stops_ringing_takes_no_more_memory() {
    let words = words();
    let mut guest = Guest::new(&words, 1, &command("add", &[1, 1], 1));
    for _ in 0..300 {
        guest.submit(0);
    }
    assert_eq!(guest.told.0.lock().unwrap().len(), 256);
    assert_eq!(guest.load(1000, register::FAILED, 8), 44);
    assert_eq!(guest.load(1000, register::DONE, 8), 256);
    assert_eq!(guest.memory.word(physical(0)), 256);
}

#[test]
fn what_the_program_stores_meanwhile_stays_and_races_are_counted() {
    let words = words();
    let mut guest = Guest::new(&words, 2, &command("add", &[5, 1000], 2));
    guest.submit(0);
    // Beside the word that the command changes, and that word itself.
    guest.memory.set(physical(0) + 8, &[77]);
    guest.memory.set(physical(1), &[88]);
    guest.load(2000, register::DONE, 8);
    assert_eq!(guest.memory.word(physical(0)), 5);
    assert_eq!(guest.memory.word(physical(0) + 8), 77);
    assert_eq!(guest.memory.word(physical(1)), 5);
    assert_eq!(guest.device.counts().races, 1);
}

#[test]
fn registers_are_read_in_any_size_and_others_than_commands_are_not_stored_to() {
    let words = words();
    let mut guest = Guest::new(&words, 1, &command("add", &[5, 1000], 1));
    assert_eq!(guest.load(0, register::IDENTITY, 8), IDENTITY);
    assert_eq!(guest.load(0, register::IDENTITY + 5, 1), u64::from(b'a'));
    assert_eq!(guest.load(0, register::ELEMENTS, 4), 4);
    guest.store(0, register::ELEMENTS, 9);
    assert_eq!(guest.load(0, register::ELEMENTS, 8), 4);
    assert_eq!(guest.load(0, 0x400, 8), 0);
    // Half a doorbell is none.
    let half = access(Operation::Store, register::DOORBELL, 4, 1);
    guest.device.access(0, register::DOORBELL, half);
    assert_eq!(guest.device.counts().commands, 0);
}

/// What is wrong with a command, by the word that is changed, and what the program reads of it.
const WRONG: &[(usize, u64, &str)] = &[
    (0, 2, "found a command of version 2; allowed: 1"),
    (
        1,
        0x1234,
        "found a module at 0x1234, which is in none of the command's pages",
    ),
    (2, 0, "found 0 bytes of module; allowed: 1 to 67108864"),
    (
        2,
        5000,
        "found a module at 0x401000, which is in none of the command's pages",
    ),
    (3, 4, "found 4 dimensions; allowed: 1 to 3"),
    (
        4,
        0,
        "found 0 work-items in a dimension; allowed: 1 to 4294967296",
    ),
    (
        7,
        3,
        "found 8 work-items in groups of 3; allowed: whole groups",
    ),
    (
        4,
        16 << 30,
        "found 17179869184 work-items in a dimension; allowed: 1 to 4294967296",
    ),
    (
        7,
        0,
        "found 8 work-items in groups of 0; allowed: whole groups",
    ),
    (13, 17, "found 17 arguments; allowed: 0 to 16"),
    (30, 0, "found 0 pages; allowed: 1 to 256"),
    (
        30,
        2,
        "found pages out of order; allowed: each once, by ascending virtual addresses, multiples of 4 KiB",
    ),
    (31, 473, "found 473 pages of tables; allowed: 1 to 472"),
    (
        40,
        0x2008,
        "found a page at physical address 0x2008; allowed: pages of memory",
    ),
    (
        40,
        1 << 40,
        "found a page at physical address 0x10000000000; allowed: pages of memory",
    ),
    (32, u64::from_le_bytes(*b"fail\0\0\0\0"), "it cannot"),
];

#[test]
fn a_command_that_is_wrong_fails_and_says_why() {
    for (word, value, why) in WRONG {
        let words = words();
        let mut wrong = command("add", &[5, 1000], 1);
        wrong[*word] = *value;
        let mut guest = Guest::new(&words, 1, &wrong);
        guest.submit(0);
        assert_eq!(guest.load(THERE, register::DONE, 8), 1, "{why}");
        assert_eq!(guest.load(1000, register::FAILED, 8), 1, "{why}");
        assert_eq!(guest.message(), *why);
        assert_eq!(guest.memory.word(physical(0)), 0, "{why}");
    }
}

#[test]
fn memory_above_four_gib_is_found_where_qemu_puts_it() {
    let words = words();
    let shared = ModelWords::new(&words).unwrap();
    assert_eq!(shared.extents(), None);
    shared.publish_own(MEMORY, 3 << 30, u64::MAX);
    let told = || {
        let of = |one: Extent| (one.memory - MEMORY, one.guest, one.bytes, one.place);
        let extents = shared.extents().unwrap().into_iter();
        extents.map(of).collect::<Vec<_>>()
    };
    let above = (2 << 30, 4 << 30, 1 << 30, 4 << 30);
    assert_eq!(told(), [(0, 0, 2 << 30, 0), above]);
    shared.publish_own(MEMORY, 1 << 30, 1 << 20);
    assert_eq!(told(), [(0, 0, 1 << 30, 1 << 20)]);
}

proptest! {
    #[test]
    fn no_command_is_too_wrong(
        changes in proptest::collection::vec((0usize..512, any::<u64>()), 1..8),
        small in proptest::collection::vec((0usize..64, 0u64..600), 0..8),
    ) {
        let words = words();
        let mut wrong = command("add", &[5, 1000], 1);
        for (word, value) in changes.into_iter().chain(small) {
            wrong[word] = value;
        }
        // The executor's own arguments.
        (wrong[14], wrong[15]) = (5, 1000);
        wrong[13] = wrong[13].max(2);
        let mut guest = Guest::new(&words, 1, &wrong);
        guest.submit(0);
        prop_assert_eq!(guest.load(10_000, register::DONE, 8), 1);
    }
}
