//! Queues, back-pressure, wear levelling and collection under load.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, SimTime};
use cxlab_memory::MemoryBackend;
use cxlab_memory::ssd::{CollectionParams, Drive, FlashPreset, SsdParams, WriteBufferParams};

use crate::harness::{GIB, KIB, MIB, alone, drive, request, run_dry, small, statistic, write_all};

#[test]
fn queues_are_bounded_and_have_room_when_something_is_done() {
    let params = SsdParams {
        read_queue: 4,
        write_queue: 2,
        ..small()
    };
    let mut drive = drive(&params, GIB);
    for id in 0..4 {
        assert!(drive.can_accept(SimTime(0), false));
        drive.enqueue(SimTime(0), request(id, u64::from(id) * 256, 1, false));
    }
    assert!(!drive.can_accept(SimTime(0), false));
    let takes_writes = drive.can_accept(SimTime(0), true);
    assert!(takes_writes, "writes have a queue of their own");
    let at = drive.next_event().unwrap();
    let mut done = Vec::new();
    while done.is_empty() {
        let at = drive.next_event().unwrap_or(at);
        drive.advance(at, &mut done);
    }
    assert!(drive.can_accept(done[0].at, false));
    run_dry(&mut drive);
}

#[test]
fn a_read_of_what_the_buffer_has_comes_from_there_unless_it_must_go_to_flash() {
    let times = [true, false].map(|buffer_reads| {
        let params = SsdParams {
            write_buffer: WriteBufferParams {
                reads: buffer_reads,
                ..small().write_buffer
            },
            ..small()
        };
        let mut drive = drive(&params, GIB);
        // A whole sub-page, which stays in the buffer, and then a line of that sub-page.
        alone(&mut drive, 0, request(0, 0, 64, true));
        let now = 1_000_000_000;
        let time = alone(&mut drive, now, request(1, 3, 1, false)).0;
        let fresh = alone(&mut drive, 2 * now, request(2, 1 << 20, 1, false)).0;
        let from_buffer = statistic(&drive, 3 * now, "buffer.reads");
        assert_eq!(from_buffer, f64::from(u8::from(buffer_reads)));
        (time, fresh)
    });
    assert_eq!(times[0].0, 50_000);
    assert_eq!(times[1].0, times[1].1, "a flash read");
}

#[test]
fn sustained_writes_are_as_fast_as_the_flash_programs() {
    let params = SsdParams {
        flash: FlashPreset::ZNand,
        channels: 2,
        ways: 4,
        planes: Some(1),
        write_buffer: WriteBufferParams {
            capacity: Bytes(128 * KIB),
            ..WriteBufferParams::default()
        },
        ..SsdParams::default()
    };
    let mut drive = drive(&params, GIB);
    let mut next = 0;
    let mut pick = || {
        next += 1;
        next
    };
    // A die takes 0.2 us, the transfer, and 100 us for 4 KiB; the channel is hardly busy.
    let count = 20_000;
    let end = write_all(&mut drive, 0, count, &mut pick);
    let transfer = params.cells().rate.time_for(Bytes(4 * KIB)).0;
    let page = 200_000 + transfer + 100_000_000;
    let ideal = (count - 32) / 8 * page;
    let error = end as f64 / ideal as f64 - 1.0;
    assert!((-0.01..0.02).contains(&error), "{error}");
    assert!(statistic(&drive, end, "buffer.blocked") > 10_000.0);
    assert!(statistic(&drive, end, "flash.die_utilization") > 0.97);
}

/// A drive with few blocks, after long hot and cold writes.
fn worn(wear_static: u32, wear_dynamic: bool) -> (Drive, u64) {
    let params = SsdParams {
        ways: 1,
        collection: CollectionParams {
            wear_static,
            wear_dynamic,
            ..small().collection
        },
        fill: 1.0,
        ..small()
    };
    let mut drive = drive(&params, 24 * MIB);
    let mut rng = StreamRng::new(5, "wear");
    let pages = 24 * MIB / (4 * KIB);
    let now = write_all(&mut drive, 0, 400_000, &mut || rng.below(pages / 20));
    drive.audit();
    (drive, now)
}

#[test]
fn static_wear_levelling_bounds_the_spread_of_erases() {
    let spread = |(drive, now): (Drive, u64)| {
        statistic(&drive, now, "erases.most") - statistic(&drive, now, "erases.least")
    };
    let without = spread(worn(0, true));
    let with = spread(worn(5, true));
    assert!(without > 100.0, "{without}");
    // A block with too few erases moves when the next block of its plane is erased.
    assert!(with <= 5.0 + 2.0, "{with}");
}

