use super::*;
use crate::density::tests::number;

fn run(steps: &[Step]) -> WindowUse {
    let mut window = Window::new(2, Overlap::default());
    for step in steps {
        // Addresses from 2^40 on are in pool 1.
        window.step(step, &mut |address| Some(usize::from(address >= 1 << 40)));
    }
    window.finish()
}

fn far(number: u64) -> u64 {
    number * 7919 * 4096
}

/// So many loads in lines far from each other, whose addresses need register 1.
fn loads(count: u64, writes: u8) -> Vec<Step> {
    let load = |at| Step::load(far(at), &[1], &[writes]);
    (0..count).map(load).collect()
}

/// Instructions of which one in each `every` is a step, the first of them number `first`.
fn spaced(count: u64, every: u64, first: u64, step: impl Fn(u64) -> Step) -> Vec<Step> {
    let of = |at| match at % every == first {
        true => step(at),
        false => Step::default(),
    };
    (0..count).map(of).collect()
}

/// The use of instructions in a window, all of whose lines are in pool 0.
fn used(mut window: Window, steps: &[Step]) -> WindowUse {
    for step in steps {
        window.step(step, &mut |_| Some(0));
    }
    window.finish()
}

#[test]
fn a_chain_waits_for_every_miss() {
    let found = run(&loads(1000, 1));
    assert_eq!(found.instructions, 1000);
    assert!((found.pools[0].waits - 1000.0).abs() < 1e-9, "{found:?}");
    assert!((found.pools[0].reads - 1000.0).abs() < 1e-9);
    assert_eq!(found.pools[1], PoolUse::default());
}

#[test]
fn independent_misses_wait_for_the_fill_buffers() {
    let waits = run(&loads(1024, 2)).pools[0].waits;
    assert!((waits - 1024.0 / 12.0).abs() < 1e-6, "{waits}");
}

#[test]
fn a_stream_is_prefetched_and_a_line_misses_once() {
    // Eight loads read each line.
    let steps: Vec<Step> = (0..4096).map(|at| Step::load(at * 8, &[1], &[2])).collect();
    let found = run(&steps).pools[0];
    assert!((found.reads - 512.0).abs() < 1e-9);
    // One latency for the first line, and for the others what the prefetcher does not hide.
    assert!(found.waits < 512.0 / 16.0 + 2.0, "{found:?}");
    assert!(found.waits > 512.0 / 16.0 * 0.9, "{found:?}");
}

/// One line each 100 instructions. Within a page each line costs 1/16 of a latency, which
/// computing hides. The first line of a page is a miss.
#[test]
fn a_stream_misses_at_the_beginning_of_each_page() {
    let steps = spaced(12_800, 100, 0, |at| Step::load(at / 100 * 64, &[1], &[2]));
    let found = run(&steps);
    let waits: Vec<f64> = found.blocks.iter().map(|block| block.waits(1.0)).collect();
    assert_eq!(waits.iter().filter(|waits| **waits == 1.0).count(), 2);
    assert_eq!(
        waits.iter().filter(|waits| **waits < 0.2).count(),
        waits.len() - 2
    );
}

/// Each block reads stream lines that take half a latency. After a block that waits for the
/// first line of a page they have arrived. After a block that computes for as long as they take
/// they stay ahead. Otherwise the block waits for them.
#[test]
fn a_stream_comes_while_the_block_before_it_waits() {
    let streamed = BlockUse {
        instructions: 1,
        fill_time: vec![0.5],
        ..BlockUse::default()
    };
    let first = BlockUse {
        nodes: vec![Node::Miss(0, 0)],
        demand_misses: vec![1],
        ..streamed.clone()
    };
    let mut ahead = 0.0;
    let times: Vec<f64> = [&first, &streamed, &streamed, &first, &streamed, &streamed]
        .map(|block| block.time(&[100.0], 1.0, 10.0, &mut ahead))
        .to_vec();
    assert_eq!(times, [100.0, 10.0, 40.0, 100.0, 10.0, 40.0]);
    // Long enough computing hides all of the lines. They get at most one latency ahead.
    let mut ahead = 0.0;
    let times: Vec<f64> = [60.0, 60.0, 1000.0, 1.0, 1.0, 1.0]
        .map(|computing| streamed.time(&[100.0], 1.0, computing, &mut ahead))
        .to_vec();
    assert_eq!(times, [60.0, 60.0, 1000.0, 1.0, 1.0, 48.0]);
}

