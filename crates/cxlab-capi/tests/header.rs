//! `include/cxlab.h` is what cbindgen makes of this crate. `CXLAB_UPDATE_DOCS=1` writes it.

use std::path::Path;

#[test]
fn the_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("a configuration");
    let sources = ["abi.rs", "status.rs", "ports.rs", "results.rs"];
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = sources.iter().fold(builder, |builder, source| {
        builder.with_src(root.join("src").join(source))
    });
    let mut made = Vec::new();
    builder.generate().expect("bindings").write(&mut made);
    let made = String::from_utf8(made).expect("UTF-8");
    let path = root.join("../../include/cxlab.h");
    if std::env::var_os("CXLAB_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).expect("the header is written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == made,
        "include/cxlab.h is not current; CXLAB_UPDATE_DOCS=1 cargo test -p cxlab-capi --test header writes it"
    );
}
