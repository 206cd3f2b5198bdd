use serde_json::json;

use crate::testing::{json_rows, refusal, with};

#[test]
fn wrong_parameters_name_the_field_and_what_is_allowed() {
    for (field, params) in json_rows(
        r#"
        behind => {}
        behind.kind => {"behind": {"kind": "tape"}}
        behind.banks => {"behind": {"kind": "fixed", "banks": 0}}
        dram.queue => {"dram": {"kind": "fixed", "queue": 0}}
        policy.kind => {"policy": {"kind": "best"}}
        prefetch.degree => {"prefetch": {"kind": "next-page", "degree": 0}}
        page => {"page": "3 KiB"}
        page => {"page": "128 KiB"}
        sector => {"page": "64 KiB", "sector": "512 B"}
        sector => {"sector": "8 KiB"}
        size => {"size": "6 KiB"}
        size => {"size": "2 GiB"}
        ways => {"ways": 3}
        mshrs => {"mshrs": 0}
        mshrs => {"mshrs": 1, "prefetch": {"kind": "stride"}}
        targets => {"targets": 0}
        write_buffer => {"write_buffer": 0}
        queue => {"queue": 65537}
        behind.dimms => {"behind": {"kind": "pmem", "interleave": "1 GiB"}}
        "#,
    ) {
        let params = match field {
            "behind" => params,
            _ => with(json!({ "behind": { "kind": "fixed" } }), &params),
        };
        let error = refusal("dram-cache", &params, 1 << 30);
        let (found, message) = (error.field, error.message);
        assert_eq!(found, field, "{params}: {message}");
        let says = ["allowed", "must", "none of"].map(|word| message.contains(word));
        assert!(says.contains(&true), "{params}: {message}");
    }
    let behind = json!({ "behind": { "kind": "fixed" } });
    assert_eq!(refusal("dram-cache", &behind, (1 << 30) + 64).field, "page");
}
