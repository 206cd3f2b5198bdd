//! `cxlab completions` and `cxlab man`: what shells and `man` know of the command.
//!
//! Both are made from the command's own definition when they are printed, so they cannot differ from it. A build
//! script could not see the definition, because it is compiled before the crate.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;
use cxlab_system::output::write_whole;

use super::failure::Failure;
use super::{Cli, print, print_as_it_is};

/// Shells with completions.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum KnownShell {
    /// For ~/.local/share/bash-completion/completions/cxlab
    Bash,
    /// For a file _cxlab in a folder of $fpath
    Zsh,
    /// For ~/.config/fish/completions/cxlab.fish
    Fish,
}

#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: KnownShell,
}

#[derive(Args)]
pub(super) struct ManArgs {
    /// Folder for cxlab.1 and a page for each command, such as ~/.local/share/man/man1; it is made if it is not there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints a shell's completions.
pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let shell = match args.shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cxlab", &mut script);
    print_as_it_is(&String::from_utf8_lossy(&script))
}

/// Writes the man pages.
pub(super) fn man(args: &ManArgs) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::Output(format!("{}: cannot be written to: {error}", path.display()))
    };
    std::fs::create_dir_all(&args.dir).map_err(|error| failed(&args.dir, error))?;
    let mut command = Cli::command();
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, &mut pages)?;
    let mut names = Vec::new();
    for (name, page) in pages {
        let path = args.dir.join(format!("{name}.1"));
        write_whole(&path, &page).map_err(|error| failed(&path, error))?;
        names.push(path.display().to_string());
    }
    print(&format!("written: {}\n", names.join(", ")))
}

/// Appends the page of a command, and of each command below it that help texts show, with its name.
fn add_pages(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone()).title(name.to_uppercase());
    man.render(&mut page)
        .map_err(|error| Failure::Internal(format!("a man page cannot be made: {error}")))?;
    pages.push((name.to_owned(), page));
    let below = command.get_subcommands();
    for below in below.filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        add_pages(below, pages)?;
    }
    Ok(())
}
