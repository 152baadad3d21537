//! NFS access control lists as a view of the stored security descriptor (RFC 8881 6.2).
//!
//! Access rights have the same bits on both sides. `OWNER@` and `GROUP@` are the present owner and group of
//! the file. An inheritable entry for them is stored as an entry for whoever will own the new file. Users and
//! groups of a domain are written as `name@domain`, those of the host as their numbers, and all others as the
//! text of their SID. A list that was read can therefore be set again.

use nfs_wire::NfsStat;
use nfs_wire::attr::{Ace, AceFlags, AceMask, AceType, AclFlags};
use nfs_wire::xdr::List;
use share::engine::{AccountKind, AccountMapping, AccountQuery};
use volume::security::{self, Acl, Control, Descriptor, Parts, Rights, Sid, well_known};

/// The most entries of one list.
pub const MAX_ENTRIES: usize = 512;
/// The bits of aceflag4 that are defined (RFC 8881 6.2.1.4).
const KNOWN_FLAGS: u32 = 0xff;

/// The special names of an entry that are neither a user nor a group.
const SPECIAL: &[(&[u8], Sid)] = &[
    (b"EVERYONE@", well_known::EVERYONE),
    (b"ANONYMOUS@", well_known::ANONYMOUS),
    (b"AUTHENTICATED@", well_known::AUTHENTICATED_USERS),
    (b"NETWORK@", well_known::NETWORK),
];

/// An access list that a client sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclToSet {
    entries: Vec<AceToSet>,
    /// The flags of the attribute dacl. None for the attribute acl, which leaves the flags as they are.
    flags: Option<AclFlags>,
}

/// One entry as the client sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AceToSet {
    allows: bool,
    flags: AceFlags,
    mask: AceMask,
    who: Box<[u8]>,
}

impl AclToSet {
    /// Reads a list.
    ///
    /// # Errors
    /// NFS4ERR_ATTRNOTSUPP for entries that are not supported (audit, alarm, retention), NFS4ERR_INVAL for
    /// undefined bits, NFS4ERR_FBIG for too many entries, NFS4ERR_BADXDR.
    // RFC 8881 6.2.1.1
    pub fn read(aces: &List<'_, Ace<'_>>, flags: Option<AclFlags>) -> Result<AclToSet, NfsStat> {
        let mut entries = Vec::new();
        for ace in aces.iter() {
            let allows = match ace.ace_type {
                AceType::Allowed => true,
                AceType::Denied => false,
                AceType::Audit | AceType::Alarm => return Err(NfsStat::AttrNotSupp),
                AceType::Unknown(_) => return Err(NfsStat::Inval),
            };
            if ace.access_mask.intersects(AceMask::WRITE_RETENTION | AceMask::WRITE_RETENTION_HOLD) {
                return Err(NfsStat::AttrNotSupp);
            }
            if ace.access_mask.bits() & !Rights::ALL.bits() != 0 || ace.flag.bits() & !KNOWN_FLAGS != 0 {
                return Err(NfsStat::Inval);
            }
            if entries.len() == MAX_ENTRIES {
                return Err(NfsStat::FBig);
            }
            entries.push(AceToSet { allows, flags: ace.flag, mask: ace.access_mask, who: ace.who.into() });
        }
        Ok(AclToSet { entries, flags })
    }

