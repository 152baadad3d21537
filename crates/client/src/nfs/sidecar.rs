//! The sidecar data of a file or directory: its owner and group, its access list, and extended attributes,
//! which need NFSv4.2 (RFC 8276).

use nfs_wire::attr::{Ace, AceFlags, AceMask, AceType, Attr, AttrNum, Bitmap, Fattr};
use nfs_wire::compound::CallWriter;
use nfs_wire::op::filehandle::PutArgs;
use nfs_wire::op::{Args, OpNum, Res, getattr, setattr, xattr};
use nfs_wire::types::{FileHandle, StateId};
use nfs_wire::xdr::List;

use super::compound_reply::result_of;
use super::{ExportDirectory, ExportFile};
use crate::Error;
use crate::error::Result;
use crate::nfs::client_core::ClientCore;

/// The most bytes of extended attribute names in one reply.
const LIST_STEP: u32 = 16 * 1024;

/// One entry of an access list (RFC 8881 6.2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessEntry {
    /// The type of the entry: allow, deny, audit or alarm.
    pub kind: AceType,
    /// The inheritance, and whether it names a group.
    pub flags: AceFlags,
    /// The rights.
    pub mask: AceMask,
    /// `OWNER@`, `GROUP@`, `EVERYONE@`, or the server's name of a user or group.
    pub who: Vec<u8>,
}

/// The owner and the access list of a file. A field is none if it was not queried, is not to be set, or does
/// not exist on the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Security {
    /// The server's name of the owner: `ann@example.com`, or a number.
    pub owner: Option<Vec<u8>>,
    /// The group.
    pub group: Option<Vec<u8>>,
    /// The access list.
    pub list: Option<Vec<AccessEntry>>,
}

/// A file or directory by its filehandle.
struct Node<'a> {
    client: &'a ClientCore,
    handle: &'a [u8],
}

/// Implements the operations of [`Node`] for a type of file or directory.
macro_rules! beside {
    ($type:ident, $this:ident => $handle:expr) => {
        impl $type {
            fn node(&self) -> Result<Node<'_>> {
                let $this = self;
                Ok(Node { client: &self.client, handle: $handle })
            }

            /// Queries the owner and group, and with `list` the access list.
            ///
            /// # Errors
            /// [`Error::Refused`] when the server refuses.
            pub async fn security(&self, list: bool) -> Result<Security> {
                self.node()?.security(list).await
            }

            /// Sets the fields of `security` that are not none.
            ///
            /// # Errors
            /// [`Error::Refused`], with NFS4ERR_ATTRNOTSUPP when the server has no access lists and with
            /// NFS4ERR_BADOWNER when it does not know a user or group.
            pub async fn set_security(&self, security: &Security) -> Result<()> {
                self.node()?.set_security(security).await
            }

            /// Lists the names of all extended attributes, without a namespace in front.
            ///
            /// # Errors
            /// [`Error::Refused`], with NFS4ERR_NOTSUPP or NFS4ERR_OP_ILLEGAL when the server or the version
            /// has none.
            pub async fn extended_attributes(&self) -> Result<Vec<Vec<u8>>> {
                self.node()?.xattrs().await
            }

            /// Reads the value of the extended attribute `name`.
            ///
            /// # Errors
            /// [`Error::Refused`], with NFS4ERR_NOXATTR when there is none.
            pub async fn extended_attribute(&self, name: &[u8]) -> Result<Vec<u8>> {
                self.node()?.xattr(name).await
            }

            /// Sets the extended attribute `name`, whether it exists or not.
            ///
            /// # Errors
            /// [`Error::Refused`], with NFS4ERR_XATTR2BIG when the value is too large.
            pub async fn set_extended_attribute(&self, name: &[u8], value: &[u8]) -> Result<()> {
                self.node()?.set_xattr(name, value).await
            }
        }
    };
}

// The filehandle of a lost open still works, but others may have changed the file.
beside!(ExportFile, file => file.open.stateid().map(|_| &file.open.handle)?);
beside!(ExportDirectory, directory => &directory.handle);

