//! The HTML page of a command. It gets its name only when it is complete.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The page of `--html`. It gets its name only when it is complete. An error in creating it is found before
/// any measurement.
pub struct Page {
    part: PathBuf,
    path: PathBuf,
}

impl Page {
    /// Starts a page as an empty file beside its final name.
    pub fn begin(path: &Path) -> anyhow::Result<Page> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let page = Page { part: part.into(), path: path.to_owned() };
        page.write("")?;
        Ok(page)
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        fs::write(&self.part, text).with_context(|| self.doing())
    }

    /// Writes the page and renames it to its final name.
    pub fn end(self, text: &str) -> anyhow::Result<()> {
        self.write(text)?;
        fs::rename(&self.part, &self.path).with_context(|| self.doing())
    }

    fn doing(&self) -> String {
        format!("--html {}: the page cannot be written", self.path.display())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // A complete page has been renamed, so this removes nothing then.
        let _ = fs::remove_file(&self.part);
    }
}