/// A miss in a hundred blocks takes longer than computing, which the mean of all blocks does not. So a block takes what
/// the formula of its two cases says, at each chance.
#[test]
fn a_rare_miss_is_not_hidden_by_the_computing_of_other_blocks() {
    let block = BlockUse {
        instructions: 400,
        nodes: vec![Node::Miss(0, 0)],
        fill_time: vec![1.0],
        demand_fill_time: 1.0,
        demand_misses: vec![1],
        wait_shares: vec![1.0],
    };
    let time = |latency, chance| block.time(&[latency], chance, 100.0, &mut 0.0);
    for chance in [0.0, 0.01, 0.25, 0.9, 1.0] {
        for latency in [50.0, 150.0, 300.0_f64] {
            let expected = (1.0 - chance) * 100.0 + chance * latency.max(100.0);
            assert!((time(latency, chance) - expected).abs() < 1e-9);
        }
    }
    // Of loads that wait for nothing but memory, a block has two, the first of which misses, and nine that do not
    // miss are between two blocks.
    let two = BlockUse {
        nodes: vec![Node::Miss(0, 0), Node::Miss(0, 0)],
        fill_time: vec![0.2],
        demand_misses: vec![2],
        ..block
    };
    let found = two.time(&[300.0], 0.1, 100.0, &mut 0.0);
    assert!(
        (found - (9.0 * 100.0 + 2.0 * 300.0) / 11.0).abs() < 1e-9,
        "{found}"
    );
}

#[test]
fn what_lies_before_a_window_is_known_and_not_counted() {
    let steps: Vec<Step> = (0..2048).map(|at| Step::load(at * 8, &[1], &[2])).collect();
    let found = used(Window::new(1, Overlap::default()).after(LEAD_IN), &steps);
    assert_eq!(found.instructions, 2048 - LEAD_IN);
    assert_eq!(found.pools[0].reads, (2048 - LEAD_IN) as f64 / 8.0);
    let code: u32 = found.code.iter().map(|(_, count)| count).sum();
    assert_eq!(u64::from(code), 2048 - LEAD_IN);
}

#[test]
fn stores_go_through_the_buffers_and_their_lines_travel_twice() {
    let steps: Vec<Step> = (0..256).map(|at| Step::store(far(at))).collect();
    let found = run(&steps).pools[0];
    assert_eq!((found.reads, found.writes), (256.0, 256.0));
    assert!((found.waits - 256.0 / 12.0).abs() < 1e-6, "{found:?}");
}

/// One store each hundred instructions: three fit the buffer. Younger instructions wait until
/// the stored lines arrive, as with loads.
#[test]
fn a_store_holds_its_place_until_its_line_is_there() {
    let found = run(&spaced(900, 100, 50, |at| Step::store(far(at))));
    assert_eq!(found.blocks.len(), 3);
    assert_eq!(found.pools[0].waits, 3.0);
}

#[test]
fn a_line_that_is_read_and_then_stored_to_goes_back_once() {
    let twice = |at| [Step::load(far(at), &[1], &[2]), Step::store(far(at))];
    let steps: Vec<Step> = (0..100).chain(0..100).flat_map(twice).collect();
    let found = run(&steps).pools[0];
    assert_eq!((found.reads, found.writes), (100.0, 100.0));
    // A line that was stored to before the window began is not counted again.
    let window = Window::new(1, Overlap::default()).after(200);
    let found = used(window, &steps).pools[0];
    assert_eq!((found.reads, found.writes), (0.0, 0.0));
}

#[test]
fn where_misses_are_known_the_cache_says_when_a_line_goes_back() {
    let mut window = Window::exact(2, Overlap::default());
    for at in 0..8 {
        window.step(&Step::store(far(at)), &mut |_| Some(0));
    }
    window.write_back(1);
    let found = window.finish();
    assert_eq!((found.pools[0].reads, found.pools[0].writes), (8.0, 0.0));
    assert_eq!((found.pools[1].reads, found.pools[1].writes), (0.0, 1.0));
}

