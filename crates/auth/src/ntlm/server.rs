//! The server's end: sends a challenge, then judges the response (MS-NLMP 3.2.5.1).

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use wire::{Cursor, Now};
use zeroize::Zeroizing;

use super::av::{AV_FLAG_MIC, AvId, AvPairs, push_av};
use super::flags::NegotiateFlags;
use super::message::{
    Authenticate, Challenge, MIC_LEN, MIC_OFFSET, mic_of, name, parse_authenticate, parse_negotiate, units,
    utf16le,
};
use super::response::{Key, NtHash, message_mic, nt_proof, ntowf_v2, rc4k, session_base_key};
use super::signature::Signatures;
use super::target::Target;
use super::{Malformed, oem};
use crate::credentials::{Account, Credentials, fold_name};
use crate::crypto::random;
use crate::ntlm::av::filetime;
use crate::pass_through::{DomainAccount, NetworkLogon, PassThrough};
use crate::refusal::Refusal;

/// The server's names in its CHALLENGE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// NetBIOS name of the computer, at most 15 characters, by custom in upper case.
    pub netbios_computer: String,
    /// NetBIOS name of the domain or workgroup. A server without a domain uses its own name.
    pub netbios_domain: String,
    /// DNS name of the computer.
    pub dns_computer: String,
    /// DNS name of the domain, empty if there is none.
    pub dns_domain: String,
}

/// One exchange after its CHALLENGE was made.
pub struct Server {
    negotiate: Vec<u8>,
    challenge: Vec<u8>,
    server_challenge: [u8; 8],
    offered: NegotiateFlags,
}

/// The proof of a log-on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proof {
    /// With the account's password.
    Password,
    /// With a Kerberos ticket.
    Ticket,
    /// No proof: an unknown user is logged on as the configured guest.
    Guest,
    /// No proof: the client named no user.
    Anonymous,
}

/// A client that is logged on.
pub struct AuthenticatedClient {
    /// Name of the account as it is stored. It is empty for the anonymous user.
    pub user: String,
    /// Domain as the client sent it.
    pub domain: String,
    /// Machine as the client sent it, without proof.
    pub workstation: String,
    /// The proof of the log-on.
    pub proof: Proof,
    /// ExportedSessionKey, or zeros for a guest.
    pub session_key: Key,
    /// The signatures for SPNEGO. `None` if they were not agreed on, or for a guest.
    pub signatures: Option<Signatures>,
    /// The intended target of the response.
    pub target: Target,
    /// Whether the client has sent a MIC of the three messages. The proof covers the flag, so nobody on the
    /// way can take it off.
    pub has_mic: bool,
}

/// The requested features that the server supports.
const SUPPORTED: NegotiateFlags = NegotiateFlags::SIGN
    .union(NegotiateFlags::SEAL)
    .union(NegotiateFlags::EXTENDED_SESSIONSECURITY)
    .union(NegotiateFlags::VERSION)
    .union(NegotiateFlags::KEY_128)
    .union(NegotiateFlags::KEY_EXCH)
    .union(NegotiateFlags::KEY_56);

/// The flags of every CHALLENGE.
const ALWAYS: NegotiateFlags = NegotiateFlags::REQUEST_TARGET
    .union(NegotiateFlags::NTLM)
    .union(NegotiateFlags::ALWAYS_SIGN)
    .union(NegotiateFlags::TARGET_TYPE_SERVER)
    .union(NegotiateFlags::TARGET_INFO);

/// The length of NTProofStr, the first part of an NTLMv2 response (MS-NLMP 2.2.2.8).
const PROOF_LEN: usize = 16;
/// The length of the responses of NTLMv1 and LM in bytes. An NTLMv2 response is longer.
const OLD_RESPONSE_LEN: usize = 24;

impl Server {
    /// Answers a NEGOTIATE message with a fresh challenge.
    ///
    /// # Errors
    /// [`Refusal::BadMessage`]; [`Refusal::TooWeak`] if the client has no encoding for names.
    pub fn challenge(names: &Names, negotiate: &[u8], now: Now) -> Result<Server, Refusal> {
        Server::challenge_with(names, negotiate, now, random())
    }

