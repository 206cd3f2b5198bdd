//! `cxlab-bindgen INPUT.wasm FOLDER`: the module and its JavaScript for pages and workers.

use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, folder] = arguments.as_slice() else {
        eprintln!("error: found {} arguments; allowed: INPUT.wasm FOLDER", arguments.len());
        return ExitCode::from(2);
    };
    let written = Bindgen::new()
        .input_path(input)
        .remove_name_section(true)
        .remove_producers_section(true)
        .web(true)
        .and_then(|bindgen| bindgen.typescript(true).out_name("cxlab").generate(folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {input}: {error:?}");
            ExitCode::FAILURE
        }
    }
}
