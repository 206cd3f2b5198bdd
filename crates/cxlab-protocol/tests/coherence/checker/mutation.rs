//! Mutation tests: each row of the tables is altered, one alteration at a time, and a named property
//! must break.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use cxlab_protocol::coherence::dcoh::{Others, Update};
use cxlab_protocol::coherence::table::HomeRow;

use super::{Network, Property, search};
use crate::docs;

/// What distinguishes the uses of one row: a condition, a view of the other holders, or both.
pub trait Key: Copy + PartialEq + Debug {
    /// Number of the key, below 128.
    fn bit(self) -> u32;
}

/// The rows of a table. One row may be missing for one key, and the keys used are recorded.
pub struct Table<R, K> {
    pub rows: Vec<R>,
    missing: Option<(usize, K)>,
    used: Vec<Cell<u128>>,
}

impl<R: Clone, K: Key> Table<R, K> {
    pub fn of(rows: &[R]) -> Table<R, K> {
        Table {
            rows: rows.to_vec(),
            missing: None,
            used: vec![Cell::new(0); rows.len()],
        }
    }

    pub fn row(&self, row: usize, key: K) -> Option<&R> {
        let used = &self.used[row];
        used.set(used.get() | 1 << key.bit());
        (self.missing != Some((row, key))).then(|| &self.rows[row])
    }

    pub fn is_used(&self, row: usize, key: K) -> bool {
        self.used[row].get() >> key.bit() & 1 == 1
    }
}

/// An alteration of one row of a table.
struct Mutant<T> {
    table: &'static str,
    row: &'static str,
    what: String,
    tables: T,
}

/// A list of alterations.
pub struct Mutants<N: Network>(Vec<Mutant<N::Tables>>);

fn without<T: Copy>(items: &[T], place: usize) -> &'static [T] {
    let mut rest = items.to_vec();
    rest.remove(place);
    rest.leak()
}

impl<N: Network> Mutants<N> {
    pub fn new() -> Mutants<N> {
        Mutants(Vec::new())
    }

    pub fn add(
        &mut self,
        (table, row): (&'static str, &'static str),
        what: String,
        alter: impl FnOnce(&mut N::Tables),
    ) {
        let mut tables = N::unaltered();
        alter(&mut tables);
        self.0.push(Mutant {
            table,
            row,
            what,
            tables,
        });
    }

    /// For each key of the row: the row is missing.
    pub fn missing<R, K: Key>(
        &mut self,
        name: (&'static str, &'static str),
        row: usize,
        keys: impl IntoIterator<Item = (K, String)>,
        table: impl Fn(&mut N::Tables) -> &mut Table<R, K>,
    ) {
        for (key, what) in keys {
            self.add(name, format!("no row for {what}"), |tables| {
                table(tables).missing = Some((row, key));
            });
        }
    }

