//! Accepted and refused parameters.

use cxlab_engine::units::Bytes;

use crate::dram::standards;
use crate::testing::{medium, rows};

#[test]
fn bad_parameters_are_refused_with_value_and_what_is_allowed() {
    for (text, message) in rows(
        r#"
        {"grade": "DDR9"} => `grade`: `DDR9` is not known; known are DDR4-2400P
        {"organization": "3Gb"} => `organization`: `3Gb` is not one of DDR5; known are 16Gb x8
        {"channels": 3} => `channels`: found 3; allowed: a power of two from 1 to 64
        {"ranks": 32} => `ranks`: found 32; allowed: a power of two from 1 to 16
        {"width": 12}
            => `width`: 12 bits: must be the 8 of a device times a power of two, up to 1024
        {"clock": "10 ps"} => `clock`: found 10 ps; allowed: 100 ps to 10 ns
        {"mapping": "RoCo"} => `mapping`: `RoCo` places 0 of the 1 bits of `Ch`
        {"hash": {"kind": "crc"}}
            => unknown variant `crc`, expected one of `none`, `permutation`, `fold`, `functions`
        {"hash": {"kind": "functions", "bits": {"Ba9": [20]}}}
            => `hash.bits.Ba9`: `Ba` has 2 bits in this memory
        {"read_queue": 0} => `read_queue`: found 0; allowed: 1 to 1024
        {"drain_above": 10} => `drain_below`: found 20; allowed: 0 to 10
        {"bank_queue": 65} => `bank_queue`: found 65; allowed: 1 to 64
        {"bank_queue": 4, "rank_queue": 8} => `rank_queue`: 8: allowed only without `bank_queue`
        {"grade": "DDR4-3200AA", "rfm": 32}
            => `rfm`: 32: not known to DDR4; allowed with DDR5, HBM3 and HBM4
        {"rfm": 32, "refresh": "none"} => `rfm`: 32: allowed only with refresh
        {"rfm": 2} => `rfm`: found 2; allowed: 8 to 1000000
        {"page": {"kind": "capped"}} => `page`: capped needs `accesses`, `idle` or both
        {"page": {"kind": "capped", "idle": "2 ms"}}
            => `page.idle`: found 2 ms; allowed: 1 ps to 1 ms
        {"refresh": "per-bank"}
            => `refresh`: not known to DDR5; allowed are none, all-bank, same-bank
        {"timing": {"rcd": 0}} => `timing.rcd`: 0: must be at least 1 clock
        {"timing": {"rfc": 2000000}} => `timing.rfc`: found 2000000; allowed:
        {"timing": {"refi": 100}} => `timing.refi`: 100 ticks: must exceed rfc
        {"timing": {"cwl": 99}} => `timing.cwl`: 99: must not exceed cl + burst + rtw_gap
        {"timing": {"cas": 9}} => unknown field `cas`
        {"speed": 9} => unknown field `speed`
        "#,
    ) {
        let built = medium("dram", &serde_json::from_str(text).unwrap());
        let error = built.err().expect(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn the_default_holds_the_default_device_and_more_is_refused() {
    let medium = medium("dram", &serde_json::json!({})).unwrap();
    assert!(medium.check(Bytes(16 << 30)).is_ok());
    let error = medium.check(Bytes(17 << 30)).unwrap_err().to_string();
    assert!(
        error.contains("hold 16 GiB, and the device has 17 GiB"),
        "{error}"
    );
}

#[test]
fn every_timing_can_be_replaced_alone() {
    let text = r#"{"timing": {"ras": 70, "cl": 40}, "currents": {"idd0_ma": 99}}"#;
    let params = super::owner::params(text);
    let resolved = params.resolve().unwrap();
    let of_grade = super::owner::params("{}").resolve().unwrap();
    assert_eq!(resolved.timings.cl, 40);
    assert_eq!(resolved.timings.rc, 70 + of_grade.timings.rp);
    assert_eq!(resolved.timings.rcd, of_grade.timings.rcd);
    assert_eq!(resolved.currents.idd0, 99);
    assert_eq!(resolved.currents.idd3n, of_grade.currents.idd3n);
}

/// Consistency of the tables, whatever their values.
#[test]
fn the_tables_agree_with_themselves() {
    for (standard, grade) in standards::grades() {
        // A burst takes its beats at the data rate, up to the rounding of the clock.
        let burst_ps = grade.timings.burst * grade.clock_ps;
        let beats_ps = standard.beats * 1_000_000 / grade.rate;
        assert!(
            burst_ps.abs_diff(beats_ps) * 200 < beats_ps,
            "{}",
            grade.name
        );
        for organization in standard.organizations {
            let t = (standard.resolve)(grade, organization);
            let name = format!("{} {}", grade.name, organization.name);
            assert!(t.rc >= t.ras + t.rp, "{name}");
            assert!(
                t.ras >= t.rcd + t.rtp - 1 || standard.name != "DDR4",
                "{name}"
            );
            assert!(t.faw >= 4 * t.rrd_s.min(t.faw / 4), "{name}");
            assert!(
                t.ccd_l >= t.ccd_s && t.rrd_l >= t.rrd_s.min(t.rrd_l),
                "{name}"
            );
            assert!(t.rfc < t.refi && t.rfc > t.rc, "{name}");
            assert!(
                [t.rrd_s, t.rrd_l, t.faw, t.refi, t.rfc]
                    .iter()
                    .all(|v| *v > 0),
                "{name}"
            );
            assert!(t.ccd_r >= t.ccd_s && t.rtw_gap_l >= t.rtw_gap, "{name}");
            assert_eq!(t.wck_post > 0, standard.bus.cas > 0, "{name}");
            let devices = standard.width / organization.pins;
            let bits = u64::from(organization.stacks * organization.groups * organization.banks)
                * u64::from(organization.rows)
                * u64::from(organization.columns / standard.beats)
                * u64::from(standard.payload * 8)
                * u64::from(standard.pseudo_channels);
            let density = u64::from(organization.density_mb) << 20;
            assert_eq!(bits, density * u64::from(devices), "{name}");
        }
    }
}
