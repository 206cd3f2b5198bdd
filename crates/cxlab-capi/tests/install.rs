//! The installed library is found by pkg-config and by CMake, and its version is that of the interface.

mod common;

use std::process::Command;

use common::{output, root};
use cxlab_capi::{CXLAB_ABI_MAJOR, CXLAB_ABI_MINOR};
use tempfile::TempDir;

/// Prints the version of the library.
const PROGRAM: &str = r#"
#include <stdio.h>
#include "cxlab.h"

int main(void) {
    uint32_t version = cxlab_abi_version();
    printf("%u.%u %d\n", (unsigned)(version >> 16), (unsigned)(version & 0xffff),
           version >> 16 == CXLAB_ABI_MAJOR && (version & 0xffff) >= CXLAB_ABI_MINOR);
    return 0;
}
"#;

const PROJECT: &str = r#"
cmake_minimum_required(VERSION 3.18)
project(uses_cxlab C)
find_package(cxlab 1.1 REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared cxlab::cxlab)
add_executable(static main.c)
target_link_libraries(static cxlab::cxlab-static)
"#;

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn pkg_config_and_cmake_find_the_installed_library() {
    let folder = TempDir::new().expect("a folder");
    let prefix = folder.path().join("prefix");
    let test = std::env::current_exe().expect("a path");
    let mut install = Command::new("sh");
    install
        .arg(root().join("crates/cxlab-capi/install/install.sh"))
        .arg(test.parent().expect("a folder"))
        .arg(&prefix);
    output(&mut install);
    let source = folder.path().join("main.c");
    std::fs::write(&source, PROGRAM).expect("a program");
    let version = format!("{CXLAB_ABI_MAJOR}.{CXLAB_ABI_MINOR}");
    let expected = format!("{version} 1\n");
    let libraries = prefix.join("lib");

    if has("pkg-config") {
        let asked = |what: &[&str]| {
            let mut ask = Command::new("pkg-config");
            ask.env("PKG_CONFIG_PATH", libraries.join("pkgconfig"));
            output(ask.args(what).arg("cxlab")).trim().to_owned()
        };
        assert_eq!(asked(&["--modversion"]), version);
        let program = folder.path().join("with-pkg-config");
        let mut compiler = Command::new("cc");
        compiler.arg(&source).arg("-o").arg(&program);
        output(compiler.args(asked(&["--cflags", "--libs"]).split_whitespace()));
        let mut run = Command::new(&program);
        assert_eq!(output(run.env("LD_LIBRARY_PATH", &libraries)), expected);
    } else {
        println!("skipped: pkg-config is not installed");
    }

    if has("cmake") {
        std::fs::write(folder.path().join("CMakeLists.txt"), PROJECT).expect("a project");
        let build = folder.path().join("build");
        let mut configure = Command::new("cmake");
        configure
            .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()))
            .arg("-S")
            .arg(folder.path())
            .arg("-B")
            .arg(&build);
        output(&mut configure);
        output(Command::new("cmake").arg("--build").arg(&build));
        for name in ["shared", "static"] {
            assert_eq!(
                output(&mut Command::new(build.join(name))),
                expected,
                "{name}"
            );
        }
    } else {
        println!("skipped: cmake is not installed");
    }
}
