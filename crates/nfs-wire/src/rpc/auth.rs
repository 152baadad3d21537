//! Credentials and verifiers (RFC 5531 8.2 and appendix A).

use crate::Malformed;
use crate::limits::{MAX_AUTH, MAX_GROUPS, MAX_MACHINE_NAME};
use crate::macros::xdr_enum;
use crate::xdr::{Decode, Encode, opaque, put_opaque};
use wire::Cursor;

xdr_enum! {
    /// The authentication flavor.
    pub enum Flavor {
        /// AUTH_NONE.
        None = 0,
        /// AUTH_SYS.
        Sys = 1,
        /// AUTH_SHORT.
        Short = 2,
        /// AUTH_DH.
        Dh = 3,
        /// RPCSEC_GSS (RFC 2203).
        RpcSecGss = 6,
        /// AUTH_TLS (RFC 9289).
        Tls = 7,
    }
}

/// A credential or verifier that is not parsed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// The flavor.
    pub flavor: Flavor,
    /// Its body, at most [`MAX_AUTH`] bytes.
    pub body: &'a [u8],
}

impl OpaqueAuth<'_> {
    /// AUTH_NONE.
    pub const NONE: OpaqueAuth<'static> = OpaqueAuth { flavor: Flavor::None, body: &[] };
}

impl Encode for OpaqueAuth<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.flavor.encode(out);
        put_opaque(self.body, out);
    }
}

impl<'d> Decode<'d> for OpaqueAuth<'d> {
    fn decode(r: &mut Cursor<'d>) -> Result<Self, Malformed> {
        Ok(OpaqueAuth { flavor: Flavor::decode(r)?, body: opaque(r, MAX_AUTH)? })
    }
}

/// A user as named by the client's host: authsys_parms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// An arbitrary number.
    pub stamp: u32,
    /// Name of the client's host.
    pub machine_name: &'a [u8],
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    groups: Groups,
}

/// At most [`MAX_GROUPS`] numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Groups {
    count: usize,
    numbers: [u32; MAX_GROUPS],
}

impl<'a> AuthSys<'a> {
    /// A credential. At most [`MAX_GROUPS`] of `groups` are used.
    #[must_use]
    pub fn new(machine_name: &'a [u8], uid: u32, gid: u32, groups: &[u32]) -> Self {
        let mut kept = Groups { count: groups.len().min(MAX_GROUPS), ..Groups::default() };
        kept.numbers[..kept.count].copy_from_slice(&groups[..kept.count]);
        AuthSys { stamp: 0, machine_name, uid, gid, groups: kept }
    }

    /// The further groups.
    #[must_use]
    pub fn groups(&self) -> &[u32] {
        &self.groups.numbers[..self.groups.count]
    }

    /// Reads the body of a credential, and all of it.
    ///
    /// # Errors
    /// [`Malformed`], also for too many groups. A server then replies AUTH_BADCRED.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Cursor::new(body);
        let parsed = AuthSys::decode(&mut r)?;
        if r.remaining() != 0 {
            return Err(Malformed::new("authsys_parms", "length"));
        }
        Ok(parsed)
    }
}

impl Encode for AuthSys<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.stamp.encode(out);
        put_opaque(self.machine_name, out);
        self.uid.encode(out);
        self.gid.encode(out);
        (self.groups.count as u32).encode(out);
        self.groups().iter().for_each(|gid| gid.encode(out));
    }
}

impl<'d> Decode<'d> for AuthSys<'d> {
    fn decode(r: &mut Cursor<'d>) -> Result<Self, Malformed> {
        let at = |field| move |e: Malformed| e.within("authsys_parms", field);
        let stamp = u32::decode(r).map_err(at("stamp"))?;
        let machine_name = opaque(r, MAX_MACHINE_NAME).map_err(at("machinename"))?;
        let uid = u32::decode(r).map_err(at("uid"))?;
        let gid = u32::decode(r).map_err(at("gid"))?;
        let mut groups = Groups { count: u32::decode(r).map_err(at("gids"))? as usize, ..Groups::default() };
        let places = groups.numbers.get_mut(..groups.count).ok_or(Malformed::new("authsys_parms", "gids"))?;
        for slot in places {
            *slot = u32::decode(r).map_err(at("gids"))?;
        }
        Ok(AuthSys { stamp, machine_name, uid, gid, groups })
    }
}

/// A credential to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential<'a> {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS.
    Sys(AuthSys<'a>),
}

impl Encode for Credential<'_> {
    /// Appends the credential as `opaque_auth`.
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Credential::None => OpaqueAuth::NONE.encode(out),
            Credential::Sys(sys) => {
                Flavor::Sys.encode(out);
                let at = out.len();
                0u32.encode(out);
                sys.encode(out);
                let len = (out.len() - at - 4) as u32;
                out[at..at + 4].copy_from_slice(&len.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(count: u32) -> Vec<u8> {
        let mut out = Vec::new();
        0x1234u32.encode(&mut out);
        put_opaque(b"host1", &mut out);
        [1000, 100, count].iter().for_each(|word: &u32| word.encode(&mut out));
        (0..count).for_each(|gid| gid.encode(&mut out));
        out
    }

    #[test]
    fn sixteen_groups_are_taken_and_no_more() {
        for count in [0, 1, 16] {
            let body = body(count);
            let sys = AuthSys::parse(&body).expect("a credential");
            assert_eq!((sys.uid, sys.gid, sys.machine_name), (1000, 100, &b"host1"[..]));
            assert_eq!(sys.groups(), (0..count).collect::<Vec<_>>());
            let mut again = Vec::new();
            sys.encode(&mut again);
            assert_eq!(again, body);
        }
        for count in [17, 64] {
            assert_eq!(AuthSys::parse(&body(count)), Err(Malformed::new("authsys_parms", "gids")));
        }
        assert!(AuthSys::parse(&[body(2), vec![0; 4]].concat()).is_err());
        let whole = body(3);
        for len in 0..whole.len() {
            assert!(AuthSys::parse(&whole[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn a_body_beyond_four_hundred_bytes_is_refused() {
        let mut out = Vec::new();
        OpaqueAuth { flavor: Flavor::Unknown(9), body: &[1; 400] }.encode(&mut out);
        assert!(OpaqueAuth::decode(&mut Cursor::new(&out)).is_ok());
        out.clear();
        OpaqueAuth { flavor: Flavor::Unknown(9), body: &[1; 401] }.encode(&mut out);
        assert!(OpaqueAuth::decode(&mut Cursor::new(&out)).is_err());
    }
}
