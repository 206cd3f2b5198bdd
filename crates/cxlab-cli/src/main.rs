//! The `cxlab` command.

/// Allocator that returns memory to the operating system later than the C library's. Large systems and sweeps would
/// request the memory again at once.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    if let Ok(program) = std::env::current_exe() {
        let arguments = vec!["__host-medium".into()];
        cxlab_plugin::host(cxlab_plugin::Host { program, arguments });
    }
    std::process::ExitCode::from(cxlab_cli::main(std::env::args_os()))
}
