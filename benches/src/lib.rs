//! Benchmarks only: `make bench`. They have the memory allocator of the command.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