    /// Makes a challenge with a chosen nonce.
    fn challenge_with(
        names: &Names,
        negotiate: &[u8],
        now: Now,
        server_challenge: [u8; 8],
    ) -> Result<Server, Refusal> {
        // MS-NLMP 3.2.5.1.1
        let asked = parse_negotiate(negotiate)?.flags;
        let text = [NegotiateFlags::UNICODE, NegotiateFlags::OEM].into_iter().find(|&it| asked.contains(it));
        let text = text.ok_or(Refusal::TooWeak)?;
        let offered = (asked & SUPPORTED) | ALWAYS | text;
        let name = &names.netbios_computer;
        let challenge = Challenge {
            flags: offered,
            server_challenge,
            target_name: &if text == NegotiateFlags::OEM { oem::from_text(name) } else { utf16le(name) },
            target_info: &target_info(names, now),
        }
        .encode();
        Ok(Server { negotiate: negotiate.to_vec(), challenge, server_challenge, offered })
    }

    /// The exchange that answered this NEGOTIATE with this CHALLENGE.
    #[cfg(test)]
    pub(crate) fn resumed(negotiate: &[u8], challenge: &[u8]) -> Server {
        let sent = super::parse_challenge(challenge).expect("our own challenge");
        Server {
            negotiate: negotiate.to_vec(),
            challenge: challenge.to_vec(),
            server_challenge: sent.server_challenge,
            offered: sent.flags,
        }
    }

