//! The files outside of the store. A path below the store's folder is stored relative to the folder. A system can move
//! an app's folder, as iOS does at each update. `.` begins such a path.

use std::path::{Path, PathBuf};

use pigeonhole_core::{Outgoing, Queued, Source};

/// Returns the path as the store keeps it.
pub(crate) fn kept(folder: &Path, path: &Path) -> PathBuf {
    let outside = || path.strip_prefix(".").unwrap_or(path).to_owned();
    path.strip_prefix(folder).map_or_else(|_| outside(), |below| Path::new(".").join(below))
}

/// Returns the path that a kept one means now.
pub(crate) fn found(folder: &Path, kept: &Path) -> PathBuf {
    kept.strip_prefix(".").map_or_else(|_| kept.to_owned(), |below| folder.join(below))
}

pub(crate) fn kept_text(folder: &Path, path: &str) -> String {
    kept(folder, path.as_ref()).to_string_lossy().into_owned()
}

pub(crate) fn found_text(folder: &Path, kept: &str) -> String {
    found(folder, kept.as_ref()).to_string_lossy().into_owned()
}

/// Changes the path of the file that a request sends.
pub(crate) fn with_path(mut queued: Queued, change: impl FnOnce(&Path) -> PathBuf) -> Queued {
    if let Outgoing::Message { media: Some(upload), .. } = &mut queued.outgoing
        && let Source::File(path) = &mut upload.source
    {
        *path = change(path);
    }
    queued
}

/// Returns the folder of a store.
pub(crate) fn folder_of(store: &Path) -> &Path {
    store.parent().unwrap_or_else(|| Path::new(""))
}
