//! The model checker: exploration of all states of a small network of agents, and mutation of the
//! tables that the agents follow. The networks of CXL.mem and CXL.cache supply states and moves.

mod code;
mod data;
mod holders;
mod mutation;
mod property;
mod search;

pub use code::{Code, Codec, Coded, MAX_AGENTS, Unpack, canonical, code_of};
pub(crate) use code::{coded, coded_enum};
pub use data::{Data, age};
pub use holders::{peer, rename};
pub use mutation::{Equivalent, Key, Mutants, Table, survey};
pub use property::{Property, bound, check};
pub use search::{Found, System, search};

/// A network whose agents follow altered or unaltered tables.
pub trait Network: System + Sized {
    type Config: Copy;
    type Tables: Send;

    fn new(config: Self::Config, tables: Self::Tables) -> Self;
    fn into_tables(self) -> Self::Tables;
    fn unaltered() -> Self::Tables;
}

/// Explores all states and prints their number.
pub fn explore<S: System>(system: &S) -> Found<S> {
    let started = std::time::Instant::now();
    let found = search(system);
    println!(
        "{}: {} states, {} moves, {:.1} s",
        system.name(),
        found.states,
        found.moves,
        started.elapsed().as_secs_f64()
    );
    found
}

/// Checks that every property holds, in a system with this number of states.
pub fn check_all<S: System>(system: &S, states: usize) {
    let found = explore(system);
    if let Some(broken) = &found.broken {
        panic!(
            "{}: {:?} by {:#?}",
            system.name(),
            broken.property,
            broken.path
        );
    }
    assert_eq!(found.states, states, "{}", system.name());
}

/// Checks that every property holds for agents with unaltered tables.
pub fn holds<N: Network>(config: N::Config, states: usize) -> N {
    let network = N::new(config, N::unaltered());
    check_all(&network, states);
    network
}

/// Checks that this property breaks first, although the tables are unaltered.
pub fn breaks<N: Network>(config: N::Config, property: Property) {
    check_broken(&N::new(config, N::unaltered()), property);
}

/// Checks that this property breaks first.
pub fn check_broken<S: System>(system: &S, property: Property) {
    match explore(system).broken {
        Some(broken) => assert_eq!(broken.property, property, "{:#?}", broken.path),
        None => panic!("{}: nothing breaks", system.name()),
    }
}

/// Checks that naming agents and lines in every way gives the states of `reduced` again: each once,
/// or more often with exchanged names, up to `names` times.
pub fn check_reduction<N: Network>(config: N::Config, reduced: usize, names: usize) {
    let found = explore(&N::new(config, N::unaltered()));
    assert!(found.broken.is_none());
    assert!((reduced + 1..=names * reduced).contains(&found.states));
}

/// A step of an altered table. `Err`: the unaltered table has no row either; `Ok(None)`: the row was
/// removed.
pub fn altered<T>(step: Option<T>, unaltered: impl FnOnce() -> Option<T>) -> Result<Option<T>, ()> {
    match step {
        Some(next) => Ok(Some(next)),
        None if unaltered().is_some() => Ok(None),
        None => Err(()),
    }
}

/// The step for an event that must be accepted. A removed row breaks `ChannelsSink`, and an event that
/// the unaltered table does not have breaks `ExactResponses`.
pub fn accepted<T>(step: Result<Option<T>, ()>) -> Result<T, Property> {
    let next = step.map_err(|()| Property::ExactResponses)?;
    next.ok_or(Property::ChannelsSink)
}

/// Completes each listed step: merges states that differ without effect, and checks the result.
pub fn finish<M, W>(
    steps: &mut [(M, Result<W, Property>)],
    forget: impl Fn(&mut W),
    check: impl Fn(&W) -> Result<(), Property>,
) {
    for (_, outcome) in steps {
        if let Ok(next) = outcome {
            forget(next);
            if let Err(broken) = check(next) {
                *outcome = Err(broken);
            }
        }
    }
}
