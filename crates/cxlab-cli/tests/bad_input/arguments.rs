//! Broken arguments (`arguments.txt`).

use std::ffi::OsStr;

use crate::BASE;
use crate::common::{self, check_all, complaints, cxlab};
use crate::table::{columns, numbered_folder, rows};

/// The words of a command, as a shell splits them: `'` quotes words with spaces.
fn words(command: &str) -> Vec<&str> {
    let pieces = command.split('\'').enumerate();
    let words = pieces.flat_map(|(number, piece)| match number % 2 {
        0 => piece.split_whitespace().collect(),
        _ => vec![piece],
    });
    words.collect()
}

#[test]
fn a_broken_argument_is_one_report_that_names_it() {
    let folder = numbered_folder();
    folder.file("base.toml", BASE.as_bytes());
    folder.file("spine-leaf.toml", BASE.as_bytes());
    folder.file("binary.toml", b"name = 1\n\x7fELF\x02\x01\x01\x00\xff\xfe");
    folder.file("latin.toml", b"# ok\nname = \"caf\xe9\"\n");
    folder.file("nul.toml", b"name = \"a\0b\"\n");
    let dir = folder.path("x");
    let dir = dir.parent().unwrap().to_str().unwrap();
    check_all(&rows("arguments"), |_, (name, row)| {
        let columns = columns(row);
        let words: Vec<String> = words(columns[0])
            .iter()
            .map(|word| word.replace("DIR", dir))
            .collect();
        let args: Vec<&dyn AsRef<OsStr>> = words.iter().map(|word| word as _).collect();
        let says = &columns[1..];
        assert!(!says.is_empty(), "{name} does not say what is reported");
        complaints(name, &cxlab(&args), 1, says)
    });
    assert!(!folder.path("out").exists() && !folder.path("t.cxlt").exists());
    assert!(cxlab_system::output::is_special(std::path::Path::new(
        "/dev/null"
    )));
}

#[test]
fn capture_without_valgrind_says_how_to_get_it() {
    let folder = numbered_folder();
    let out = folder.path("t.cxlt");
    let mut command = common::command(&[&"trace", &"capture", &"-o", &out, &"--", &"/bin/true"]);
    let output = common::finish(command.env("PATH", ""));
    let says = ["`valgrind` is not installed", "apt-get install"];
    assert_eq!(complaints("capture", &output, 1, &says), None);
    assert!(!out.exists());
}
