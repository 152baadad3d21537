//! The lookups of the engine: they never wait, and give what the formulas and the memory say.

use std::sync::Arc;

use volume::security::Sid;

use super::Resolver;
use crate::account::{Group, GroupIds, User};
use crate::mapping::IdKind;
use crate::names::AccountKey;

impl Resolver {
    /// The SID of a domain's user with this uid.
    #[must_use]
    pub fn known_user_sid(&self, uid: u32) -> Option<Sid> {
        let by_formula = || self.settings.mapping.sid(uid, IdKind::User);
        by_formula().or_else(|| self.known_user(&AccountKey::Id(uid)).map(|user| user.sid))
    }

    /// The SID of a domain's group with this gid.
    #[must_use]
    pub fn known_group_sid(&self, gid: u32) -> Option<Sid> {
        let by_formula = || self.settings.mapping.sid(gid, IdKind::Group);
        by_formula().or_else(|| self.known_group(&AccountKey::Id(gid)).map(|group| group.sid))
    }

    /// The uid of a SID that is known to be a user's. A formula alone cannot tell users from groups.
    #[must_use]
    pub fn known_uid(&self, sid: &Sid) -> Option<u32> {
        if self.is_group_of_someone(sid) {
            return None;
        }
        self.known_user(&AccountKey::Sid(*sid)).map(|user| user.uid)
    }

    /// The gid of a SID that is known to be a group's.
    #[must_use]
    pub fn known_gid(&self, sid: &Sid) -> Option<u32> {
        let by_formula = self.settings.mapping.id(sid, IdKind::Group, None);
        if by_formula.is_some() && self.is_group_of_someone(sid) {
            return by_formula;
        }
        self.known_group(&AccountKey::Sid(*sid)).and_then(|group| group.gid)
    }

    /// Whether a user who is remembered has this group.
    fn is_group_of_someone(&self, sid: &Sid) -> bool {
        let gid = self.settings.mapping.id(sid, IdKind::Group, None);
        self.interner.contains(&GroupIds { sid: *sid, gid })
    }

    /// The user of a text, as far as remembered.
    #[must_use]
    pub fn known_user_named(&self, text: &str) -> Option<Arc<User>> {
        self.known_keys(text).iter().find_map(|key| self.known_user(key))
    }

    /// The group of a text, as far as remembered.
    #[must_use]
    pub fn known_group_named(&self, text: &str) -> Option<Arc<Group>> {
        self.known_keys(text).iter().find_map(|key| self.known_group(key))
    }
}
