//! Files with users' messages: only the user of the program may read them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates a file, or empties the existing one.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let file = options().create(true).truncate(true).open(path)?;
    // The mode above is that of a new file.
    restrict(&file)?;
    Ok(file)
}

/// Creates a file at a path where none exists.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    options().create_new(true).open(path)
}

/// Creates a folder if none exists.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut folder = DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(path)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(unix)]
fn restrict(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on unix")]
fn restrict(_: &File) -> io::Result<()> {
    Ok(())
}
