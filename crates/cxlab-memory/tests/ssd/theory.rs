//! Published models of write amplification.
//!
//! `alpha` is the ratio of physical to logical pages without free blocks. Data are overwritten
//! uniformly unless said otherwise.

/// The zero of a falling function, by bisection.
fn root(mut low: f64, mut high: f64, value: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if value(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// First in, first out, also called LRU or cyclic cleaning. A page survives a round with
/// probability u = exp(-alpha (1 - u)), and the amplification is 1 / (1 - u), which is
/// alpha / (alpha + W(-alpha exp(-alpha))) with Lambert's W (Desnoyers, SYSTOR 2012; Xiang
/// and Kurkoski, 2012).
pub fn fifo(alpha: f64) -> f64 {
    let u = root(0.0, 1.0 - 1e-9, |u| (-alpha * (1.0 - u)).exp() - u);
    1.0 / (1.0 - u)
}

/// First in, first out, where a part `hot` of the data gets a part `rate` of the writes in shared
/// blocks (Desnoyers, SYSTOR 2012). The writes of each class in a round follow from the part of it
/// that survives, and both classes together fill the round.
pub fn fifo_hot_cold(alpha: f64, hot: f64, rate: f64) -> f64 {
    let class = |amplification: f64, writes: f64, data: f64| {
        let renewed = 1.0 - (-writes * alpha / (data * amplification)).exp();
        writes / amplification / renewed
    };
    root(1.0, 1e4, |a| {
        class(a, rate, hot) + class(a, 1.0 - rate, 1.0 - hot) - 1.0
    })
}

/// Cleaning of the block with the least valid data among `choices` random blocks of `pages` pages:
/// the fixed point of the mean field model of Van Houdt (SIGMETRICS 2013). One choice is random
/// cleaning, very many are greedy.
pub fn choice(alpha: f64, pages: u32, choices: f64) -> f64 {
    let valid = f64::from(pages) / alpha;
    // With `new` pages written in a round of one block, block counts follow from the top down.
    let mean = |new: f64| {
        let (mut below, mut sum) = (1.0f64, 0.0);
        for count in (1..=pages).rev() {
            let out = new * f64::from(count) / valid;
            let share = root(0.0, below, |share| {
                let taken = 1.0 - (1.0 - (below - share)).powf(choices);
                taken - out * share
            });
            sum += f64::from(count) * share;
            below -= share;
        }
        sum
    };
    let new = root(0.0, f64::from(pages), |new| mean(new) - valid);
    f64::from(pages) / new
}

/// Greedy cleaning, as the limit of `choice` for very many choices.
pub fn greedy(alpha: f64, pages: u32) -> f64 {
    choice(alpha, pages, 1e5)
}

/// Hot and cold data in separate blocks with the best division of spare space: a bound that no
/// mixed layout reaches (Desnoyers, SYSTOR 2012).
pub fn separated(alpha: f64, hot: f64, rate: f64, pages: u32) -> f64 {
    let spare = alpha - 1.0;
    let total = |part: f64| {
        let hot_alpha = 1.0 + spare * part / hot;
        let cold_alpha = 1.0 + spare * (1.0 - part) / (1.0 - hot);
        rate * greedy(hot_alpha, pages) + (1.0 - rate) * greedy(cold_alpha, pages)
    };
    let parts = (1..50).map(|part| total(f64::from(part) / 50.0));
    parts.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_give_published_values() {
        // Xiang and Kurkoski, abstract: over-provisioning 0.3 gives 2.36.
        assert!((fifo(1.3) - 2.36).abs() < 0.005, "{}", fifo(1.3));
        // Equal rates are the uniform case.
        assert!((fifo_hot_cold(1.2, 0.3, 0.3) - fifo(1.2)).abs() < 1e-6);
        // Random cleaning of uniform data: a block loses data at a constant rate and is taken at a
        // constant rate. So the data in a block that is taken are those of the average block.
        assert!(
            (choice(1.25, 64, 1.0) - 5.0).abs() < 1e-3,
            "{}",
            choice(1.25, 64, 1.0)
        );
        // Van Houdt: ten choices are close to greedy. Greedy is better than first in, first out,
        // and no better for blocks of very many pages.
        let (ten, all) = (choice(1.2, 64, 10.0), greedy(1.2, 64));
        assert!(all < ten && ten < 1.1 * all, "{all} {ten}");
        assert!(all < fifo(1.2));
        assert!((greedy(1.2, 2048) / fifo(1.2) - 1.0).abs() < 0.02);
    }
}