    /// The CHALLENGE message to send.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.challenge
    }

    /// Judges the AUTHENTICATE message.
    ///
    /// An unknown user costs the same work and gets the same result as a wrong password.
    ///
    /// # Errors
    /// The reason why the client is refused.
    pub fn judge(
        &self,
        message: &[u8],
        credentials: &dyn Credentials,
        now: Now,
    ) -> Result<AuthenticatedClient, Refusal> {
        // MS-NLMP 3.2.5.1.2
        let sent = parse_authenticate(message)?;
        let names = self.names_in(&sent);
        let sent = names.as_ref().map_or(sent, |names| names.put_into(sent));
        let settled = self.settled(&sent);
        if sent.user.is_empty() && sent.nt_response.is_empty() && is_null(sent.lm_response) {
            let session_key = exported_key(&Zeroizing::new([0; 16]), &sent, settled)?;
            return Ok(admit(&sent, String::new(), Proof::Anonymous, session_key, settled));
        }
        if sent.nt_response.len() <= OLD_RESPONSE_LEN {
            return Err(Refusal::OldResponse);
        }
        let mut response = Cursor::new(sent.nt_response);
        let proof: [u8; 16] = response.array().map_err(Malformed::from)?;
        let client_challenge = response.rest();
        // This is read before the proof is compared, so that a malformed response is refused in the same way
        // for every user.
        let (stamp, pairs) = said_with(client_challenge)?;

        let account = find_account(&name(sent.user)?, credentials);
        let (proved, base_key) = self.prove(account.as_ref(), &sent, &proof, client_challenge);
        let Some(account) = account.filter(|_| proved) else {
            return guest_or_nobody(&sent, credentials);
        };
        let session_key = exported_key(&base_key, &sent, settled)?;
        self.check_mic(message, pairs, &session_key)?;
        if let Some(why) = account.restriction {
            return Err(Refusal::AccountRestriction(why));
        }
        let target = Target::read(pairs, stamp, now);
        Ok(AuthenticatedClient {
            target,
            has_mic: pairs.flags() & AV_FLAG_MIC != 0,
            ..admit(&sent, account.name, Proof::Password, session_key, settled)
        })
    }

    /// Whether an AUTHENTICATE message is from a user of the domain: `domain` covers the names in it, and no
    /// local account has the user's name.
    #[must_use]
    pub fn is_for_domain(
        &self,
        message: &[u8],
        credentials: &dyn Credentials,
        domain: &dyn PassThrough,
    ) -> bool {
        let Ok(sent) = parse_authenticate(message) else { return false };
        let names = self.names_in(&sent);
        let sent = names.as_ref().map_or(sent, |names| names.put_into(sent));
        let (Ok(user), Ok(of)) = (name(sent.user), name(sent.domain)) else { return false };
        !user.is_empty() && domain.covers(&user, &of) && find_account(&user, credentials).is_none()
    }

    /// Has a domain controller judge the AUTHENTICATE message. It may block for some seconds.
    ///
    /// # Errors
    /// The reason why the client is refused.
    pub fn judge_by(
        &self,
        message: &[u8],
        domain: &dyn PassThrough,
        now: Now,
    ) -> Result<(AuthenticatedClient, DomainAccount), Refusal> {
        // MS-NLMP 3.2.5.1.2, MS-APDS 3.1.5.2
        let sent = parse_authenticate(message)?;
        let names = self.names_in(&sent);
        let sent = names.as_ref().map_or(sent, |names| names.put_into(sent));
        if sent.nt_response.len() <= OLD_RESPONSE_LEN {
            return Err(Refusal::OldResponse);
        }
        let (stamp, pairs) = said_with(&sent.nt_response[PROOF_LEN..])?;
        let (user, of, workstation) = (name(sent.user)?, name(sent.domain)?, name(sent.workstation)?);
        let logon = domain.log_on(&NetworkLogon {
            user: &user,
            domain: &of,
            workstation: &workstation,
            challenge: self.server_challenge,
            nt_response: sent.nt_response,
        })?;
        let settled = self.settled(&sent);
        let session_key = exported_key(&logon.session_base_key, &sent, settled)?;
        self.check_mic(message, pairs, &session_key)?;
        let target = Target::read(pairs, stamp, now);
        let client = admit(&sent, logon.account.name.clone(), Proof::Password, session_key, settled);
        let has_mic = pairs.flags() & AV_FLAG_MIC != 0;
        Ok((AuthenticatedClient { target, has_mic, ..client }, logon.account))
    }

    /// The flags that both sides have agreed on.
    fn settled(&self, sent: &Authenticate<'_>) -> NegotiateFlags {
        if sent.flags.is_empty() { self.offered } else { sent.flags & self.offered }
    }

    /// The user whose password an AUTHENTICATE message proves, in one form for all spellings. It is the name
    /// of an account, or else the name as it was sent. `None` if the message proves nothing or cannot be
    /// parsed.
    #[must_use]
    pub fn claimed(&self, message: &[u8], credentials: &dyn Credentials) -> Option<String> {
        let sent =
            parse_authenticate(message).ok().filter(|sent| sent.nt_response.len() > OLD_RESPONSE_LEN)?;
        let names = self.names_in(&sent);
        let user = name(names.as_ref().map_or(sent.user, |names| &names.user)).ok()?;
        let account = find_account(&user, credentials).map(|account| account.name);
        Some(fold_name(&account.unwrap_or_else(|| local_part(&user).unwrap_or(&user).to_owned())))
    }

    /// The names in UTF-16, if they were sent in another encoding.
    fn names_in(&self, sent: &Authenticate<'_>) -> Option<InUtf16> {
        // MS-NLMP 2.2.2.5: A and B
        let text = NegotiateFlags::UNICODE | NegotiateFlags::OEM;
        let said = if sent.flags.intersects(text) { sent.flags } else { self.offered };
        (!said.contains(NegotiateFlags::UNICODE)).then(|| InUtf16 {
            user: oem::to_utf16le(sent.user),
            domain: oem::to_utf16le(sent.domain),
            workstation: oem::to_utf16le(sent.workstation),
        })
    }

    /// Compares the proof in constant time with the three possible ones: for the domain as sent, for the
    /// domain in upper case, and without a domain. Returns the SessionBaseKey of the matching one.
    fn prove(
        &self,
        account: Option<&Account>,
        sent: &Authenticate<'_>,
        proof: &[u8; 16],
        client_challenge: &[u8],
    ) -> (bool, Key) {
        let nobody = NtHash::from_bytes([0; 16]);
        let first = account.map(|account| &account.nt_hash);
        let second = account.and_then(|account| account.second_hash.as_ref());
        let upper = String::from_utf16_lossy(&units(sent.domain)).to_uppercase();
        let mut fits = Choice::from(0);
        let mut found: Key = Zeroizing::new([0; 16]);
        // MS-NLMP 3.2.5.1.2
        // All users belong to this server, so the domain has no meaning. But clients use the sent domain for
        // their key, or the same in upper case, or none.
        for domain in [sent.domain, utf16le(&upper).as_slice(), &[]] {
            // Both hashes are tried even if one is missing, so that the time does not reveal their number.
            for hash in [first, second] {
                let key = ntowf_v2(hash.unwrap_or(&nobody), sent.user, domain);
                let expected = nt_proof(&key, &self.server_challenge, client_challenge);
                let equal = expected.ct_eq(proof) & Choice::from(u8::from(hash.is_some()));
                let base = session_base_key(&key, &expected);
                for (byte, candidate) in found.iter_mut().zip(base.iter()) {
                    byte.conditional_assign(candidate, equal);
                }
                fits |= equal;
            }
        }
        (fits.into(), found)
    }

    /// Verifies the MIC if the response says that there is one. The response was verified before.
    fn check_mic(&self, message: &[u8], pairs: AvPairs<'_>, session_key: &Key) -> Result<(), Refusal> {
        // MS-NLMP 3.2.5.1.2
        if pairs.flags() & AV_FLAG_MIC == 0 {
            return Ok(());
        }
        let sent = mic_of(message)?;
        let mut zeroed = message.to_vec();
        zeroed[MIC_OFFSET..MIC_OFFSET + MIC_LEN].fill(0);
        let expected = message_mic(session_key, &self.negotiate, &self.challenge, &zeroed);
        if bool::from(expected.ct_eq(&sent)) { Ok(()) } else { Err(Refusal::WrongMic) }
    }
}

