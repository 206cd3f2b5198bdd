//! What `cxlab vm` refuses before anything starts.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::common::{Folder, Output, cxlab};
use super::{SCENARIO, guest, hosts};

pub(super) fn refused(output: &Output, words: &[&str]) {
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    for word in words {
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
    }
}

#[test]
fn without_qemu_the_message_says_how_to_get_it() {
    let folder = Folder::new("vm-qemu");
    let scenario = folder.file("s.toml", SCENARIO.as_bytes());
    for words in [vec!["build"], vec!["run"]] {
        let mut args: Vec<&dyn AsRef<OsStr>> = vec![&"vm"];
        args.extend(words.iter().map(|word| word as &dyn AsRef<_>));
        args.extend([&"--qemu" as &dyn AsRef<_>, &"/nowhere/qemu"]);
        if words[0] == "run" {
            args.extend([&scenario as &dyn AsRef<_>, &"--", &"stream"]);
        }
        refused(
            &cxlab(&args),
            &["/nowhere/qemu", "apt-get install qemu-system-x86"],
        );
    }
}

/// A program that answers as QEMU does when it is asked for its version.
fn pretended(folder: &Folder, version: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let text = format!("#!/bin/sh\necho 'QEMU emulator version {version}'\n");
    let path = folder.file(&format!("qemu-{version}"), text.as_bytes());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_guest_that_is_not_built_and_versions_that_were_never_tried_are_refused() {
    let folder = Folder::new("vm-image");
    let scenario = folder.file("s.toml", SCENARIO.as_bytes());
    let dir = folder.path("nothing");
    let run = |version: &str| {
        let qemu = pretended(&folder, version);
        cxlab(&[
            &"vm", &"run", &scenario, &"--qemu", &qemu, &"--dir", &dir, &"--", &"stream",
        ])
    };
    refused(&run("7.2.22"), &["no guest in", "cxlab vm build"]);
    refused(
        &run("8.2.0"),
        &[
            "found QEMU emulator version 8.2.0",
            "allowed: QEMU 7.2 or 10.0",
        ],
    );
}

#[test]
fn windows_that_are_too_large_are_refused_before_anything_starts() {
    let Some(dir) = guest() else { return };
    let folder = Folder::new("vm-large");
    let scenario = folder.file("s.toml", SCENARIO.as_bytes());
    let set = "devices[0].capacity=\"1024 GiB\"";
    let output = cxlab(&[
        &"vm", &"run", &scenario, &"--set", &set, &"--dir", &dir, &"--", &"chase",
    ]);
    refused(&output, &["GiB of CXL memory", "allowed: 64 GiB"]);
}

/// Rows: scenario | options | texts that the message has.
const REFUSED: &str = r"
two | --host node2 | --host: found `node2` | allowed: node0, node1
two | --hosts node0,other | --hosts: found `other` | allowed: node0, node1
two | --hosts node1,node1 | found `node1` twice | each host once
two | --host node0 --hosts node1 | --host | --hosts | cannot be used
nine | | found 9 hosts | allowed: 8 guests | --hosts
common | | `node0` and `node1` | same memory of `near` | [[regions]] | --host
two | --host-clock | --host-clock | several guests | allowed: one
two | --host node0 --window=1_us | --window: found one guest
one | --window=1_us | --window: found one guest
two | --window=2_ms | --window: found 2 ms | allowed: 0 ns to 1 ms
two | --window soon | --window | soon
two | --program chase | --program: found `chase` | HOST=WORDS
two | --program node7=chase | --program: found `node7` | node0, node1
two | --program=node1=_ | --program: found `node1= ` | with a program
two | --host node0 --program node1=chase | --program: found `node1=chase` | hosts that are guests
two | --program node1=chase --program node1=stream | --program: found `node1=stream` | one program for each host
two | --program node1=no-such-program | `no-such-program` is not found
two | --memory node1=sea | --memory: found `sea` | local
two | --memory node9=local | --memory: found `node9=local`
one | --pmem /nowhere --devdax | --pmem | --devdax | cannot be used
one | --pmem /nowhere --boot | --pmem | --boot | cannot be used
two | --host node0 --memory node1=local | --memory: found `node1=local` | hosts that are guests
one | --from-roi | --from-roi: found 3 memories | allowed: one
one | --from-save | --from-save: found 3 memories | allowed: one
two | --from-save | --from-save: found several guests | allowed: one
one | --from-save --boot | --from-save | --boot | cannot be used
one | --from-save --pmem /nowhere | --from-save | --pmem | cannot be used
two | --cpus 9 | found 9 processors | allowed: 1 to 8
";

#[test]
fn what_guests_cannot_be_asked_for_is_refused_before_anything_starts() {
    let folder = Folder::new("vm-asked");
    let region = "[[regions]]\nname = \"own\"\ncapacity = \"512 MiB\"\n";
    let chain = |text: &str| text.replace("kind = \"direct\"", "kind = \"chain\", switches = 1");
    // So many hosts share the memory of two devices.
    let own = |count: &str| {
        let large = hosts(region).replace("\"256 MiB\"\ncontroller", "\"4 GiB\"\ncontroller");
        chain(&large.replace("count = 2", count))
    };
    let file = |name: &str, text: String| -> (String, PathBuf) {
        (
            name.to_owned(),
            folder.file(&format!("{name}.toml"), text.as_bytes()),
        )
    };
    let scenarios = [
        file("one", SCENARIO.to_owned()),
        file("two", own("count = 2")),
        file("nine", own("count = 9")),
        file("common", chain(&hosts(""))),
    ];
    for row in REFUSED.lines().filter(|row| !row.is_empty()) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let scenario = scenarios.iter().find(|(name, _)| name == cells[0]);
        let (_, scenario) = scenario.unwrap();
        // An underscore stands for a blank within an option.
        let options: Vec<String> = cells[1]
            .split_whitespace()
            .map(|word| word.replace('_', " "))
            .collect();
        let mut args: Vec<&dyn AsRef<OsStr>> = vec![&"vm", &"run", scenario];
        args.extend([&"--qemu" as &dyn AsRef<_>, &"/nowhere/qemu"]);
        args.extend(options.iter().map(|word| word as &dyn AsRef<_>));
        args.extend([&"--" as &dyn AsRef<_>, &"chase"]);
        refused(&cxlab(&args), &cells[2..]);
    }
}
