//! The `cxlab` command.

/// It gives memory back to the operating system later than the C library's, which large systems, and sweeps of
/// many, would ask for again at once.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(cxlab_system::cli::main(std::env::args_os()))
}