/// Names that were converted from another encoding.
struct InUtf16 {
    user: Vec<u8>,
    domain: Vec<u8>,
    workstation: Vec<u8>,
}

impl InUtf16 {
    fn put_into<'a>(&'a self, sent: Authenticate<'a>) -> Authenticate<'a> {
        Authenticate { user: &self.user, domain: &self.domain, workstation: &self.workstation, ..sent }
    }
}

/// The blob that the client's proof covers: its time and the pairs.
fn said_with(client_challenge: &[u8]) -> Result<(u64, AvPairs<'_>), Refusal> {
    // MS-NLMP 2.2.2.7
    let mut cursor = Cursor::new(client_challenge);
    let mut read = || {
        cursor.skip(STAMP_OFFSET)?;
        let stamp = cursor.u64_le()?;
        cursor.skip(CLIENT_CHALLENGE_HEADER_LEN - STAMP_OFFSET - size_of::<u64>())?;
        Ok((stamp, AvPairs::parse(cursor.rest())?))
    };
    read().map_err(|malformed: Malformed| malformed.into())
}

/// Logs an unknown user on as guest, if there is a guest account. All others are refused in the same way.
fn guest_or_nobody(
    sent: &Authenticate<'_>,
    credentials: &dyn Credentials,
) -> Result<AuthenticatedClient, Refusal> {
    // MS-NLMP 3.2.5.1.2
    let unknown = find_account(&name(sent.user)?, credentials).is_none();
    match credentials.guest() {
        Some(guest) if unknown => {
            let no_key = Zeroizing::new([0; 16]);
            Ok(admit(sent, guest, Proof::Guest, no_key, NegotiateFlags::empty()))
        }
        _ => Err(Refusal::WrongCredentials),
    }
}

/// The result for a client that is logged on.
fn admit(
    sent: &Authenticate<'_>,
    user: String,
    proof: Proof,
    session_key: Key,
    settled: NegotiateFlags,
) -> AuthenticatedClient {
    AuthenticatedClient {
        user,
        domain: String::from_utf16_lossy(&units(sent.domain)),
        workstation: String::from_utf16_lossy(&units(sent.workstation)),
        proof,
        signatures: Signatures::new(&session_key, settled),
        session_key,
        target: Target::default(),
        has_mic: false,
    }
}

