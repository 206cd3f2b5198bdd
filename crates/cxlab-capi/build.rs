//! Gives the shared library the name under which programs look for it at run time.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The number is the major version of the ABI (`CXLAB_ABI_MAJOR` in src/abi.rs).
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcxlab.so.1");
    }
}
