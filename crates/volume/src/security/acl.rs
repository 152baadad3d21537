//! Access control lists and their entries.

use bitflags::bitflags;
use wire::{Cursor, Writer};

use super::descriptor::Malformed;
use super::{Rights, Sid};

bitflags! {
    /// The flags of inheritance and auditing of an entry.
    // MS-DTYP 2.4.4.1
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct AceFlags: u8 {
        /// Files inherit the entry.
        const OBJECT_INHERIT = 0x01;
        /// Directories inherit the entry.
        const CONTAINER_INHERIT = 0x02;
        /// A child that inherits the entry does not pass it on.
        const NO_PROPAGATE = 0x04;
        /// The entry has no effect on the object that it belongs to.
        const INHERIT_ONLY = 0x08;
        /// The entry was inherited from the parent.
        const INHERITED = 0x10;
        /// Successful access is audited.
        const AUDIT_SUCCESS = 0x40;
        /// Refused access is audited.
        const AUDIT_FAILURE = 0x80;

        const _ = !0;
    }
}

/// The type and the body of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AceKind {
    /// These rights are allowed to this identifier.
    Allow(Rights, Sid),
    /// These rights are denied to this identifier.
    Deny(Rights, Sid),
    /// Use of these rights by this identifier is to be recorded.
    Audit(Rights, Sid),
    /// An entry of another type. It is kept as it came, and the access check reads only the parts that it
    /// needs.
    Other {
        /// The type of the entry.
        kind: u8,
        /// Everything behind the header; a multiple of four bytes.
        body: Box<[u8]>,
    },
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ace {
    /// The flags of inheritance and auditing.
    pub flags: AceFlags,
    /// The type and the body.
    pub kind: AceKind,
}

// MS-DTYP 2.4.4.1
const ACCESS_ALLOWED: u8 = 0x00;
const ACCESS_DENIED: u8 = 0x01;
const SYSTEM_AUDIT: u8 = 0x02;
const ACCESS_DENIED_CALLBACK: u8 = 0x0a;
/// Bytes of an entry's header.
const ACE_HEADER: usize = 4;
/// Bytes of a list's header.
const ACL_HEADER: usize = 8;

impl Ace {
    /// Allows `rights` to `sid`.
    #[must_use]
    pub fn allow(sid: Sid, rights: Rights, flags: AceFlags) -> Ace {
        Ace { flags, kind: AceKind::Allow(rights, sid) }
    }

    /// Denies `rights` to `sid`.
    #[must_use]
    pub fn deny(sid: Sid, rights: Rights, flags: AceFlags) -> Ace {
        Ace { flags, kind: AceKind::Deny(rights, sid) }
    }

    /// The identifier that the entry is about. `None` for a type that is only kept.
    #[must_use]
    pub fn sid(&self) -> Option<&Sid> {
        match &self.kind {
            AceKind::Allow(_, sid) | AceKind::Deny(_, sid) | AceKind::Audit(_, sid) => Some(sid),
            AceKind::Other { .. } => None,
        }
    }

    /// The rights that the entry is about. `None` for a type that is only kept.
    #[must_use]
    pub fn rights(&self) -> Option<Rights> {
        match self.kind {
            AceKind::Allow(rights, _) | AceKind::Deny(rights, _) | AceKind::Audit(rights, _) => Some(rights),
            AceKind::Other { .. } => None,
        }
    }

    /// The same entry with other flags, rights and another identifier. Types that are only kept stay as
    /// they are.
    pub(super) fn with(&self, flags: AceFlags, rights: Rights, sid: Sid) -> Ace {
        let kind = match &self.kind {
            AceKind::Allow(..) => AceKind::Allow(rights, sid),
            AceKind::Deny(..) => AceKind::Deny(rights, sid),
            AceKind::Audit(..) => AceKind::Audit(rights, sid),
            AceKind::Other { kind, body } => AceKind::Other { kind: *kind, body: body.clone() },
        };
        Ace { flags, kind }
    }

    /// The rights that a conditional entry denies. Conditions are not evaluated here. A deny entry whose
    /// condition cannot be evaluated denies, and such an allow entry allows nothing.
    // MS-DTYP 2.5.3.2
    pub(super) fn conditional_denial(&self) -> Option<(Rights, Sid)> {
        match &self.kind {
            AceKind::Other { kind: ACCESS_DENIED_CALLBACK, body } => {
                let mut body = Cursor::new(body);
                let rights = Rights::from_bits_retain(body.u32_le().ok()?);
                Some((rights, Sid::parse(&mut body).ok()?))
            }
            _ => None,
        }
    }

