//! Writes the contract's files.

fn main() -> std::io::Result<()> {
    contract::files().into_iter().try_for_each(|(path, text)| std::fs::write(path, text))
}
