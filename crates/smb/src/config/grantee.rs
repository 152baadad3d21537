//! The users and groups that the settings of shares and accounts name.

use std::sync::{Arc, OnceLock};

use share::Identity;
use share::engine::{AccountKind, AccountMapping};
use volume::security::Sid;

use super::access::{Access, same_name};

/// A user, a group, or everyone, as a setting names it.
///
/// `*` is everyone who can log on. A name alone is a user of this server. `@group` is a group of the host, or
/// of the server's domain. `DOMAIN\name` and `name@realm` are a user of a domain, and a group with an `@` in
/// front.
#[derive(Clone)]
pub struct Grantee {
    name: String,
    /// The accounts that know SIDs of groups and of domains. None: only the server's own users count.
    accounts: Option<Arc<dyn AccountMapping>>,
    /// The SID, as soon as the accounts know it. It stays until the settings are applied again.
    sid: Arc<OnceLock<Sid>>,
}

/// The parts of a name: whether it is marked as a group, its domain, and the name in the domain.
///
/// `@a@b` is the group `a` of the domain `b`.
#[must_use]
pub fn parts(name: &str) -> (bool, Option<&str>, &str) {
    let (is_group, rest) = name.strip_prefix('@').map_or((false, name), |rest| (true, rest));
    match (rest.split_once('\\'), rest.rsplit_once('@')) {
        (Some((domain, name)), _) => (is_group, Some(domain), name),
        (None, Some((name, domain))) => (is_group, Some(domain), name),
        (None, None) => (is_group, None, rest),
    }
}

impl Grantee {
    /// A grantee whose SID is looked up in `accounts`.
    #[must_use]
    pub fn new(name: &str, accounts: Arc<dyn AccountMapping>) -> Grantee {
        Grantee { accounts: Some(accounts), ..Grantee::from(name) }
    }

    /// The name as the setting spells it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether everyone who can log on is meant.
    #[must_use]
    pub fn is_everyone(&self) -> bool {
        self.name == "*"
    }

    /// Whether a group, or an account of a domain, is meant, which has a SID to find.
    #[must_use]
    pub fn needs_sid(&self) -> bool {
        let (is_group, domain, _) = parts(&self.name);
        is_group || domain.is_some()
    }

    /// The SID of a group or of an account of a domain, if it is known by now. Does not block.
    #[must_use]
    pub fn sid(&self) -> Option<Sid> {
        if let Some(sid) = self.sid.get() {
            return Some(*sid);
        }
        let accounts = self.accounts.as_ref()?;
        let found = match parts(&self.name) {
            (true, domain, name) => accounts.group_named(domain, name),
            (false, Some(domain), name) => {
                let account = accounts.account_named(Some(domain), name);
                account.filter(|(_, kind)| *kind != AccountKind::Group).map(|(sid, _)| sid)
            }
            (false, None, _) => None,
        };
        found.map(|sid| *self.sid.get_or_init(|| sid))
    }

    /// Whether the name has no `@` in front and is known to be a group of a domain. It gives nobody access.
    #[must_use]
    pub fn is_unmarked_group(&self) -> bool {
        let (Some(accounts), (false, Some(domain), name)) = (&self.accounts, parts(&self.name)) else {
            return false;
        };
        matches!(accounts.account_named(Some(domain), name), Some((_, AccountKind::Group)))
    }

    /// Whether the setting names this user, or a group of the user. Everyone is not meant here.
    #[must_use]
    pub fn names(&self, user: &Identity) -> bool {
        // A user of a domain has its domain's name in front. This needs no directory.
        let (is_group, ..) = parts(&self.name);
        if !is_group && same_name(&self.name, &user.name) {
            return true;
        }
        self.sid().is_some_and(|sid| if is_group { user.groups.contains(&sid) } else { sid == user.sid })
    }
}

/// The most access that the entries give a user: the user's own, those of the user's groups, and everyone's.
#[must_use]
pub fn access_of(users: &[(Grantee, Access)], user: &Identity) -> Access {
    let named = users.iter().filter(|(one, _)| one.is_everyone() || one.names(user));
    named.map(|(_, access)| *access).max().unwrap_or(Access::None)
}

impl From<&str> for Grantee {
    fn from(name: &str) -> Grantee {
        Grantee { name: name.to_owned(), accounts: None, sid: Arc::default() }
    }
}

impl PartialEq for Grantee {
    fn eq(&self, other: &Grantee) -> bool {
        self.name == other.name
    }
}

impl Eq for Grantee {}

