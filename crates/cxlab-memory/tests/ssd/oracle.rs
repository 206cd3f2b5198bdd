//! No written data are lost: every line that a read returns comes from an allowed write.
//!
//! A read may return the data of the last write that was completed when the read began, or of a
//! later write. It may not return older data or anything else.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Picos, SimTime};
use cxlab_memory::ssd::{
    Acknowledge, CollectionParams, CommandParams, Drive, FillOrder, GcPolicyName, MultiPlane,
    PowerLoss, SsdParams, Suspend, Unwritten, WriteBufferParams,
};
use cxlab_memory::{Completion, MemoryBackend};

use crate::harness::{KIB, MIB, drive, request, small, statistic};

const CAPACITY: u64 = 24 * MIB;
const LINES: u64 = CAPACITY / 64;

/// A request in flight.
#[derive(Clone, Copy)]
struct OutstandingRequest {
    line: u64,
    lines: u16,
    /// Number of the write; 0 for a read.
    write: u32,
}

struct Oracle {
    drive: Drive,
    rng: StreamRng,
    now: u64,
    /// Requests in flight, by the owner's number.
    outstanding: Vec<Option<OutstandingRequest>>,
    /// The oldest write that each line of a read in flight may come from, by the read's number.
    floor: Vec<Vec<u32>>,
    free: Vec<u32>,
    /// The first line and the number of lines of all writes, by number from 1.
    writes: Vec<(u64, u16)>,
    /// The last completed write of each line.
    answered: Vec<u32>,
    compared: u64,
}

impl Oracle {
    fn new(params: &SsdParams, outstanding: u32) -> Oracle {
        let mut drive = drive(params, CAPACITY);
        drive.observe();
        Oracle {
            drive,
            rng: StreamRng::new(7, "oracle"),
            now: 0,
            outstanding: vec![None; outstanding as usize],
            floor: vec![Vec::new(); outstanding as usize],
            free: (0..outstanding).collect(),
            writes: vec![(0, 0)],
            answered: vec![0; LINES as usize],
            compared: 0,
        }
    }

    /// Half of the requests go to a sixteenth of the device.
    fn address(&mut self, lines: u64) -> u64 {
        let part = if self.rng.chance(0.5) { 16 } else { 1 };
        self.rng.below(LINES / part - lines)
    }

    fn issue(&mut self) {
        let lines = match self.rng.below(8) {
            0 => 1 + self.rng.below(200),
            1 | 2 => 64,
            3 => 128,
            _ => 1 + self.rng.below(4),
        };
        let aligned = lines >= 64 && self.rng.chance(0.8);
        let mut line = self.address(lines);
        if aligned {
            line -= line % 64;
        }
        let write = self.rng.chance(0.6);
        if !self.drive.can_accept(SimTime(self.now), write) {
            return;
        }
        let Some(id) = self.free.pop() else { return };
        let mut outstanding = OutstandingRequest {
            line,
            lines: lines as u16,
            write: 0,
        };
        if write {
            outstanding.write = self.writes.len() as u32;
            self.writes.push((line, outstanding.lines));
        } else {
            let from = line as usize;
            let floor = &self.answered[from..from + lines as usize];
            self.floor[id as usize] = floor.to_vec();
        }
        self.outstanding[id as usize] = Some(outstanding);
        let request = request(id, line, outstanding.lines, write);
        assert_eq!(self.drive.enqueue(SimTime(self.now), request), None);
    }

    /// Asserts that a write wrote to a line; write 0 covers all lines.
    fn assert_covers(&self, write: u32, line: u64) {
        let found = self.writes.get(write as usize);
        let wrote = found.is_some_and(|(first, lines)| {
            write == 0 || (*first..first + u64::from(*lines)).contains(&line)
        });
        assert!(
            wrote,
            "line {line} came from write {write}, which did not write it"
        );
    }

    fn look(&mut self) {
        for seen in self.drive.observed() {
            let outstanding = self.outstanding[seen.id as usize].unwrap();
            let floor = self.floor[seen.id as usize][(seen.line - outstanding.line) as usize];
            let (line, write) = (seen.line, seen.write);
            self.assert_covers(write, line);
            let answered = write >= floor;
            assert!(
                answered,
                "line {line} came from write {write}, but {floor} was answered"
            );
            self.compared += 1;
        }
    }