    /// Converts the list into a descriptor for a file with this owner and group. Only the descriptor's access
    /// list counts. The second result says which parts of the file's own descriptor it replaces.
    ///
    /// # Errors
    /// NFS4ERR_BADOWNER for an unknown user or group.
    pub fn descriptor(
        &self,
        now: &Descriptor,
        is_directory: bool,
        accounts: &dyn AccountMapping,
    ) -> Result<(Descriptor, Parts), NfsStat> {
        let mut aces = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            entry.put(now, is_directory, accounts, &mut aces)?;
        }
        let mut made = Descriptor { dacl: Some(Acl::new(aces)), ..Descriptor::default() };
        made.control |= Control::DACL_PRESENT;
        let mut parts = Parts::DACL;
        if let Some(flags) = self.flags {
            let protects = flags.contains(AclFlags::PROTECTED);
            parts |= if protects { Parts::PROTECTED_DACL } else { Parts::UNPROTECTED_DACL };
            made.control.set(Control::DACL_PROTECTED, protects);
            made.control.set(Control::DACL_AUTO_INHERITED, flags.contains(AclFlags::AUTO_INHERIT));
            made.control.set(Control::DACL_AUTO_INHERIT_REQ, flags.contains(AclFlags::AUTO_INHERIT));
            made.control.set(Control::DACL_DEFAULTED, flags.contains(AclFlags::DEFAULTED));
        }
        Ok((made, parts))
    }
}

impl AceToSet {
    /// Appends the entries for the descriptor. An inheritable entry for the owner becomes two: one for the
    /// present owner, and one for the creator of a new object below.
    fn put(
        &self,
        now: &Descriptor,
        is_directory: bool,
        accounts: &dyn AccountMapping,
        out: &mut Vec<security::Ace>,
    ) -> Result<(), NfsStat> {
        let rights = Rights::from_bits_retain(self.mask.bits());
        let make = |sid, flags| match self.allows {
            true => security::Ace::allow(sid, rights, flags),
            false => security::Ace::deny(sid, rights, flags),
        };
        let flags = kept_flags(self.flags, is_directory);
        let own = match &*self.who {
            b"OWNER@" => Some((now.owner, well_known::CREATOR_OWNER)),
            b"GROUP@" => Some((now.group, well_known::CREATOR_GROUP)),
            _ => None,
        };
        let Some((own, creator)) = own else {
            let is_group = self.flags.contains(AceFlags::IDENTIFIER_GROUP);
            out.push(make(sid_of(&self.who, is_group, accounts)?, flags));
            return Ok(());
        };
        let inherits = security::AceFlags::OBJECT_INHERIT | security::AceFlags::CONTAINER_INHERIT;
        if !flags.contains(security::AceFlags::INHERIT_ONLY) {
            let here = flags & security::AceFlags::INHERITED;
            out.push(make(own.ok_or(NfsStat::BadOwner)?, here));
        }
        if flags.intersects(inherits) {
            out.push(make(creator, flags | security::AceFlags::INHERIT_ONLY));
        }
        Ok(())
    }
}

/// The flags that have a meaning here. On a file the inheritance flags have none.
fn kept_flags(flags: AceFlags, is_directory: bool) -> security::AceFlags {
    let mut out = security::AceFlags::empty();
    let inheriting = [
        (AceFlags::FILE_INHERIT, security::AceFlags::OBJECT_INHERIT),
        (AceFlags::DIRECTORY_INHERIT, security::AceFlags::CONTAINER_INHERIT),
        (AceFlags::NO_PROPAGATE_INHERIT, security::AceFlags::NO_PROPAGATE),
        (AceFlags::INHERIT_ONLY, security::AceFlags::INHERIT_ONLY),
    ];
    for (theirs, ours) in inheriting {
        out.set(ours, is_directory && flags.contains(theirs));
    }
    out.set(security::AceFlags::INHERITED, flags.contains(AceFlags::INHERITED));
    out
}

/// The SID for a name.
fn sid_of(name: &[u8], is_group: bool, accounts: &dyn AccountMapping) -> Result<Sid, NfsStat> {
    if let Some((_, sid)) = SPECIAL.iter().find(|(special, _)| *special == name) {
        return Ok(*sid);
    }
    let text = std::str::from_utf8(name).map_err(|_| NfsStat::Inval)?;
    if text.starts_with("S-1-") {
        return text.parse().map_err(|_| NfsStat::BadOwner);
    }
    // A SID is enough here. The account need not be one of the host.
    if let Some((name, domain)) = text.rsplit_once('@') {
        let found = match is_group {
            true => accounts.group_named(Some(domain), name),
            false => accounts.account_named(Some(domain), name).map(|(sid, _)| sid),
        };
        if let Some(sid) = found {
            return Ok(sid);
        }
    }
    if is_group {
        return Ok(accounts.group_sid(group(name, accounts)?));
    }
    Ok(accounts.user_sid(user(name, accounts)?))
}

