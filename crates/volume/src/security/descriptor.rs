//! Security descriptors and their self-relative form.

use bitflags::bitflags;
use wire::{Cursor, Truncated, Writer};

use super::{Acl, BadSid, Sid};

/// The longest self-relative form that is accepted or produced, in bytes.
pub const MAX_DESCRIPTOR: usize = 64 * 1024;

/// Bytes before the first part.
const HEADER: usize = 20;

bitflags! {
    /// The control bits of a descriptor. Unknown bits are kept.
    // MS-DTYP 2.4.6
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Control: u16 {
        /// The creator did not name the owner.
        const OWNER_DEFAULTED = 0x0001;
        /// The creator did not name the group.
        const GROUP_DEFAULTED = 0x0002;
        /// There is an access list, even if it is null.
        const DACL_PRESENT = 0x0004;
        /// The creator did not name the access list.
        const DACL_DEFAULTED = 0x0008;
        /// There is an audit list, even if it is null.
        const SACL_PRESENT = 0x0010;
        /// The creator did not name the audit list.
        const SACL_DEFAULTED = 0x0020;
        /// The access list comes from a trusted source.
        const DACL_TRUSTED = 0x0040;
        /// The host creates a server's list.
        const SERVER_SECURITY = 0x0080;
        /// The request that sets the list asks for inheritance to be computed.
        const DACL_AUTO_INHERIT_REQ = 0x0100;
        /// As `DACL_AUTO_INHERIT_REQ`, for the audit list.
        const SACL_AUTO_INHERIT_REQ = 0x0200;
        /// The access list takes part in inheritance.
        const DACL_AUTO_INHERITED = 0x0400;
        /// The audit list takes part in inheritance.
        const SACL_AUTO_INHERITED = 0x0800;
        /// The access list inherits nothing.
        const DACL_PROTECTED = 0x1000;
        /// The audit list inherits nothing.
        const SACL_PROTECTED = 0x2000;
        /// [`Descriptor::resource_manager`] has a meaning.
        const RM_CONTROL_VALID = 0x4000;
        /// Offsets lead to the parts.
        const SELF_RELATIVE = 0x8000;

        const _ = !0;
    }

    /// The parts of a descriptor that a request is about.
    // MS-DTYP 2.4.7
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Parts: u32 {
        /// The owner.
        const OWNER = 0x0000_0001;
        /// The group.
        const GROUP = 0x0000_0002;
        /// The access list.
        const DACL = 0x0000_0004;
        /// The audit list.
        const SACL = 0x0000_0008;
        /// The integrity label, which is an entry of the audit list.
        const LABEL = 0x0000_0010;
        /// The resource attributes, which are entries of the audit list.
        const ATTRIBUTE = 0x0000_0020;
        /// The central policy, which is an entry of the audit list.
        const SCOPE = 0x0000_0040;
        /// Every part, for a backup.
        const BACKUP = 0x0001_0000;
        /// Lets the audit list inherit again.
        const UNPROTECTED_SACL = 0x1000_0000;
        /// Lets the access list inherit again.
        const UNPROTECTED_DACL = 0x2000_0000;
        /// Stops the audit list from inheriting.
        const PROTECTED_SACL = 0x4000_0000;
        /// Stops the access list from inheriting.
        const PROTECTED_DACL = 0x8000_0000;

        const _ = !0;
    }
}

/// The bit of [`Descriptor::resource_manager`] that [`Descriptor::guard_path`] sets.
const GUARDS_PATH: u8 = 0x80;

/// The owner of a node and the rights of users to it.
// MS-DTYP 2.4.6
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// The control bits about the parts. [`Control::SELF_RELATIVE`] belongs to the binary form and is
    /// left out.
    pub control: Control,
    /// A byte for the resource manager of the node, kept with [`Control::RM_CONTROL_VALID`].
    pub resource_manager: u8,
    /// The owner.
    pub owner: Option<Sid>,
    /// The group.
    pub group: Option<Sid>,
    /// Audit and label entries. They count only with [`Control::SACL_PRESENT`].
    pub sacl: Option<Acl>,
    /// The rights of users. Without a list everybody has all rights.
    pub dacl: Option<Acl>,
}

