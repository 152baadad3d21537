//! Symbolic links, and further names of a file (RFC 8881 18.4, 18.9, 18.24).

use nfs_wire::NfsStat;
use nfs_wire::attr::Fattr;
use nfs_wire::compound::CallWriter;
use nfs_wire::op::create::{self, CreateType};
use nfs_wire::op::{Args, names, setattr};
use nfs_wire::types::{FileType, NfsTime, StateId};

use super::small_file::set;
use super::{ExportDirectory, lookup};
use crate::error::Result;
use crate::nfs::Security;
use crate::nfs::attributes::{Attributes, attributes, read_attributes, settings};
use crate::nfs::compound_reply::result_of;

impl ExportDirectory {
    /// Reads the text and the attributes of the symbolic link `name` in one round trip. Returns none if it is
    /// not a link.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) when the name does not exist.
    pub async fn read_link(&self, name: &str) -> Result<Option<(Vec<u8>, Attributes)>> {
        let answer = self.ask(&[lookup(name), attributes(), Args::ReadLink]).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, Lookup)?;
        let known = read_attributes(&mut results)?;
        if known.kind != FileType::Lnk {
            return Ok(None);
        }
        let read: names::ReadlinkResOk<'_> = result_of!(results, ReadLink)?;
        Ok(Some((read.link.to_vec(), known)))
    }

    /// Creates the symbolic link `name` to `text`. Returns whether its time was set. Not every server sets
    /// the time of a link.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused), with NFS4ERR_EXIST when the name exists, and
    /// NFS4ERR_BADTYPE or NFS4ERR_NOTSUPP when the server has no links.
    pub async fn make_link(
        &self,
        name: &str,
        text: &[u8],
        modified: Option<NfsTime>,
        owner: &Security,
    ) -> Result<bool> {
        let [mut of_none, mut of_time, mut of_owner] = [const { Vec::new() }; 3];
        let createattrs = Fattr::of(&[], &mut of_none);
        let making = create::Args { objtype: CreateType::Lnk(text), objname: name.as_bytes(), createattrs };
        let setting =
            |obj_attributes| Args::SetAttr(setattr::Args { stateid: StateId::ANONYMOUS, obj_attributes });
        let owners = [
            owner.owner.as_deref().map(nfs_wire::attr::Attr::Owner),
            owner.group.as_deref().map(nfs_wire::attr::Attr::OwnerGroup),
        ];
        let owners: Vec<_> = owners.into_iter().flatten().collect();
        let mut all = vec![Args::Create(making)];
        if !owners.is_empty() {
            all.push(setting(Fattr::of(&owners, &mut of_owner)));
        }
        if modified.is_some() {
            all.push(setting(Fattr::of(&settings(modified, None), &mut of_time)));
        }
        let answer = self.change(&all).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, Create)?;
        if !owners.is_empty() {
            set(&mut results)?;
        }
        Ok(modified.is_none() || set(&mut results).is_ok())
    }

    /// Gives the file `name` of this directory the further name `new_name` in `to`.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused), with NFS4ERR_EXIST when the name exists.
    pub async fn link(&self, name: &str, to: &ExportDirectory, new_name: &str) -> Result<()> {
        let linking = names::LinkArgs { newname: new_name.as_bytes() };
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here()).push(&lookup(name)).push(&Args::SaveFh);
            writer.push(&to.here()).push(&Args::Link(linking));
        };
        let answer = self.client.change(4, &push).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, Lookup)?;
        result_of!(results, SaveFh)?;
        result_of!(results, PutFh)?;
        result_of!(results, Link).map(drop)
    }
}

/// Whether `status`, the refusal to create a symbolic link, means that the server has none.
#[must_use]
pub fn has_no_links(status: NfsStat) -> bool {
    [NfsStat::NotSupp, NfsStat::BadType, NfsStat::Inval].contains(&status)
}
