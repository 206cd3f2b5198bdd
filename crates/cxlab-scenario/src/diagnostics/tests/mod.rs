//! Tests by example: each row is a text, and what its diagnostics must contain.

mod fuzz;
mod positions;
mod rules;
mod sample;
mod set;
