//! A page that a command writes: there when it is whole, and not before.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The page of `--html`: it has its name when it is whole, and whether it can be had is known before anything
/// is measured.
pub struct Page {
    part: PathBuf,
    place: PathBuf,
}

impl Page {
    /// Begins it.
    pub fn begin(place: &Path) -> anyhow::Result<Page> {
        let mut part = place.as_os_str().to_owned();
        part.push(".part");
        let page = Page { part: part.into(), place: place.to_owned() };
        page.write("")?;
        Ok(page)
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        fs::write(&self.part, text).with_context(|| self.doing())
    }

    /// Gives it what it holds, and its name.
    pub fn end(self, text: &str) -> anyhow::Result<()> {
        self.write(text)?;
        fs::rename(&self.part, &self.place).with_context(|| self.doing())
    }

    fn doing(&self) -> String {
        format!("--html {}: the page cannot be written", self.place.display())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It is not there when the page is whole.
        let _ = fs::remove_file(&self.part);
    }
}
