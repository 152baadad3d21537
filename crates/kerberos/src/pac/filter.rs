//! SID filtering (MS-PAC 4.1.2.2): the SIDs that a domain may give to its users on this server.
//!
//! The domain controller that issued the ticket has filtered already. This server filters once more, as a
//! member does, since a trusted domain may be in the hands of someone else.

use volume::security::Sid;

use super::{GroupSource, Pac, PacError};

/// The domains at whose boundary this server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalDomains {
    /// The SID of the domain that the server has joined.
    pub own: Sid,
    /// The SID of this machine. Its local accounts are below it.
    pub machine: Sid,
}

/// NT AUTHORITY (MS-DTYP 2.4.1.1)
const NT_AUTHORITY: u64 = 5;
/// SECURITY_NT_NON_UNIQUE, the first number of every domain's SID (MS-DTYP 2.4.2.4)
const NT_NON_UNIQUE: u32 = 21;
/// RIDs of groups and users that administrators make begin here (MS-PAC 4.1.2.2).
const FIRST_MADE: u32 = 1000;

impl LocalDomains {
    /// Whether a user of the domain `logon` may have this SID.
    ///
    /// Only SIDs of the form `S-1-5-21-X-Y-Z-R` pass. Those of this machine never do. A user of the own
    /// domain may have SIDs of any domain, as within a forest. A user of a trusted domain may have those of
    /// that domain, and the local groups that the own domain's controller added, except for its built-in
    /// ones.
    #[must_use]
    pub fn admits(&self, sid: &Sid, source: GroupSource, logon: &Sid) -> bool {
        let &[NT_NON_UNIQUE, x, y, z, rid] = sid.subs() else { return false };
        if sid.authority() != NT_AUTHORITY {
            return false;
        }
        let domain = Sid::new(NT_AUTHORITY, &[NT_NON_UNIQUE, x, y, z]);
        // S-1-5-21-0-0-0 holds marks of claims, which are no groups here.
        if domain == self.machine || (x, y, z) == (0, 0, 0) {
            return false;
        }
        let is_of_resource = source == GroupSource::Resource && domain == self.own && rid >= FIRST_MADE;
        *logon == self.own || domain == *logon && domain != self.own || is_of_resource
    }
}

impl Pac {
    /// The PAC without the SIDs that the user's domain may not give.
    ///
    /// # Errors
    /// [`PacError::FilteredUser`] if the user's own SID or primary group is one of them.
    pub fn filtered(mut self, local: &LocalDomains) -> Result<Pac, PacError> {
        for sid in [self.user, self.primary_group] {
            if !local.admits(&sid, GroupSource::Account, &self.domain) {
                return Err(PacError::FilteredUser(sid));
            }
        }
        let domain = self.domain;
        self.groups.retain(|group| local.admits(&group.sid, group.source, &domain));
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_sids_passes_where_it_may() {
        let local = LocalDomains {
            own: "S-1-5-21-1-2-3".parse().unwrap(),
            machine: "S-1-5-21-7-7-7".parse().unwrap(),
        };
        let trusted: Sid = "S-1-5-21-4-5-6".parse().unwrap();
        use GroupSource::{Account, Extra, Resource};
        // The SID, where the PAC has it, whether it passes for a user of the own domain, of a trusted one.
        let table = [
            ("S-1-0-0", Extra, false, false),
            ("S-1-1-0", Extra, false, false),
            ("S-1-3-0", Extra, false, false),
            ("S-1-5-2", Extra, false, false),
            ("S-1-5-9", Extra, false, false),
            ("S-1-5-11", Extra, false, false),
            ("S-1-5-18", Extra, false, false),
            ("S-1-5-32-544", Extra, false, false),
            ("S-1-5-32-544", Resource, false, false),
            ("S-1-5-64-10", Extra, false, false),
            ("S-1-18-1", Extra, false, false),
            ("S-1-22-1-0", Extra, false, false),
            ("S-1-22-2-0", Extra, false, false),
            ("S-1-5-21", Extra, false, false),
            ("S-1-5-21-1-2", Extra, false, false),
            ("S-1-5-21-1-2-3", Extra, false, false),
            ("S-1-5-21-1-2-3-500-1", Extra, false, false),
            ("S-1-5-21-0-0-0-497", Extra, false, false),
            ("S-1-5-21-7-7-7-1000", Extra, false, false),
            ("S-1-5-21-7-7-7-1000", Resource, false, false),
            ("S-1-5-21-1-2-3-512", Account, true, false),
            ("S-1-5-21-1-2-3-519", Extra, true, false),
            ("S-1-5-21-1-2-3-1104", Extra, true, false),
            ("S-1-5-21-1-2-3-1104", Resource, true, true),
            ("S-1-5-21-1-2-3-512", Resource, true, false),
            ("S-1-5-21-4-5-6-513", Account, true, true),
            ("S-1-5-21-4-5-6-1104", Extra, true, true),
            ("S-1-5-21-9-9-9-1104", Extra, true, false),
            ("S-1-5-21-9-9-9-1104", Resource, true, false),
        ];
        for (sid, source, within, trusting) in table {
            let sid: Sid = sid.parse().unwrap();
            assert_eq!(local.admits(&sid, source, &local.own), within, "{sid} {source:?} within");
            assert_eq!(local.admits(&sid, source, &trusted), trusting, "{sid} {source:?} trusted");
        }
        // A PAC that says it is of this machine's own accounts gives nothing at all.
        let own = "S-1-5-21-7-7-7-500".parse().unwrap();
        assert!(!local.admits(&own, Account, &local.machine));
    }
}