/// The reason why bytes are no self-relative descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end too early or an offset points outside.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// An identifier is malformed.
    #[error(transparent)]
    Sid(#[from] BadSid),
    /// The revision is unknown.
    #[error("unknown revision")]
    Revision,
    /// A length is impossible, or the descriptor exceeds [`MAX_DESCRIPTOR`].
    #[error("impossible length")]
    Length,
    /// The descriptor is not in the self-relative form.
    #[error("not self-relative")]
    Absolute,
}

impl Descriptor {
    /// A descriptor with an owner, a group and an access list.
    #[must_use]
    pub fn new(owner: Sid, group: Sid, dacl: Acl) -> Descriptor {
        Descriptor {
            control: Control::DACL_PRESENT,
            resource_manager: 0,
            owner: Some(owner),
            group: Some(group),
            sacl: None,
            dacl: Some(dacl),
        }
    }

    /// Whether a path through the directory needs the right to traverse it. Otherwise anybody who knows a
    /// path passes a directory with a stored descriptor.
    #[must_use]
    pub fn guards_path(&self) -> bool {
        self.control.contains(Control::RM_CONTROL_VALID) && self.resource_manager & GUARDS_PATH != 0
    }

    /// Makes a path through the directory need the right to traverse it.
    pub fn guard_path(&mut self) {
        self.control |= Control::RM_CONTROL_VALID;
        self.resource_manager |= GUARDS_PATH;
    }

    /// Reads the self-relative form. The order of the parts is free. Bytes that no offset leads to are
    /// ignored.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<Descriptor, Malformed> {
        if bytes.len() > MAX_DESCRIPTOR {
            return Err(Malformed::Length);
        }
        let mut head = Cursor::new(bytes);
        if head.u8()? != 1 {
            return Err(Malformed::Revision);
        }
        let resource_manager = head.u8()?;
        let mut control = Control::from_bits_retain(head.u16_le()?);
        if !control.contains(Control::SELF_RELATIVE) {
            return Err(Malformed::Absolute);
        }
        control -= Control::SELF_RELATIVE;
        let [owner, group, sacl, dacl] = [head.u32_le()?, head.u32_le()?, head.u32_le()?, head.u32_le()?];
        let sid = |at| part(bytes, at).map(|from| from.map(|mut c| Sid::parse(&mut c)).transpose());
        let acl = |at, present: bool| {
            let from = if present { part(bytes, at)? } else { None };
            from.map(|mut c| Acl::parse(&mut c)).transpose()
        };
        Ok(Descriptor {
            control,
            resource_manager,
            owner: sid(owner)??,
            group: sid(group)??,
            sacl: acl(sacl, control.contains(Control::SACL_PRESENT))?,
            dacl: acl(dacl, control.contains(Control::DACL_PRESENT))?,
        })
    }

    /// Length of the self-relative form in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let sid = |s: &Option<Sid>| s.as_ref().map_or(0, Sid::encoded_len);
        let acl = |a: &Option<Acl>| a.as_ref().map_or(0, Acl::encoded_len);
        HEADER + sid(&self.owner) + sid(&self.group) + acl(&self.sacl) + acl(&self.dacl)
    }

    /// The self-relative form in the order owner, group, audit list, access list. The order is free, but
    /// MS-DTYP 2.4.6 draws it this way, and some readers accept only this order.
    ///
    /// # Errors
    /// [`Malformed::Length`] when the form would exceed [`MAX_DESCRIPTOR`] or a list its own limit.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let lists_fit =
            [&self.sacl, &self.dacl].into_iter().flatten().all(|a| a.encoded_len() <= usize::from(u16::MAX));
        let len = self.encoded_len();
        if !lists_fit || len > MAX_DESCRIPTOR {
            return Err(Malformed::Length);
        }
        let mut control = self.control | Control::SELF_RELATIVE;
        control.set(Control::SACL_PRESENT, self.sacl.is_some() || control.contains(Control::SACL_PRESENT));
        control.set(Control::DACL_PRESENT, self.dacl.is_some() || control.contains(Control::DACL_PRESENT));
        let mut out = Vec::with_capacity(len);
        let mut to = Writer::new(&mut out);
        to.u8(1);
        to.u8(self.resource_manager);
        to.u16_le(control.bits());
        let group = HEADER + self.owner.as_ref().map_or(0, Sid::encoded_len);
        let sacl = group + self.group.as_ref().map_or(0, Sid::encoded_len);
        let dacl = sacl + self.sacl.as_ref().map_or(0, Acl::encoded_len);
        for (is_there, offset) in [
            (self.owner.is_some(), HEADER),
            (self.group.is_some(), group),
            (self.sacl.is_some(), sacl),
            (self.dacl.is_some(), dacl),
        ] {
            to.u32_le(if is_there { offset as u32 } else { 0 });
        }
        [&self.owner, &self.group].into_iter().flatten().for_each(|s| s.encode(&mut to));
        [&self.sacl, &self.dacl].into_iter().flatten().for_each(|a| a.encode(&mut to));
        Ok(out)
    }

    /// A descriptor of only these parts, for a client that may not see the others.
    #[must_use]
    pub fn only(&self, parts: Parts) -> Descriptor {
        let all = parts.contains(Parts::BACKUP);
        let has = |part| all || parts.intersects(part);
        let mut out = self.clone();
        if !has(Parts::OWNER) {
            out.owner = None;
            out.control -= Control::OWNER_DEFAULTED;
        }
        if !has(Parts::GROUP) {
            out.group = None;
            out.control -= Control::GROUP_DEFAULTED;
        }
        if !has(Parts::SACL | Parts::LABEL | Parts::ATTRIBUTE | Parts::SCOPE) {
            out.sacl = None;
            out.control -= SACL_BITS;
        }
        if !has(Parts::DACL) {
            out.dacl = None;
            out.control -= DACL_BITS;
        }
        out
    }
}

