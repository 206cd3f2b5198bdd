//! A program in C that misuses the interface neither reads nor writes memory that it must not, and leaks none.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{compile, library_folder, output, root};
use tempfile::TempDir;

fn compiled(folder: &Path, flags: &[&str]) -> PathBuf {
    let library = library_folder(folder);
    let program = folder.join("misuse");
    let warnings = ["-std=c11", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"];
    let source = root().join("crates/cxlab-capi/tests/misuse.c");
    compile(
        "cc",
        &[&warnings, flags].concat(),
        &source,
        &library,
        &program,
    );
    program
}

/// Whether the C compiler has AddressSanitizer, and it runs here.
fn has_address_sanitizer(folder: &Path) -> bool {
    let [source, program] = ["empty.c", "empty"].map(|name| folder.join(name));
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("a program");
    let mut compile = Command::new("cc");
    compile.args([ASAN, "-o"]).arg(&program).arg(&source);
    let works = |command: &mut Command| command.output().is_ok_and(|done| done.status.success());
    works(&mut compile) && works(&mut Command::new(&program))
}

const ASAN: &str = "-fsanitize=address,undefined";

#[test]
fn address_sanitizer_finds_nothing() {
    let folder = TempDir::new().expect("a folder");
    if !has_address_sanitizer(folder.path()) {
        println!("skipped: the C compiler has no AddressSanitizer that runs here");
        return;
    }
    let program = compiled(folder.path(), &[ASAN]);
    let mut run = Command::new(program);
    run.arg(folder.path().join("state"));
    assert_eq!(output(&mut run), "ok\n");
}

#[test]
#[ignore = "slow, and needs Valgrind"]
fn valgrind_finds_nothing() {
    let folder = TempDir::new().expect("a folder");
    let program = compiled(folder.path(), &[]);
    let mut run = Command::new("valgrind");
    // Rust's standard library holds the main thread's record by an address inside it: "possibly lost".
    run.args(["--quiet", "--error-exitcode=1", "--leak-check=full"])
        .args([
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite",
        ])
        .arg(program)
        .arg(folder.path().join("state"));
    assert_eq!(output(&mut run), "ok\n");
}
