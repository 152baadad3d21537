//! The sidecar data of files of an export.

use client::nfs::{ExportDirectory, ExportFile, NfsStat, Security};

use crate::PreservedParts;
use crate::error::{Fault, FileResult, OWNER};
use crate::sidecar::{List, Lost, Owner, OwnerId, Sidecar, SidecarOutcome, Xattr};

/// A file or a directory. Both have the same operations.
pub(in crate::tree) enum NfsNode<'a> {
    File(&'a ExportFile),
    Directory(&'a ExportDirectory),
}

macro_rules! of_node {
    ($self:expr, $node:ident => $call:expr) => {
        match $self {
            NfsNode::File($node) => $call,
            NfsNode::Directory($node) => $call,
        }
    };
}

impl NfsNode<'_> {
    pub(in crate::tree) async fn read(&self, keep: &PreservedParts) -> FileResult<Sidecar> {
        let mut found = Sidecar::default();
        if keep.lists || keep.owners {
            let security = of_node!(self, node => node.security(keep.lists).await)?;
            if let (Some(user), Some(group)) = (security.owner, security.group) {
                found.owner = Some(Owner { user: OwnerId::Name(user), group: OwnerId::Name(group) });
            }
            found.list = security.list.map(List::Nfs);
        }
        if keep.xattrs {
            let names = match of_node!(self, node => node.extended_attributes().await).map_err(Fault::from) {
                Err(fault) if fault.is_unsupported() => Vec::new(),
                other => other?,
            };
            for name in names {
                match of_node!(self, node => node.extended_attribute(&name).await) {
                    Ok(value) => found.xattrs.push(Xattr { name, value }),
                    // It was removed after it was listed.
                    Err(error) if error.nfs_status() == Some(NfsStat::NoXattr) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(found)
    }

    /// Sets the sidecar data of another file. Returns what the export cannot hold.
    pub(in crate::tree) async fn write(
        &self,
        found: &Sidecar,
        keep: &PreservedParts,
    ) -> FileResult<SidecarOutcome> {
        let SidecarOutcome { list: mut has_list, owner: mut has_owner, mut lost } = SidecarOutcome::default();
        // The owner goes first, because the entries for OWNER@ apply to the owner at that time.
        if keep.owners
            && let Some(owner) = &found.owner
        {
            let (user, group) = (Some(owner.user.name(false)), Some(owner.group.name(true)));
            let security = Security { owner: user, group, list: None };
            match of_node!(self, node => node.set_security(&security).await) {
                Err(error) if error.nfs_status() == Some(NfsStat::BadOwner) => lost.push(Lost::Owner),
                Err(error) if error.nfs_status() == Some(NfsStat::Perm) => {
                    return Err(Fault::Said(format!("{error}; {OWNER}")));
                }
                other => {
                    other?;
                    has_owner = true;
                }
            }
        }
        if keep.lists
            && let Some(list) = found.list.as_ref().filter(|list| says_more_than_mode(list))
        {
            let (list, all) = list.to_nfs(found.owner.as_ref());
            let security = Security { list: Some(list), ..Security::default() };
            match of_node!(self, node => node.set_security(&security).await).map_err(Fault::from) {
                Err(fault) if fault.is_unsupported() => lost.push(Lost::List),
                Err(Fault::Remote(error)) if error.nfs_status() == Some(NfsStat::BadOwner) => {
                    lost.push(Lost::List);
                }
                other => {
                    other?;
                    // The bits of a file of an export say more than its list: who may run it over NFS, and
                    // whose rights it lends. They go with their list, and are set after it.
                    has_list = !matches!(found.list, Some(List::Nfs(_)));
                    lost.extend((!all).then_some(Lost::PartOfList));
                }
            }
        }
        for Xattr { name, value } in &found.xattrs {
            match of_node!(self, node => node.set_extended_attribute(name, value).await).map_err(Fault::from)
            {
                Err(fault) if fault.is_unsupported() => lost.push(Lost::Xattr),
                other => other?,
            }
        }
        Ok(SidecarOutcome { list: has_list, owner: has_owner, lost })
    }
}

/// Whether the list has more than permission bits, which are set with the times and need no list.
fn says_more_than_mode(list: &List) -> bool {
    match list {
        List::Posix(list) => !list.access.is_empty() || !list.default.is_empty(),
        List::Nt(_) | List::Nfs(_) => true,
    }
}
