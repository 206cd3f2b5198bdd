//! Estimators for one run: confidence intervals, the end of the warm-up, and drift. They see plain
//! values of batches of equal simulated time, and know nothing of the model.
//!
//! Sources:
//! - Intervals: batch means with Skart's adjustments of Student's t for correlation and skewness
//!   (A. Tafazzoli, J. R. Wilson, E. K. Lada, N. M. Steiger, *Performance of Skart: a skewness- and
//!   autocorrelation-adjusted batch means procedure for simulation analysis*, INFORMS Journal on
//!   Computing 23(2), 2011). A mean over requests is a ratio of two sums over time, estimated as in
//!   A. M. Law, *Simulation Modeling and Analysis*, 5th ed., section 9.5.3.
//! - Warm-up: MSER (K. P. White, *An effective truncation heuristic for bias reduction in simulation
//!   output*, Simulation 69(6), 1997) on batches, with the rule that a truncation point in the second
//!   half means too little data (K. Hoad, S. Robinson, R. Davies, *Automating warm-up length
//!   estimation*, Journal of the Operational Research Society 61(9), 2010).

/// Fewest batches that an interval is computed from.
pub(crate) const FEWEST_BATCHES: usize = 16;

/// Largest lag-1 correlation of batch means that is corrected for. Batches with a larger
/// correlation are too short to estimate the variance of the mean.
const MOST_CORRELATION: f64 = 0.8;

/// The last 1/16 of the values, and at least five, are left out of MSER's search: the variance of a few values is too
/// uncertain. Hoad et al. leave out five values.
const TAIL: usize = 16;

/// Largest relative change of the mean that does not count as a transient.
const TRANSIENT: f64 = 0.001;

/// Smallest change that [`drifts`] reports, as a part of the mean.
const DRIFT: f64 = 0.01;

/// The 0.975 quantile of Student's t: the half-width of a 95 % interval, in standard errors.
/// Cornish-Fisher expansion (Abramowitz and Stegun, 26.7.5), whose error is below 0.0002 from eight
/// degrees of freedom on; below, values of their table 26.10 with more digits.
fn student_t(degrees: usize) -> f64 {
    const FEW: [f64; 7] = [
        12.706_204_736,
        4.302_652_730,
        3.182_446_305,
        2.776_445_105,
        2.570_581_836,
        2.446_911_851,
        2.364_624_252,
    ];
    if let Some(quantile) = degrees.checked_sub(1).and_then(|at| FEW.get(at)) {
        return *quantile;
    }
    const Z: f64 = 1.959_963_984_540_054;
    let n = degrees as f64;
    let z2 = Z * Z;
    let first = Z * (z2 + 1.0) / 4.0;
    let second = Z * ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0;
    let third = Z * (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0;
    let fourth = Z * ((((79.0 * z2 + 776.0) * z2 + 1482.0) * z2 - 1920.0) * z2 - 945.0) / 92160.0;
    Z + (first + (second + (third + fourth / n) / n) / n) / n
}

/// Mean and sum of squared deviations.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let squares = values.iter().map(|value| (value - mean) * (value - mean));
    (mean, squares.sum())
}

/// Magnitude of the sample skewness beyond its standard error for normal values. Without this
/// correction, chance alone would widen the intervals of symmetric values.
fn skewness(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let (mean, squares) = moments(values);
    let deviations = values.iter().map(|value| value - mean);
    let cubes: f64 = deviations.map(|one| one * one * one).sum();
    let deviation = (squares / (n - 1.0)).sqrt();
    let skewness = n / ((n - 1.0) * (n - 2.0)) * cubes / (deviation * deviation * deviation);
    (skewness.abs() - (6.0 / n).sqrt()).max(0.0)
}

/// A quantile `t` of Student's t for a mean whose own distribution has that skewness: the wider of the two sides of
/// Willink's interval, as Skart takes it, for a symmetric one.
fn skewed_t(t: f64, skewness: f64) -> f64 {
    let beta = skewness / 6.0;
    if beta < 1e-6 {
        return t;
    }
    (1.0 - libm::cbrt(1.0 - 6.0 * beta * (t + beta))) / (2.0 * beta)
}

