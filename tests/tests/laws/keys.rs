//! Keys that no other test sets: what each changes, by how much, and what it leaves as it is.
#![allow(clippy::unwrap_used)]

use cxlab_system::report::Report;
use cxlab_tests::report;

/// A requester that sends one request at a time to a device.
const ONE_DEVICE: &str = r#"
name = "keys"
[measure]
warmup_requests = 0
[fabric]
topology = { kind = "direct" }
[[hosts]]
name = "host"
requests = 2000
issue = { outstanding = 1 }
workload = { kind = "uniform", footprint = "64 MiB", read_ratio = 0.5 }
[[devices]]
name = "device"
capacity = "256 MiB"
"#;

fn with_memory(memory: &str) -> Report {
    report(ONE_DEVICE, &[&format!("devices[0].memory={memory}")])
}

/// The energies of a DRAM with round currents, of which `change` replaces some.
fn energies(change: &str) -> Vec<f64> {
    let mut currents = serde_json::json!({
        "vdd_mv": 1000, "idd0_ma": 120, "idd2n_ma": 20, "idd3n_ma": 30, "idd4r_ma": 130, "idd4w_ma": 230,
        "idd5b_ma": 220,
    });
    for (key, value) in serde_json::from_str::<serde_json::Map<_, _>>(change).unwrap() {
        currents[key] = value;
    }
    let pairs = currents.as_object().unwrap().iter();
    let pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    let memory = format!(
        "{{ kind = \"dram\", grade = \"DDR4-2400R\", currents = {{ {} }} }}",
        pairs.join(", ")
    );
    let medium = &with_memory(&memory).devices[0].medium;
    let names = ["activate", "read", "write", "refresh", "standby"];
    let energy = |name: &str| medium[&format!("dram.{name}_energy_nj")].as_f64().unwrap();
    names.map(energy).to_vec()
}