/// A stream whose use is taken in parts gives the same result: lines count once, blocks stay
/// whole, and there are no false misses.
#[test]
fn what_is_taken_of_a_window_cuts_nothing() {
    let steps = spaced(12_800, 100, 0, |at| Step::load(at / 100 * 64, &[1], &[2]));
    let whole = used(Window::exact(1, Overlap::default()), &steps);
    let mut parts = Window::exact(1, Overlap::default());
    let mut taken = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        parts.step(step, &mut |_| Some(0));
        if at % 700 == 699 {
            taken.push(parts.take());
        }
    }
    taken.push(parts.finish());
    assert!(taken.len() > 10);
    let blocks: Vec<BlockUse> = taken.iter().flat_map(|part| part.blocks.clone()).collect();
    assert_eq!(blocks, whole.blocks);
    let sum = |of: fn(&WindowUse) -> u64| taken.iter().map(of).sum::<u64>();
    assert_eq!(sum(|part| part.instructions), whole.instructions);
    assert_eq!(sum(|part| part.idle), whole.idle);
    let reads: f64 = taken.iter().map(|part| part.pools[0].reads).sum();
    assert_eq!((reads, whole.pools[0].reads), (128.0, 128.0));
}

#[test]
fn waits_are_shared_out_by_the_pools_misses() {
    let steps: Vec<Step> = (0..1000)
        .map(|at| {
            let high = if at % 4 == 0 { 1 << 40 } else { 0 };
            Step::load(far(at) + high, &[1], &[1])
        })
        .collect();
    let found = run(&steps);
    let all = found.pools[0].waits + found.pools[1].waits;
    assert!((all - 1000.0).abs() < 1e-6);
    assert!((found.pools[1].waits / all - 0.25).abs() < 0.01);
}

#[test]
fn a_line_that_was_touched_is_not_waited_for_again() {
    let steps: Vec<Step> = (0..1000)
        .map(|at| Step::load(far(at % 10), &[1], &[1]))
        .collect();
    assert_eq!(run(&steps).pools[0].reads, 10.0);
}

/// A load in twenty instructions, of which each misses with the same probability. Whether it is known which ones miss,
/// or only how many: the waits are as many.
#[test]
fn misses_that_are_known_and_their_probability_have_as_many_waits() {
    let steps = spaced(400_000, 20, 0, |at| Step::load(far(at), &[1], &[2]));
    let all = run(&steps);
    for chance in [0.05, 0.1, 0.25, 0.5, 0.75, 0.95] {
        let mut state = 1;
        let mut drawn = || {
            let mut exact = Window::exact(1, Overlap::default());
            for step in &steps {
                exact.step(step, &mut |_| {
                    let drawn = number(&mut state) % 1000;
                    (drawn < (1000.0 * chance) as u64).then_some(0)
                });
            }
            exact.finish().pools[0].waits
        };
        let exact = (0..8).map(|_| drawn()).sum::<f64>() / 8.0;
        let found: f64 = all.blocks.iter().map(|block| block.waits(chance)).sum();
        let error = found / exact - 1.0;
        assert!(error.abs() < 0.02, "{chance}: {found} for {exact}");
    }
}

