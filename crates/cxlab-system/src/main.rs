//! The `cxlab` command.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(cxlab_system::cli::main(std::env::args_os()))
}