/// The account of a name `name@domain` that is not known, if a domain may have it.
#[must_use]
pub fn unknown_account<'n>(
    name: &'n [u8],
    is_group: bool,
    accounts: &dyn AccountMapping,
) -> Option<AccountQuery<'n>> {
    let (account, domain) = std::str::from_utf8(name).ok()?.rsplit_once('@')?;
    // A special name has nothing behind its sign.
    let is_name = !account.is_empty() && !domain.is_empty();
    let is_unknown = is_name && sid_of(name, is_group, accounts).is_err();
    is_unknown.then_some(AccountQuery::Name(Some(domain), account))
}

/// The accounts of domains in the list of a descriptor whose names are not known.
#[must_use]
pub fn unnamed_accounts(of: &Descriptor, accounts: &dyn AccountMapping) -> Vec<AccountQuery<'static>> {
    let domains = accounts.domains();
    let is_of_domain = |sid: &Sid| domains.iter().any(|domain| sid.rid_in(&domain.sid).is_some());
    let sids = of.dacl.iter().flat_map(|list| &list.aces).filter_map(|ace| match &ace.kind {
        security::AceKind::Allow(_, sid) | security::AceKind::Deny(_, sid) => Some(*sid),
        security::AceKind::Audit(..) | security::AceKind::Other { .. } => None,
    });
    let is_shown_as_special = |sid: &Sid| of.owner == Some(*sid) || of.group == Some(*sid);
    let mut unnamed: Vec<Sid> = sids
        .filter(|sid| !is_shown_as_special(sid) && is_of_domain(sid) && accounts.account_name(sid).is_none())
        .collect();
    unnamed.sort_unstable();
    unnamed.dedup();
    unnamed.into_iter().map(AccountQuery::Sid).collect()
}

/// The user ID for a number or a name (RFC 8881 5.9).
///
/// # Errors
/// NFS4ERR_BADOWNER, NFS4ERR_INVAL for a name that is not UTF-8.
pub fn user(name: &[u8], accounts: &dyn AccountMapping) -> Result<u32, NfsStat> {
    numbered(name, |name, domain| {
        let of_domain = || accounts.uid(&accounts.account_named(Some(domain), name)?.0);
        accounts.uid_named(name, domain).or_else(of_domain)
    })
}

/// The group ID for a number or a name.
///
/// # Errors
/// As [`user`].
pub fn group(name: &[u8], accounts: &dyn AccountMapping) -> Result<u32, NfsStat> {
    numbered(name, |name, domain| {
        let of_domain = || accounts.gid(&accounts.group_named(Some(domain), name)?);
        accounts.gid_named(name, domain).or_else(of_domain)
    })
}

fn numbered(who: &[u8], named: impl Fn(&str, &str) -> Option<u32>) -> Result<u32, NfsStat> {
    let text = std::str::from_utf8(who).map_err(|_| NfsStat::Inval)?;
    if let Some((name, domain)) = text.rsplit_once('@') {
        return named(name, domain).ok_or(NfsStat::BadOwner);
    }
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || text.len() > 1 && text.starts_with('0') {
        return Err(NfsStat::BadOwner);
    }
    text.parse().map_err(|_| NfsStat::BadOwner)
}

/// An entry in NFS form, with its name.
#[derive(Debug, PartialEq, Eq)]
pub struct AceView {
    ace_type: AceType,
    flag: AceFlags,
    access_mask: AceMask,
    who: String,
}

impl AceView {
    /// The entry in wire format.
    #[must_use]
    pub fn ace(&self) -> Ace<'_> {
        let AceView { ace_type, flag, access_mask, who } = self;
        Ace { ace_type: *ace_type, flag: *flag, access_mask: *access_mask, who: who.as_bytes() }
    }
}

