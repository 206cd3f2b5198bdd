//! The simulator's memory for a drive grows with the written part of the drive.

use cxlab_engine::units::Bytes;
use cxlab_memory::ssd::{FlashPreset, SsdParams, WriteBufferParams};

use crate::harness::{GIB, drive, write_all};

#[test]
fn a_drive_of_4_tib_has_nothing_until_it_is_written() {
    for (capacity, flash) in [
        (16 * GIB, FlashPreset::ZNand),
        (4096 * GIB, FlashPreset::Tlc),
    ] {
        let params = SsdParams {
            flash,
            write_buffer: WriteBufferParams {
                capacity: Bytes(1 << 20),
                ..WriteBufferParams::default()
            },
            ..SsdParams::default()
        };
        let mut drive = drive(&params, capacity);
        assert_eq!(drive.allocated(), (0, 0));
        // A thousand sub-pages of one mapping chunk, in pages of all planes: 1 MiB stays buffered.
        let mut next = 0;
        let mut pick = || {
            next += 1;
            next % 1024
        };
        write_all(&mut drive, 0, 1024, &mut pick);
        let cells = params.cells();
        let planes = (params.channels * params.ways * cells.planes) as usize;
        let (chunks, blocks) = drive.allocated();
        assert_eq!(chunks, 1);
        assert!((1..=planes).contains(&blocks), "{blocks} of {planes}");
    }
}

#[test]
fn blocks_and_chunks_are_as_many_as_were_written() {
    let params = SsdParams {
        fill: 0.25,
        ..SsdParams::default()
    };
    let drive = drive(&params, 16 * GIB);
    // 4 GiB are 1,048,576 sub-pages, in chunks of 1,024 and blocks of 256.
    assert_eq!(drive.allocated(), (1024, 4096));
}
