//! Wrong parameters are refused with the field, the value found and the values allowed.

use cxlab_engine::catalog::find;
use cxlab_engine::units::Bytes;
use cxlab_memory::{CATALOG, Medium};
use serde_json::{Value, json};

use crate::harness::{GIB, MIB};

fn build(params: &Value) -> Result<Box<dyn Medium>, cxlab_engine::catalog::ParamError> {
    (find(CATALOG, "ssd").unwrap().build)(params)
}

#[test]
fn every_bad_parameter_is_named() {
    let cases = [
        (json!({"channels": 0}), "channels"),
        (json!({"ways": 65}), "ways"),
        (json!({"dies": 17}), "dies"),
        (json!({"planes": 0}), "planes"),
        (json!({"blocks": 7}), "blocks"),
        (json!({"pages": 3}), "pages"),
        (json!({"page": "3 KiB"}), "page"),
        (json!({"page": "4 KiB", "sub_page": "8 KiB"}), "sub_page"),
        (json!({"page": "64 KiB", "sub_page": "1 KiB"}), "sub_page"),
        (json!({"read_times": []}), "read_times"),
        (json!({"read_times": ["3 us", "4 us"]}), "program_times"),
        (json!({"erase_time": "200 s"}), "erase_time"),
        (json!({"channel_rate": "1 kB/s"}), "channel_rate"),
        (json!({"suspend_limit": 0}), "suspend_limit"),
        (json!({"read_streak": 0}), "read_streak"),
        (json!({"over_provisioning": 0.001}), "over_provisioning"),
        (json!({"allocation": "CWDD"}), "allocation"),
        (json!({"allocation": "CWDPP"}), "allocation"),
        (json!({"mapping_cache": "1 KiB"}), "mapping_cache"),
        (json!({"buffer": "4 KiB"}), "buffer"),
        (json!({"buffer_dirty": 0.95}), "buffer_dirty"),
        (json!({"gc_choices": 0}), "gc_choices"),
        (json!({"gc_start": 2}), "gc_start"),
        (json!({"gc_hard": 4}), "gc_hard"),
        (json!({"wear_static": 1_000_001}), "wear_static"),
        (json!({"endurance": 0}), "endurance"),
        (json!({"read_queue": 0}), "read_queue"),
        (json!({"write_queue": 65537}), "write_queue"),
        (json!({"fill": 1.5}), "fill"),
        (json!({"overwrite": -1.0}), "overwrite"),
    ];
    for (params, field) in cases {
        let error = build(&params).err().unwrap();
        assert_eq!(error.field, field, "{params}: {error}");
        assert!(error.message.contains("allowed"), "{params}: {error}");
        assert!(error.message.contains("found"), "{params}: {error}");
    }
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    for params in [json!({"gc_policy": "greed"}), json!({"flash": "qlc"})] {
        let error = build(&params).err().unwrap();
        let known = ["greedy", "z-nand"];
        assert!(
            known.iter().any(|name| error.message.contains(name)),
            "{error}"
        );
    }
    assert!(build(&json!({"chanels": 8})).is_err());
}

#[test]
fn combinations_with_the_capacity_are_checked() {
    let fits = |params: &Value, capacity| build(params).unwrap().check(Bytes(capacity));
    for capacity in [64, 4096, 16 * MIB, 16 * GIB, 4096 * GIB] {
        assert_eq!(fits(&json!({}), capacity), Ok(()), "{capacity}");
    }
    let error = fits(&json!({"blocks": 128}), 16 * GIB).err().unwrap();
    assert_eq!(error.field, "blocks");
    assert!(
        error
            .message
            .contains("128 blocks of 1 MiB in each of 128 planes"),
        "{error}"
    );
    assert!(error.message.contains("137 or more"), "{error}");
    assert_eq!(fits(&json!({"blocks": 137}), 16 * GIB), Ok(()));
    let error = fits(&json!({}), 8192 * GIB).err().unwrap();
    assert_eq!(error.field, "sub_page");
    let wide = json!({"flash": "tlc", "sub_page": "16 KiB"});
    assert_eq!(fits(&wide, 8192 * GIB), Ok(()));
}
