//! The benchmark: the operations that a core executes on its store, and the
//! checks of their results.

use std::collections::BTreeMap;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::Bytes;

use super::pages::Layout;
use super::record::{write_key, write_value};
use super::store::Store;
use super::{KeyValue, Keys, Update};
use crate::program::{Phase, Program, Step};
use crate::zipf::Zipf;

/// Bytes of a value that an update in place overwrites: its version.
const VERSION: usize = 8;

const WRITE: usize = 0;
const INSERT: usize = 1;
const QUERY: usize = 2;
const UPDATE: usize = 3;
const DELETE: usize = 4;
const PHASES: [&str; 5] = ["write", "insert", "query", "update", "delete"];

/// The operations of one core.
pub(super) struct Run {
    store: Store,
    layout: Layout,
    /// Number of operations of each phase.
    operations: u64,
    /// The number of the core's first key.
    first: u64,
    keys: Keys,
    exponent: f64,
    update: Update,
    phases: [Phase; PHASES.len()],
    phase: usize,
    /// Number of operations of the current phase, including the one in progress.
    done: u64,
    /// The expected version of each key; 0 when the key is not in the store.
    versions: Vec<u32>,
    /// Keys in the store, in random order. With `zipfian`, keys nearer to the front
    /// are chosen more often.
    order: Vec<u32>,
    zipf: Zipf,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The first error found.
    fault: Option<String>,
}

save_state!(Run {
    values: phase, done, order, zipf, fault;
    sized: versions, key, value;
    states: store;
    built: layout, operations, first, keys, exponent, update, phases;
});

impl Run {
    pub(super) fn new(params: &KeyValue, store: Store, first: u64, operations: u64) -> Run {
        let layout = params.layout();
        let record = layout.key + layout.value;
        let update = match params.update {
            Update::InPlace => VERSION as u64,
            Update::OutOfPlace => record,
        };
        let mut bytes = [record, record, layout.value, update, 0].into_iter();
        Run {
            store,
            layout,
            operations,
            first,
            keys: params.keys,
            exponent: params.exponent,
            update: params.update,
            phases: PHASES.map(|name| Phase {
                name: name.to_owned(),
                bytes: Bytes(bytes.next().unwrap_or(0)),
            }),
            phase: WRITE,
            done: 0,
            versions: vec![0; 2 * operations as usize],
            order: Vec::new(),
            zipf: Zipf::new(2 * operations, params.exponent),
            key: vec![0; layout.key as usize],
            value: vec![0; layout.value as usize],
            fault: None,
        }
    }

    /// Fills the buffers with the expected key and value of a key's record.
    fn expect(&mut self, key: u32) {
        let number = self.first + u64::from(key);
        let version = u64::from(self.versions[key as usize]);
        let written = match self.update {
            Update::InPlace => 1,
            Update::OutOfPlace => version,
        };
        write_key(&mut self.key, number);
        write_value(&mut self.value, number, version, written);
    }

    fn fault(&mut self, what: &str, key: u32) {
        let number = self.first + u64::from(key);
        self.fault
            .get_or_insert_with(|| format!("key {number}: {what}"));
    }

    /// The index in `order` of the key of the next query, update or delete.
    fn choose(&mut self, rng: &mut StreamRng) -> usize {
        let place = match self.keys {
            Keys::Uniform => rng.below(self.order.len() as u64),
            Keys::Zipfian => self.zipf.draw(rng),
        };
        place as usize
    }

    /// Adds the steps of one operation to the script.
    fn operate(&mut self, rng: &mut StreamRng) {
        self.store.script.enter(self.phase as u8);
        match self.phase {
            WRITE => self.put((self.done - 1) as u32),
            INSERT => self.put((self.operations + self.done - 1) as u32),
            phase => {
                let place = self.choose(rng);
                let key = self.order[place];
                match phase {
                    QUERY => self.query(key),
                    UPDATE => self.update(key),
                    _ => {
                        self.order.swap_remove(place);
                        self.zipf = Zipf::new(self.order.len() as u64, self.exponent);
                        self.delete(key);
                    }
                }
            }
        }
    }

    fn put(&mut self, key: u32) {
        let known = self.versions[key as usize] > 0;
        self.versions[key as usize] += 1;
        self.expect(key);
        if self.store.put(&self.key, &self.value) == known {
            self.fault("put, but the store was wrong about whether it had it", key);
        }
    }

    fn query(&mut self, key: u32) {
        self.expect(key);
        if self.store.get(&self.key) != Some(self.value.as_slice()) {
            self.fault("queried, but the value is not the one stored last", key);
        }
    }

    fn update(&mut self, key: u32) {
        if self.update == Update::OutOfPlace {
            return self.put(key);
        }
        self.versions[key as usize] += 1;
        self.expect(key);
        if !self.store.update(&self.key, &self.value[..VERSION]) {
            self.fault("updated, but not found", key);
        }
    }

    fn delete(&mut self, key: u32) {
        self.expect(key);
        self.versions[key as usize] = 0;
        if !self.store.remove(&self.key) {
            self.fault("deleted, but not found", key);
        }
    }

    /// Changes to the next phase when all operations of the current one have been done.
    fn go_on(&mut self, rng: &mut StreamRng) {
        if self.done < self.operations {
            return;
        }
        self.done = 0;
        self.phase += 1;
        if self.phase == QUERY {
            self.order = (0..2 * self.operations as u32).collect();
            for last in (1..self.order.len()).rev() {
                self.order.swap(last, rng.below(last as u64 + 1) as usize);
            }
        }
    }

    /// Compares the records that a recovery would find with the expected ones.
    fn check_records(&self) -> Result<(), String> {
        let mut model = BTreeMap::new();
        for (key, version) in (self.first..).zip(&self.versions) {
            if *version == 0 {
                continue;
            }
            let written = match self.update {
                Update::InPlace => 1,
                Update::OutOfPlace => u64::from(*version),
            };
            let mut record = (self.key.clone(), self.value.clone());
            write_key(&mut record.0, key);
            write_value(&mut record.1, key, u64::from(*version), written);
            model.insert(record.0, record.1);
        }
        let count = model.len();
        if self.store.len() != count {
            let found = self.store.len();
            return Err(format!("the index has {found} keys, not {count}"));
        }
        for (key, value) in self.store.records(&self.layout) {
            if !self.store.finds(key) {
                return Err(format!("the index has lost key {key:?}"));
            }
            match model.remove(key) {
                Some(expected) if expected == value => {}
                Some(_) => return Err(format!("key {key:?} has a wrong value")),
                None => return Err(format!("key {key:?} is in two records, or was deleted")),
            }
        }
        match model.len() {
            0 => Ok(()),
            lost => Err(format!("{lost} of {count} records are lost")),
        }
    }
}

impl Program for Run {
    fn next_step(&mut self, rng: &mut StreamRng) -> Option<Step> {
        loop {
            if let Some(step) = self.store.script.next() {
                return Some(step);
            }
            self.go_on(rng);
            if self.phase > DELETE {
                return None;
            }
            self.done += 1;
            self.operate(rng);
        }
    }

    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn check(&self) -> Result<(), String> {
        match &self.fault {
            _ if self.phase <= DELETE => Err("the store has not finished".to_owned()),
            Some(fault) => Err(fault.clone()),
            None => self.check_records(),
        }
    }
}
