//! Library of the benchmarks (`make bench`). It sets the memory allocator that the command uses.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