/// The control bits about the access list.
pub(super) const DACL_BITS: Control = Control::DACL_PRESENT
    .union(Control::DACL_DEFAULTED)
    .union(Control::DACL_AUTO_INHERIT_REQ)
    .union(Control::DACL_AUTO_INHERITED)
    .union(Control::DACL_PROTECTED)
    .union(Control::DACL_TRUSTED);
/// The control bits about the audit list.
pub(super) const SACL_BITS: Control = Control::SACL_PRESENT
    .union(Control::SACL_DEFAULTED)
    .union(Control::SACL_AUTO_INHERIT_REQ)
    .union(Control::SACL_AUTO_INHERITED)
    .union(Control::SACL_PROTECTED);

/// A reader at an offset. `None` for the offset 0, which means that the part is absent.
fn part(bytes: &[u8], at: u32) -> Result<Option<Cursor<'_>>, Malformed> {
    if at == 0 {
        return Ok(None);
    }
    let at = usize::try_from(at).map_err(|_| Malformed::Length)?;
    let rest = bytes.get(at..).ok_or(Truncated { at })?;
    Ok(Some(Cursor::new(rest)))
}

#[cfg(test)]
mod tests {
    use super::super::{Ace, AceFlags, AceKind, Rights, well_known};
    use super::*;

    /// MS-DTYP 2.5.1.4: the dump of
    /// `O:BAG:BAD:P(A;CIOI;GRGX;;;BU)(A;CIOI;GA;;;BA)(A;CIOI;GA;;;SY)(A;CIOI;GA;;;CO)S:P(AU;FA;GR;;;WD)`.
    const EXAMPLE: &str = "010014b090000000a00000001400000030000000 02001c0001000000 0280140000000080\
        010100000000000100000000 0200600004000000 00031800000000a001020000000000052000000021020000\
        00031800000000100102000000000005200000002002000000031400000000100101000000000005120000 00\
        0003140000000010010100000000000300000000 01020000000000052000000020020000\
        01020000000000052000000020020000";

