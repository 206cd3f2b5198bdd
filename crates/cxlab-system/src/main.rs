//! The `cxlab` command.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
