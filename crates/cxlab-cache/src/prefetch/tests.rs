use cxlab_engine::catalog::find;
use serde_json::{Value, json};

use super::{CATALOG, PageAccessResult, PrefetchCandidates, Prefetcher};

fn prefetcher(name: &str, params: Value) -> Box<dyn Prefetcher> {
    let entry = find(CATALOG, name).unwrap();
    (entry.build)(&params).unwrap().state()
}

/// The pages prefetched at each page of a list. Each page misses and is filled before the next.
fn asked(prefetcher: &mut dyn Prefetcher, pages: &[u64]) -> Vec<Vec<u64>> {
    let mut lists = Vec::new();
    for page in pages {
        let mut wanted = PrefetchCandidates::default();
        prefetcher.accessed(*page, PageAccessResult::Miss, &mut wanted);
        prefetcher.filled(*page, false);
        for page in wanted.as_slice() {
            prefetcher.filled(*page, true);
        }
        lists.push(wanted.as_slice().to_vec());
    }
    lists
}

#[test]
fn next_page_asks_at_misses_and_first_uses_only() {
    let mut next = prefetcher("next-page", json!({ "degree": 2 }));
    for (outcome, expected) in [
        (PageAccessResult::Miss, vec![8, 9]),
        (PageAccessResult::PrefetchHit, vec![8, 9]),
        (PageAccessResult::Hit, vec![]),
    ] {
        let mut wanted = PrefetchCandidates::default();
        next.accessed(7, outcome, &mut wanted);
        assert_eq!(wanted.as_slice(), expected);
    }
}

#[test]
fn stride_follows_interleaved_streams_forwards_and_backwards() {
    let mut stride = prefetcher("stride", json!({ "degree": 2 }));
    let pages = [1000, 9000, 1003, 8999, 1006, 8998, 1009, 1009, 1020];
    let asked = asked(stride.as_mut(), &pages);
    assert!(asked[..4].iter().all(Vec::is_empty));
    assert_eq!(asked[4], [1009, 1012]);
    assert_eq!(asked[5], [8997, 8996]);
    assert_eq!(asked[6], [1012, 1015]);
    // The same page, and another distance.
    assert!(asked[7..].iter().all(Vec::is_empty));
}

#[test]
fn best_offset_finds_the_offset_of_a_pattern_and_stops_at_random() {
    let mut best = prefetcher("best-offset", json!({}));
    let pages: Vec<u64> = (0..20_000).map(|n| n * 6).collect();
    let lists = asked(best.as_mut(), &pages);
    let (page, last) = (pages[19_999], &lists[19_999]);
    assert!((last[0] - page).is_multiple_of(6), "{page} {last:?}");
    let random = (0..20_000u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 20);
    let lists = asked(best.as_mut(), &random.collect::<Vec<_>>());
    assert!(lists[19_999].is_empty());
}

#[test]
fn a_phase_of_best_offset_ends_at_the_highest_score_or_after_the_last_round() {
    // Every sixth page. Of the 52 offsets, tested in turn, 6 is the sixth, and scores in every round.
    let pages: Vec<u64> = (0..5_200).map(|n| n * 6).collect();
    let first_of_six = |score_max: u32, round_max: u32| {
        let params = json!({ "score_max": score_max, "round_max": round_max, "bad_score": 0 });
        let mut best = prefetcher("best-offset", params);
        let lists = asked(best.as_mut(), &pages);
        let of_six = |(list, page): (&Vec<u64>, &u64)| list.as_slice() == [page + 6];
        lists.iter().zip(&pages).position(of_six)
    };
    for limit in [1, 2, 31, 100] {
        let ends = 52 * (limit as usize - 1) + 5;
        assert_eq!(first_of_six(limit, 1000), Some(ends), "score_max {limit}");
        let ends = 52 * limit as usize - 1;
        assert_eq!(first_of_six(1000, limit), Some(ends), "round_max {limit}");
    }
}

#[test]
fn candidates_never_lie_below_the_device_and_are_bounded() {
    let mut stride = prefetcher("stride", json!({ "degree": 16 }));
    let asked = asked(stride.as_mut(), &[12, 8, 4]);
    assert_eq!(asked[2], [0]);
    for entry in CATALOG {
        let mut one = (entry.build)(&json!({})).unwrap().state();
        for page in 0..5_000 {
            let mut wanted = PrefetchCandidates::default();
            one.accessed(page, PageAccessResult::Miss, &mut wanted);
            assert!(wanted.as_slice().len() <= super::MAX_DEGREE as usize);
        }
    }
}

#[test]
fn wrong_parameters_say_what_is_allowed() {
    for (name, params) in [
        ("next-page", json!({ "degree": 0 })),
        ("next-page", json!({ "degree": 17 })),
        ("stride", json!({ "streams": 0 })),
        ("stride", json!({ "window": 0 })),
        ("best-offset", json!({ "recent": 0 })),
        ("best-offset", json!({ "bad_score": 31 })),
    ] {
        let error = (find(CATALOG, name).unwrap().build)(&params).err().unwrap();
        assert!(error.message.contains("allowed"), "{error}");
    }
    for entry in CATALOG {
        assert!((entry.build)(&json!({ "nonsense": 1 })).is_err());
    }
}
