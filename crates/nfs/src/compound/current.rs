//! The current and the saved filehandle (RFC 8881 16.2.3.1).

use std::sync::Arc;

use nfs_wire::NfsStat;
use share::Item;
use wire::Now;

use crate::config::Export;
use crate::server::Server;
use crate::state::filehandle::{CheckedHandle, Handle};

/// A current or saved filehandle. Its item is looked up when an operation needs it; READ and WRITE do not. An
/// item that was found by name gets its filehandle when an operation asks for one.
#[derive(Debug, Clone)]
pub struct Current {
    origin: Origin,
    /// The filehandle of an item that was found by name.
    handle: Option<Handle>,
    item: Option<Item>,
}

/// The origin of a filehandle.
#[derive(Debug, Clone)]
enum Origin {
    /// The client sent it.
    Sent(Arc<CheckedHandle>),
    /// It was found by its name in an export.
    Named(Arc<Export>),
}

impl Current {
    /// The pseudo root.
    ///
    /// # Errors
    /// None in practice: a handle without an address always fits.
    pub fn root(server: &Server) -> Result<Current, NfsStat> {
        let handle = server.handles.make(0, &[]).ok_or(NfsStat::ServerFault)?;
        Ok(Current::of(&Arc::new(CheckedHandle { handle, export: None })))
    }

    /// From a filehandle that was checked.
    #[must_use]
    pub fn of(known: &Arc<CheckedHandle>) -> Current {
        Current { origin: Origin::Sent(Arc::clone(known)), handle: None, item: None }
    }

    /// From an item that was found in an export.
    #[must_use]
    pub fn of_item(export: &Arc<Export>, item: Item) -> Current {
        Current { origin: Origin::Named(Arc::clone(export)), handle: None, item: Some(item) }
    }

    /// The filehandle.
    ///
    /// # Errors
    /// If the item has no address, and so no filehandle.
    #[inline]
    pub fn handle(&mut self, server: &Server, now: Now) -> Result<Handle, NfsStat> {
        let export = match (&self.origin, self.handle) {
            (Origin::Sent(known), _) => return Ok(known.handle),
            (Origin::Named(_), Some(handle)) => return Ok(handle),
            (Origin::Named(export), None) => export,
        };
        let Some(item) = &self.item else { return Err(NfsStat::ServerFault) };
        let handle = handle_of(server, export, item)?;
        server.keep_item(&handle, item, now);
        Ok(*self.handle.insert(handle))
    }

    /// The filehandle, if it is known already.
    #[must_use]
    pub fn known_handle(&self) -> Option<&Handle> {
        match &self.origin {
            Origin::Sent(known) => Some(&known.handle),
            Origin::Named(_) => self.handle.as_ref(),
        }
    }

    /// The item, if it is known already.
    #[must_use]
    pub fn known_item(&self) -> Option<Item> {
        self.item.clone()
    }

    /// The export; none for the pseudo root.
    #[inline]
    #[must_use]
    pub fn export(&self) -> Option<&Arc<Export>> {
        match &self.origin {
            Origin::Sent(known) => known.export.as_ref(),
            Origin::Named(export) => Some(export),
        }
    }

    /// The item in its export. None for the pseudo root.
    ///
    /// # Errors
    /// NFS4ERR_STALE, or the status of the engine's error.
    pub fn item(&mut self, server: &Server, now: Now) -> Result<Option<(Arc<Export>, Item)>, NfsStat> {
        let Some(export) = self.export().map(Arc::clone) else { return Ok(None) };
        export.engine.take_host_changes(now);
        let item = match (&self.item, &self.origin) {
            (Some(item), _) => item.clone(),
            (None, Origin::Sent(known)) => {
                let item = server.item(&export, &known.handle, now)?;
                self.item.insert(item).clone()
            }
            (None, Origin::Named(_)) => return Err(NfsStat::ServerFault),
        };
        Ok(Some((export, item)))
    }
}

/// Builds the filehandle of an item.
///
/// # Errors
/// If the item has no address.
pub fn handle_of(server: &Server, export: &Export, item: &Item) -> Result<Handle, NfsStat> {
    let address = item.address().map_err(|why| crate::status::of(&why))?;
    handle_at(server, export, &address)
}

/// Builds the filehandle of an address.
///
/// # Errors
/// If the address is too long.
pub fn handle_at(server: &Server, export: &Export, address: &[u8]) -> Result<Handle, NfsStat> {
    server.handles.make(export.id, address).ok_or(NfsStat::ServerFault)
}
