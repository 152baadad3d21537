//! The intended target of a client's response, from the part that its proof covers (MS-NLMP 2.2.2.1).
//!
//! An attacker who has lured a client can relay its response to another server, and that server logs the
//! attacker on as the client. The attacker cannot change the values here. The server decides whether it is
//! the intended target.

use md5::{Digest, Md5};
use wire::Now;

use super::av::{AV_FLAG_MIC, AV_FLAG_UNVERIFIED_TARGET, AvId, AvPairs};
use super::message::units;
use crate::ntlm::av::filetime;

/// The target and the time of a response, as the response states them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// The service that the client intended, such as `cifs/files`, if it names one.
    pub service: Option<String>,
    /// The client does not trust that name: it comes from another source.
    pub is_unverified: bool,
    /// The response is bound to a TLS channel.
    pub is_channel_bound: bool,
    /// The difference between its time and the server's, in seconds. `None` without a MIC.
    pub apart_s: Option<u64>,
}

impl Target {
    /// From the pairs of a response with the time `stamp` in its header.
    pub(super) fn read(pairs: AvPairs<'_>, stamp: u64, now: Now) -> Target {
        let service = pairs.get(AvId::TARGET_NAME).map(|name| String::from_utf16_lossy(&units(name)));
        let binding = pairs.get(AvId::CHANNEL_BINDINGS).unwrap_or_default();
        // MS-NLMP 3.1.5.1.2: with a MIC the time is that of the CHALLENGE, not that of the client's clock.
        let has_mic = pairs.flags() & AV_FLAG_MIC != 0;
        let stamp = pairs.timestamp().unwrap_or(stamp);
        Target {
            service: service.filter(|name| !name.is_empty()),
            is_unverified: pairs.flags() & AV_FLAG_UNVERIFIED_TARGET != 0,
            is_channel_bound: binds(binding),
            apart_s: has_mic.then(|| stamp.abs_diff(filetime(now)) / 10_000_000),
        }
    }
}

/// Whether the hash is one of actual channel bindings. It is not if it is absent or zero, or the hash of
/// empty bindings, which some clients send for none.
fn binds(hash: &[u8]) -> bool {
    // RFC 4121 4.1.1.2: types, lengths and data of both addresses and of the application, all of them zero.
    const EMPTY: [u8; 20] = [0; 20];
    hash.iter().any(|&byte| byte != 0) && hash != Md5::digest(EMPTY).as_slice()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ntlm::av::push_av;
    use crate::ntlm::message::utf16le;
    use crate::testing::hex;

    fn read(pairs: &[(AvId, &[u8])]) -> Target {
        let mut bytes = Vec::new();
        for (id, value) in pairs {
            push_av(&mut bytes, *id, value);
        }
        push_av(&mut bytes, AvId::EOL, &[]);
        let now = Now { mono_ns: 0, wall_ns: 1_800_000_000_000_000_000 };
        Target::read(AvPairs::parse(&bytes).unwrap(), filetime(now) - 50_000_000, now)
    }

    #[test]
    fn what_is_not_said_is_not_there() {
        let empty = hex("441018525208457705bf09a8ee3c1093");
        for bindings in [&[], &[0; 16][..], &empty] {
            let said = read(&[(AvId::TARGET_NAME, b""), (AvId::CHANNEL_BINDINGS, bindings)]);
            assert_eq!(said, Target::default());
        }
        assert_eq!(read(&[]), Target::default());
    }

    #[test]
    fn name_binding_and_time_are_read() {
        let name = utf16le("cifs/files");
        let said = read(&[
            (AvId::TARGET_NAME, &name),
            (AvId::CHANNEL_BINDINGS, &[7; 16]),
            (AvId::FLAGS, &[6, 0, 0, 0]),
        ]);
        let service = Some("cifs/files".to_owned());
        assert_eq!(said, Target { service, is_unverified: true, is_channel_bound: true, apart_s: Some(5) });
        let old = (filetime(Now { mono_ns: 0, wall_ns: 1_800_000_090_000_000_000 })).to_le_bytes();
        let said = read(&[(AvId::TIMESTAMP, &old), (AvId::FLAGS, &[2, 0, 0, 0])]);
        assert_eq!(said.apart_s, Some(90), "the server's own time goes before the client's");
    }
}