/// The access list of a descriptor in NFS form. A descriptor without a list grants everybody everything, and
/// is shown as such an entry.
#[must_use]
pub fn shown(descriptor: &Descriptor, accounts: &dyn AccountMapping) -> Vec<AceView> {
    let Some(list) = &descriptor.dacl else {
        let all = security::Ace::allow(well_known::EVERYONE, Rights::ALL, security::AceFlags::empty());
        return one(&all, descriptor, accounts).into_iter().collect();
    };
    list.aces.iter().filter_map(|ace| one(ace, descriptor, accounts)).collect()
}

/// Converts one entry. Types that only Windows knows are left out.
fn one(ace: &security::Ace, of: &Descriptor, accounts: &dyn AccountMapping) -> Option<AceView> {
    let (ace_type, rights, sid) = match &ace.kind {
        security::AceKind::Allow(rights, sid) => (AceType::Allowed, *rights, *sid),
        security::AceKind::Deny(rights, sid) => (AceType::Denied, *rights, *sid),
        security::AceKind::Audit(..) | security::AceKind::Other { .. } => return None,
    };
    let mut flag = AceFlags::empty();
    for (ours, theirs) in [
        (security::AceFlags::OBJECT_INHERIT, AceFlags::FILE_INHERIT),
        (security::AceFlags::CONTAINER_INHERIT, AceFlags::DIRECTORY_INHERIT),
        (security::AceFlags::NO_PROPAGATE, AceFlags::NO_PROPAGATE_INHERIT),
        (security::AceFlags::INHERIT_ONLY, AceFlags::INHERIT_ONLY),
        (security::AceFlags::INHERITED, AceFlags::INHERITED),
    ] {
        flag.set(theirs, ace.flags.contains(ours));
    }
    let special = SPECIAL.iter().find(|(_, known)| *known == sid).map(|(name, _)| *name);
    let who = if sid == well_known::CREATOR_OWNER || of.owner == Some(sid) {
        "OWNER@".to_owned()
    } else if sid == well_known::CREATOR_GROUP || of.group == Some(sid) {
        flag |= AceFlags::IDENTIFIER_GROUP;
        "GROUP@".to_owned()
    } else if let Some(name) = special {
        String::from_utf8_lossy(name).into_owned()
    } else if let Some((name, is_group)) = name_in_domain(&sid, accounts) {
        flag.set(AceFlags::IDENTIFIER_GROUP, is_group);
        name
    } else if let Some(uid) = accounts.uid(&sid) {
        uid.to_string()
    } else if let Some(gid) = accounts.gid(&sid) {
        flag |= AceFlags::IDENTIFIER_GROUP;
        gid.to_string()
    } else {
        sid.to_string()
    };
    let access_mask = AceMask::from_bits_retain((rights.mapped() & Rights::ALL).bits());
    Some(AceView { ace_type, flag, access_mask, who })
}

/// The form `name@domain` of an account of a domain (RFC 8881 5.9), and whether it is a group.
fn name_in_domain(sid: &Sid, accounts: &dyn AccountMapping) -> Option<(String, bool)> {
    let name = accounts.account_name(sid)?;
    let is_group = matches!(name.kind, AccountKind::Group | AccountKind::Alias);
    name.principal_form().map(|text| (text, is_group))
}

/// The flags of the attribute dacl.
#[must_use]
pub fn flags(descriptor: &Descriptor) -> AclFlags {
    let mut out = AclFlags::empty();
    for (ours, theirs) in [
        (Control::DACL_AUTO_INHERITED, AclFlags::AUTO_INHERIT),
        (Control::DACL_PROTECTED, AclFlags::PROTECTED),
        (Control::DACL_DEFAULTED, AclFlags::DEFAULTED),
    ] {
        out.set(theirs, descriptor.control.contains(ours));
    }
    out
}
