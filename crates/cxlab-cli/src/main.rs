//! The `cxlab` command.

/// It gives memory back to the operating system later than the C library's, which large systems, and sweeps of
/// many, would ask for again at once.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    if let Ok(program) = std::env::current_exe() {
        let arguments = vec!["plugin-host".into()];
        cxlab_plugin::host(cxlab_plugin::Host { program, arguments });
    }
    std::process::ExitCode::from(cxlab_cli::main(std::env::args_os()))
}
