//! A binary heap with the interface of the timing wheel.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{EventKey, EventQueue, PoppedEvent, Target};

/// An event queue as a binary heap: the reference in tests of [`WheelQueue`](super::WheelQueue) and the
/// baseline in its benchmark.
#[derive(Default)]
pub struct HeapQueue<T> {
    heap: BinaryHeap<Reverse<(EventKey, u32)>>,
    items: Vec<(Target, T)>,
    free: Vec<u32>,
}

impl<T: Copy + Default> EventQueue<T> for HeapQueue<T> {
    fn push(&mut self, key: EventKey, target: Target) -> &mut T {
        let place = self.free.pop().unwrap_or(self.items.len() as u32);
        if place as usize == self.items.len() {
            self.items.push((target, T::default()));
        }
        self.heap.push(Reverse((key, place)));
        let item = &mut self.items[place as usize];
        item.0 = target;
        &mut item.1
    }

    fn pop_before(&mut self, end: u64) -> Option<PoppedEvent> {
        if self.heap.peek()?.0.0.time >= end {
            return None;
        }
        let Reverse((key, place)) = self.heap.pop()?;
        let target = self.items[place as usize].0;
        Some(PoppedEvent { key, target, place })
    }

    fn carried(&self, place: u32) -> &T {
        &self.items[place as usize].1
    }

    fn release(&mut self, place: u32) {
        self.free.push(place);
    }

    fn next_time(&self) -> u64 {
        self.heap
            .peek()
            .map_or(u64::MAX, |Reverse((key, _))| key.time)
    }

    fn len(&self) -> usize {
        self.heap.len()
    }
}