    fn complete(&mut self, done: &mut Vec<Completion>) {
        self.look();
        for one in done.drain(..) {
            assert!(one.at.0 <= self.now);
            let outstanding = self.outstanding[one.id as usize].take().unwrap();
            if outstanding.write != 0 {
                let from = outstanding.line as usize;
                for line in &mut self.answered[from..from + outstanding.lines as usize] {
                    *line = (*line).max(outstanding.write);
                }
            }
            self.free.push(one.id);
        }
    }

    /// Handles the events up to `to`.
    fn handle_until(&mut self, to: u64) {
        let mut done = Vec::new();
        while let Some(at) = self.drive.next_event().filter(|at| at.0 <= to) {
            self.now = self.now.max(at.0);
            self.drive.advance(SimTime(self.now), &mut done);
            self.complete(&mut done);
        }
    }

    fn advance(&mut self, to: u64) {
        self.handle_until(to);
        self.now = to;
    }

    /// Advances by a random time below `most`.
    fn pause(&mut self, most: u64) {
        let gap = self.rng.below(most);
        self.advance(self.now + gap);
    }

    /// Issues requests at random distances below `gap`.
    fn issue_many(&mut self, requests: usize, gap: u64) {
        for _ in 0..requests {
            self.issue();
            self.pause(gap);
        }
    }

    fn drain(&mut self) {
        self.handle_until(u64::MAX);
        let open = self.outstanding.iter().flatten().count();
        assert_eq!(open, 0, "every request is answered");
    }

    fn run(&mut self, requests: usize) {
        for number in 0..requests {
            self.issue();
            let rare = self.rng.chance(0.01);
            self.pause(if rare { 3_000_000_000 } else { 12_000_000 });
            if number % (requests / 4) == 0 {
                self.drive.audit();
            }
        }
        self.drain();
        self.drive.audit();
    }

    fn statistic(&self, name: &str) -> f64 {
        statistic(&self.drive, self.now, name)
    }

    /// Reads the whole device. Returns for each line the write that it came from.
    fn read_all(&mut self) -> Vec<u32> {
        let mut all = vec![0; LINES as usize];
        for line in (0..LINES).step_by(256) {
            let read = request(0, line, 256, false);
            self.drive.enqueue(SimTime(self.now), read);
            while let Some(at) = self.drive.next_event() {
                self.now = self.now.max(at.0);
                self.drive.advance(SimTime(self.now), &mut Vec::new());
            }
            for seen in self.drive.observed() {
                all[seen.line as usize] = seen.write;
            }
        }
        all
    }

    /// Fails the power at any time, and takes the remaining content as the new state.
    /// Returns the number of sub-pages that reverted to an older write, and of those lost
    /// from the write buffer.
    fn fail(&mut self) -> (u64, u64) {
        let failure = self.drive.power_fail(SimTime(self.now));
        assert_eq!(self.drive.next_event(), None, "nothing is under way");
        self.drive.audit();
        for id in 0..self.outstanding.len() {
            if self.outstanding[id].take().is_some() {
                self.free.push(id as u32);
            }
        }
        let all = self.read_all();
        let mut older = Vec::new();
        for (line, found) in (0u64..).zip(&all) {
            self.assert_covers(*found, line);
            if *found < self.answered[line as usize] {
                older.push(line / 64);
            }
        }
        older.dedup();
        self.answered = all;
        (older.len() as u64, failure.lost)
    }
}

fn policy(name: &str) -> GcPolicyName {
    GcPolicyName::find(name).unwrap()
}

/// Two channels with one die of two planes each and little spare, so that collection and wear
/// levelling begin soon.
fn tight() -> SsdParams {
    SsdParams {
        ways: 1,
        collection: CollectionParams {
            wear_static: 2,
            ..small().collection
        },
        ..small()
    }
}

fn check(params: &SsdParams, requests: usize) -> Oracle {
    let mut oracle = Oracle::new(params, 64);
    oracle.run(requests);
    assert!(
        oracle.statistic("gc.blocks") > 100.0,
        "collection was at work"
    );
    assert!(oracle.statistic("gc.sub_pages") > 1000.0, "it moved data");
    assert!(oracle.compared > requests as u64, "{}", oracle.compared);
    oracle
}

