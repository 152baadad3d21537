//! What files of an export have beside their data.

use client::nfs::{Directory, File as NfsFile, NfsStat, Security};

use crate::Keep;
use crate::beside::{Beside, Given, List, Lost, Owner, Who, Xattr};
use crate::error::{Done, Fault};

/// A file or a directory: both can be asked the same.
pub(super) enum Node<'a> {
    File(&'a NfsFile),
    Directory(&'a Directory),
}

macro_rules! of_node {
    ($self:expr, $node:ident => $call:expr) => {
        match $self {
            Node::File($node) => $call,
            Node::Directory($node) => $call,
        }
    };
}

impl Node<'_> {
    /// What it has.
    pub(super) async fn beside(&self, keep: &Keep) -> Done<Beside> {
        let mut found = Beside::default();
        if keep.lists || keep.owners {
            let security = of_node!(self, node => node.security(keep.lists).await)?;
            if let (Some(user), Some(group)) = (security.owner, security.group) {
                found.owner = Some(Owner { user: Who::Name(user), group: Who::Name(group) });
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
                    // It was taken away since it was listed.
                    Err(error) if error.nfs_status() == Some(NfsStat::NoXattr) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(found)
    }

    /// Gives it what another one has.
    pub(super) async fn set_beside(&self, found: &Beside, keep: &Keep) -> Done<Given> {
        let Given { list: mut has_list, owner: mut has_owner, mut lost } = Given::default();
        // The owner goes first: what a list says of OWNER@ is said of who owns the file then.
        if keep.owners
            && let Some(owner) = &found.owner
        {
            let (user, group) = (Some(owner.user.name(false)), Some(owner.group.name(true)));
            let security = Security { owner: user, group, list: None };
            match of_node!(self, node => node.set_security(&security).await) {
                Err(error) if error.nfs_status() == Some(NfsStat::BadOwner) => lost.push(Lost::Owner),
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
                Err(Fault::Server(error)) if error.nfs_status() == Some(NfsStat::BadOwner) => {
                    lost.push(Lost::List);
                }
                other => {
                    other?;
                    // The bits of a file of an export say more than its list: who may run it over NFS, and whose rights it lends. They
                    // go with their list, and are set behind it.
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
        Ok(Given { list: has_list, owner: has_owner, lost })
    }
}

/// Permission bits are set with the times, and need no list.
fn says_more_than_mode(list: &List) -> bool {
    match list {
        List::Posix(list) => !list.access.is_empty() || !list.default.is_empty(),
        List::Nt(_) | List::Nfs(_) => true,
    }
}
