//! The access check: the rights that a descriptor grants to a token.

use bitflags::bitflags;

use super::{AceFlags, AceKind, Acl, Descriptor, Rights, Sid, well_known};

bitflags! {
    /// Rights that hold regardless of a descriptor. Backup and restore belong in a [`Token`] only for a
    /// call that declares the intent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Privileges: u8 {
        /// Become the owner of any object.
        const TAKE_OWNERSHIP = 0x01;
        /// Read and change audit lists.
        const SECURITY = 0x02;
        /// Read everything.
        const BACKUP = 0x04;
        /// Write and remove everything, and give it to any owner.
        const RESTORE = 0x08;
    }
}

/// The identity that requests access.
// MS-DTYP 2.5.2
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The user.
    pub user: Sid,
    /// The primary group. A new object gets it as its group.
    pub group: Sid,
    /// The owner of new objects; usually the user.
    pub owner: Sid,
    /// All groups, including the primary one and groups such as Everyone.
    pub groups: Vec<Sid>,
    /// The privileges.
    pub privileges: Privileges,
}

impl Token {
    /// The token of a user who was authenticated over the network: a member of `groups`, the primary
    /// group, Everyone, Network and Authenticated Users.
    #[must_use]
    pub fn authenticated(user: Sid, group: Sid, groups: &[Sid]) -> Token {
        let of_all = [group, well_known::EVERYONE, well_known::NETWORK, well_known::AUTHENTICATED_USERS];
        // The caller adds the host's SIDs of the user and the groups, and the administrators'.
        let mut all = Vec::with_capacity(of_all.len() + groups.len() + 4);
        all.extend(of_all);
        all.extend(groups.iter().filter(|g| **g != group));
        Token { user, group, owner: user, groups: all, privileges: Privileges::empty() }
    }

    /// Whether the identifier is the user or one of the user's groups.
    // MS-DTYP 2.5.3.1.1
    #[must_use]
    pub fn has(&self, sid: &Sid) -> bool {
        self.user == *sid || self.groups.contains(sid)
    }
}

/// The descriptor does not grant the access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("access denied: {missing:?} is missing")]
pub struct Denied {
    /// The requested rights that are not granted.
    pub missing: Rights,
}

/// The rights that the backup privilege gives.
const FOR_BACKUP: Rights = Rights::FOR_READ.union(Rights::TRAVERSE).union(Rights::ACCESS_SYSTEM_SECURITY);
/// The rights that the restore privilege gives.
const FOR_RESTORE: Rights = Rights::FOR_WRITE
    .union(Rights::WRITE_DAC)
    .union(Rights::WRITE_OWNER)
    .union(Rights::DELETE)
    .union(Rights::ACCESS_SYSTEM_SECURITY);

/// The rights that `token` gets when it asks for `desired`: exactly those, or with
/// [`Rights::MAXIMUM_ALLOWED`] all that it can have. Generic rights are mapped first.
///
/// Entries are evaluated in order. A right that an entry allowed is not denied by a later entry; this is
/// so for the maximum too. An Owner Rights entry is about the owner, and takes away the owner's implicit
/// rights.
///
/// # Errors
/// [`Denied`] when a requested right is not granted, or when the maximum is empty.
// MS-DTYP 2.5.3.2
pub fn granted(descriptor: &Descriptor, token: &Token, desired: Rights) -> Result<Rights, Denied> {
    let desired = desired.mapped();
    let wants_maximum = desired.contains(Rights::MAXIMUM_ALLOWED);
    let named = desired - Rights::MAXIMUM_ALLOWED;
    let privileged = by_privilege(token);
    // No entry of an access list can grant access to the audit list.
    let listed = by_list(descriptor, token) - Rights::ACCESS_SYSTEM_SECURITY;
    let allowed = listed | privileged;
    let missing = named - allowed;
    if !missing.is_empty() {
        return Err(Denied { missing });
    }
    if !wants_maximum {
        return Ok(named);
    }
    // The right to audit is granted only when it is requested by name.
    let maximum = (allowed - Rights::ACCESS_SYSTEM_SECURITY) | named;
    if maximum.is_empty() { Err(Denied { missing: Rights::MAXIMUM_ALLOWED }) } else { Ok(maximum) }
}

/// The rights that a child gets through rights on its directory. Listing the directory includes reading
/// the child's attributes. Deleting in it includes deleting the child.
// MS-FSA 2.1.5.1.2.1
#[must_use]
pub fn from_parent(parent: Rights) -> Rights {
    let mut out = Rights::empty();
    if parent.contains(Rights::LIST_DIRECTORY) {
        out |= Rights::READ_ATTRIBUTES;
    }
    if parent.contains(Rights::DELETE_CHILD) {
        out |= Rights::DELETE;
    }
    out
}

