use cxlab_engine::units::Bytes;
use serde_json::{Value, json};

use crate::page_cache::ENTRY;

fn refused(params: Value, capacity: u64) -> (String, String) {
    let error = match (ENTRY.build)(&params) {
        Ok(medium) => medium.check(Bytes(capacity)).unwrap_err(),
        Err(error) => error,
    };
    (error.field, error.message)
}

#[test]
fn wrong_parameters_name_the_field_and_what_is_allowed() {
    let behind = || json!({ "kind": "fixed" });
    for (field, params) in [
        ("behind", json!({})),
        ("behind.kind", json!({ "behind": { "kind": "tape" } })),
        (
            "behind.banks",
            json!({ "behind": { "kind": "fixed", "banks": 0 } }),
        ),
        (
            "dram.queue",
            json!({ "behind": behind(), "dram": { "kind": "fixed", "queue": 0 } }),
        ),
        (
            "policy.kind",
            json!({ "behind": behind(), "policy": { "kind": "best" } }),
        ),
        (
            "prefetch.degree",
            json!({ "behind": behind(), "prefetch": { "kind": "next-page", "degree": 0 } }),
        ),
        ("page", json!({ "behind": behind(), "page": "3 KiB" })),
        ("page", json!({ "behind": behind(), "page": "128 KiB" })),
        (
            "sector",
            json!({ "behind": behind(), "page": "64 KiB", "sector": "512 B" }),
        ),
        ("sector", json!({ "behind": behind(), "sector": "8 KiB" })),
        ("size", json!({ "behind": behind(), "size": "6 KiB" })),
        ("size", json!({ "behind": behind(), "size": "2 GiB" })),
        ("ways", json!({ "behind": behind(), "ways": 3 })),
        ("mshrs", json!({ "behind": behind(), "mshrs": 0 })),
        (
            "mshrs",
            json!({ "behind": behind(), "mshrs": 1, "prefetch": { "kind": "stride" } }),
        ),
        ("targets", json!({ "behind": behind(), "targets": 0 })),
        (
            "write_buffer",
            json!({ "behind": behind(), "write_buffer": 0 }),
        ),
        ("queue", json!({ "behind": behind(), "queue": 65537 })),
        (
            "behind.dimms",
            json!({ "behind": { "kind": "pmem", "interleave": "1 GiB" } }),
        ),
    ] {
        let (found, message) = refused(params, 1 << 30);
        assert_eq!(found, field, "{message}");
        assert!(
            message.contains("allowed") || message.contains("must") || message.contains("none of"),
            "{message}"
        );
    }
    let (field, _) = refused(json!({ "behind": behind() }), (1 << 30) + 64);
    assert_eq!(field, "page");
}
