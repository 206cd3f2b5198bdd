//! Benchmarks only: `make bench`.