const REQUESTS: usize = 400_000;

#[test]
fn nothing_is_lost_with_the_mapping_in_dram() {
    let oracle = check(&tight(), REQUESTS);
    assert!(oracle.statistic("flash.suspends") > 100.0);
    assert!(oracle.statistic("wear.blocks") > 0.0);
    assert!(oracle.statistic("buffer.fills") > 1000.0);
}

#[test]
fn nothing_is_lost_with_a_small_mapping_cache() {
    let params = SsdParams {
        mapping_cache: Some(Bytes(2 * 4 * KIB)),
        unwritten: Unwritten::Zero,
        ..tight()
    };
    let oracle = check(&params, REQUESTS);
    assert!(oracle.statistic("mapping.writes") > 1000.0);
    assert!(oracle.statistic("mapping.reads") > 1000.0);
}

#[test]
fn nothing_is_lost_under_any_policy_with_a_tiny_buffer() {
    for name in ["cost-benefit", "d-choice", "fifo"] {
        let params = SsdParams {
            collection: CollectionParams {
                policy: policy(name),
                separate: name != "fifo",
                preemptible: name != "d-choice",
                ..tight().collection
            },
            write_buffer: WriteBufferParams {
                capacity: Bytes(32 * KIB),
                ..tight().write_buffer
            },
            commands: CommandParams {
                suspend: Suspend::Erase,
                ..tight().commands
            },
            ..tight()
        };
        let oracle = check(&params, REQUESTS / 2);
        assert!(oracle.statistic("buffer.blocked") > 100.0, "{name}");
    }
}

#[test]
fn nothing_is_lost_with_small_sub_pages_and_independent_planes() {
    let params = SsdParams {
        sub_page: Some(Bytes(KIB)),
        commands: CommandParams {
            multi_plane: MultiPlane::Independent,
            ..tight().commands
        },
        allocation: "PDWC".to_owned(),
        mapping_cache: Some(Bytes(16 * KIB)),
        planes: Some(4),
        channels: 1,
        ..tight()
    };
    let oracle = check(&params, REQUESTS);
    assert!(oracle.statistic("flash.multi_plane") > 1000.0);
}

#[test]
fn nothing_is_lost_when_writes_are_answered_when_programmed() {
    let params = SsdParams {
        write_buffer: WriteBufferParams {
            acknowledge: Acknowledge::Programmed,
            ..tight().write_buffer
        },
        commands: CommandParams {
            suspend_limit: 1,
            read_times: Some(vec![Picos(3_000_000), Picos(9_000_000)]),
            program_times: Some(vec![Picos(90_000_000), Picos(300_000_000)]),
            ..tight().commands
        },
        ..tight()
    };
    check(&params, REQUESTS);
}

#[test]
fn capacitors_save_every_answered_write() {
    for cache in [None, Some(Bytes(8 * KIB))] {
        let params = SsdParams {
            mapping_cache: cache,
            ..tight()
        };
        let mut oracle = Oracle::new(&params, 64);
        for _ in 0..40 {
            oracle.issue_many(2000, 12_000_000);
            assert_eq!(oracle.fail(), (0, 0));
        }
        assert!(oracle.statistic("gc.sub_pages") > 1000.0);
    }
}

#[test]
fn without_capacitors_only_the_buffer_is_lost() {
    let mut lost_any = 0;
    for acknowledge in [Acknowledge::Buffered, Acknowledge::Programmed] {
        let params = SsdParams {
            power_loss: PowerLoss::None,
            write_buffer: WriteBufferParams {
                acknowledge,
                ..tight().write_buffer
            },
            ..tight()
        };
        let mut oracle = Oracle::new(&params, 64);
        for _ in 0..40 {
            oracle.issue_many(2000, 12_000_000);
            let (older, lost) = oracle.fail();
            assert!(older <= lost, "{older} of {lost}");
            if acknowledge == Acknowledge::Programmed {
                assert_eq!(older, 0, "what was answered had been programmed");
            }
            lost_any += older;
        }
        assert!(oracle.statistic("gc.sub_pages") > 100.0);
    }
    assert!(lost_any > 100, "{lost_any}");
}

