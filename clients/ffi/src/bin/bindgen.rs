//! Writes the bindings of another language: `bindgen generate LIBRARY --language kotlin --out-dir FOLDER`.

fn main() {
    uniffi::uniffi_bindgen_main();
}