impl std::fmt::Debug for Grantee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Grantee").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A domain CORP with the user bob and the group staff, which become known later.
    #[derive(Default)]
    struct Late(AtomicBool);

    const STAFF: Sid = Sid::new(5, &[21, 1, 2, 3, 1200]);
    const BOB: Sid = Sid::new(5, &[21, 1, 2, 3, 1104]);

    impl AccountMapping for Late {
        fn account_named(&self, domain: Option<&str>, name: &str) -> Option<(Sid, AccountKind)> {
            let is_known = self.0.load(Ordering::Relaxed) && matches!(domain, Some("CORP" | "corp.example"));
            let found = match name {
                "bob" => Some((BOB, AccountKind::User)),
                "staff" => Some((STAFF, AccountKind::Group)),
                _ => None,
            };
            found.filter(|_| is_known)
        }
        fn group_named(&self, domain: Option<&str>, name: &str) -> Option<Sid> {
            let is_ours = matches!(domain, None | Some("CORP" | "corp.example"));
            (self.0.load(Ordering::Relaxed) && is_ours && name == "staff").then_some(STAFF)
        }
    }

    fn user(name: &str, sid: Sid, groups: &[Sid]) -> Identity {
        Identity { name: name.to_owned(), sid, groups: groups.to_vec(), ..crate::config::nobody() }
    }

    #[test]
    fn a_name_has_a_domain_in_front_or_behind() {
        for (name, wanted) in [
            ("ann", (false, None, "ann")),
            ("@staff", (true, None, "staff")),
            ("CORP\\bob", (false, Some("CORP"), "bob")),
            ("bob@corp.example", (false, Some("corp.example"), "bob")),
            ("@CORP\\domain users", (true, Some("CORP"), "domain users")),
            ("@staff@corp.example", (true, Some("corp.example"), "staff")),
        ] {
            assert_eq!(parts(name), wanted, "{name}");
            assert_eq!(Grantee::from(name).needs_sid(), name != "ann");
        }
    }

    #[test]
    fn a_group_counts_as_soon_as_its_sid_is_known_and_stays() {
        let accounts = Arc::new(Late::default());
        let grantee = |name| Grantee::new(name, Arc::<Late>::clone(&accounts));
        let all = ["@staff", "@CORP\\staff", "@staff@corp.example", "CORP\\bob", "bob@corp.example"];
        let all = all.map(grantee);
        let bob = user("CORP\\bob", BOB, &[STAFF]);
        assert_eq!(
            all.each_ref().map(|one| one.names(&bob)),
            [false, false, false, true, false],
            "the name of a domain's user needs no directory"
        );
        accounts.0.store(true, Ordering::Relaxed);
        assert!(all.iter().all(|one| one.names(&bob)));
        accounts.0.store(false, Ordering::Relaxed);
        assert!(all.iter().all(|one| one.names(&bob)), "a directory that is silent changes nothing");
        let eve = user("CORP\\eve", Sid::new(5, &[21, 1, 2, 3, 1105]), &[STAFF]);
        assert_eq!(all.map(|one| one.names(&eve)), [true, true, true, false, false]);
    }

    #[test]
    fn a_group_without_a_mark_gives_nobody_access() {
        let accounts = Arc::new(Late(AtomicBool::new(true)));
        let of = |name: &str| Grantee::new(name, Arc::<Late>::clone(&accounts));
        let bob = user("CORP\\bob", BOB, &[STAFF]);
        for name in ["CORP\\staff", "staff@corp.example", "CORP\\STAFF"] {
            assert!(!of(name).names(&bob), "{name}");
            assert_eq!(access_of(&[(of(name), Access::Full)], &bob), Access::None, "{name}");
        }
        assert!(of("CORP\\staff").is_unmarked_group() && of("staff@corp.example").is_unmarked_group());
        for other in ["@CORP\\staff", "CORP\\bob", "CORP\\nobody", "staff", "*"] {
            assert!(!of(other).is_unmarked_group(), "{other}");
        }
        accounts.0.store(false, Ordering::Relaxed);
        assert!(!of("CORP\\staff").is_unmarked_group(), "a directory that is silent says nothing");
    }

    #[test]
    fn the_widest_entry_that_names_a_user_counts() {
        let accounts = Arc::new(Late(AtomicBool::new(true)));
        let users = [("*", Access::Read), ("@staff", Access::Write), ("bob@corp.example", Access::Full)];
        let users = users.map(|(name, access)| (Grantee::new(name, Arc::<Late>::clone(&accounts)), access));
        let bob = user("CORP\\bob", BOB, &[STAFF]);
        let eve = user("CORP\\eve", Sid::new(5, &[21, 1, 2, 3, 1105]), &[STAFF]);
        let zoe = user("zoe", Sid::unix_user(9), &[]);
        assert_eq!(
            [&bob, &eve, &zoe].map(|one| access_of(&users, one)),
            [Access::Full, Access::Write, Access::Read]
        );
        assert_eq!([&eve, &zoe].map(|one| access_of(&users[1..], one)), [Access::Write, Access::None]);
    }

    #[test]
    fn a_name_alone_is_a_user_of_this_server() {
        let local = user("Bob", Sid::unix_user(7), &[]);
        let of_domain = user("CORP\\bob", BOB, &[STAFF]);
        let bob = Grantee::new("bob", Arc::new(Late(AtomicBool::new(true))));
        assert!(bob.names(&local) && !bob.names(&of_domain));
        assert!(!Grantee::from("*").names(&local) && Grantee::from("*").is_everyone());
        assert!(!Grantee::from("@staff").names(&of_domain), "without accounts no group is known");
    }
}
