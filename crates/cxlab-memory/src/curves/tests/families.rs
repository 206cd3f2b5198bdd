//! Families that are refused, and the envelope of wavy points.

use super::family;

const RISING: [[f64; 3]; 3] = [
    [100.0, 1000.0, 100.0],
    [100.0, 2000.0, 110.0],
    [100.0, 3000.0, 150.0],
];

#[test]
fn latency_is_linear_between_points_and_constant_beyond() {
    let curves = family(&RISING, 0.0).unwrap();
    let curve = &curves.curves()[0];
    for (mb_per_s, latency_ns) in [
        (1.0, 100.0),
        (1000.0, 100.0),
        (1500.0, 105.0),
        (2500.0, 130.0),
        (3000.0, 150.0),
        (9000.0, 150.0),
    ] {
        assert_eq!(curve.latency_ns(mb_per_s), latency_ns);
    }
    let (read_percent, point, in_flight) = curves.fullest();
    assert_eq!((read_percent, point.mb_per_s), (100.0, 3000.0));
    // 3 GB/s * 150 ns = 450 B.
    assert!((in_flight - 450.0 / 64.0).abs() < 1e-12);
}

#[test]
fn points_above_the_envelope_are_left_out_within_the_noise_and_refused_beyond() {
    // 112 ns at 1.9 GB/s, though 2 GB/s take 110 ns: 2.75 % above 109 ns.
    let mut wavy = RISING.to_vec();
    wavy.push([100.0, 1900.0, 112.0]);
    let curves = family(&wavy, 0.05).unwrap();
    let curve = &curves.curves()[0];
    assert_eq!((curve.points.len(), curve.left_out), (3, 1));
    assert!((curve.largest_noise - (112.0 / 109.0 - 1.0)).abs() < 1e-12);
    let error = family(&wavy, 0.02).unwrap_err();
    assert!(
        error.starts_with("file.csv:5: latency: found 112.000000 ns at 1900.000000 MB/s"),
        "{error}"
    );
    assert!(
        error.contains("2.8 % from the curve of 100 % reads"),
        "{error}"
    );
}

/// Four points of the public file of Mess for two sockets of Skylake and 60 % reads, in clocks: the
/// bandwidth falls from its peak as more requests are kept in flight.
#[test]
fn saturated_points_of_any_latency_are_left_out() {
    let points = [
        [60.0, 46696.67, 1299.25],
        [60.0, 46378.70, 1460.00],
        [60.0, 46155.69, 1378.84],
        [60.0, 26318.20, 373.20],
    ];
    let curves = family(&points, 0.05).unwrap();
    let curve = &curves.curves()[0];
    assert_eq!((curve.points.len(), curve.left_out), (2, 2));
    assert!(curve.largest_noise < 0.012, "in bandwidth");
    assert_eq!(curve.peak().latency_ns, 1299.25);
}

#[test]
fn families_that_no_memory_can_have_are_refused() {
    for (points, says) in [
        (vec![], "file.csv:1: found no points; allowed: two at least"),
        (
            vec![[50.0, 1.0, 1.0]],
            "file.csv:2: found 1 point of 50 % reads; allowed: two at least",
        ),
        (
            vec![[50.0, 1000.0, 101.0], [50.0, 1001.0, 100.0]],
            "file.csv:3: found one point of 50 % reads that has least latency and most bandwidth",
        ),
        (
            [
                RISING.to_vec(),
                vec![[0.0, 100.0, 9.0], [0.0, 300_001.0, 10.0]],
            ]
            .concat(),
            "file.csv:6: bandwidth: found 300001 MB/s; allowed: at most 100 times the least peak of the \
             family, 3000 MB/s at 100 % reads",
        ),
        (
            vec![
                [50.0, 1000.0, 300.0],
                [50.0, 2000.0, 100.0],
                [50.0, 3000.0, 200.0],
            ],
            "file.csv:2: latency: found 300.000000 ns at 1000.000000 MB/s",
        ),
    ] {
        let error = family(&points, 0.05).unwrap_err();
        assert!(error.starts_with(says), "{error}");
    }
    let flat = [[50.0, 1000.0, 100.0], [50.0, 2000.0, 100.0]];
    assert_eq!(family(&flat, 0.0).unwrap().curves()[0].points.len(), 2);
}