#[test]
fn energy_follows_supply_voltage_and_the_current_of_each_command() {
    let base = energies("{}");
    assert!(base.iter().all(|energy| *energy > 0.0), "{base:?}");
    // Activation, reads, writes, refresh and standby, each against the base.
    for (change, factors) in [
        (r#"{"vdd_mv": 2000}"#, [2.0, 2.0, 2.0, 2.0, 2.0]),
        (r#"{"idd4r_ma": 230}"#, [1.0, 2.0, 1.0, 1.0, 1.0]),
        (r#"{"idd4w_ma": 430}"#, [1.0, 1.0, 2.0, 1.0, 1.0]),
        (r#"{"idd5b_ma": 420}"#, [1.0, 1.0, 1.0, 2.0, 1.0]),
    ] {
        for (at, (found, base)) in energies(change).iter().zip(&base).enumerate() {
            let factor = found / base;
            let apart = (factor - factors[at]).abs();
            assert!(apart < 1e-3, "{change}, {at}: {factor}");
        }
    }
    // An activation costs its current above standby, here of one value for open and closed banks.
    let [flat, more] = [120, 220].map(|idd0| {
        let change = format!(r#"{{"idd0_ma": {idd0}, "idd3n_ma": 20}}"#);
        energies(&change)[0]
    });
    assert!((more / flat - 2.0).abs() < 1e-3, "{flat} {more}");
    // Commands cost their currents above standby.
    let both = energies(r#"{"idd2n_ma": 40, "idd3n_ma": 60}"#);
    assert!((both[4] / base[4] - 2.0).abs() < 1e-3, "{both:?}");
    assert!((both[1] / base[1] - 0.7).abs() < 1e-3, "{both:?}");
    assert!((both[3] / base[3] - 0.9).abs() < 1e-3, "{both:?}");
}

#[test]
fn a_bank_opens_later_after_all_were_precharged() {
    let latency = |timing: &str| {
        let memory =
            format!("{{ kind = \"dram\", grade = \"DDR4-2400R\", timing = {{ {timing} }} }}");
        with_memory(&memory).latency_ns.mean
    };
    assert!(latency("rp_all = 200") > latency("rp_all = 20"));
}

#[test]
fn a_write_of_persistent_memory_completes_so_much_after_it_is_accepted() {
    let latency = |accept: &str| {
        let memory =
            format!("{{ kind = \"pmem\", mode = \"detailed\", write_accept = \"{accept}\" }}");
        let more = [
            "hosts[0].workload.read_ratio=0.0",
            "devices[0].controller.write_completion=\"written\"",
            &format!("devices[0].memory={memory}"),
        ];
        report(ONE_DEVICE, &more).latency_ns.mean
    };
    let found = latency("140 ns") - latency("90 ns");
    assert!((found - 50.0).abs() < 0.5, "{found}");
}

#[test]
fn an_atomic_operation_by_dma_takes_one_access_to_a_buffer_of_the_accelerator() {
    let time_ns = |buffer_cycles: u32| {
        let more = [
            "hosts[0].workload={ kind = \"circus-tent\", interface = \"pcie\", iterations = 200 }",
            "hosts[0].nodes=[{ capacity = \"1 GiB\", memory = { kind = \"fixed\" } }]",
            "accelerators[0].device.cycle=\"2.5 ns\"",
            &format!("accelerators[0].device.buffer_cycles={buffer_cycles}"),
        ];
        report(&cxlab_tests::shipped("cohet-fpga"), &more)
            .extent
            .sim_time_ns
    };
    // Between the DMA read and the DMA write of each operation the changed word is stored.
    let found = time_ns(104) - time_ns(4);
    assert!((found - 200.0 * 100.0 * 2.5).abs() < 1e-3, "{found}");
}

#[test]
fn pages_go_to_cxl_memory_before_a_far_node_with_cores_where_that_is_as_far() {
    let text = r#"
name = "distances"
[measure]
warmup_requests = 0
[fabric]
topology = { kind = "direct" }
[[hosts]]
name = "cpu"
nodes = [{ capacity = "2 MiB" }, { capacity = "64 MiB", at = { socket = 1 } }]
workload = { kind = "stream-threads", array = "4 MiB", loops = ["copy"] }
processor = { socket_time = "45 ns", llc = { size = "64 KiB", ways = 16 }, l2 = { size = "16 KiB", ways = 8, access_time = "5 ns" }, l1 = { size = "8 KiB", ways = 8, access_time = "1 ns" } }
os = {}
[[devices]]
name = "mem"
capacity = "256 MiB"
"#;
    // The other socket takes 90 ns + 2 x 45 ns, which is 20 where 90 ns is 10. A node with cores counts as one
    // farther.
    for (cxl_distance, to_device) in [(11, true), (20, true), (21, false), (127, false)] {
        let set = format!("hosts[0].os.cxl_distance={cxl_distance}");
        let reads = report(text, &[&set]).devices[0].reads;
        assert_eq!(reads > 0, to_device, "{cxl_distance}: {reads} lines");
    }
}

/// A workload at a medium of 6.4 GB/s, a line every 10 ns: useful bandwidth, and lines read in vain.
fn overfetched(workload: &str, overfetch: &str) -> (f64, u64) {
    let keys = [
        format!("hosts[0].workload={{ {workload}, read_ratio = 1.0 }}"),
        format!("hosts[0].issue={{ outstanding = 64{overfetch} }}"),
        "devices[0].memory={ kind = \"fixed\", bandwidth = \"6.4 GB/s\" }".to_owned(),
        "hosts[0].requests=40000".to_owned(),
        "measure.warmup_requests=2000".to_owned(),
    ];
    let report = report(ONE_DEVICE, &keys.each_ref().map(String::as_str));
    let total = report.requests.overfetched;
    (report.bandwidth_gb_per_s.total, total)
}

#[test]
fn what_prefetchers_read_in_vain_takes_its_share_of_the_bandwidth() {
    let near = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 0.01, "{found}, {expected}");
    };
    let pairs = ", overfetch = { after = 1, within = \"128 B\" }";
    for stride in [2, 4, 8] {
        let workload = format!("kind = \"stride\", stride = \"{} B\"", 64 * stride);
        near(overfetched(&workload, "").0, 6.4);
        near(overfetched(&workload, pairs).0, 3.2);
    }
    // A stream uses the other line of each pair.
    assert_eq!(overfetched("kind = \"stream\"", pairs).1, 0);
    // Four blocks of 1 KiB in a page: four lines beyond each but the last.
    let random = "kind = \"uniform\", request = \"1 KiB\"";
    let streamer = ", overfetch = { after = 16, beyond = 4 }";
    near(overfetched(random, streamer).0, 6.4 * 16.0 / 19.0);
    let longer = ", overfetch = { after = 17, beyond = 4 }";
    near(overfetched(random, longer).0, 6.4);
}
