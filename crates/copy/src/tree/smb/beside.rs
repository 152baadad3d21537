//! What files of a share have beside their data.

use client::smb::ExtendedAttribute;
use smb_wire::fscc::ea::{MAX_NAME, is_ea_name};
use smb_wire::query_info::SecurityInformation;
use volume::security::{Control, Descriptor};

use super::File;
use crate::Keep;
use crate::beside::{Beside, Given, List, Lost, Owner, Who, Xattr};
use crate::error::{Done, Fault};

/// What is asked of a descriptor.
const PARTS: SecurityInformation = OWNERS.union(SecurityInformation::DACL);
const OWNERS: SecurityInformation = SecurityInformation::OWNER.union(SecurityInformation::GROUP);
/// The longest value, and the most that one list carries.
const LONGEST: usize = 65_535;
const MOST: usize = 60 * 1024;

fn owner_of(descriptor: &Descriptor) -> Option<Owner> {
    Some(Owner { user: Who::Sid(descriptor.owner?), group: Who::Sid(descriptor.group?) })
}

impl File {
    /// What it has.
    pub(in crate::tree) async fn beside(&self, keep: &Keep) -> Done<Beside> {
        let mut found = Beside::default();
        if keep.lists || keep.owners {
            let descriptor = self.descriptor(PARTS).await?;
            found.owner = owner_of(&descriptor);
            if keep.lists {
                found.list = Some(List::Nt(Box::new(descriptor)));
            }
        }
        if keep.xattrs {
            let list = match self.file.extended_attributes().await.map_err(Fault::from) {
                Err(fault) if fault.is_unsupported() => Vec::new(),
                other => other?,
            };
            found.xattrs = list.into_iter().map(|it| Xattr { name: it.name, value: it.value }).collect();
        }
        if keep.streams {
            let streams = self.file.streams().await?;
            found.streams = streams.into_iter().map(|it| (it.name, it.size)).collect();
        }
        Ok(found)
    }

    /// Gives it what another one has.
    pub(in crate::tree) async fn set_beside(&self, found: &Beside, keep: &Keep) -> Done<Given> {
        let mut given = Given::default();
        let set = self.set_security(found, keep, &mut given.lost).await?;
        given.list = set.contains(SecurityInformation::DACL);
        given.owner = set.contains(OWNERS);
        if !found.xattrs.is_empty() {
            self.set_xattrs(&found.xattrs, &mut given.lost).await?;
        }
        Ok(given)
    }

    async fn descriptor(&self, parts: SecurityInformation) -> Done<Descriptor> {
        let unreadable = |why| Fault::Said(format!("its security descriptor cannot be read: {why}"));
        Descriptor::parse(&self.file.security(parts).await?).map_err(unreadable)
    }

    /// Sets owner and list; answers what of them was taken.
    async fn set_security(
        &self,
        found: &Beside,
        keep: &Keep,
        lost: &mut Vec<Lost>,
    ) -> Done<SecurityInformation> {
        let (mut given, mut parts) = (Descriptor::default(), SecurityInformation::empty());
        if keep.lists
            && let Some(list) = &found.list
        {
            // What is said of the owner is said of who owns the copy.
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
                // MS-DTYP 2.4.6: without this the other one is not taken.
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
        match self.file.set_security(parts, &bytes).await.map_err(Fault::from) {
            Err(fault) if fault.is_unsupported() => {
                lost.push(Lost::List);
                Ok(SecurityInformation::empty())
            }
            other => other.map(|()| parts),
        }
    }

    /// Sets them in lists that a message holds.
    async fn set_xattrs(&self, all: &[Xattr], lost: &mut Vec<Lost>) -> Done<()> {
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
            // With what stands before, between and behind.
            length += it.value.len() + it.name.len() + 16;
            list.push(ExtendedAttribute { name: it.name.clone(), value: it.value.clone() });
        }
        lists.push(list);
        for list in lists.into_iter().filter(|list| !list.is_empty()) {
            match self.file.set_extended_attributes(&list).await.map_err(Fault::from) {
                Err(fault) if fault.is_unsupported() => lost.extend(list.iter().map(|_| Lost::Xattr)),
                other => other?,
            }
        }
        Ok(())
    }
}
