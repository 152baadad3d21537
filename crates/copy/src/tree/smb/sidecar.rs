//! The sidecar data of files of a share.

use client::smb::ExtendedAttribute;
use smb_wire::fscc::ea::{MAX_NAME, is_ea_name};
use smb_wire::query_info::SecurityInformation;
use volume::security::{Control, Descriptor};

use crate::PreservedParts;
use crate::error::{Fault, FileResult};
use crate::sidecar::{List, Lost, Owner, OwnerId, Sidecar, SidecarOutcome, Xattr};

/// The parts of a descriptor that a copy reads.
const PARTS: SecurityInformation = OWNERS.union(SecurityInformation::DACL);
const OWNERS: SecurityInformation = SecurityInformation::OWNER.union(SecurityInformation::GROUP);
/// The longest value, and the most bytes of one list.
const LONGEST: usize = 65_535;
const MOST: usize = 60 * 1024;

fn owner_of(descriptor: &Descriptor) -> Option<Owner> {
    Some(Owner { user: OwnerId::Sid(descriptor.owner?), group: OwnerId::Sid(descriptor.group?) })
}

/// An open file or directory.
pub(in crate::tree) struct SmbNode<'a>(pub(in crate::tree) &'a client::smb::File);

impl SmbNode<'_> {
    pub(in crate::tree) async fn read(&self, keep: &PreservedParts) -> FileResult<Sidecar> {
        let mut found = Sidecar::default();
        if keep.lists || keep.owners {
            let descriptor = self.descriptor(PARTS).await?;
            found.owner = owner_of(&descriptor);
            if keep.lists {
                found.list = Some(List::Nt(Box::new(descriptor)));
            }
        }
        if keep.xattrs {
            let list = match self.0.extended_attributes().await.map_err(Fault::from) {
                Err(fault) if fault.is_unsupported() => Vec::new(),
                other => other?,
            };
            found.xattrs = list.into_iter().map(|it| Xattr { name: it.name, value: it.value }).collect();
        }
        if keep.streams {
            let streams = self.0.streams().await?;
            found.streams = streams.into_iter().map(|it| (it.name, it.size)).collect();
        }
        Ok(found)
    }

    /// Sets the sidecar data of another file. Returns what the share cannot hold.
    pub(in crate::tree) async fn write(
        &self,
        found: &Sidecar,
        keep: &PreservedParts,
    ) -> FileResult<SidecarOutcome> {
        let mut given = SidecarOutcome::default();
        let set = self.set_security(found, keep, &mut given.lost).await?;
        given.list = set.contains(SecurityInformation::DACL);
        given.owner = set.contains(OWNERS);
        if !found.xattrs.is_empty() {
            self.set_xattrs(&found.xattrs, &mut given.lost).await?;
        }
        Ok(given)
    }

    async fn descriptor(&self, parts: SecurityInformation) -> FileResult<Descriptor> {
        let unreadable = |why| Fault::Said(format!("its security descriptor cannot be read: {why}"));
        Descriptor::parse(&self.0.security(parts).await?).map_err(unreadable)
    }

    /// Sets the owner and the access list. Returns the parts that were set.
    async fn set_security(
        &self,
        found: &Sidecar,
        keep: &PreservedParts,
        lost: &mut Vec<Lost>,
    ) -> FileResult<SecurityInformation> {
        let (mut given, mut parts) = (Descriptor::default(), SecurityInformation::empty());
        if keep.lists
            && let Some(list) = &found.list
        {
            // The entries for the owner apply to the owner of the copy.
            let owner = match keep.owners || matches!(list, List::Nt(_)) {
                true => found.owner.clone(),
                false => owner_of(&self.descriptor(OWNERS).await?),
            };
            let (descriptor, all) = list.to_nt(owner.as_ref());
            if !all {
                lost.push(Lost::PartOfList);
            }
            given.control = descriptor.control;
            if given.control.contains(Control::DACL_AUTO_INHERITED) {
                // MS-DTYP 2.4.6: without this the server ignores the other flag.
                given.control |= Control::DACL_AUTO_INHERIT_REQ;
            }
            given.control |= Control::DACL_PRESENT;
            given.dacl = descriptor.dacl;
            parts |= SecurityInformation::DACL;
        }
        if keep.owners {
            match found.owner.as_ref().map(Owner::sids) {
                Some(Some((user, group))) => {
                    (given.owner, given.group) = (Some(user), Some(group));
                    parts |= SecurityInformation::OWNER | SecurityInformation::GROUP;
                }
                Some(None) => lost.push(Lost::Owner),
                None => {}
            }
        }
        if parts.is_empty() {
            return Ok(parts);
        }
        let too_long = |why| Fault::Said(format!("its access list is too long for a share: {why}"));
        let bytes = given.encode().map_err(too_long)?;
        match self.0.set_security(parts, &bytes).await.map_err(Fault::from) {
            Err(fault) if fault.is_unsupported() => {
                lost.push(Lost::List);
                Ok(SecurityInformation::empty())
            }
            other => other.map(|()| parts),
        }
    }

    /// Sets extended attributes, in lists that fit a message.
    async fn set_xattrs(&self, all: &[Xattr], lost: &mut Vec<Lost>) -> FileResult<()> {
        let holds = |it: &&Xattr| {
            is_ea_name(&it.name)
                && it.name.len() <= MAX_NAME
                && (1..=LONGEST.min(MOST)).contains(&it.value.len())
        };
        let (mut list, mut length) = (Vec::new(), 0);
        lost.extend(all.iter().filter(|it| !holds(it)).map(|_| Lost::Xattr));
        let mut lists = Vec::new();
        for it in all.iter().filter(holds) {
            if length + it.value.len() + it.name.len() > MOST {
                lists.push(std::mem::take(&mut list));
                length = 0;
            }
            // This includes headers and padding.
            length += it.value.len() + it.name.len() + 16;
            list.push(ExtendedAttribute { name: it.name.clone(), value: it.value.clone() });
        }
        lists.push(list);
        for list in lists.into_iter().filter(|list| !list.is_empty()) {
            match self.0.set_extended_attributes(&list).await.map_err(Fault::from) {
                Err(fault) if fault.is_unsupported() => lost.extend(list.iter().map(|_| Lost::Xattr)),
                other => other?,
            }
        }
        Ok(())
    }
}