/// Half-width of the 95 % confidence interval of the mean of a stationary series, of which these are
/// the means of successive batches of equal length.
///
/// # Errors
/// Why there is no interval.
pub(crate) fn half_width(means: &[f64]) -> Result<f64, NoInterval> {
    let scale = moments(means).0;
    half_width_of(means.to_vec(), scale)
}

/// As [`half_width`], where deviations of a billionth of `scale` are rounding errors.
fn half_width_of(mut means: Vec<f64>, scale: f64) -> Result<f64, NoInterval> {
    if means.len() < FEWEST_BATCHES {
        return Err(NoInterval::FewBatches);
    }
    loop {
        let (mean, squares) = moments(&means);
        let n = means.len() as f64;
        if squares <= n * (1e-9 * scale) * (1e-9 * scale) {
            return Ok(0.0);
        }
        let products = means
            .windows(2)
            .map(|two| (two[0] - mean) * (two[1] - mean));
        // A negative correlation would narrow the interval. Its estimate is too uncertain for that.
        let correlation = (products.sum::<f64>() / squares).max(0.0);
        if correlation <= MOST_CORRELATION {
            let inflation = (1.0 + correlation) / (1.0 - correlation);
            let variance = inflation * squares / (n * (n - 1.0));
            let skewness = skewness(&means) / (n / inflation).sqrt();
            return Ok(skewed_t(student_t(means.len() - 1), skewness) * variance.sqrt());
        }
        if means.len() / 2 < FEWEST_BATCHES {
            return Err(NoInterval::Correlated);
        }
        // Longer batches are less correlated.
        let longer = means.chunks_exact(2).map(|two| (two[0] + two[1]) / 2.0);
        means = longer.collect();
    }
}

/// Half-width of the 95 % confidence interval of the ratio of two sums over time, such as latency
/// over requests, from what successive batches of equal length added to each.
///
/// # Errors
/// Why there is no interval.
pub(crate) fn ratio_half_width(above: &[f64], below: &[f64]) -> Result<f64, NoInterval> {
    let Residuals {
        values,
        scale,
        mean,
    } = Residuals::of(above, below)?;
    half_width_of(values, scale).map(|width| width / mean)
}

/// An interval from sampling units that are far apart, so that no correlation is corrected.
///
/// # Errors
/// Why there is no interval.
pub(crate) fn sampled_half_width(above: &[f64], below: &[f64]) -> Result<f64, NoInterval> {
    let Residuals { values, mean, .. } = Residuals::of(above, below)?;
    let n = values.len() as f64;
    let variance = moments(&values).1 / (n * (n - 1.0));
    let t = skewed_t(student_t(values.len() - 1), skewness(&values) / n.sqrt());
    Ok(t * variance.sqrt() / mean)
}

/// Mean of independent values, such as those of runs with different seeds, and half of its 95 % confidence interval by
/// Student's t; `None` below two values.
pub(crate) fn independent_interval(values: &[f64]) -> (f64, Option<f64>) {
    if values.is_empty() {
        return (0.0, None);
    }
    let (mean, squares) = moments(values);
    let n = values.len() as f64;
    let width = (values.len() > 1)
        .then(|| student_t(values.len() - 1) * (squares / (n * (n - 1.0))).sqrt());
    (mean, width)
}

/// Whether a ratio of two sums drifts within sampling units: its value in their second halves differs from that in
/// their first halves by more than three standard errors and by more than 1 %.
pub(crate) fn drifts_within(first: [&[f64]; 2], second: [&[f64]; 2]) -> bool {
    let sums = [first, second].map(|half| half.map(|column| column.iter().sum::<f64>()));
    let [[a, n], [b, m]] = sums;
    let units = first[0].len();
    if units < FEWEST_BATCHES || n <= 0.0 || m <= 0.0 {
        return false;
    }
    let ratios = [a / n, b / m];
    let means = [n, m].map(|sum| sum / units as f64);
    let residual = |half: [&[f64]; 2], at: usize, number: usize| {
        (half[0][at] - ratios[number] * half[1][at]) / means[number]
    };
    let differences = (0..units).map(|at| residual(second, at, 1) - residual(first, at, 0));
    let differences: Vec<f64> = differences.collect();
    let error = (moments(&differences).1 / (units as f64 * (units as f64 - 1.0))).sqrt();
    let whole = (a + b) / (n + m);
    let change = (ratios[1] - ratios[0]).abs();
    change > (1.5 * student_t(units - 1) * error).max(DRIFT * whole)
}

