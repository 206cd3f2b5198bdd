//! The wheel against the heap.

use proptest::prelude::*;

use super::*;

/// The first event before `end`, and what it carries, which is forgotten.
fn popped<Q: EventQueue<u64>>(queue: &mut Q, end: u64) -> Option<(EventKey, Target, u64)> {
    let event = queue.pop_before(end)?;
    let carried = *queue.carried(event.place);
    queue.release(event.place);
    Some((event.key, event.target, carried))
}

proptest! {
    /// Pushes spread over every part of the queue (active slot, wheel, overflow) and pops
    /// bounded by arbitrary ends come out exactly as from the heap.
    #[test]
    fn the_wheel_pops_exactly_what_the_heap_pops(
        components in prop::sample::select(vec![1usize, 100, 1000]),
        steps in prop::collection::vec((0u8..4, 0u64..3_000_000, 0u64..4), 1..400)
    ) {
        let mut wheel = WheelQueue::<u64>::for_components(components);
        let mut heap = HeapQueue::<u64>::default();
        let pop = |wheel: &mut WheelQueue<u64>, heap: &mut HeapQueue<u64>, end: u64| {
            wheel.fetch_behind();
            (popped(wheel, end), popped(heap, end))
        };
        let (mut now, mut order) = (0u64, 0u64);
        for (kind, value, source) in steps {
            if kind < 3 {
                let ahead = match kind { 0 => value % 300, 1 => value % 500_000, _ => value };
                order += 1;
                let key = EventKey { time: now + ahead, order: source << 40 | order };
                let target = match order % 3 {
                    0 => Target::wake(order as u32, value as u32),
                    _ => Target::port(order as u32, value as u16),
                };
                *wheel.push(key, target) = order;
                *heap.push(key, target) = order;
            } else {
                let end = now + value % 100_000;
                prop_assert_eq!(wheel.next_time(), heap.next_time());
                loop {
                    let (a, b) = pop(&mut wheel, &mut heap, end);
                    prop_assert_eq!(a, b);
                    match a { Some((key, ..)) => now = key.time, None => break }
                }
                now = now.max(end);
            }
            prop_assert_eq!(wheel.len(), heap.len());
        }
        while !heap.is_empty() {
            let (a, b) = pop(&mut wheel, &mut heap, u64::MAX);
            prop_assert_eq!(a, b);
        }
        prop_assert!(wheel.is_empty());
    }

    /// In windows, each block's events come out exactly as from a heap of its own, whatever others push
    /// for it and however long it has been idle.
    #[test]
    fn each_block_pops_exactly_what_its_heap_pops(
        windows in prop::collection::vec(
            (1u64..2_000_000, prop::collection::vec((0usize..3, 0u8..3, 0u64..3_000_000), 0..12)),
            1..60
        )
    ) {
        let mut wheel = WheelQueue::<u64>::for_blocks(&[1, 100, 1000]);
        let mut heaps = [(); 3].map(|()| HeapQueue::<u64>::default());
        let (mut now, mut order) = (0u64, 0u64);
        for (length, pushes) in windows {
            let end = now + length;
            let mut pushes = pushes.into_iter();
            for block in 0..3 {
                prop_assert_eq!(wheel.next_of(block), heaps[block].next_time());
                wheel.turn_to(block, now);
                loop {
                    let (a, b) = (wheel.pop_before(end), heaps[block].pop_before(end));
                    let [from, other] = [a, b].map(|one| one.map(|one| one.place));
                    let a = a.map(|one| (one.key, one.target, *wheel.carried(one.place)));
                    let b = b.map(|one| (one.key, one.target, *heaps[block].carried(one.place)));
                    prop_assert_eq!(a, b);
                    // Each event, and the turning itself, sends what arrives behind the window, or in it
                    // where it comes to the block at hand.
                    if let Some((to, kind, value)) = pushes.next() {
                        let earliest = match to == block {
                            true => a.map_or(now, |(key, ..)| key.time),
                            false => end,
                        };
                        let ahead = match kind { 0 => value % 300, 1 => value % 500_000, _ => value };
                        order += 1;
                        let key = EventKey { time: earliest + ahead, order };
                        let target = Target::port(order as u32, value as u16);
                        match (from, other) {
                            // It goes on with what it carries, changed.
                            (Some(from), Some(other)) if kind == 1 => {
                                *wheel.pass_to(to, from, key, target) += 1 << 32;
                                let carried = *heaps[block].carried(other) + (1 << 32);
                                heaps[block].release(other);
                                *heaps[to].push(key, target) = carried;
                                continue;
                            }
                            _ => {
                                *wheel.push_to(to, key, target) = order;
                                *heaps[to].push(key, target) = order;
                            }
                        }
                    }
                    if let (Some(from), Some(other)) = (from, other) {
                        wheel.release(from);
                        heaps[block].release(other);
                    } else if pushes.len() == 0 {
                        break;
                    }
                }
            }
            let times = heaps.iter().map(EventQueue::next_time);
            prop_assert_eq!(wheel.next_time(), times.min().unwrap());
            prop_assert_eq!(wheel.len(), heaps.iter().map(EventQueue::len).sum::<usize>());
            now = end;
        }
    }
}
