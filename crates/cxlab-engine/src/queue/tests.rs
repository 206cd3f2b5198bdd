//! Properties of the timing wheel and of the queues of blocks, with the heap as the reference.

use proptest::prelude::*;

use super::*;

/// Pops the first event before `end`; returns it with what it carries.
fn popped<Q: EventQueue<u64>>(queue: &mut Q, end: u64) -> Option<(EventKey, Target, u64)> {
    let event = queue.pop_before(end)?;
    let carried = *queue.carried(event.place);
    queue.release(event.place);
    Some((event.key, event.target, carried))
}

proptest! {
    /// Few events and many, with keys whose differing bits fit a word and with others.
    #[test]
    fn a_slot_is_sorted_so_that_the_first_is_last(
        keys in prop::collection::hash_set((0u64..20, 0u64..1 << 19, 0u64..16), 0..200),
        widths in [0u32..60, 0u32..5, 0u32..36]
    ) {
        let event = |(time, source, sequence)| NearEvent {
            key: EventKey {
                time: 7 + (time << widths[0]),
                order: source << widths[1] << EventKey::SEQUENCE_BITS | sequence << widths[2],
            },
            target: Target::port(source as u32, sequence as u16),
            place: time as u32,
        };
        let mut events: Vec<NearEvent> = keys.into_iter().map(event).collect();
        let mut expected = events.clone();
        expected.sort_by_key(|near| Reverse(near.key));
        let mut sorter = Sorter::default();
        sorter.sort(&mut events);
        let all = |events: &[NearEvent]| -> Vec<_> {
            events.iter().map(|near| (near.key, near.target, near.place)).collect()
        };
        prop_assert_eq!(all(&events), all(&expected));
    }

    /// Pushes go to every part of the queue: active slot, wheel and overflow. Pops bounded by arbitrary
    /// ends give exactly the events that the heap gives.
    #[test]
    fn the_wheel_pops_exactly_what_the_heap_pops(
        components in prop::sample::select(vec![1usize, 100, 1000]),
        steps in prop::collection::vec((0u8..4, 0u64..3_000_000, 0u64..4), 1..400)
    ) {
        let mut wheel = WheelQueue::<u64>::for_components(components);
        let mut heap = HeapQueue::<u64>::default();
        let pop = |wheel: &mut WheelQueue<u64>, heap: &mut HeapQueue<u64>, end: u64| {
            wheel.prefetch_next_slot();
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

    /// In windows, a block gives exactly the events that a heap of its own gives, whatever other blocks
    /// push for it and however long it has been idle. Every entry of the line comes up for prefetching.
    #[test]
    fn each_block_pops_exactly_what_its_heap_pops(
        span in prop::sample::select(vec![1u64, 900, 40_000, 65_536]),
        runs in prop::collection::vec(
            (1u64..2_000_000, prop::collection::vec((0usize..3, 0u8..3, 0u64..3_000_000), 0..40)),
            1..30
        )
    ) {
        let mut queue = WheelQueue::<u64>::for_blocks(&[1, 100, 1000], span, 0);
        let mut heaps = [(); 3].map(|()| HeapQueue::<u64>::default());
        let (mut now, mut order) = (0u64, 0u64);
        for (length, pushes) in runs {
            // Events of other partitions arrive between windows.
            let mut pushes = pushes.into_iter();
            let mut next = |now: u64| pushes.next().map(|(to, kind, value)| {
                let ahead = match kind { 0 => value % 300, 1 => value % 100_000, _ => value };
                order += 1;
                let target = Target::port(order as u32, value as u16);
                (to, kind, EventKey { time: now + ahead, order }, target)
            });
            if let Some((to, _, key, target)) = next(now) {
                *queue.push_to(to, key, target) = key.order;
                *heaps[to].push(key, target) = key.order;
            }
            let end = now + length;
            loop {
                let firsts = [0, 1, 2].map(|block| heaps[block].next_time());
                let earliest = firsts.into_iter().min().unwrap();
                prop_assert_eq!(queue.next_time(), earliest);
                prop_assert_eq!(queue.block_queues().open(end), earliest < end);
                if earliest >= end {
                    break;
                }
                let window = earliest.saturating_add(span).min(end);
                for block in (0..3).filter(|block| firsts[*block] < window) {
                    prop_assert_eq!(queue.block_queues().begin_block(), Some(block));
                    let mut known: Vec<_> = (0..).map_while(|behind| queue.coming(behind)).map(|(to, _)| to).collect();
                    known.reverse();
                    while let Some(event) = queue.block_queues().pop() {
                        if queue.block_queues().pass() {
                            prop_assert!(known.pop().is_some());
                        }
                        let other = heaps[block].pop_before(window).unwrap();
                        prop_assert_eq!((event.key, event.target), (other.key, other.target));
                        let carried = *heaps[block].carried(other.place);
                        prop_assert_eq!(*queue.carried(event.place), carried);
                        heaps[block].release(other.place);
                        let Some((to, kind, mut key, target)) = next(event.key.time) else {
                            queue.release(event.place);
                            continue;
                        };
                        // An event for another block is after the window.
                        if to != block {
                            key.time += window - event.key.time;
                        }
                        if kind == 1 {
                            // The payload is passed on to another event, changed.
                            *queue.pass_to(to, event.place, key, target) += 1 << 32;
                            *heaps[to].push(key, target) = carried + (1 << 32);
                        } else {
                            *queue.push_to(to, key, target) = key.order;
                            *heaps[to].push(key, target) = key.order;
                            queue.release(event.place);
                        }
                    }
                    prop_assert!(heaps[block].next_time() >= window);
                }
                prop_assert_eq!(queue.block_queues().begin_block(), None);
                prop_assert_eq!(queue.len(), heaps.iter().map(EventQueue::len).sum::<usize>());
            }
            now = end;
        }
        let mut pending = 0;
        queue.for_each(|_, _, _| pending += 1);
        prop_assert_eq!(pending, queue.len());
    }
}
