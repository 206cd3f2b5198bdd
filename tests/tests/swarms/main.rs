//! Swarms of random systems, each drawn from a seed and held against invariants.

mod analytic_classes;
mod coherent;
mod cohet;
mod enumeration;
mod systems;
