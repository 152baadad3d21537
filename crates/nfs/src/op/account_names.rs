//! The look-up of accounts of a domain that attributes name, before an operation needs their names.
//!
//! A directory has the names, and it may take long. Without the look-up the first client that sets an entry
//! for `bob@corp.example` would get NFS4ERR_BADOWNER. And a client that caches access lists, as Linux does,
//! would go on to show the SID that the server shows while it does not know a name.

use std::sync::Arc;

use nfs_wire::attr::{AceFlags, Attr, AttrNum, Bitmap, Fattr};
use share::Item;
use share::engine::AccountQuery;

use crate::attributes::acl;
use crate::attributes::set::SetAttributes;
use crate::compound::{Run, Stop};
use crate::config::Export;

/// The attributes that name accounts.
const NAMING: [AttrNum; 4] = [AttrNum::Owner, AttrNum::OwnerGroup, AttrNum::Acl, AttrNum::Dacl];

/// Reads the attributes of a request.
///
/// # Errors
/// [`Stop::Work`] if a name must be looked up and that may not happen here; those of [`SetAttributes::read`].
pub fn read(run: &Run, export: &Export, given: &Fattr<'_>) -> Result<SetAttributes, Stop> {
    look_up_given(run, export, given)?;
    Ok(SetAttributes::read(given, run.minor, export.engine.config().accounts.as_ref())?)
}

/// The same for a new object.
///
/// # Errors
/// As [`read`]; those of [`SetAttributes::read_for_new`].
pub fn read_for_new(run: &Run, export: &Export, given: &Fattr<'_>) -> Result<SetAttributes, Stop> {
    look_up_given(run, export, given)?;
    Ok(SetAttributes::read_for_new(given, run.minor, export.engine.config().accounts.as_ref())?)
}

/// Looks up the accounts that attributes name and that are not known.
fn look_up_given(run: &Run, export: &Export, given: &Fattr<'_>) -> Result<(), Stop> {
    if !names_accounts(&given.mask) {
        return Ok(());
    }
    let accounts = &*Arc::clone(&export.engine.config().accounts);
    if accounts.domains().is_empty() {
        return Ok(());
    }
    let mut unknown = Vec::new();
    let mut note = |name, is_group| unknown.extend(acl::unknown_account(name, is_group, accounts));
    // Attributes that cannot be read have their error later.
    for attribute in given.iter().flatten() {
        let entries = match attribute {
            Attr::Owner(name) => {
                note(name, false);
                continue;
            }
            Attr::OwnerGroup(name) => {
                note(name, true);
                continue;
            }
            Attr::Acl(entries) => entries,
            Attr::Dacl(list) => list.aces,
            _ => continue,
        };
        for entry in entries.iter().take(acl::MAX_ENTRIES) {
            note(entry.who, entry.flag.contains(AceFlags::IDENTIFIER_GROUP));
        }
    }
    look_up(run, export, &unknown)
}

/// Looks up the accounts in the access list of an object, if a client has asked for the list.
///
/// # Errors
/// [`Stop::Work`] if that may not happen here; the status of the engine's error.
pub fn look_up_shown(run: &Run, export: &Export, item: &Item, wanted: &Bitmap) -> Result<(), Stop> {
    let is_list = wanted.has(AttrNum::Acl.get()) || wanted.has(AttrNum::Dacl.get());
    let accounts = &*Arc::clone(&export.engine.config().accounts);
    if !is_list || accounts.domains().is_empty() {
        return Ok(());
    }
    let (descriptor, _) = export.engine.item_descriptor(item)?;
    let unknown = acl::unnamed_accounts(&descriptor, accounts);
    look_up(run, export, &unknown)
}

/// Asks for accounts where the operation may wait. Those that the directory does not have are remembered, and
/// the operation goes on without them.
fn look_up(run: &Run, export: &Export, unknown: &[AccountQuery<'_>]) -> Result<(), Stop> {
    if unknown.is_empty() {
        return Ok(());
    }
    run.may_wait()?;
    export.engine.config().accounts.look_up(unknown);
    Ok(())
}

fn names_accounts(mask: &Bitmap) -> bool {
    NAMING.iter().any(|number| mask.has(number.get()))
}
