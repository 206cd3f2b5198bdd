//! Broken traces, given to `trace import` and to a scenario.

use crate::BASE;
use crate::common::{Folder, check_all, complaints};
use crate::table::{changed, numbered_folder};

/// Bytes of a `.cxlt` footer (docs/guide/traces.md): tag, records, blocks, checksums.
const FOOTER: usize = 25;

/// A trace of a few records, as `.cxlt`.
fn good_trace(folder: &Folder) -> Vec<u8> {
    let rows: String = (0..200)
        .map(|row| format!("{:#x} R {row}\n", row * 64))
        .collect();
    folder.file("good.trace", rows.as_bytes());
    let imported = folder.cxlab("trace import good.trace -o good.cxlt");
    imported.ends(0);
    std::fs::read(folder.path("good.cxlt")).unwrap()
}

#[test]
fn a_broken_trace_is_one_report_with_file_place_field_value_and_what_is_allowed() {
    let folder = numbered_folder();
    let good = good_trace(&folder);
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        bytes
    };
    let len = good.len();
    let text = |text: &str| text.as_bytes().to_vec();
    // The name of the file, its bytes, and what the report says.
    #[rustfmt::skip]
    let cases: &[(&str, Vec<u8>, &[&str])] = &[
        ("empty.cxlt", Vec::new(), &["empty.cxlt", "truncated"]),
        ("empty.trace", Vec::new(), &["empty.trace", "0", "records"]),
        ("magic.cxlt", flipped(0), &["magic.cxlt: at byte 0", "`magic`", "found [", "allowed: ["]),
        ("version.cxlt", flipped(8), &["at byte 8", "`version`", "found 84", "allowed: 1"]),
        ("header.cxlt", flipped(20), &["`checksum`", "does not match"]),
        ("short.cxlt", good[..len - 3].to_vec(), &["short.cxlt: block", "truncated"]),
        ("half.cxlt", good[..len / 2].to_vec(), &["half.cxlt", "truncated"]),
        ("size.cxlt", flipped(len - 60), &["block 0", "`time bytes`", "allowed: 200 to 2000"]),
        ("flipped.cxlt", flipped(len - FOOTER - 2), &["flipped.cxlt: block 0", "`checksum`"]),
        ("longer.cxlt", [good.as_slice(), b"x"].concat(), &["`footer`", "goes on"]),
        ("op.trace", text("0x40 R 0\n0x80 X 1\n"), &["op.trace:2", "found `X`", "allowed: R, W"]),
        ("hex.trace", text("0x40 R 0\n\n0xzz R 1\n"), &["hex.trace:3", "`0xzz`", "hexadecimal"]),
        ("time.trace", text("0x40 R soon\n"), &["time.trace:1", "`soon`", "nanoseconds"]),
        ("more.trace", text("0x40 R 1 2\n"), &["more.trace:1", "found `2`", "three fields"]),
        ("big.trace", text("0x11111111111111111 R 1\n"), &["big.trace:1", "0x11111111111111111", "below 2^64"]),
        ("column.csv", text("adress,op\n1,R\n"), &["column.csv:1", "adress", "address"]),
        ("op.csv", text("address,op\n0x40,Q\n"), &["op.csv:2", "`Q`", "R"]),
        ("few.csv", text("address,op\n0x40\n"), &["few.csv:2"]),
        ("garbage.lackey", text("hello, world\n"), &["garbage.lackey:1", "hello"]),
        ("size.lackey", text(" L 1000,8\n L 1000,x\n"), &["size.lackey:2", "`x`"]),
        ("odd.champsimtrace", vec![0; 65], &["odd.champsimtrace", "64"]),
        ("cut.ptrc", b"gem5\x09".to_vec(), &["cut.ptrc: at byte 4", "`message`", "truncated"]),
        ("op.pinatrace", text("0x1: Q 0x2\n"), &["op.pinatrace:1", "`Q`", "R, W"]),
        ("noise.bin", vec![1, 2, 3, 4], &["noise.bin", "`format`", "champsim"]),
        ("packed.xz", b"\xfd7zXZ\0....".to_vec(), &["packed.xz", "xz", "gzip"]),
        ("cut.trace.gz", b"\x1f\x8b\x08\x00\x00".to_vec(), &["cut.trace.gz"]),
    ];
    check_all(cases, |number, (name, bytes, says)| {
        folder.file(name, bytes);
        let out = format!("out{number}.cxlt");
        let output = folder.cxlab(&format!("trace import {name} -o {out}"));
        let out = folder.path(&out);
        let left = || format!("import {name} leaves a file");
        let imported = complaints(&format!("import {name}"), &output, 1, says)
            .or_else(|| out.exists().then(left));
        // The same file as the workload of a scenario.
        let workload = format!("read_ratio = 0.5 -> path = \"{name}\"");
        let scenario = changed(BASE, &format!("\"uniform\" -> \"trace\" && {workload}"));
        let place = scenario.find("path = ").unwrap();
        let line = scenario[..place].matches('\n').count() + 1;
        let file = format!("scenario{number}.toml");
        folder.file(&file, scenario.as_bytes());
        let output = folder.cxlab(&format!("run {file}"));
        let line = format!("{file}:{line}:");
        let says = [*says, &["hosts[0].workload.path", &line]].concat();
        imported.or(complaints(&format!("replay {name}"), &output, 1, &says))
    });
}

#[test]
fn a_trace_that_cannot_be_used_is_one_report() {
    let folder = numbered_folder();
    good_trace(&folder);
    let base = changed(BASE, "\"uniform\" / read_ratio = 0.5 -> \"trace\"");
    let exact = changed(&base, "kind = \"trace\" ++ addresses = \"exact\"");
    folder.file("base.toml", base.as_bytes());
    folder.file("exact.toml", exact.as_bytes());
    folder.file("far.trace", b"0xffffffffffffffc0 R 0\n");
    let cases: [(&str, &[&str]); 6] = [
        ("trace info missing.cxlt", &["missing.cxlt", "No such file"]),
        ("trace head .", &["is a folder"]),
        (
            "trace import good.cxlt -o out.cxlt --format lackei",
            &["--format", "`lackei`", "champsim", "did you mean `lackey`?"],
        ),
        (
            "trace import good.cxlt -o out.cxlt --format text",
            &["good.cxlt:1", "`address`"],
        ),
        (
            "run base.toml --trace-file missing.cxlt",
            &["--trace-file", "missing.cxlt", "No such file"],
        ),
        (
            "run exact.toml --trace-file far.trace",
            &["far.trace", "`address`", "0xffffffffffffffc0", "32 GiB"],
        ),
    ];
    for (words, says) in cases {
        assert_eq!(complaints(words, &folder.cxlab(words), 1, says), None);
    }
    assert!(!folder.path("out.cxlt").exists());
}