/// How far one sum is from a ratio times another, unit by unit.
struct Residuals {
    values: Vec<f64>,
    /// Deviations of a billionth of this scale are rounding errors.
    scale: f64,
    mean: f64,
}

impl Residuals {
    fn of(above: &[f64], below: &[f64]) -> Result<Residuals, NoInterval> {
        if below.iter().filter(|value| **value > 0.0).count() < FEWEST_BATCHES {
            return Err(match below.len() < FEWEST_BATCHES {
                true => NoInterval::FewBatches,
                false => NoInterval::FewRequests,
            });
        }
        let total: f64 = below.iter().sum();
        let ratio = above.iter().sum::<f64>() / total;
        let residual = |(above, below): (&f64, &f64)| above - ratio * below;
        let values = above.iter().zip(below).map(residual).collect();
        let mean = total / below.len() as f64;
        Ok(Residuals {
            values,
            scale: ratio * mean,
            mean,
        })
    }
}

/// Why a value has no confidence interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoInterval {
    /// The window is shorter than [`FEWEST_BATCHES`] batches.
    FewBatches,
    /// Fewer than [`FEWEST_BATCHES`] batches completed a request.
    FewRequests,
    /// Successive batches are so correlated that the window says nothing of its own variance.
    Correlated,
}

/// MSER: how many values at the beginning to leave out, so that the mean of the others has the smallest estimated
/// standard error. `None` where the truncation point is in the second half and the mean after it differs from that of
/// the half by more than 0.1 %: the values are too few, or still in their transient.
pub(crate) fn truncation(values: &[f64]) -> Option<usize> {
    let count = values.len();
    if count < FEWEST_BATCHES {
        return None;
    }
    let tail = (count / TAIL).max(5);
    let mut best = (f64::INFINITY, count);
    let (mut mean, mut squares, mut kept) = (0.0, 0.0, 0.0);
    // Welford's recurrence from the end, so that each candidate costs the same.
    for (at, value) in values.iter().enumerate().rev() {
        kept += 1.0;
        let delta = value - mean;
        mean += delta / kept;
        squares += delta * (value - mean);
        // On a tie the earlier point wins: it keeps more.
        let error = squares / (kept * kept);
        if count - at > tail && error <= best.0 {
            best = (error, at);
        }
    }
    let half = count / 2;
    // What is left of a transient may be certain without mattering.
    let means = [half, best.1.max(half)].map(|from| moments(&values[from..]).0);
    let settled = (means[0] - means[1]).abs() <= TRANSIENT * means[1].abs();
    settled.then_some(best.1.min(half))
}

/// Whether a mean over the window drifts: the means of its halves differ by more than chance explains, at a level of
/// about 0.3 %, with the same correction for correlation as intervals have, and by more than 1 % of `scale`.
pub(crate) fn drifts(means: &[f64], scale: f64) -> bool {
    if means.len() < FEWEST_BATCHES {
        return false;
    }
    let (first, second) = means.split_at(means.len() / 2);
    let ((a, a2), (b, b2)) = (moments(first), moments(second));
    let squares = a2 + b2;
    // Deviations from the mean of their own half: a step between the halves is no correlation.
    let within = |half: &[f64], mean: f64| {
        let products = half.windows(2).map(|two| (two[0] - mean) * (two[1] - mean));
        products.sum::<f64>()
    };
    let correlation = match squares > 0.0 {
        true => (within(first, a) + within(second, b)) / squares,
        false => 0.0,
    };
    let correlation = correlation.clamp(0.0, MOST_CORRELATION);
    let inflation = (1.0 + correlation) / (1.0 - correlation);
    let (n, m) = (first.len() as f64, second.len() as f64);
    let error = (inflation * squares / (n + m - 2.0) * (1.0 / n + 1.0 / m)).sqrt();
    // 1.5 half-widths at 95 % are about 3 standard errors.
    (a - b).abs() > (1.5 * student_t(means.len() - 2) * error).max(DRIFT * scale)
}

#[cfg(test)]
mod tests;