    /// For each action of the row: the action is missing.
    pub fn without<A: Copy + Debug>(
        &mut self,
        name: (&'static str, &'static str),
        actions: &'static [A],
        set: impl Fn(&mut N::Tables, &'static [A]),
    ) {
        for (i, action) in actions.iter().enumerate() {
            self.add(name, format!("without {action:?}"), |tables| {
                set(tables, without(actions, i));
            });
        }
    }

    /// All alterations of a home's table. `keys` lists the uses of a row, `phases` all phases, and
    /// `busy` the wrong phases for a row that keeps its phase; `holders` names the record of holders.
    pub fn home<P, C, A, K: Key>(
        &mut self,
        (name, holders): (&'static str, &str),
        rows: &'static [HomeRow<P, C, A>],
        keys: impl Fn(&HomeRow<P, C, A>) -> Vec<(K, String)>,
        phases: &[P],
        busy: &[P],
        table: impl Fn(&mut N::Tables) -> &mut Table<HomeRow<P, C, A>, K>,
    ) where
        P: Copy + PartialEq + Debug,
        A: Copy + Debug,
    {
        for (r, row) in rows.iter().enumerate() {
            let name = (name, row.name);
            self.missing(name, r, keys(row), &table);
            let wrong = if row.to.is_some() { phases } else { busy };
            for &to in wrong.iter().filter(|&&to| Some(to) != row.to) {
                self.add(name, format!("to {to:?}"), |tables| {
                    table(tables).rows[r].to = Some(to);
                });
            }
            if row.update != Update::Keep {
                self.add(name, format!("{holders} Keep"), |tables| {
                    table(tables).rows[r].update = Update::Keep;
                });
            }
            self.without(name, row.actions, |tables, actions| {
                table(tables).rows[r].actions = actions;
            });
        }
    }
}

impl Key for Others {
    fn bit(self) -> u32 {
        self as u32
    }
}

/// An alteration without an observable effect: row, alteration and reason.
pub type Equivalent = (&'static str, &'static str, &'static str);

/// For each row, the properties that its alterations break, each with the number of alterations.
type Caught = BTreeMap<(&'static str, &'static str), BTreeMap<Property, usize>>;

/// The first property that an alteration breaks in one of the networks, if it breaks any.
fn killer<N: Network>(configs: &[N::Config], mut tables: N::Tables) -> Option<Property> {
    for &config in configs {
        let network = N::new(config, tables);
        if let Some(broken) = search(&network).broken {
            return Some(broken.property);
        }
        tables = network.into_tables();
    }
    None
}

/// Tries all alterations, with one thread per processor. Checks that all rows have alterations, that
/// each breaks a property except for those that are equivalent, and that the document says which.
pub fn survey<N: Network>(
    mutants: Mutants<N>,
    configs: &[N::Config],
    equivalent: &[Equivalent],
    rows: usize,
    section: &str,
) where
    N::Config: Sync,
{
    let mut names: Vec<_> = mutants.0.iter().map(|m| (m.table, m.row)).collect();
    names.dedup();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parts: Vec<Vec<Mutant<N::Tables>>> = (0..threads).map(|_| Vec::new()).collect();
    for (i, mutant) in mutants.0.into_iter().enumerate() {
        parts[i % threads].push(mutant);
    }
    let results: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = parts
            .into_iter()
            .map(|part| {
                scope.spawn(move || {
                    part.into_iter()
                        .map(|m| (m.table, m.row, m.what, killer::<N>(configs, m.tables)))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        handles
            .into_iter()
            .flat_map(|h| h.join().unwrap())
            .collect()
    });
    let mut caught = Caught::new();
    let mut survivors = Vec::new();
    for (table, row, what, property) in results {
        match property {
            Some(property) => {
                let row = caught.entry((table, row)).or_default();
                *row.entry(property).or_default() += 1;
            }
            None => survivors.push((row, what)),
        }
    }
    survivors.sort();
    let expected: Vec<_> = equivalent
        .iter()
        .map(|&(row, what, _)| (row, what.to_string()))
        .collect();
    assert_eq!(survivors, expected);
    assert_eq!(caught.len(), rows);
    docs::compare(section, &render(&names, &caught, equivalent));
}

fn render(
    names: &[(&'static str, &'static str)],
    caught: &Caught,
    equivalent: &[Equivalent],
) -> String {
    let killed: usize = caught.values().flat_map(BTreeMap::values).sum();
    let mut text = format!(
        "{killed} alterations of {} rows break a property; {} are equivalent:\n\n",
        caught.len(),
        equivalent.len()
    );
    for (row, what, why) in equivalent {
        text += &format!("- `{row}`, {what}: {why}.\n");
    }
    text += "\n| table | row | alterations that break each property |\n|---|---|---|\n";
    for key in names {
        let properties: Vec<String> = caught[key]
            .iter()
            .map(|(property, count)| format!("{property:?} {count}"))
            .collect();
        text += &format!("| {} | `{}` | {} |\n", key.0, key.1, properties.join(", "));
    }
    text
}
