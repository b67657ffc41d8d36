//! Writes the JavaScript around a WebAssembly file into a folder: `bindgen FILE FOLDER`.

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let (file, folder) = arguments.next().zip(arguments.next()).context("usage: bindgen FILE FOLDER")?;
    let mut bindgen = Bindgen::new();
    bindgen.input_path(file).out_name("sealing").web(true)?.typescript(true).omit_default_module_path(false);
    bindgen.remove_name_section(true).remove_producers_section(true).generate(folder)
}
