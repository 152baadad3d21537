//! Security identifiers: the users, groups and machines that an entry of a list is about.

use std::fmt;
use std::str::FromStr;

use wire::{Cursor, Truncated, Writer};

/// A security identifier: an authority and up to fifteen sub-authorities.
// MS-DTYP 2.4.2
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sid {
    authority: u64,
    count: u8,
    sub: [u32; Sid::MAX_SUBS],
}

/// The reason why a string or bytes are no security identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSid {
    /// Not of the form `S-1-authority-sub-...`.
    #[error("not of the form S-1-5-21-...")]
    Syntax,
    /// More than fifteen sub-authorities, or a number that does not fit.
    #[error("a part of the security identifier is out of range")]
    Range,
    /// The bytes end too early.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// A revision other than 1.
    #[error("revision of a security identifier is not 1")]
    Revision,
}

impl Sid {
    /// The largest number of sub-authorities.
    pub const MAX_SUBS: usize = 15;

    /// Makes an identifier from an authority (48 bits are kept) and sub-authorities (the first fifteen
    /// are kept).
    #[must_use]
    pub const fn new(authority: u64, subs: &[u32]) -> Sid {
        let mut sub = [0; Sid::MAX_SUBS];
        let mut n = 0;
        while n < subs.len() && n < Sid::MAX_SUBS {
            sub[n] = subs[n];
            n += 1;
        }
        Sid { authority: authority & 0xffff_ffff_ffff, count: n as u8, sub }
    }

    /// The host's user with this number, for a user without a better identifier: `S-1-22-1-uid`.
    #[must_use]
    pub const fn unix_user(uid: u32) -> Sid {
        Sid::new(22, &[1, uid])
    }

    /// The host's group with this number, for a group without a better identifier: `S-1-22-2-gid`.
    #[must_use]
    pub const fn unix_group(gid: u32) -> Sid {
        Sid::new(22, &[2, gid])
    }

    /// The user number in an identifier made by [`Sid::unix_user`].
    #[must_use]
    pub fn as_unix_user(&self) -> Option<u32> {
        (self.authority == 22 && self.count == 2 && self.sub[0] == 1).then_some(self.sub[1])
    }

    /// The group number in an identifier made by [`Sid::unix_group`].
    #[must_use]
    pub fn as_unix_group(&self) -> Option<u32> {
        (self.authority == 22 && self.count == 2 && self.sub[0] == 2).then_some(self.sub[1])
    }

    /// The identifier authority, 48 bits.
    #[must_use]
    pub fn authority(&self) -> u64 {
        self.authority
    }

    /// The sub-authorities.
    #[must_use]
    pub fn subs(&self) -> &[u32] {
        &self.sub[..usize::from(self.count)]
    }

    /// This identifier with one more sub-authority, such as an account of a domain. `None` when it is
    /// full.
    #[must_use]
    pub fn child(&self, rid: u32) -> Option<Sid> {
        let mut sid = *self;
        *sid.sub.get_mut(usize::from(self.count))? = rid;
        sid.count += 1;
        Some(sid)
    }

    /// The last number, if the identifier is an account directly below `domain`.
    #[must_use]
    pub fn rid_in(&self, domain: &Sid) -> Option<u32> {
        let (last, front) = self.subs().split_last()?;
        (self.authority == domain.authority && front == domain.subs()).then_some(*last)
    }

    /// Length of the binary form in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        8 + 4 * usize::from(self.count)
    }

    /// Reads the binary form and moves the cursor behind it.
    ///
    /// # Errors
    /// [`BadSid`].
    // MS-DTYP 2.4.2.2
    pub fn parse(from: &mut Cursor<'_>) -> Result<Sid, BadSid> {
        if from.u8()? != 1 {
            return Err(BadSid::Revision);
        }
        let count = from.u8()?;
        if usize::from(count) > Sid::MAX_SUBS {
            return Err(BadSid::Range);
        }
        let high = u64::from(from.u16_be()?);
        let authority = high << 32 | u64::from(from.u32_be()?);
        let mut sub = [0; Sid::MAX_SUBS];
        for one in &mut sub[..usize::from(count)] {
            *one = from.u32_le()?;
        }
        Ok(Sid { authority, count, sub })
    }

    /// Appends the binary form.
    pub fn encode(&self, to: &mut Writer<'_>) {
        to.u8(1);
        to.u8(self.count);
        to.bytes(&self.authority.to_be_bytes()[2..]);
        for &one in self.subs() {
            to.u32_le(one);
        }
    }
}

// MS-DTYP 2.4.2.1
impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.authority >> 32 == 0 {
            write!(f, "S-1-{}", self.authority)?;
        } else {
            write!(f, "S-1-0x{:012x}", self.authority)?;
        }
        self.subs().iter().try_for_each(|one| write!(f, "-{one}"))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sid {
    type Err = BadSid;

    fn from_str(text: &str) -> Result<Sid, BadSid> {
        let rest = text.strip_prefix("S-1-").or_else(|| text.strip_prefix("s-1-")).ok_or(BadSid::Syntax)?;
        let mut parts = rest.split('-');
        let first = parts.next().ok_or(BadSid::Syntax)?;
        let authority = match first.strip_prefix("0x").or_else(|| first.strip_prefix("0X")) {
            Some(hex) => {
                let digits = !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit());
                digits
                    .then(|| u64::from_str_radix(hex, 16))
                    .ok_or(BadSid::Syntax)?
                    .map_err(|_| BadSid::Range)?
            }
            None => decimal(first)?,
        };
        if authority >> 48 != 0 {
            return Err(BadSid::Range);
        }
        let mut sid = Sid::new(authority, &[]);
        for part in parts {
            let number = u32::try_from(decimal(part)?).map_err(|_| BadSid::Range)?;
            sid = sid.child(number).ok_or(BadSid::Range)?;
        }
        // The syntax demands at least one sub-authority.
        if sid.count == 0 { Err(BadSid::Syntax) } else { Ok(sid) }
    }
}

