use super::*;
use cxlab_engine::rng::StreamRng;

/// A standard normal value, nearly: the sum of twelve uniform ones.
fn normal(rng: &mut StreamRng) -> f64 {
    (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
}

fn batched(values: &[f64], count: usize) -> Vec<f64> {
    let length = values.len() / count;
    let batches = values.chunks_exact(length).take(count);
    let means = batches.map(|batch| batch.iter().sum::<f64>() / length as f64);
    means.collect()
}

/// How many of so many runs hold the true value in their interval, in percent.
fn coverage(runs: u64, inside: impl Fn(u64) -> bool) -> f64 {
    let count = (1..=runs).filter(|run| inside(*run)).count();
    100.0 * count as f64 / runs as f64
}

/// A first-order autoregressive series with mean 0, in its steady state.
fn autoregressive(seed: u64, phi: f64, count: usize) -> Vec<f64> {
    let mut rng = StreamRng::new(seed, "ar1");
    let mut value = normal(&mut rng) / (1.0 - phi * phi).sqrt();
    let next = |_| {
        value = phi * value + normal(&mut rng);
        value
    };
    (0..count).map(next).collect()
}

#[test]
fn student_t_is_that_of_the_tables() {
    for (degrees, expected) in [
        (1, 12.7062),
        (2, 4.3027),
        (4, 2.7764),
        (7, 2.3646),
        (8, 2.3060),
        (15, 2.1314),
        (31, 2.0395),
        (62, 1.9990),
    ] {
        let found = student_t(degrees);
        assert!((found - expected).abs() < 3e-4, "{degrees}: {found}");
    }
}

/// Of 4,000 intervals of five normal values, 95 % have the true mean, within four standard errors.
#[test]
fn an_independent_interval_has_the_mean_in_95_of_100_cases() {
    let mut rng = StreamRng::new(1, "interval");
    let hits = (0..4000).filter(|_| {
        let values = [(); 5].map(|()| 3.0 + 2.0 * normal(&mut rng));
        let (mean, half_width) = independent_interval(&values);
        half_width.is_some_and(|half| (mean - 3.0).abs() <= half)
    });
    let hits = hits.count();
    assert!(hits.abs_diff(3800) < 56, "{hits}");
    assert_eq!(independent_interval(&[2.0]), (2.0, None));
}

/// 2,000 runs put the standard error of a coverage at 0.5 points.
#[test]
fn intervals_of_an_autoregressive_series_hold_its_mean_in_93_to_97_of_100_runs() {
    // Correlation times of the window: very many, 100, 32.
    let (runs, batches) = (2_000, [32, 48, 63]);
    for phi in [0.0, 0.9, 0.969] {
        let mut inside = [0; 3];
        for seed in 1..=runs {
            let series = autoregressive(seed, phi, 2016);
            for (inside, batches) in inside.iter_mut().zip(batches) {
                let means = batched(&series, batches);
                let mean = means.iter().sum::<f64>() / batches as f64;
                *inside += u64::from(half_width(&means).is_ok_and(|width| mean.abs() <= width));
            }
        }
        let bounds = runs * 93 / 100..=runs * 97 / 100;
        let right = inside.iter().all(|inside| bounds.contains(inside));
        assert!(right, "{phi}: {inside:?} of {runs}");
    }
}

/// Means of batches of an exponential distribution, two values each: a skewness of 1.4.
#[test]
fn intervals_of_skewed_values_hold_their_mean_in_93_to_97_of_100_runs() {
    let found = coverage(2_000, |seed| {
        let mut rng = StreamRng::new(seed, "skewed");
        let values: Vec<f64> = (0..96).map(|_| -libm::log(1.0 - rng.unit())).collect();
        let means = batched(&values, 48);
        let mean = means.iter().sum::<f64>() / 48.0;
        half_width(&means).is_ok_and(|width| (mean - 1.0).abs() <= width)
    });
    assert!((93.0..=97.0).contains(&found), "{found}");
}

/// Waiting times by Lindley's recursion, binned by time of arrival: both requests and their wait are
/// random in each batch. The mean wait of M/D/1 is load / (2 (1 - load)) services.
#[test]
fn intervals_of_a_queue_hold_the_closed_form_in_93_to_97_of_100_runs() {
    let load = 0.7;
    let truth = load / (2.0 * (1.0 - load));
    let found = coverage(1_000, |seed| {
        let mut rng = StreamRng::new(seed, "queue");
        let (batches, length) = (48, 400.0);
        let (mut waits, mut counts) = (vec![0.0; batches], vec![0.0; batches]);
        let (mut now, mut wait) = (-50.0 * length, 0.0f64);
        loop {
            let gap = -libm::log(1.0 - rng.unit()) / load;
            now += gap;
            wait = (wait + 1.0 - gap).max(0.0);
            if now >= batches as f64 * length {
                break;
            }
            if now >= 0.0 {
                let batch = (now / length) as usize;
                waits[batch] += wait;
                counts[batch] += 1.0;
            }
        }
        let mean = waits.iter().sum::<f64>() / counts.iter().sum::<f64>();
        ratio_half_width(&waits, &counts).is_ok_and(|width| (mean - truth).abs() <= width)
    });
    assert!((93.0..=97.0).contains(&found), "{found}");
}

#[test]
fn a_constant_has_an_interval_of_zero_and_a_short_window_has_none() {
    assert_eq!(half_width(&[3.0; 20]), Ok(0.0));
    assert_eq!(half_width(&[3.0; 15]), Err(NoInterval::FewBatches));
    assert_eq!(ratio_half_width(&[0.3; 20], &[0.1; 20]), Ok(0.0));
    let few: Vec<f64> = (0..20).map(|at| f64::from(at % 2)).collect();
    assert_eq!(ratio_half_width(&few, &few), Err(NoInterval::FewRequests));
}

#[test]
fn a_ramp_says_nothing_of_its_own_variance() {
    let ramp: Vec<f64> = (0..30).map(f64::from).collect();
    assert_eq!(half_width(&ramp), Err(NoInterval::Correlated));
}

#[test]
fn mser_cuts_where_a_transient_ends() {
    let mut rng = StreamRng::new(1, "mser");
    let transient = |at: usize| 10.0 * libm::exp(-(at as f64) / 10.0);
    let values = (0..200).map(|at| 50.0 + transient(at) + normal(&mut rng));
    let values: Vec<f64> = values.collect();
    let cut = truncation(&values).expect("the transient ends in the first half");
    assert!((10..60).contains(&cut), "{cut}");
    assert_eq!(truncation(&[1.0; 100]), Some(0));
}

#[test]
fn mser_refuses_what_has_not_settled() {
    let ramp: Vec<f64> = (0..200).map(f64::from).collect();
    assert_eq!(truncation(&ramp), None);
    let late = (0..200).map(|at| if at < 120 { 1.0 } else { 2.0 });
    let late: Vec<f64> = late.collect();
    assert_eq!(truncation(&late), None);
    assert_eq!(truncation(&[1.0; 10]), None);
}

#[test]
fn a_drift_is_found_and_noise_is_not_one() {
    let noisy = |seed, step: f64| {
        let values = autoregressive(seed, 0.8, 48 * 40).into_iter().enumerate();
        let values = values.map(|(at, value)| 100.0 + value + step * at as f64 / 1920.0);
        drifts(&batched(&values.collect::<Vec<_>>(), 48), 100.0)
    };
    assert!(coverage(500, |seed| noisy(seed, 0.0)) < 1.0);
    assert!(coverage(500, |seed| noisy(seed, 6.0)) > 99.0);
    // What is certain but small is not worth a word.
    let small: Vec<f64> = (0..48).map(|at| 100.0 + f64::from(at / 24) / 2.0).collect();
    assert!(!drifts(&small, 100.0));
}

/// Student's t is exact for independent normal values, from two of them on: of 4,000 intervals 95 % hold the mean, with a
/// chance error of 0.34 points.
#[test]
fn intervals_of_independent_values_hold_the_mean_from_two_values_on() {
    for count in [2, 3, 5, 8, 20] {
        let found = coverage(4_000, |run| {
            let mut rng = StreamRng::new(run, "independent");
            let values: Vec<f64> = (0..count).map(|_| normal(&mut rng)).collect();
            let (mean, width) = independent_interval(&values);
            width.is_some_and(|width| mean.abs() <= width)
        });
        assert!((found - 95.0).abs() < 1.4, "{count} values: {found} %");
    }
    assert_eq!(independent_interval(&[]), (0.0, None));
    assert_eq!(independent_interval(&[3.5]), (3.5, None));
    assert_eq!(independent_interval(&[3.5; 4]), (3.5, Some(0.0)));
}