/// A random element of a list.
fn one<T: Clone>(rng: &mut StreamRng, list: &[T]) -> T {
    list[rng.below(list.len() as u64) as usize].clone()
}

/// Random parameters of a small and busy drive.
fn any(rng: &mut StreamRng) -> SsdParams {
    use MultiPlane::{Independent, Off, SamePage};
    use Suspend::{Erase, Never, ProgramAndErase};
    let page = one(rng, &[4, 8, 16, 32]) * KIB;
    let sub = one(rng, &[1, 2, 4]) * KIB;
    let gc_hard = 2 + rng.below(3) as u32;
    let levels = 1 + rng.below(3);
    let times = |base: u64| (1..=levels).map(|level| Picos(base * level)).collect();
    SsdParams {
        channels: 1 + rng.below(3) as u32,
        ways: 1 + rng.below(2) as u32,
        dies: 1 + rng.below(2) as u32,
        planes: Some(1 + rng.below(3) as u32),
        pages: Some(4 + rng.below(20) as u32),
        page: Some(Bytes(page)),
        sub_page: Some(Bytes(sub.max(page / 32))),
        commands: CommandParams {
            read_times: Some(times(3_000_000)),
            program_times: Some(times(60_000_000)),
            suspend: one(rng, &[Never, Erase, ProgramAndErase]),
            suspend_limit: 1 + rng.below(9) as u8,
            multi_plane: one(rng, &[Off, SamePage, Independent]),
            read_streak: 1 + rng.below(40) as u32,
            ..CommandParams::default()
        },
        over_provisioning: 0.01 + rng.unit() * 0.2,
        allocation: one(rng, &["CWDP", "PDWC", "WPCD", "DCPW"]).to_owned(),
        mapping_cache: one(rng, &[None, Some(Bytes(4 * KIB)), Some(Bytes(16 * KIB))]),
        mapping_time: Picos(rng.below(2) * 1000),
        write_buffer: WriteBufferParams {
            capacity: Bytes(page * (2 + rng.below(40))),
            time: Picos(rng.below(2) * 50_000),
            dirty: rng.unit() * 0.9,
            acknowledge: one(rng, &[Acknowledge::Buffered, Acknowledge::Programmed]),
            ..WriteBufferParams::default()
        },
        collection: CollectionParams {
            policy: policy(one(rng, &["greedy", "cost-benefit", "d-choice", "fifo"])),
            choices: 1 + rng.below(12) as u32,
            start: gc_hard + 1 + rng.below(3) as u32,
            hard: gc_hard,
            preemptible: rng.chance(0.7),
            separate: rng.chance(0.7),
            wear_dynamic: rng.chance(0.7),
            wear_static: one(rng, &[0, 1, 3, 20]),
            ..CollectionParams::default()
        },
        read_queue: 1 + rng.below(100) as u32,
        write_queue: 1 + rng.below(100) as u32,
        unwritten: one(rng, &[Unwritten::Array, Unwritten::Zero]),
        power_loss: one(rng, &[PowerLoss::Capacitor, PowerLoss::None]),
        fill: one(rng, &[0.0, 1.0, 1.0]),
        fill_order: one(rng, &[FillOrder::Sequential, FillOrder::Random]),
        overwrite: one(rng, &[0.0, 1.0]),
        ..SsdParams::default()
    }
}

#[test]
fn nothing_is_lost_by_drives_of_any_parameters_when_power_fails() {
    let mut rng = StreamRng::new(23, "any");
    let mut collected = 0;
    for number in 0..60 {
        let params = any(&mut rng);
        println!("{number}: {params:?}");
        let mut oracle = Oracle::new(&params, 64);
        for _ in 0..3 {
            oracle.issue_many(2500, 8_000_000);
            let (older, lost) = oracle.fail();
            assert!(older <= lost, "{older} of {lost}");
            if params.power_loss == PowerLoss::Capacitor {
                assert_eq!(older, 0);
            }
        }
        oracle.run(1000);
        let blocks = oracle.statistic("gc.blocks");
        collected += u32::from(blocks > 0.0);
    }
    assert!(collected > 30, "{collected}");
}
