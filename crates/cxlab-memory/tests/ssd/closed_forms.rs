//! Latencies of an idle drive, to the picosecond.

use cxlab_engine::units::{Bytes, BytesPerSec, Picos, SimTime};
use cxlab_memory::ssd::{
    Acknowledge, CommandParams, Drive, FlashPreset, MultiPlane, SsdParams, Suspend, Unwritten,
    WriteBufferParams,
};

use cxlab_memory::{Completion, Medium, MemoryBackend};

use crate::harness::{GIB, KIB, alone, drive, request, run_dry, small, statistic};

const PRESETS: [FlashPreset; 5] = [
    FlashPreset::ZNand,
    FlashPreset::XlFlash,
    FlashPreset::Slc,
    FlashPreset::Mlc,
    FlashPreset::Tlc,
];

fn preset(flash: FlashPreset) -> SsdParams {
    SsdParams {
        flash,
        ..SsdParams::default()
    }
}

#[test]
fn an_idle_read_is_command_and_array_and_bytes_by_rate() {
    for flash in PRESETS {
        let params = preset(flash);
        let cells = params.cells();
        let mut drive = drive(&params, GIB);
        let mut now = 0;
        for page in 0..3 * 128 {
            // The first sub-page of the page in row `page / planes` of the first block.
            let line = page * cells.page.0 / 64;
            let planes = u64::from(params.channels * params.ways * params.dies * cells.planes);
            let level = (page / planes) as usize % cells.read.len();
            let transfer = cells.rate.time_for(params.sub_page_bytes());
            let time = params.commands.command_time.0 + cells.read[level].0 + transfer.0;
            let got = alone(&mut drive, now, request(1, line, 1, false));
            assert_eq!(got, Picos(time), "{flash:?}, page {page}");
            now += 1_000_000_000;
        }
    }
}

#[test]
fn a_whole_page_is_read_at_once() {
    let params = preset(FlashPreset::Tlc);
    let cells = params.cells();
    let mut drive = drive(&params, GIB);
    let time =
        params.commands.command_time.0 + cells.read[0].0 + cells.rate.time_for(Bytes(16 * KIB)).0;
    assert_eq!(alone(&mut drive, 5, request(1, 0, 256, false)), Picos(time));
    assert_eq!(statistic(&drive, 5, "flash.reads"), 1.0);
}

#[test]
fn an_idle_program_is_command_and_bytes_by_rate_and_array() {
    for flash in PRESETS {
        let params = SsdParams {
            write_buffer: WriteBufferParams {
                acknowledge: Acknowledge::Programmed,
                ..preset(flash).write_buffer
            },
            ..preset(flash)
        };
        let cells = params.cells();
        let mut drive = drive(&params, GIB);
        let lines = cells.page.0 / 64;
        for row in 0..cells.program.len() as u64 {
            let transfer = cells.rate.time_for(cells.page);
            let time = params.commands.command_time.0 + transfer.0 + cells.program[row as usize].0;
            let planes = u64::from(params.channels * params.ways * cells.planes);
            for page in 0..planes {
                let now = (row * planes + page) * 10_000_000_000;
                let write = request(1, page * lines, lines as u16, true);
                assert_eq!(alone(&mut drive, now, write), Picos(time), "{flash:?}");
            }
        }
        assert_eq!(statistic(&drive, 0, "ftl.write_amplification"), 1.0);
    }
}

#[test]
fn constants_are_added_and_the_medium_tells_its_idle_read() {
    let params = SsdParams {
        controller_time: Picos(700),
        mapping_time: Picos(30),
        commands: CommandParams {
            channel_rate: Some(BytesPerSec(1_000_000_000)),
            ..CommandParams::default()
        },
        ..SsdParams::default()
    };
    let mut drive = drive(&params, GIB);
    let time = 200_000 + 3_000_000 + 4_096_000 + 730;
    let got = alone(&mut drive, 0, request(1, 9, 1, false));
    assert_eq!(got, Picos(time));
    assert_eq!(params.idle_read_ps(), Some(time));
    let of_levels = preset(FlashPreset::Tlc).idle_read_ps();
    assert_eq!(of_levels, None, "it depends on the page");
}

#[test]
fn a_buffered_write_takes_the_buffer_and_is_read_back_from_there() {
    let mut drive = drive(&small(), GIB);
    assert_eq!(alone(&mut drive, 0, request(1, 0, 64, true)), Picos(50_000));
    let later = 1_000_000_000;
    let read = alone(&mut drive, later, request(1, 5, 1, false));
    assert_eq!(read, Picos(50_000));
    assert_eq!(statistic(&drive, later, "buffer.reads"), 1.0);
    assert_eq!(statistic(&drive, later, "flash.reads"), 0.0);
}

#[test]
fn a_short_write_reads_the_rest_unless_the_buffer_has_it() {
    let mut drive = drive(&small(), GIB);
    alone(&mut drive, 0, request(1, 3, 1, true));
    assert_eq!(statistic(&drive, 0, "flash.reads"), 1.0);
    alone(&mut drive, 1_000_000_000, request(1, 4, 2, true));
    assert_eq!(statistic(&drive, 0, "flash.reads"), 1.0, "it is there now");
    assert_eq!(statistic(&drive, 0, "buffer.coalesced"), 1.0);
    let zero = SsdParams {
        unwritten: Unwritten::Zero,
        ..small()
    };
    let mut drive = crate::harness::drive(&zero, GIB);
    alone(&mut drive, 0, request(1, 3, 1, true));
    let reads = statistic(&drive, 0, "flash.reads");
    assert_eq!(reads, 0.0, "nothing was there");
}