    /// Length of the binary form in bytes.
    fn encoded_len(&self) -> usize {
        ACE_HEADER
            + match &self.kind {
                AceKind::Allow(_, sid) | AceKind::Deny(_, sid) | AceKind::Audit(_, sid) => {
                    4 + sid.encoded_len()
                }
                AceKind::Other { body, .. } => body.len(),
            }
    }

    fn parse(from: &mut Cursor<'_>) -> Result<Ace, Malformed> {
        let kind = from.u8()?;
        let flags = AceFlags::from_bits_retain(from.u8()?);
        let size = usize::from(from.u16_le()?);
        if !size.is_multiple_of(4) {
            return Err(Malformed::Length);
        }
        let mut body = from.sub(size.checked_sub(ACE_HEADER).ok_or(Malformed::Length)?)?;
        let kind = match kind {
            ACCESS_ALLOWED | ACCESS_DENIED | SYSTEM_AUDIT => {
                let rights = Rights::from_bits_retain(body.u32_le()?);
                // Bytes behind the identifier have no meaning.
                let sid = Sid::parse(&mut body)?;
                match kind {
                    ACCESS_ALLOWED => AceKind::Allow(rights, sid),
                    ACCESS_DENIED => AceKind::Deny(rights, sid),
                    _ => AceKind::Audit(rights, sid),
                }
            }
            other => AceKind::Other { kind: other, body: body.rest().into() },
        };
        Ok(Ace { flags, kind })
    }

    fn encode(&self, to: &mut Writer<'_>) {
        to.u8(match self.kind {
            AceKind::Allow(..) => ACCESS_ALLOWED,
            AceKind::Deny(..) => ACCESS_DENIED,
            AceKind::Audit(..) => SYSTEM_AUDIT,
            AceKind::Other { kind, .. } => kind,
        });
        to.u8(self.flags.bits());
        to.u16_le(self.encoded_len() as u16);
        match &self.kind {
            AceKind::Allow(rights, sid) | AceKind::Deny(rights, sid) | AceKind::Audit(rights, sid) => {
                to.u32_le(rights.bits());
                sid.encode(to);
            }
            AceKind::Other { body, .. } => to.bytes(body),
        }
    }
}

/// A list of entries, in the order of evaluation.
// MS-DTYP 2.4.5
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acl {
    /// The entries.
    pub aces: Vec<Ace>,
}

impl Acl {
    /// A list of these entries.
    #[must_use]
    pub fn new(aces: Vec<Ace>) -> Acl {
        Acl { aces }
    }

    /// Length of the binary form in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        ACL_HEADER + self.aces.iter().map(Ace::encoded_len).sum::<usize>()
    }

    /// Whether a child of a directory with this list inherits anything from it.
    // MS-DTYP 2.5.3.4.3
    #[must_use]
    pub fn is_inheritable(&self) -> bool {
        self.aces.iter().any(|a| a.flags.intersects(AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT))
    }

    pub(super) fn parse(from: &mut Cursor<'_>) -> Result<Acl, Malformed> {
        let revision = from.u8()?;
        if !(0x02..=0x04).contains(&revision) {
            return Err(Malformed::Revision);
        }
        from.skip(1)?;
        let size = usize::from(from.u16_le()?);
        let count = usize::from(from.u16_le()?);
        from.skip(2)?;
        let mut body = from.sub(size.checked_sub(ACL_HEADER).ok_or(Malformed::Length)?)?;
        // The number of entries is compared with the available bytes before memory is allocated for it.
        if count * ACE_HEADER > body.remaining() {
            return Err(Malformed::Length);
        }
        let aces = (0..count).map(|_| Ace::parse(&mut body)).collect::<Result<Vec<_>, _>>()?;
        Ok(Acl { aces })
    }

    /// Appends the binary form. The caller knows that it is under 64 KiB.
    pub(super) fn encode(&self, to: &mut Writer<'_>) {
        // Types from 0x05 to 0x08 need the revision of directory services.
        let is_ds = |ace: &Ace| matches!(ace.kind, AceKind::Other { kind: 0x05..=0x08, .. });
        to.u8(if self.aces.iter().any(is_ds) { 0x04 } else { 0x02 });
        to.u8(0);
        to.u16_le(self.encoded_len() as u16);
        to.u16_le(self.aces.len() as u16);
        to.u16_le(0);
        self.aces.iter().for_each(|ace| ace.encode(to));
    }
}
