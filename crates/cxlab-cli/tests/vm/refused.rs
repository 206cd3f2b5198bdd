//! What `cxlab vm` refuses before anything starts.

use std::path::PathBuf;

use super::common::{Folder, command, finish};
use super::{SCENARIO, guest, hosts, vm_run};

#[test]
fn without_qemu_the_message_says_how_to_get_it() {
    let folder = Folder::new("vm-qemu");
    folder.file("s.toml", SCENARIO.as_bytes());
    for words in [
        "build --qemu /nowhere/qemu",
        "run --qemu /nowhere/qemu s.toml -- stream",
    ] {
        let output = folder.cxlab(&format!("vm {words}")).ends(2);
        output.says(&["/nowhere/qemu", "apt-get install qemu-system-x86"]);
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
    folder.file("s.toml", SCENARIO.as_bytes());
    for (version, says) in [
        ("7.2.22", ["no guest in", "cxlab vm build"]),
        (
            "8.2.0",
            [
                "found QEMU emulator version 8.2.0",
                "allowed: QEMU 7.2 or 10.0",
            ],
        ),
    ] {
        let qemu = pretended(&folder, version);
        let run = format!(
            "vm run s.toml --qemu '{}' --dir nothing -- stream",
            qemu.display()
        );
        folder.cxlab(&run).ends(2).says(&says);
    }
}

#[test]
fn windows_that_are_too_large_are_refused_before_anything_starts() {
    let Some(dir) = guest() else { return };
    let folder = Folder::new("vm-large");
    let scenario = folder.file("s.toml", SCENARIO.as_bytes());
    let set = "devices[0].capacity=\"1024 GiB\"";
    let mut run = command(&[&"vm", &"run", &scenario, &"--set", &set, &"--dir", &dir]);
    let refused = finish(run.args(["--", "chase"])).ends(2);
    refused.says(&["GiB of CXL memory", "allowed: 64 GiB"]);
}

/// Checks rows: scenario | options | texts that the message has. An underscore stands for a blank within an option.
pub(super) fn check_rows(rows: &str, scenario: impl Fn(&str) -> PathBuf, program: &str) {
    for row in rows.lines().filter(|row| !row.is_empty()) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let options = format!("--qemu /nowhere/qemu {}", cells[1]);
        let options = options.split_whitespace();
        let options: Vec<String> = options.map(|word| word.replace('_', " ")).collect();
        let mut run = vm_run(&scenario(cells[0]), &options, &[program]);
        finish(&mut run).ends(2).says(&cells[2..]);
    }
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
    // So many hosts share the memory of two devices.
    let chain = |text: &str| text.replace("kind = \"direct\"", "kind = \"chain\", switches = 1");
    let own = |count: &str| {
        let large = hosts(region).replace("\"256 MiB\"\ncontroller", "\"4 GiB\"\ncontroller");
        chain(&large.replace("count = 2", count))
    };
    let scenario = |name: &str| {
        let text = match name {
            "one" => SCENARIO.to_owned(),
            "two" => own("count = 2"),
            "nine" => own("count = 9"),
            "common" => chain(&hosts("")),
            other => panic!("no scenario {other}"),
        };
        folder.file(&format!("{name}.toml"), text.as_bytes())
    };
    check_rows(REFUSED, scenario, "chase");
}