fn by_privilege(token: &Token) -> Rights {
    let mut out = Rights::empty();
    for (privilege, gives) in [
        (Privileges::TAKE_OWNERSHIP, Rights::WRITE_OWNER),
        (Privileges::SECURITY, Rights::ACCESS_SYSTEM_SECURITY),
        (Privileges::BACKUP, FOR_BACKUP),
        (Privileges::RESTORE, FOR_RESTORE),
    ] {
        if token.privileges.contains(privilege) {
            out |= gives;
        }
    }
    out
}

fn by_list(descriptor: &Descriptor, token: &Token) -> Rights {
    let Some(dacl) = &descriptor.dacl else {
        return Rights::ALL;
    };
    let is_owner = descriptor.owner.is_some_and(|owner| token.has(&owner));
    let mut allowed = Rights::empty();
    if is_owner && !speaks_of_owner(dacl) {
        allowed |= Rights::READ_CONTROL | Rights::WRITE_DAC;
    }
    let mut denied = Rights::empty();
    let meant = |sid: &Sid| token.has(sid) || (is_owner && *sid == well_known::OWNER_RIGHTS);
    for ace in dacl.aces.iter().filter(|a| !a.flags.contains(AceFlags::INHERIT_ONLY)) {
        match &ace.kind {
            AceKind::Allow(rights, sid) if meant(sid) => allowed |= rights.mapped() - denied,
            AceKind::Deny(rights, sid) if meant(sid) => denied |= rights.mapped() - allowed,
            AceKind::Other { .. } => {
                if let Some((rights, _)) = ace.conditional_denial().filter(|(_, sid)| meant(sid)) {
                    denied |= rights.mapped() - allowed;
                }
            }
            AceKind::Allow(..) | AceKind::Deny(..) | AceKind::Audit(..) => {}
        }
    }
    allowed - Rights::MAXIMUM_ALLOWED
}

/// Whether an entry in force is about the owner of the object, whoever that is.
fn speaks_of_owner(dacl: &Acl) -> bool {
    let counts = |a: &&super::Ace| !a.flags.contains(AceFlags::INHERIT_ONLY);
    dacl.aces.iter().filter(counts).any(|a| a.sid() == Some(&well_known::OWNER_RIGHTS))
}

#[cfg(test)]
mod tests {
    use super::super::Ace;
    use super::*;

    const ALICE: Sid = Sid::unix_user(1000);
    const BOB: Sid = Sid::unix_user(1001);
    const STAFF: Sid = Sid::unix_group(50);
    const NONE: AceFlags = AceFlags::empty();

    fn of(aces: Vec<Ace>) -> Descriptor {
        Descriptor::new(ALICE, STAFF, Acl::new(aces))
    }

    fn alice() -> Token {
        Token::authenticated(ALICE, STAFF, &[])
    }

    fn bob() -> Token {
        Token::authenticated(BOB, STAFF, &[])
    }

    fn maximum(descriptor: &Descriptor, token: &Token) -> Rights {
        granted(descriptor, token, Rights::MAXIMUM_ALLOWED).unwrap_or_default()
    }

    #[test]
    fn no_list_allows_all_and_an_empty_one_only_the_owner() {
        let open = Descriptor { owner: Some(ALICE), ..Descriptor::default() };
        assert_eq!(granted(&open, &bob(), Rights::GENERIC_ALL), Ok(Rights::ALL));
        assert_eq!(maximum(&open, &bob()), Rights::ALL);
        let closed = of(vec![]);
        assert_eq!(maximum(&closed, &alice()), Rights::READ_CONTROL | Rights::WRITE_DAC);
        assert_eq!(
            granted(&closed, &bob(), Rights::MAXIMUM_ALLOWED),
            Err(Denied { missing: Rights::MAXIMUM_ALLOWED })
        );
        assert_eq!(granted(&closed, &bob(), Rights::READ_DATA), Err(Denied { missing: Rights::READ_DATA }));
    }

    #[test]
    fn nothing_asked_is_nothing_got() {
        assert_eq!(granted(&of(vec![]), &bob(), Rights::empty()), Ok(Rights::empty()));
    }

    #[test]
    fn order_decides_between_allow_and_deny() {
        let deny = Ace::deny(STAFF, Rights::WRITE_DATA, NONE);
        let allow = Ace::allow(BOB, Rights::FOR_READ | Rights::WRITE_DATA, NONE);
        let deny_first = of(vec![deny.clone(), allow.clone()]);
        assert!(granted(&deny_first, &bob(), Rights::WRITE_DATA).is_err());
        assert_eq!(maximum(&deny_first, &bob()), Rights::FOR_READ);
        let allow_first = of(vec![allow, deny]);
        assert_eq!(granted(&allow_first, &bob(), Rights::WRITE_DATA), Ok(Rights::WRITE_DATA));
        assert_eq!(maximum(&allow_first, &bob()), Rights::FOR_READ | Rights::WRITE_DATA);
    }

