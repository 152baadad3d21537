//! The listing of a directory: from its stored entries ([`super::pages`]), or from the volume, whose answer
//! is then stored.

use std::ops::ControlFlow;
use std::sync::Arc;

use volume::{DirEntry, Node};

use super::Names;
use super::directory::Directory;
use super::pages::StoredListing;
use crate::Refusal;

/// Most entries that are stored of one directory.
const MAX_ENTRIES: usize = 1 << 16;

/// Passes an entry to the caller, who may break off.
type EntrySink<'a> = &'a mut dyn FnMut(&DirEntry) -> ControlFlow<()>;

/// Entries that are collected on their way from the volume, as long as they are not too many.
struct EntryCollector(Option<Vec<DirEntry>>);

impl EntryCollector {
    fn add(&mut self, entry: &DirEntry) -> bool {
        self.0 = self.0.take().filter(|entries| entries.len() < MAX_ENTRIES);
        if let Some(entries) = &mut self.0 {
            entries.push(entry.clone());
        }
        self.0.is_some()
    }
}

impl Names {
    /// Passes the entries of a directory behind a cookie to `show`, without the volume if they are known.
    ///
    /// # Errors
    /// The volume's error.
    pub fn entries(
        &self,
        here: &Directory,
        node: &dyn Node,
        cookie: u64,
        show: EntrySink<'_>,
    ) -> Result<(), Refusal> {
        if !here.reports_changes() {
            return Ok(node.entries(cookie, &mut |entry| show(&entry))?);
        }
        let generation = here.pages.generation();
        let listed = match here.pages.get(generation) {
            None if cookie != 0 && here.pages.broke_off(generation) => {
                self.list_whole(here, node, generation)?
            }
            known => known,
        };
        if let Some(behind) = listed.as_ref().and_then(|listed| listed.behind(cookie)) {
            let _shown = behind.iter().try_for_each(show);
            return Ok(());
        }
        if cookie != 0 {
            return Ok(node.entries(cookie, &mut |entry| show(&entry))?);
        }
        let was_too_many = here.pages.has_too_many();
        let (mut passing, mut is_whole) = (EntryCollector((!was_too_many).then(Vec::new)), true);
        node.entries(0, &mut |entry| {
            passing.add(&entry);
            let flow = show(&entry);
            is_whole = flow.is_continue();
            flow
        })?;
        if passing.0.is_none() && !was_too_many {
            here.pages.note_too_many();
        }
        match passing.0.filter(|_| is_whole) {
            Some(entries) => drop(self.keep_listed(here, generation, entries)),
            None => here.pages.break_off(generation),
        }
        Ok(())
    }

    /// Scans a whole directory; none if there are too many entries, or if names have changed meanwhile.
    fn list_whole(
        &self,
        here: &Directory,
        node: &dyn Node,
        generation: u64,
    ) -> Result<Option<Arc<StoredListing>>, Refusal> {
        let mut passing = EntryCollector(Some(Vec::new()));
        node.entries(0, &mut |entry| {
            if passing.add(&entry) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        // It is not tried again for each page, nor for each listing of a directory that is too large.
        here.pages.forget();
        if passing.0.is_none() {
            here.pages.note_too_many();
        }
        Ok(passing.0.and_then(|entries| self.keep_listed(here, generation, entries)))
    }

    fn keep_listed(
        &self,
        here: &Directory,
        generation: u64,
        entries: Vec<DirEntry>,
    ) -> Option<Arc<StoredListing>> {
        if here.pages.generation() != generation || !self.cache().is_on() {
            return None;
        }
        let listed = Arc::new(StoredListing::new(generation, entries, self.directories().names()));
        self.directories().make_room(here);
        here.pages.keep(Arc::clone(&listed));
        Some(listed)
    }
}
