//! Wrong parameters are refused with the field, the value found and the values allowed.

use cxlab_engine::units::Bytes;
use serde_json::{Value, json};

use crate::common::{json_rows, medium};
use crate::harness::{GIB, MIB};

#[test]
fn every_bad_parameter_is_named() {
    for (field, params) in json_rows(
        r#"
        channels => {"channels": 0}
        ways => {"ways": 65}
        dies => {"dies": 17}
        planes => {"planes": 0}
        blocks => {"blocks": 7}
        pages => {"pages": 3}
        page => {"page": "3 KiB"}
        sub_page => {"page": "4 KiB", "sub_page": "8 KiB"}
        sub_page => {"page": "64 KiB", "sub_page": "1 KiB"}
        read_times => {"read_times": []}
        program_times => {"read_times": ["3 us", "4 us"]}
        erase_time => {"erase_time": "200 s"}
        channel_rate => {"channel_rate": "1 kB/s"}
        suspend_limit => {"suspend_limit": 0}
        read_streak => {"read_streak": 0}
        over_provisioning => {"over_provisioning": 0.001}
        allocation => {"allocation": "CWDD"}
        allocation => {"allocation": "CWDPP"}
        mapping_cache => {"mapping_cache": "1 KiB"}
        buffer => {"buffer": "4 KiB"}
        buffer_dirty => {"buffer_dirty": 0.95}
        gc_choices => {"gc_choices": 0}
        gc_start => {"gc_start": 2}
        gc_hard => {"gc_hard": 4}
        wear_static => {"wear_static": 1000001}
        endurance => {"endurance": 0}
        read_queue => {"read_queue": 0}
        write_queue => {"write_queue": 65537}
        fill => {"fill": 1.5}
        overwrite => {"overwrite": -1.0}
        "#,
    ) {
        let error = medium("ssd", &params).err().unwrap();
        assert_eq!(error.field, field, "{params}: {error}");
        assert!(error.message.contains("allowed"), "{params}: {error}");
        assert!(error.message.contains("found"), "{params}: {error}");
    }
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    for params in [json!({"gc_policy": "greed"}), json!({"flash": "qlc"})] {
        let error = medium("ssd", &params).err().unwrap();
        let known = ["greedy", "z-nand"];
        assert!(
            known.iter().any(|name| error.message.contains(name)),
            "{error}"
        );
    }
    assert!(medium("ssd", &json!({"chanels": 8})).is_err());
}

#[test]
fn combinations_with_the_capacity_are_checked() {
    let fits = |params: &Value, capacity| medium("ssd", params).unwrap().check(Bytes(capacity));
    for capacity in [64, 4096, 16 * MIB, 16 * GIB, 4096 * GIB] {
        assert_eq!(fits(&json!({}), capacity), Ok(()), "{capacity}");
    }
    let error = fits(&json!({"blocks": 128}), 16 * GIB).err().unwrap();
    assert_eq!(error.field, "blocks");
    for says in ["128 blocks of 1 MiB in each of 128 planes", "137 or more"] {
        assert!(error.message.contains(says), "{error}");
    }
    assert_eq!(fits(&json!({"blocks": 137}), 16 * GIB), Ok(()));
    let error = fits(&json!({}), 8192 * GIB).err().unwrap();
    assert_eq!(error.field, "sub_page");
    let wide = json!({"flash": "tlc", "sub_page": "16 KiB"});
    assert_eq!(fits(&wide, 8192 * GIB), Ok(()));
}