    fn example() -> Vec<u8> {
        let digits: Vec<u8> = EXAMPLE.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|c| u8::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn the_specifications_example_both_ways() {
        let bytes = example();
        assert_eq!(bytes.len(), 0xb0);
        let seen = Descriptor::parse(&bytes).unwrap();
        assert_eq!(seen.owner, Some(well_known::ADMINISTRATORS));
        assert_eq!(seen.group, Some(well_known::ADMINISTRATORS));
        let both = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
        let read = Rights::GENERIC_READ | Rights::GENERIC_EXECUTE;
        assert_eq!(
            seen.dacl.as_ref().unwrap().aces,
            [
                Ace::allow(well_known::USERS, read, both),
                Ace::allow(well_known::ADMINISTRATORS, Rights::GENERIC_ALL, both),
                Ace::allow(well_known::SYSTEM, Rights::GENERIC_ALL, both),
                Ace::allow(well_known::CREATOR_OWNER, Rights::GENERIC_ALL, both),
            ]
        );
        assert!(seen.control.contains(Control::DACL_PROTECTED | Control::SACL_PROTECTED));
        let audit = &seen.sacl.as_ref().unwrap().aces[0];
        assert!(matches!(audit.kind, AceKind::Audit(Rights::GENERIC_READ, well_known_everyone)
            if well_known_everyone.subs() == [0]));
        let ours = seen.encode().unwrap();
        assert_eq!(Descriptor::parse(&ours), Ok(seen));
        assert_eq!((ours.len(), &ours[..4]), (bytes.len(), &bytes[..4]));
    }

    /// MS-DTYP 2.4.6: the order of the drawing, even if a part is missing.
    #[test]
    fn parts_stand_in_the_order_in_which_they_are_drawn() {
        let whole = Descriptor::parse(&example()).unwrap();
        let offsets = |descriptor: &Descriptor| {
            let bytes = descriptor.encode().unwrap();
            [4, 8, 12, 16].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()))
        };
        assert_eq!(offsets(&whole), [0x14, 0x24, 0x34, 0x50]);
        assert_eq!(offsets(&whole.only(Parts::OWNER | Parts::DACL)), [0x14, 0, 0, 0x24]);
        assert_eq!(offsets(&whole.only(Parts::GROUP | Parts::SACL)), [0, 0x14, 0x24, 0]);
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_survived() {
        let bytes = example();
        for cut in 0..bytes.len() {
            assert!(Descriptor::parse(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                if let Ok(seen) = Descriptor::parse(&changed) {
                    let again = seen.encode().unwrap();
                    assert_eq!(Descriptor::parse(&again), Ok(seen));
                }
            }
        }
    }

    #[test]
    fn unknown_entries_and_spare_bytes() {
        let other =
            Ace { flags: AceFlags::empty(), kind: AceKind::Other { kind: 0x42, body: vec![7; 8].into() } };
        let whole = Descriptor::new(well_known::SYSTEM, well_known::SYSTEM, Acl::new(vec![other]));
        let bytes = whole.encode().unwrap();
        assert_eq!(Descriptor::parse(&bytes), Ok(whole));
        // An entry may be longer than its identifier requires.
        let ace = Ace::allow(well_known::EVERYONE, Rights::ALL, AceFlags::empty());
        let whole = Descriptor::new(well_known::SYSTEM, well_known::SYSTEM, Acl::new(vec![ace]));
        let mut bytes = whole.encode().unwrap();
        let list = HEADER + 2 * well_known::SYSTEM.encoded_len();
        let entry = list + 8;
        bytes.splice(entry + 20..entry + 20, [0xee; 4]);
        bytes[entry + 2] += 4;
        bytes[list + 2] += 4;
        assert_eq!(Descriptor::parse(&bytes), Ok(whole));
    }

    #[test]
    fn null_list_empty_list_and_no_list_differ() {
        let none = Descriptor::default();
        let null = Descriptor { control: Control::DACL_PRESENT, ..Descriptor::default() };
        let empty = Descriptor { dacl: Some(Acl::default()), ..null.clone() };
        for one in [&none, &null, &empty] {
            assert_eq!(Descriptor::parse(&one.encode().unwrap()).as_ref(), Ok(one));
        }
    }

    #[test]
    fn size_is_bounded() {
        let ace = Ace::allow(well_known::EVERYONE, Rights::ALL, AceFlags::empty());
        let big = Descriptor::new(well_known::SYSTEM, well_known::SYSTEM, Acl::new(vec![ace; 4000]));
        assert_eq!(big.encode(), Err(Malformed::Length));
        assert_eq!(Descriptor::parse(&vec![0; MAX_DESCRIPTOR + 1]), Err(Malformed::Length));
    }

    #[test]
    fn only_some_parts() {
        let whole = Descriptor::parse(&example()).unwrap();
        let seen = whole.only(Parts::OWNER);
        assert_eq!(seen.owner, whole.owner);
        assert_eq!((seen.group, seen.dacl, seen.sacl), (None, None, None));
        assert_eq!(seen.control, Control::empty());
        assert_eq!(whole.only(Parts::BACKUP), whole);
    }
}