/// NTLMv2_CLIENT_CHALLENGE before its AV pairs (MS-NLMP 2.2.2.7).
const CLIENT_CHALLENGE_HEADER_LEN: usize = 28;
/// The offset of the time in it.
const STAMP_OFFSET: usize = 8;

/// Whether an LM response is that of an anonymous client: empty, or a single zero byte.
fn is_null(lm_response: &[u8]) -> bool {
    matches!(lm_response, [] | [0])
}

/// The account that a client names. The name may be exact, or an e-mail-like name with an `@` part, or a
/// down-level name with a part before `\`.
fn find_account(user: &str, credentials: &dyn Credentials) -> Option<Account> {
    credentials.lookup(user).or_else(|| credentials.lookup(local_part(user)?))
}

fn local_part(user: &str) -> Option<&str> {
    match (user.split_once('@'), user.rsplit_once('\\')) {
        (Some((local, _)), _) | (None, Some((_, local))) => Some(local),
        (None, None) => None,
    }
}

/// ExportedSessionKey from the KeyExchangeKey.
fn exported_key(
    exchange_key: &Key,
    sent: &Authenticate<'_>,
    settled: NegotiateFlags,
) -> Result<Key, Refusal> {
    // MS-NLMP 3.2.5.1.2 (exception: a client that sends a key with KEY_EXCH but neither SIGN nor SEAL has
    // used that key, so the server does too; some clients do that although the text has no such case)
    if !settled.contains(NegotiateFlags::KEY_EXCH) {
        return Ok(exchange_key.clone());
    }
    match sent.encrypted_session_key.try_into() {
        Ok(encrypted) => Ok(rc4k(exchange_key, encrypted)),
        Err(_) if settled.intersects(NegotiateFlags::SIGN | NegotiateFlags::SEAL) => Err(Refusal::TooWeak),
        Err(_) => Ok(exchange_key.clone()),
    }
}