impl Node<'_> {
    fn push(&self, then: &Args<'_>, writer: &mut CallWriter) {
        writer.push(&Args::PutFh(PutArgs { object: FileHandle(self.handle) })).push(then);
    }

    async fn security(&self, list: bool) -> Result<Security> {
        let (owner, group) = (AttrNum::Owner.get(), AttrNum::OwnerGroup.get());
        let attr_request = match list {
            true => Bitmap::of(&[AttrNum::Acl.get(), owner, group]),
            false => Bitmap::of(&[owner, group]),
        };
        let asking = Args::GetAttr(getattr::Args { attr_request });
        let answer = self.client.ask(&|writer| self.push(&asking, writer)).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        let got: getattr::ResOk<'_> = result_of!(results, GetAttr)?;
        let mut found = Security::default();
        for attribute in got.obj_attributes.iter() {
            match attribute.map_err(|_| Error::Protocol("attributes that cannot be read"))? {
                Attr::Acl(list) => found.list = Some(list.iter().map(entry).collect()),
                Attr::Owner(owner) => found.owner = Some(owner.to_vec()),
                Attr::OwnerGroup(group) => found.group = Some(group.to_vec()),
                _ => {}
            }
        }
        Ok(found)
    }

    async fn set_security(&self, security: &Security) -> Result<()> {
        let list: Option<Vec<Ace<'_>>> = security.list.as_ref().map(|list| list.iter().map(ace).collect());
        // An attribute list must be in the order of the attribute numbers.
        let attributes: Vec<Attr<'_>> = [
            list.as_ref().map(|list| Attr::Acl(List::of(list))),
            security.owner.as_deref().map(Attr::Owner),
            security.group.as_deref().map(Attr::OwnerGroup),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut room = Vec::new();
        let obj_attributes = Fattr::of(&attributes, &mut room);
        let setting = Args::SetAttr(setattr::Args { stateid: StateId::ANONYMOUS, obj_attributes });
        let answer = self.client.ask(&|writer| self.push(&setting, writer)).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        match results.next()? {
            Res::SetAttr(done) if done.status.is_ok() => Ok(()),
            other => Err(Error::Refused { operation: OpNum::SetAttr, status: other.status() }),
        }
    }

    async fn xattrs(&self) -> Result<Vec<Vec<u8>>> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let asking = Args::ListXattrs(xattr::ListArgs { cookie, maxcount: LIST_STEP });
            let answer = self.client.ask(&|writer| self.push(&asking, writer)).await?;
            let mut results = answer.results();
            result_of!(results, PutFh)?;
            let got: xattr::ListResOk<'_> = result_of!(results, ListXattrs)?;
            names.extend(got.names.iter().map(|name| name.to_vec()));
            if got.eof {
                return Ok(names);
            }
            if got.cookie == cookie {
                return Err(Error::Protocol("a list of attributes that does not go on"));
            }
            cookie = got.cookie;
        }
    }

    async fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        let asking = Args::GetXattr(xattr::NameArgs { name });
        let answer = self.client.ask(&|writer| self.push(&asking, writer)).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        let got: xattr::GetResOk<'_> = result_of!(results, GetXattr)?;
        Ok(got.value.to_vec())
    }

    async fn set_xattr(&self, name: &[u8], value: &[u8]) -> Result<()> {
        let option = xattr::SetOption::Either;
        let setting = Args::SetXattr(xattr::SetArgs { option, key: name, value });
        let answer = self.client.ask(&|writer| self.push(&setting, writer)).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, SetXattr).map(drop)
    }
}

fn entry(ace: Ace<'_>) -> AccessEntry {
    AccessEntry { kind: ace.ace_type, flags: ace.flag, mask: ace.access_mask, who: ace.who.to_vec() }
}

fn ace(entry: &AccessEntry) -> Ace<'_> {
    Ace { ace_type: entry.kind, flag: entry.flags, access_mask: entry.mask, who: &entry.who }
}