#[test]
fn dynamic_wear_levelling_evens_out_what_is_written_anyway() {
    let deviation = |dynamic| {
        let (drive, now) = worn(0, dynamic);
        statistic(&drive, now, "erases.deviation")
    };
    assert!(deviation(true) <= deviation(false));
}

#[test]
fn lifetime_is_projected_from_what_was_measured() {
    let (drive, now) = worn(5, true);
    let say = |name| statistic(&drive, now, name);
    let cells = small().cells();
    let used = say("erases.mean") / f64::from(cells.endurance);
    assert!((say("life.used") - used).abs() < 1e-12);
    // The erases so far took `now`, so the remaining ones take (1 - used) / used as long.
    let years = now as f64 / 1e12 / 31_557_600.0 * (1.0 - used) / used;
    let error = say("life.years_left") / years - 1.0;
    assert!(error.abs() < 1e-9, "{error}");
    let bytes = say("host.written_bytes") * (1.0 - used) / used;
    assert!((say("life.bytes_left") / bytes - 1.0).abs() < 1e-9);
}

/// Sorted latencies of reads from a full drive that is also written at random below its rate.
fn reads_while_collecting(preemptible: bool) -> Vec<u64> {
    let params = SsdParams {
        ways: 4,
        planes: Some(1),
        page: Some(Bytes(4 * KIB)),
        pages: Some(64),
        collection: CollectionParams {
            start: 8,
            preemptible,
            ..small().collection
        },
        fill: 1.0,
        overwrite: 2.0,
        ..small()
    };
    let capacity = 256 * MIB;
    let pages = capacity / (4 * KIB);
    let mut drive = drive(&params, capacity);
    let mut rng = StreamRng::new(9, "tail");
    let (mut now, mut latencies, mut began) = (0, Vec::new(), vec![0; 1 << 16]);
    let mut done = Vec::new();
    for id in 0..60_000u32 {
        now += 10_000_000 + rng.below(10_000_000);
        while let Some(at) = drive.next_event().filter(|at| at.0 <= now) {
            drive.advance(at, &mut done);
        }
        for one in done.drain(..) {
            if one.id % 4 != 0 {
                latencies.push(one.at.0 - began[one.id as usize]);
            }
        }
        let write = id % 4 == 0;
        if drive.can_accept(SimTime(now), write) {
            began[id as usize] = now;
            let lines = if write { 64 } else { 1 };
            let request = request(id, rng.below(pages) * 64, lines, write);
            drive.enqueue(SimTime(now), request);
        }
    }
    assert!(statistic(&drive, now, "gc.blocks") > 100.0);
    latencies.sort_unstable();
    latencies
}

#[test]
fn preemptible_collection_shortens_the_tail_of_reads() {
    let all = [true, false].map(reads_while_collecting);
    assert_eq!(all[0][0], all[1][0], "the shortest is an idle read");
    let [with, without] = all.map(|list| list[list.len() * 99 / 100]);
    assert!(2 * with < without, "{with} {without}");
}

#[test]
fn a_small_mapping_cache_costs_a_flash_read_for_a_miss() {
    let params = SsdParams {
        mapping_cache: Some(Bytes(4 * KIB)),
        ..small()
    };
    let mut drive = drive(&params, GIB);
    let one = alone(&mut drive, 0, request(1, 0, 1, false));
    let two = alone(&mut drive, 1_000_000_000, request(1, 64, 1, false));
    assert_eq!(one.0, 2 * two.0, "the mapping first, then the data");
    assert_eq!(statistic(&drive, 0, "mapping.misses"), 1.0);
    assert_eq!(statistic(&drive, 0, "mapping.hits"), 1.0);
    // A read 1,024 sub-pages further needs another translation page, which evicts the first one.
    alone(&mut drive, 2_000_000_000, request(1, 1024 * 64, 1, false));
    let again = alone(&mut drive, 3_000_000_000, request(1, 0, 1, false));
    assert_eq!(again, one);
}

#[test]
fn the_same_calls_give_the_same_answers() {
    let run = || {
        let params = SsdParams {
            ways: 1,
            collection: CollectionParams {
                policy: cxlab_memory::ssd::GcPolicyName::find("d-choice").unwrap(),
                ..small().collection
            },
            fill: 1.0,
            overwrite: 1.0,
            ..small()
        };
        let mut drive = drive(&params, 24 * MIB);
        let mut rng = StreamRng::new(5, "same");
        let now = write_all(&mut drive, 0, 50_000, &mut || rng.below(6000));
        let mut all = Vec::new();
        drive.statistics(SimTime(now), &mut all);
        (now, all)
    };
    assert_eq!(run(), run());
}
