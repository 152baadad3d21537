//! SIDs as bytes and as text, and the well-known SIDs with their names.

use super::host::{Account, NameUse, Resolved};
use std::fmt::Write;

/// MS-DTYP 2.4.2.2: the most subauthorities.
pub const MAX_SUBAUTHORITIES: usize = 15;

pub use crate::fscc::quota::is_sid;

/// The text form `S-1-5-21-...`. Bytes that are not a SID give `S-?`.
#[must_use]
pub fn to_text(sid: &[u8]) -> String {
    if !is_sid(sid) {
        return "S-?".to_string();
    }
    let authority = sid[2..8].iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    // MS-DTYP 2.4.2.1 (an authority of more than 32 bits is in hex)
    let mut text =
        if authority >> 32 == 0 { format!("S-1-{authority}") } else { format!("S-1-0x{authority:012x}") };
    for part in subauthorities(sid) {
        let _ = write!(text, "-{part}");
    }
    text
}

/// The subauthorities of a SID. The last one is the account's RID.
pub fn subauthorities(sid: &[u8]) -> impl DoubleEndedIterator<Item = u32> + '_ {
    let parts = sid.get(8..).unwrap_or_default();
    parts.chunks_exact(4).map(|part| part.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

/// The SID without its last subauthority, which is the SID of the account's domain. A SID without
/// subauthorities is unchanged.
#[must_use]
pub fn domain_of(sid: &[u8]) -> Vec<u8> {
    let mut domain = sid.to_vec();
    if domain.len() >= 12 {
        domain.truncate(domain.len() - 4);
        domain[1] -= 1;
    }
    domain
}

struct WellKnown {
    authority: u8,
    parts: &'static [u32],
    domain: &'static str,
    name: &'static str,
    kind: NameUse,
}

const fn known(authority: u8, parts: &'static [u32], domain: &'static str, name: &'static str) -> WellKnown {
    WellKnown { authority, parts, domain, name, kind: NameUse::WellKnownGroup }
}

const fn builtin(parts: &'static [u32], name: &'static str) -> WellKnown {
    WellKnown { authority: 5, parts, domain: "BUILTIN", name, kind: NameUse::Alias }
}

/// MS-DTYP 2.4.2.4: the well-known SIDs in security descriptors of files.
const WELL_KNOWN: &[WellKnown] = &[
    known(0, &[0], "", "NULL SID"),
    known(1, &[0], "", "Everyone"),
    known(2, &[0], "", "LOCAL"),
    known(2, &[1], "", "CONSOLE LOGON"),
    known(3, &[0], "", "CREATOR OWNER"),
    known(3, &[1], "", "CREATOR GROUP"),
    known(3, &[4], "", "OWNER RIGHTS"),
    known(5, &[1], "NT AUTHORITY", "DIALUP"),
    known(5, &[2], "NT AUTHORITY", "NETWORK"),
    known(5, &[3], "NT AUTHORITY", "BATCH"),
    known(5, &[4], "NT AUTHORITY", "INTERACTIVE"),
    known(5, &[6], "NT AUTHORITY", "SERVICE"),
    known(5, &[7], "NT AUTHORITY", "ANONYMOUS LOGON"),
    known(5, &[9], "NT AUTHORITY", "ENTERPRISE DOMAIN CONTROLLERS"),
    known(5, &[10], "NT AUTHORITY", "SELF"),
    known(5, &[11], "NT AUTHORITY", "Authenticated Users"),
    known(5, &[12], "NT AUTHORITY", "RESTRICTED"),
    known(5, &[13], "NT AUTHORITY", "TERMINAL SERVER USER"),
    known(5, &[14], "NT AUTHORITY", "REMOTE INTERACTIVE LOGON"),
    known(5, &[15], "NT AUTHORITY", "This Organization"),
    known(5, &[18], "NT AUTHORITY", "SYSTEM"),
    known(5, &[19], "NT AUTHORITY", "LOCAL SERVICE"),
    known(5, &[20], "NT AUTHORITY", "NETWORK SERVICE"),
    WellKnown { authority: 5, parts: &[32], domain: "BUILTIN", name: "BUILTIN", kind: NameUse::Domain },
    builtin(&[32, 544], "Administrators"),
    builtin(&[32, 545], "Users"),
    builtin(&[32, 546], "Guests"),
    builtin(&[32, 547], "Power Users"),
    builtin(&[32, 548], "Account Operators"),
    builtin(&[32, 549], "Server Operators"),
    builtin(&[32, 550], "Print Operators"),
    builtin(&[32, 551], "Backup Operators"),
    builtin(&[32, 552], "Replicator"),
    builtin(&[32, 555], "Remote Desktop Users"),
];

impl WellKnown {
    fn sid(&self) -> Vec<u8> {
        let mut sid = vec![1, self.parts.len() as u8, 0, 0, 0, 0, 0, self.authority];
        self.parts.iter().for_each(|part| sid.extend_from_slice(&part.to_le_bytes()));
        sid
    }

    fn has_sid(&self, sid: &[u8]) -> bool {
        is_sid(sid)
            && sid[2..7] == [0; 5]
            && sid[7] == self.authority
            && subauthorities(sid).eq(self.parts.iter().copied())
    }
}

/// The well-known account with this SID.
#[must_use]
pub fn well_known_account(sid: &[u8]) -> Option<Account> {
    let found = WELL_KNOWN.iter().find(|known| known.has_sid(sid))?;
    Some(Account { domain: found.domain.to_string(), name: found.name.to_string(), kind: found.kind })
}

/// The well-known SID of this account. Without a domain it is the first one with the name.
#[must_use]
pub fn well_known_sid(domain: Option<&str>, name: &str) -> Option<Resolved> {
    let found = WELL_KNOWN.iter().find(|known| {
        known.name.eq_ignore_ascii_case(name) && domain.is_none_or(|d| d.eq_ignore_ascii_case(known.domain))
    })?;
    Some(Resolved { sid: found.sid(), domain: found.domain.to_string(), kind: found.kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fscc::testing::hex;

    #[test]
    fn sids_are_shown_as_windows_shows_them() {
        assert_eq!(to_text(&hex("01 02 000000000005 20000000 20020000")), "S-1-5-32-544");
        assert_eq!(
            to_text(&hex("01 05 000000000005 15000000 dcf4dc3b 833d2b46 828ba628 00020000")),
            "S-1-5-21-1004336348-1177238915-682003330-512"
        );
        assert_eq!(to_text(&hex("01 00 010000000000")), "S-1-0x010000000000");
        assert_eq!(to_text(b"x"), "S-?");
    }

    #[test]
    fn well_known_names_go_both_ways() {
        for known in WELL_KNOWN {
            let account = well_known_account(&known.sid()).unwrap();
            assert_eq!((account.name.as_str(), account.domain.as_str()), (known.name, known.domain));
            let back = well_known_sid(Some(known.domain), &known.name.to_lowercase()).unwrap();
            assert_eq!(back.sid, known.sid());
        }
        assert_eq!(well_known_sid(None, "users").unwrap().sid, hex("01 02 000000000005 20000000 21020000"));
        assert_eq!(well_known_sid(Some("OTHER"), "Users"), None);
        assert_eq!(well_known_account(&hex("01 02 000000000005 20000000 00000000")), None);
    }

    #[test]
    fn a_domain_is_what_is_left_without_the_rid() {
        assert_eq!(
            domain_of(&hex("01 02 000000000005 20000000 20020000")),
            hex("01 01 000000000005 20000000")
        );
        assert_eq!(domain_of(&hex("01 00 000000000005")), hex("01 00 000000000005"));
    }
}
