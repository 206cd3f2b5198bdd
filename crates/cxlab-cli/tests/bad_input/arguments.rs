//! Broken arguments (`arguments.txt`).

use crate::BASE;
use crate::common::{check_all, complaints, finish};
use crate::table::{columns, numbered_folder, rows};

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
        let says = &columns[1..];
        assert!(!says.is_empty(), "{name} does not say what is reported");
        complaints(
            name,
            &folder.cxlab(&columns[0].replace("DIR", dir)),
            1,
            says,
        )
    });
    assert!(!folder.path("out").exists() && !folder.path("t.cxlt").exists());
    assert!(cxlab_system::output::is_special(std::path::Path::new(
        "/dev/null"
    )));
}

#[test]
fn capture_without_valgrind_says_how_to_get_it() {
    let folder = numbered_folder();
    let mut command = folder.command("trace capture -o t.cxlt -- /bin/true");
    let output = finish(command.env("PATH", ""));
    let says = ["`valgrind` is not installed", "apt-get install"];
    assert_eq!(complaints("capture", &output, 1, &says), None);
    assert!(!folder.path("t.cxlt").exists());
}