/// The AV pairs of the CHALLENGE: the names and the time. The time makes clients send a MIC.
fn target_info(names: &Names, now: Now) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    for (id, value) in [
        (AvId::NB_DOMAIN_NAME, &names.netbios_domain),
        (AvId::NB_COMPUTER_NAME, &names.netbios_computer),
        (AvId::DNS_DOMAIN_NAME, &names.dns_domain),
        (AvId::DNS_COMPUTER_NAME, &names.dns_computer),
    ] {
        push_av(&mut out, id, &utf16le(value));
    }
    push_av(&mut out, AvId::TIMESTAMP, &filetime(now).to_le_bytes());
    push_av(&mut out, AvId::EOL, &[]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Accounts;
    use crate::ntlm::message::{captured, parse_challenge};
    use crate::testing::{hex, hex_array};

    fn names() -> Names {
        Names {
            netbios_computer: "SUT311".into(),
            netbios_domain: "SUT311".into(),
            dns_computer: "SUT311".into(),
            dns_domain: "SUT311".into(),
        }
    }

    /// The AUTHENTICATE message of MS-NLMP 4.2.4.3.
    const EXAMPLE: &str = "4e544c4d5353500003000000180018006c00000054005400840000000c000c0048000000\
         0800080054000000100010005c00000010001000d8000000358288e20501280a0000000f44006f006d006100\
         69006e00550073006500720043004f004d0050005500540045005200\
         86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa68cd0ab851e51c96aabc927bebef6a1c\
         01010000000000000000000000000000aaaaaaaaaaaaaaaa0000000002000c0044006f006d0061006900\
         6e0001000c005300650072007600650072000000000000000000c5dad2544fc9799094ce1ce90bc9d03e";

    /// A server that has sent the CHALLENGE of MS-NLMP 4.2.4.3.
    fn example_server() -> Server {
        Server {
            negotiate: Vec::new(),
            challenge: Vec::new(),
            server_challenge: hex_array("0123456789abcdef"),
            offered: NegotiateFlags::from_bits_retain(0xe28a_8233),
        }
    }

    fn accounts() -> Accounts {
        let mut accounts = Accounts::default();
        let nt_hash = NtHash::from_password("Password");
        accounts.insert(Account { name: "user".into(), nt_hash, second_hash: None, restriction: None });
        accounts
    }

    #[test]
    fn the_example_of_ms_nlmp_4_2_4_is_let_in() {
        let judgement = example_server().judge(&hex(EXAMPLE), &accounts(), Now::default()).unwrap();
        assert_eq!((judgement.user.as_str(), judgement.domain.as_str()), ("user", "Domain"));
        assert_eq!(judgement.workstation, "COMPUTER");
        assert_eq!(*judgement.session_key, [0x55; 16]);
    }

    #[test]
    fn another_challenge_or_a_changed_response_is_not() {
        let mut server = example_server();
        server.server_challenge[0] ^= 1;
        let judged = server.judge(&hex(EXAMPLE), &accounts(), Now::default()).map(|it| it.user);
        assert_eq!(judged, Err(Refusal::WrongCredentials));
        // The NTLMv2 response is at 0x84 and has 0x54 bytes.
        for at in 0x84..0x84 + 0x54 {
            let mut message = hex(EXAMPLE);
            message[at] ^= 0x04;
            let judged = example_server().judge(&message, &accounts(), Now::default()).map(|it| it.user);
            let unreadable = said_with(&message[0x94..0x84 + 0x54]).err();
            assert_eq!(judged, Err(unreadable.unwrap_or(Refusal::WrongCredentials)), "byte {at:#x}");
        }
    }

    #[test]
    fn a_response_that_cannot_be_read_says_nothing_about_the_user() {
        let mut message = hex(EXAMPLE);
        // The length of the first pair.
        message[0xb2] = 0xff;
        for accounts in [accounts(), Accounts::default()] {
            let judged = example_server().judge(&message, &accounts, Now::default()).map(|it| it.user);
            assert!(matches!(judged, Err(Refusal::BadMessage(_))), "{judged:?}");
        }
    }

    #[test]
    fn responses_of_ntlm_v1_and_lm_are_refused() {
        // Cut to the 24 bytes of NTLMv1, then to none, which leaves only the LM response.
        for len in [24, 0] {
            let mut message = hex(EXAMPLE);
            message[20] = len;
            let judged = example_server().judge(&message, &accounts(), Now::default()).map(|it| it.user);
            assert_eq!(judged, Err(Refusal::OldResponse), "{len} bytes");
        }
    }

    #[test]
    fn a_missing_session_key_is_refused() {
        let mut message = hex(EXAMPLE);
        message[52] = 8;
        let judged = example_server().judge(&message, &accounts(), Now::default()).map(|it| it.user);
        assert_eq!(judged, Err(Refusal::TooWeak));
    }

    /// For the NEGOTIATE of a Windows client the server chooses the same as the Windows server of the trace,
    /// and describes itself in the same way.
    #[test]
    fn challenge_is_that_of_a_windows_server_but_for_version() {
        let mut expected = hex(captured::CHALLENGE);
        let time = Now { mono_ns: 0, wall_ns: 1_435_182_318_388_010_500 };
        let nonce = hex_array("0D1D8BA31179D008");
        let server = Server::challenge_with(&names(), &hex(captured::NEGOTIATE), time, nonce).unwrap();
        let mut message = server.message().to_vec();
        for challenge in [&mut message, &mut expected] {
            // VERSION is at 48. The time stamp is the last pair before the end mark.
            challenge[48..56].fill(0);
            let end = challenge.len() - 4;
            challenge[end - 8..end].fill(0);
        }
        assert_eq!(message, expected);
        let info = parse_challenge(server.message()).unwrap().target_info;
        let stamp = AvPairs::parse(info).unwrap().timestamp().unwrap();
        assert_eq!(stamp, 130_796_559_183_880_105);
    }

    #[test]
    fn a_client_without_any_text_is_refused() {
        let mut negotiate = hex(captured::NEGOTIATE);
        negotiate[12] &= !0x03;
        let refused = Server::challenge(&names(), &negotiate, Now::default()).map(|_| ());
        assert_eq!(refused, Err(Refusal::TooWeak));
    }

    /// The AUTHENTICATE of a client that sends its names in the OEM code page.
    fn oem_answer(server: &Server, user: &[u8], password: &str) -> Vec<u8> {
        let challenge = parse_challenge(server.message()).unwrap();
        let temp = [&[1, 1][..], &[0; 26], challenge.target_info, &[0; 4]].concat();
        let domain = utf16le("HOME");
        let key = ntowf_v2(&NtHash::from_password(password), &oem::to_utf16le(user), &domain);
        let nt_response = [&nt_proof(&key, &challenge.server_challenge, &temp)[..], &temp].concat();
        let flags = challenge.flags & !NegotiateFlags::KEY_EXCH;
        Authenticate {
            lm_response: &[0; 24],
            nt_response: &nt_response,
            domain: b"HOME",
            user,
            workstation: b"DOS\x9a",
            encrypted_session_key: &[],
            flags,
        }
        .encode()
    }

    // MS-NLMP 3.2.5.1.1
    #[test]
    fn a_client_with_oem_names_alone_is_answered_in_them_and_let_in() {
        let mut negotiate = hex(captured::NEGOTIATE);
        negotiate[12] = negotiate[12] & !0x01 | 0x02;
        let server = Server::challenge(&names(), &negotiate, Now::default()).unwrap();
        let challenge = parse_challenge(server.message()).unwrap();
        let text = challenge.flags & (NegotiateFlags::UNICODE | NegotiateFlags::OEM);
        assert_eq!((text, challenge.target_name), (NegotiateFlags::OEM, &b"SUT311"[..]));
        let mut accounts = accounts();
        let nt_hash = NtHash::from_password("m\u{fc}hle");
        accounts.insert(Account {
            name: "J\u{fc}rgen".into(),
            nt_hash,
            second_hash: None,
            restriction: None,
        });
        for (user, password, wanted) in [
            (&b"User"[..], "Password", Some("user")),
            (b"j\x81rgen", "m\u{fc}hle", Some("J\u{fc}rgen")),
            (b"user", "x", None),
        ] {
            let message = oem_answer(&server, user, password);
            let judged = server.judge(&message, &accounts, Now::default());
            match (judged, wanted) {
                (Ok(judgement), Some(name)) => {
                    assert_eq!((judgement.user.as_str(), judgement.domain.as_str()), (name, "HOME"));
                    assert_eq!(judgement.workstation, "DOS\u{dc}");
                }
                (judged, wanted) => {
                    assert_eq!((judged.err(), wanted), (Some(Refusal::WrongCredentials), None));
                }
            }
        }
        // A client that offers both gets Unicode.
        negotiate[12] |= 0x01;
        let server = Server::challenge(&names(), &negotiate, Now::default()).unwrap();
        assert_eq!(parse_challenge(server.message()).unwrap().target_name, utf16le("SUT311"));
    }

    #[test]
    fn all_spellings_of_a_user_are_one() {
        let server = example_server();
        let claimed = |user: &str| {
            let bytes = hex(EXAMPLE);
            let user = utf16le(user);
            let message = Authenticate { user: &user, ..parse_authenticate(&bytes).unwrap() }.encode();
            server.claimed(&message, &accounts())
        };
        for spelling in ["user", "USER", "User@there", "HOME\\user", "user@elsewhere"] {
            assert_eq!(claimed(spelling).as_deref(), Some("user"), "{spelling}");
        }
        // The result is the same for unknown users, so that clients cannot tell.
        for spelling in ["zoe", "ZOE", "Zoe@there", "HOME\\zoe"] {
            assert_eq!(claimed(spelling).as_deref(), Some("zoe"), "{spelling}");
        }
        let mut old = hex(EXAMPLE);
        old[20] = 24;
        assert_eq!(server.claimed(&old, &accounts()), None);
        assert_eq!(server.claimed(b"NTLMSSP", &accounts()), None);
    }

    #[test]
    fn the_whole_range_of_the_clock_has_a_filetime() {
        assert_eq!(filetime(Now { mono_ns: 0, wall_ns: 0 }), 116_444_736_000_000_000);
        assert_eq!(filetime(Now { mono_ns: 0, wall_ns: -1 }), 116_444_735_999_999_999);
        assert_eq!(filetime(Now { mono_ns: 0, wall_ns: i64::MIN }), 24_211_015_631_452_241);
    }
}
