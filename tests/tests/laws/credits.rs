//! Credits: a link's default credits carry its closed form, and fewer
//! carry what their round trip allows.

use cxlab_link::{LinkParams, PcieGeneration};
use cxlab_protocol::flit;
use cxlab_system::report::Report;
use cxlab_tests::{FAST, assert_close, plan, report, shipped};

fn run(set: &[&str]) -> Report {
    report(&shipped("direct"), &[&FAST, set].concat())
}

/// Bandwidth of a full link with reads or writes alone, in GB/s.
fn closed_form(link: &LinkParams, read_ratio: f64) -> f64 {
    let form = flit::efficiency(link.flit_format(), read_ratio);
    let packed = match form.m2s_limits() {
        true => form.m2s.packed,
        false => form.s2m.packed,
    };
    link.rate().as_gb_per_s() * packed
}

#[test]
fn default_links_of_every_generation_carry_their_closed_form() {
    for (generation, text) in [
        (PcieGeneration::Gen4, "4"),
        (PcieGeneration::Gen5, "5"),
        (PcieGeneration::Gen6, "6"),
        (PcieGeneration::Gen7, "7"),
    ] {
        for read_ratio in [1.0, 0.0] {
            let link = LinkParams {
                generation,
                ..LinkParams::default()
            };
            let expected = closed_form(&link, read_ratio);
            let found = run(&[
                "measure.requests=90_000",
                &format!("fabric.link.generation=\"{text}\""),
                &format!("hosts[0].workload.read_ratio={read_ratio:?}"),
            ]);
            let what = format!("GB/s, generation {text}, {read_ratio} reads");
            assert_close(found.bandwidth_gb_per_s.total, expected, 0.015, what);
            assert_eq!(found.provenance.notes, [], "generation {text}");
        }
    }
}

/// The law also holds between switches. Their switching time is part of a credit's round trip here
/// but not in hardware, and their PBR flits hold 13/4 lines.
#[test]
fn default_links_between_switches_carry_their_closed_form() {
    let between = LinkParams {
        flit: Some(flit::FlitFormat::B256Pbr),
        ..LinkParams::default()
    };
    let expected = closed_form(&between, 1.0);
    assert_eq!((expected * 10.0).round(), 1040.0);
    let chain = "fabric.topology={ kind = \"chain\", switches = 2 }";
    let found = run(&[chain, "hosts[0].workload.read_ratio=1.0"]);
    assert_close(found.bandwidth_gb_per_s.total, expected, 0.015, "GB/s");
}

/// Below the knee, one window of credits passes a round trip, less those credits that gather
/// before they are sent back.
#[test]
fn the_knee_of_a_credit_sweep_is_at_rate_times_round_trip() {
    let link = LinkParams::default();
    let wire = closed_form(&link, 1.0);
    let knee = wire / 64.0 * link.credit_round_ps() as f64 / 1e3;
    for part in [0.125, 0.25, 0.5, 0.75, 1.5] {
        let credits = (knee * part) as u16;
        let found = run(&[
            "hosts[0].workload.read_ratio=1.0",
            &format!("fabric.link.credits={{ s2m_drs = {credits} }}"),
        ]);
        let expected = (f64::from(credits) / knee * wire).min(wire);
        let error = found.bandwidth_gb_per_s.total / expected - 1.0;
        let is_near = (-0.13..=0.06).contains(&error);
        assert!(is_near, "{credits} credits of {knee:.0}: off by {error}");
        let noted = found.provenance.notes.iter().any(|note| {
            let message = &note.message;
            message.contains("mem->host") && message.contains(&format!("s2m_drs = {credits}"))
        });
        assert_eq!(
            noted,
            part < 1.0,
            "{credits} credits: {:?}",
            found.provenance.notes
        );
    }
}

#[test]
fn a_plan_says_which_credits_limit_a_link_and_how_many_would_not() {
    let link = LinkParams::default();
    let needed = link.credits_needed();
    let notes = |set: &[&str]| -> Vec<String> {
        let notes = plan(&shipped("direct"), set).notes;
        notes.iter().map(ToString::to_string).collect()
    };
    assert_eq!(notes(&[]), [""; 0]);
    let few = notes(&["fabric.link.credits={ m2s_req = 64, s2m_drs = 1023 }"]);
    assert_eq!(few.len(), 1, "{few:?}");
    for part in [
        "fabric.link.credits",
        "m2s_req = 64",
        &format!("{needed} carry all"),
    ] {
        assert!(few[0].contains(part), "{part}: {few:?}");
    }
    // Half a microsecond of cable needs more credits than a port can advertise.
    let far = notes(&["fabric.link.propagation=\"500 ns\""]);
    assert_eq!(far.len(), 1, "{far:?}");
    for part in ["s2m_drs = 1023", "8.2.4.19.3"] {
        assert!(far[0].contains(part), "{far:?}");
    }
}

/// The setting that a note suggests removes the limit that it names.
#[test]
fn requests_in_flight_that_limit_a_host_are_noted_with_a_number_that_fills_its_link() {
    let set = |outstanding: &str| {
        run(&[
            &format!("hosts[0].issue.outstanding={outstanding}"),
            "hosts[0].workload.read_ratio=1.0",
        ])
    };
    let few = set("64");
    assert_eq!(few.provenance.notes.len(), 1, "{:?}", few.provenance.notes);
    let note = &few.provenance.notes[0];
    assert_eq!(note.path, "hosts[0].issue.outstanding");
    let note = note.message.as_str();
    assert!(note.starts_with("64 requests in flight carry"), "{note}");
    let note = note.trim_end_matches(" requests fill the links if that latency stays");
    let number = note.rsplit(' ').next().expect("a last word");
    let wire = closed_form(&LinkParams::default(), 1.0);
    let more = set(number);
    let total = more.bandwidth_gb_per_s.total;
    assert!(
        total > 0.95 * wire,
        "{number} carry {total:.1} of {wire:.1}"
    );
}