/// Parses digits only. The standard parser would accept a sign.
fn decimal(text: &str) -> Result<u64, BadSid> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadSid::Syntax);
    }
    text.parse().map_err(|_| BadSid::Range)
}

/// Identifiers with the same meaning everywhere.
// MS-DTYP 2.4.2.4
pub mod well_known {
    use super::Sid;

    /// Nobody: `S-1-0-0`.
    pub const NULL: Sid = Sid::new(0, &[0]);
    /// Everyone: `S-1-1-0`.
    pub const EVERYONE: Sid = Sid::new(1, &[0]);
    /// The owner of a new object replaces it: `S-1-3-0`.
    pub const CREATOR_OWNER: Sid = Sid::new(3, &[0]);
    /// The group of a new object replaces it: `S-1-3-1`.
    pub const CREATOR_GROUP: Sid = Sid::new(3, &[1]);
    /// The owner at the time of the check. An entry for it takes away the owner's implicit rights:
    /// `S-1-3-4`.
    pub const OWNER_RIGHTS: Sid = Sid::new(3, &[4]);
    /// Everybody who connects over the network: `S-1-5-2`.
    pub const NETWORK: Sid = Sid::new(5, &[2]);
    /// Everybody who was not authenticated: `S-1-5-7`.
    pub const ANONYMOUS: Sid = Sid::new(5, &[7]);
    /// Everybody who was authenticated: `S-1-5-11`.
    pub const AUTHENTICATED_USERS: Sid = Sid::new(5, &[11]);
    /// The machine itself: `S-1-5-18`.
    pub const SYSTEM: Sid = Sid::new(5, &[18]);
    /// `S-1-5-32-544`.
    pub const ADMINISTRATORS: Sid = Sid::new(5, &[32, 544]);
    /// `S-1-5-32-545`.
    pub const USERS: Sid = Sid::new(5, &[32, 545]);
    /// `S-1-5-32-546`.
    pub const GUESTS: Sid = Sid::new(5, &[32, 546]);
    /// `S-1-5-32-551`.
    pub const BACKUP_OPERATORS: Sid = Sid::new(5, &[32, 551]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(sid: &Sid) -> Vec<u8> {
        let mut out = Vec::new();
        sid.encode(&mut Writer::new(&mut out));
        out
    }

    #[test]
    fn administrators_as_in_the_specifications_example() {
        // MS-DTYP 2.5.1.4, offset 0x90 of the dump.
        let seen = [1, 2, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 2, 0, 0];
        assert_eq!(Sid::parse(&mut Cursor::new(&seen)), Ok(well_known::ADMINISTRATORS));
        assert_eq!(bytes(&well_known::ADMINISTRATORS), seen);
    }

    #[test]
    fn text_both_ways() {
        for text in ["S-1-1-0", "S-1-5-21-1-2-4294967295-500", "S-1-22-1-1000", "S-1-0x0123456789ab-7"] {
            assert_eq!(text.parse::<Sid>().map(|s| s.to_string()).as_deref(), Ok(text));
        }
        assert_eq!("s-1-5-18".parse(), Ok(well_known::SYSTEM));
        for text in
            ["", "S-1", "S-1-", "S-1-5", "S-2-5-1", "S-1-5-", "S-1-5--1", "S-1-5-+1", "S-1-x-1", "S-1-5-1 "]
        {
            assert_eq!(text.parse::<Sid>(), Err(BadSid::Syntax), "{text:?}");
        }
        for text in ["S-1-5-4294967296", "S-1-0x1000000000000-1", "S-1-281474976710656-1"] {
            assert_eq!(text.parse::<Sid>(), Err(BadSid::Range), "{text:?}");
        }
        let fifteen = format!("S-1-5{}", "-1".repeat(15));
        assert!(fifteen.parse::<Sid>().is_ok());
        assert_eq!(format!("{fifteen}-1").parse::<Sid>(), Err(BadSid::Range));
    }

    #[test]
    fn hostile_bytes_are_refused() {
        assert_eq!(Sid::parse(&mut Cursor::new(&[2, 0, 0, 0, 0, 0, 0, 5])), Err(BadSid::Revision));
        assert_eq!(Sid::parse(&mut Cursor::new(&[1, 16, 0, 0, 0, 0, 0, 5])), Err(BadSid::Range));
        let whole = bytes(&Sid::unix_user(7));
        for cut in 0..whole.len() {
            assert!(matches!(Sid::parse(&mut Cursor::new(&whole[..cut])), Err(BadSid::Truncated(_))));
        }
    }

    #[test]
    fn host_users_and_domains() {
        assert_eq!(Sid::unix_user(1000).to_string(), "S-1-22-1-1000");
        assert_eq!(Sid::unix_user(5).as_unix_user(), Some(5));
        assert_eq!(Sid::unix_user(5).as_unix_group(), None);
        assert_eq!(Sid::unix_group(5).as_unix_group(), Some(5));
        let domain: Sid = "S-1-5-21-1-2-3".parse().unwrap();
        assert_eq!(domain.child(1001).and_then(|s| s.rid_in(&domain)), Some(1001));
        assert_eq!(well_known::USERS.rid_in(&domain), None);
    }
}