/// Eight independent loads, and eight in a chain, with a cache that holds half of their lines.
#[test]
fn what_a_cache_holds_shortens_a_chain_but_one_miss_is_still_a_wait() {
    let chain: Vec<Node> = (0..8).map(|at| Node::Miss(0, at)).collect();
    let block = |nodes: &[Node], fetched| BlockUse {
        instructions: 256,
        nodes: nodes.to_vec(),
        fill_time: vec![fetched],
        demand_fill_time: fetched,
        demand_misses: vec![8],
        wait_shares: vec![1.0],
    };
    let apart = [Node::Miss(0, 0); 8];
    assert_eq!(block(&chain, 8.0 / 12.0).waits(1.0), 8.0);
    assert_eq!(block(&chain, 8.0 / 12.0).waits(0.5), 4.0);
    assert_eq!(block(&apart, 8.0 / 12.0).waits(1.0), 1.0);
    // A miss begins a block of eight loads, of which half miss, and one load in between does not.
    assert_eq!(block(&apart, 8.0 / 12.0).waits(0.5), 8.0 / 9.0);
    assert_eq!(block(&apart, 2.0).waits(1.0), 2.0);
    assert_eq!(block(&chain, 2.0).waits(0.0), 0.0);
    // On this machine, a chain takes its latencies, and parallel lines take twice as long.
    let time_here = |block: &BlockUse, stream_ns| {
        let here = LocalLineTime {
            miss_ns: 90.0,
            apart_ns: 180.0,
            stream_ns,
        };
        block.time_here(&here, 9.0, &mut 0.0)
    };
    assert_eq!(time_here(&block(&chain, 2.0), 90.0), 720.0);
    assert_eq!(time_here(&block(&apart, 2.0), 90.0), 360.0);
    let streamed = BlockUse {
        demand_fill_time: 0.5,
        ..block(&apart, 2.0)
    };
    assert_eq!(time_here(&streamed, 100.0), 240.0);
}

/// Three misses in one pool per miss in the other: the block waits for the slower chain.
#[test]
fn chains_in_two_pools_take_the_time_of_the_slower() {
    let steps: Vec<Step> = (0..200)
        .map(|at| match at % 4 {
            3 => Step::load(far(at) + (1 << 40), &[2], &[2]),
            _ => Step::load(far(at), &[1], &[1]),
        })
        .collect();
    let found = run(&steps);
    let wait = |far: f64| found.blocks[0].wait(&[90.0, far], 1.0);
    assert_eq!(found.blocks.len(), 1);
    assert_eq!(wait(90.0), 150.0 * 90.0);
    assert_eq!(wait(270.0), 150.0 * 90.0);
    assert_eq!(wait(400.0), 50.0 * 400.0);
    // A load that depends on both chains waits for the later.
    let mut steps = steps;
    steps.push(Step::load(far(1000), &[1, 2], &[3]));
    assert_eq!(
        run(&steps).blocks[0].wait(&[90.0, 400.0], 1.0),
        50.0 * 400.0 + 90.0
    );
}

/// The sum waits for all loads, but no load waits for the sum.
#[test]
fn what_is_added_up_is_loaded_at_once() {
    let steps: Vec<Step> = (0..256)
        .map(|at| Step {
            reads: vec![1, 9],
            ..Step::load(far(at), &[1], &[9])
        })
        .collect();
    assert!((run(&steps).pools[0].waits - 256.0 / 12.0).abs() < 1e-9);
}

/// One miss each hundred instructions: three fit the buffer, counted from the first.
#[test]
fn a_block_begins_with_a_miss() {
    let found = run(&spaced(900, 100, 50, |at| Step::load(far(at), &[1], &[2])));
    assert_eq!(found.blocks.len(), 3);
    assert!(found.blocks.iter().all(|block| block.nodes.len() == 3));
    assert_eq!((found.pools[0].waits, found.idle), (3.0, 50 + 2 * 44));
}

#[test]
fn where_misses_are_known_a_line_may_miss_again_and_others_never() {
    let mut window = Window::exact(1, Overlap::default());
    let mut asked = 0;
    for at in 0..512 {
        let step = Step::load(far(at % 4), &[1], &[2]);
        window.step(&step, &mut |address| {
            asked += 1;
            (address != far(3)).then_some(0)
        });
    }
    let found = window.finish();
    // Each block of 256 asks once per line, and three of four lines miss.
    assert_eq!((asked, found.pools[0].reads), (8, 6.0));
    assert_eq!(found.pools[0].waits, 2.0);
}

#[test]
fn blocks_that_wait_for_nothing_are_counted_as_computing() {
    let steps: Vec<Step> = (0..300)
        .map(|at| Step::load(far(at.min(2)), &[1], &[2]))
        .chain((0..400).map(|_| Step::default()))
        .collect();
    let found = run(&steps);
    assert_eq!(
        (found.blocks.len(), found.idle, found.instructions),
        (1, 444, 700)
    );
}