/// Completion times of two reads, each given by line and time of arrival.
fn both(params: &SsdParams, first: (u64, u64), second: (u64, u64)) -> (u64, u64) {
    let mut drive = drive(params, GIB);
    drive.enqueue(SimTime(first.1), request(1, first.0, 1, false));
    let mut done = Vec::new();
    drive.advance(SimTime(second.1), &mut done);
    drive.enqueue(SimTime(second.1), request(2, second.0, 1, false));
    done.append(&mut run_dry(&mut drive));
    (ended(&done, 1), ended(&done, 2))
}

/// When the request of a number was done.
fn ended(done: &[Completion], id: u32) -> u64 {
    done.iter().find(|one| one.id == id).unwrap().at.0
}

/// A small drive with pages of 4 KiB, each of which takes 1 us on its channel.
fn paged() -> SsdParams {
    SsdParams {
        page: Some(Bytes(4 * KIB)),
        commands: CommandParams {
            channel_rate: Some(BytesPerSec(4_096_000_000)),
            ..small().commands
        },
        ..small()
    }
}

/// As by `paged`, with one plane, in which programs complete writes.
fn lone_plane() -> SsdParams {
    SsdParams {
        channels: 1,
        ways: 1,
        planes: Some(1),
        write_buffer: WriteBufferParams {
            acknowledge: Acknowledge::Programmed,
            ..paged().write_buffer
        },
        ..paged()
    }
}

#[test]
fn dies_of_a_channel_share_it_and_channels_do_not() {
    let params = SsdParams {
        commands: CommandParams {
            multi_plane: MultiPlane::Off,
            ..paged().commands
        },
        ..paged()
    };
    let page = 64;
    let alone = 200_000 + 3_000_000 + 1_000_000;
    // In the order CWDP, pages 0 and 1 are on two channels, 0 and 2 in two chips of one channel, 0
    // and 4 in two planes of a die.
    for (second, end) in [
        ((page, 0), alone),
        ((2 * page, 0), alone + 1_000_000),
        ((2 * page, 100_000), alone + 1_000_000),
        ((4 * page, 0), 2 * alone),
    ] {
        assert_eq!(both(&params, (0, 0), second), (alone, end), "{second:?}");
    }
}

#[test]
fn planes_of_a_die_read_and_program_together_where_the_addresses_allow() {
    let params = SsdParams {
        allocation: "PCWD".to_owned(),
        write_buffer: WriteBufferParams {
            acknowledge: Acknowledge::Programmed,
            ..paged().write_buffer
        },
        ..paged()
    };
    // Two pages in two planes of a die. A read has two commands, one array time, two transfers; a write
    // two commands with data, one after the other, then both arrays in parallel.
    let (read, write) = (3_000_000, 100_000_000);
    for (writes, array) in [(false, read), (true, write)] {
        let mut drive = drive(&params, GIB);
        let time = 2 * (200_000 + 1_000_000) + array;
        let got = alone(&mut drive, 0, request(1, 0, 128, writes));
        assert_eq!(got, Picos(time), "writes: {writes}");
        assert_eq!(statistic(&drive, 0, "flash.multi_plane"), 1.0);
    }
}

#[test]
fn a_program_passes_reads_that_never_end() {
    let params = SsdParams {
        commands: CommandParams {
            suspend: Suspend::Never,
            read_streak: 8,
            ..lone_plane().commands
        },
        ..lone_plane()
    };
    let mut drive = drive(&params, 64 << 20);
    let mut done = Vec::new();
    // Four reads of other pages are always pending, and one write arrives behind the first of them.
    let mut page = 0;
    let mut read = |drive: &mut Drive, now| {
        page += 1;
        drive.enqueue(SimTime(now), request(page as u32, page * 64, 1, false));
    };
    (0..4).for_each(|_| read(&mut drive, 0));
    drive.enqueue(SimTime(0), request(0, 0, 64, true));
    let at = loop {
        let now = drive.next_event().unwrap();
        drive.advance(now, &mut done);
        if let Some(write) = done.iter().find(|one| one.id == 0) {
            break write.at.0;
        }
        let ended = done.len();
        done.clear();
        (0..ended).for_each(|_| read(&mut drive, now.0));
        assert!(now.0 < 1_000_000_000, "the write is never programmed");
    };
    // At most eight reads, then command, data and array.
    let read = 200_000 + 3_000_000 + 1_000_000;
    assert!(at <= 9 * read + 1_200_000 + 100_000_000, "{at}");
    assert!(at > 8 * read, "{at}");
}

#[test]
fn a_read_suspends_a_program_and_the_program_ends_later_by_just_that() {
    for (suspend, read_alone) in [(Suspend::ProgramAndErase, false), (Suspend::Erase, true)] {
        let params = SsdParams {
            commands: CommandParams {
                suspend,
                suspend_program_time: Some(Picos(5_000_000)),
                ..lone_plane().commands
            },
            ..lone_plane()
        };
        let mut drive = drive(&params, 64 << 20);
        drive.enqueue(SimTime(0), request(1, 0, 64, true));
        // Command and data take 1.2 us; the array works until 101.2 us.
        let mut done = Vec::new();
        drive.advance(SimTime(50_000_000), &mut done);
        drive.enqueue(SimTime(50_000_000), request(2, 6400, 1, false));
        done.append(&mut run_dry(&mut drive));
        let at = |id| ended(&done, id);
        let read = 200_000 + 3_000_000 + 1_000_000;
        if read_alone {
            assert_eq!((at(1), at(2)), (101_200_000, 101_200_000 + read));
        } else {
            assert_eq!(at(2), 50_000_000 + 5_000_000 + read);
            assert_eq!(at(1), 101_200_000 + 2 * 5_000_000 + read);
            assert_eq!(statistic(&drive, 0, "flash.suspends"), 1.0);
        }
    }
}
