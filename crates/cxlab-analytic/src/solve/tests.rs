use super::*;
use crate::flow::ConstantStages;
use crate::medium::MediumModel;
use crate::network::HostLimits;

/// Hosts that share a medium with 10 ns a line, at a distance of `away_ps`.
fn shared(hosts: usize, outstanding: f64, interval_ps: f64, away_ps: u64) -> Network {
    let medium = MediumModel {
        read_ps: 0,
        write_ps: 0,
        constant: true,
        service_ps: 10_000.0,
        half_wait_ps: 5_000.0,
        places: 1e9,
    };
    let flow = |host: usize| Flow {
        host: host as u32,
        device: Some(0),
        write: false,
        share: 1.0,
        counts: true,
        posted: false,
        hops: 1,
        stages: ConstantStages {
            link: away_ps,
            ..ConstantStages::default()
        },
        visits: vec![Visit {
            station: 0,
            class: MessageClass::Req,
            from: None,
            share: 1.0,
        }],
    };
    let limits = HostLimits {
        outstanding,
        interval_ps,
    };
    Network {
        stations: vec![Station::Medium(medium)],
        arbitration: Arbitration::RoundRobin,
        hosts: vec![limits; hosts],
        flows: (0..hosts).map(flow).collect(),
    }
}

fn total(solution: &Solution) -> f64 {
    solution.rates.iter().sum()
}

#[test]
fn one_request_at_a_time_never_waits() {
    let solution = solve(&shared(1, 1.0, 0.0, 100_000));
    assert_eq!(solution.latency_ps, [100_000.0]);
    assert!((total(&solution) * 100_000.0 - 1.0).abs() < 1e-9);
}

/// Many paced hosts form a Poisson stream, and the medium is an M/D/1 queue.
#[test]
fn a_stream_of_many_hosts_waits_as_in_an_m_d_1_queue() {
    for used in [0.2, 0.5, 0.8, 0.95] {
        let hosts = 400;
        let solution = solve(&shared(hosts, 1000.0, hosts as f64 * 1e4 / used, 100_000));
        let wait = used * 10_000.0 / 2.0 / (1.0 - used);
        let found = solution.latency_ps[0] - 100_000.0;
        assert!((found / wait - 1.0).abs() < 0.01, "{used}: {found} {wait}");
        assert!(solution.settled);
    }
}

/// Requests beyond the capacity wait at the station, and Little's law gives the latency.
#[test]
fn a_full_station_gives_its_rate_and_littles_law_the_latency() {
    for (outstanding, interval) in [(64.0, 0.0), (64.0, 20_000.0)] {
        let solution = solve(&shared(4, outstanding, interval, 100_000));
        assert!(solution.settled);
        let rate = total(&solution);
        // W = R / (1 - u), so the unused part of the capacity is R / W.
        let used = solution.stations[0].used;
        let left = used * 5_000.0 / (solution.latency_ps[0] - 100_000.0);
        assert!(((1.0 - used) / left - 1.0).abs() < 0.02, "{used} {left}");
        assert!(left < 0.003);
        let latency = 4.0 * outstanding / rate;
        assert!((solution.latency_ps[0] / latency - 1.0).abs() < 1e-6);
    }
}

#[test]
fn more_latency_never_gives_a_higher_rate() {
    let mut last = f64::INFINITY;
    for away in (0..40).map(|step| 1_000 + 25_000 * step) {
        let rate = total(&solve(&shared(3, 16.0, 0.0, away)));
        assert!(rate <= last * (1.0 + 1e-9), "{away}: {rate} after {last}");
        last = rate;
    }
}