    #[test]
    fn maximum_with_a_named_right_needs_that_right() {
        let list = of(vec![Ace::allow(BOB, Rights::FOR_READ, NONE)]);
        let ask = Rights::MAXIMUM_ALLOWED | Rights::READ_DATA;
        assert_eq!(granted(&list, &bob(), ask), Ok(Rights::FOR_READ));
        let ask = Rights::MAXIMUM_ALLOWED | Rights::WRITE_DATA;
        assert_eq!(granted(&list, &bob(), ask), Err(Denied { missing: Rights::WRITE_DATA }));
    }

    #[test]
    fn inherit_only_and_audit_entries_do_not_count() {
        let audit = Ace { flags: NONE, kind: AceKind::Audit(Rights::ALL, BOB) };
        let later = Ace::allow(BOB, Rights::ALL, AceFlags::INHERIT_ONLY | AceFlags::OBJECT_INHERIT);
        assert_eq!(maximum(&of(vec![audit, later]), &bob()), Rights::empty());
    }

    #[test]
    fn owner_rights_add_up_and_replace_the_implicit_ones() {
        let read = Ace::allow(ALICE, Rights::FOR_READ, NONE);
        let list = of(vec![read.clone(), Ace::allow(well_known::OWNER_RIGHTS, Rights::WRITE_DATA, NONE)]);
        assert_eq!(maximum(&list, &alice()), Rights::FOR_READ | Rights::WRITE_DATA);
        assert_eq!(maximum(&list, &bob()), Rights::empty());
        let list = of(vec![Ace::deny(well_known::OWNER_RIGHTS, Rights::READ_DATA, NONE), read.clone()]);
        assert_eq!(maximum(&list, &alice()), Rights::FOR_READ - Rights::READ_DATA);
        // An entry that is only inherited does not take away the implicit rights.
        let only = AceFlags::INHERIT_ONLY | AceFlags::OBJECT_INHERIT;
        let list = of(vec![Ace::deny(well_known::OWNER_RIGHTS, Rights::ALL, only), read]);
        assert_eq!(maximum(&list, &alice()), Rights::FOR_READ | Rights::WRITE_DAC);
    }

    #[test]
    fn an_owning_group_counts_as_owner() {
        let list = Descriptor { owner: Some(STAFF), ..of(vec![]) };
        assert!(granted(&list, &bob(), Rights::WRITE_DAC).is_ok());
    }

    #[test]
    fn privileges() {
        let closed = of(vec![]);
        let with = |privileges| Token { privileges, ..bob() };
        assert!(granted(&closed, &with(Privileges::TAKE_OWNERSHIP), Rights::WRITE_OWNER).is_ok());
        let audit = Rights::ACCESS_SYSTEM_SECURITY;
        assert!(granted(&closed, &with(Privileges::SECURITY), audit).is_ok());
        assert!(granted(&Descriptor::default(), &bob(), audit).is_err());
        assert!(granted(&of(vec![Ace::allow(BOB, audit, NONE)]), &bob(), audit).is_err());
        assert!(granted(&closed, &with(Privileges::BACKUP), Rights::GENERIC_READ).is_ok());
        assert!(granted(&closed, &with(Privileges::BACKUP), Rights::WRITE_DATA).is_err());
        assert!(granted(&closed, &with(Privileges::RESTORE), Rights::GENERIC_WRITE | Rights::DELETE).is_ok());
        assert!(granted(&closed, &with(Privileges::RESTORE), Rights::READ_DATA).is_err());
    }

    #[test]
    fn conditions_that_cannot_be_evaluated_never_allow_and_always_deny() {
        let conditional = |kind: u8| {
            let mut body = Rights::ALL.bits().to_le_bytes().to_vec();
            BOB.encode(&mut wire::Writer::new(&mut body));
            body.extend_from_slice(b"artx");
            Ace { flags: NONE, kind: AceKind::Other { kind, body: body.into() } }
        };
        assert_eq!(maximum(&of(vec![conditional(0x09)]), &bob()), Rights::empty());
        let list = of(vec![conditional(0x0a), Ace::allow(BOB, Rights::ALL, NONE)]);
        assert_eq!(maximum(&list, &bob()), Rights::empty());
    }

    #[test]
    fn rights_through_the_parent() {
        assert_eq!(from_parent(Rights::ALL), Rights::READ_ATTRIBUTES | Rights::DELETE);
        assert_eq!(from_parent(Rights::ALL - Rights::LIST_DIRECTORY - Rights::DELETE_CHILD), Rights::empty());
    }
}
