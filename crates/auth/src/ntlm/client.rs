//! The client's end: sends NEGOTIATE, then answers the CHALLENGE (MS-NLMP 3.1.5.1).

use std::fmt;

use wire::Now;
use zeroize::Zeroizing;

use super::av::{AV_FLAG_MIC, AvId, AvPairs, push_av};
use super::flags::NegotiateFlags;
use super::message::{
    Authenticate, Challenge, MIC_LEN, MIC_OFFSET, Malformed, Negotiate, parse_challenge, utf16le,
};
use super::response::{Key, NtHash, message_mic, nt_proof, ntowf_v2, rc4k, session_base_key};
use super::signature::Signatures;
use crate::crypto::random;
use crate::ntlm::av::filetime;

/// The user of a log-on, and its target.
#[derive(Clone)]
pub struct ClientIdentity {
    user: String,
    domain: String,
    workstation: String,
    target: String,
    /// `None` for the anonymous user.
    hash: Option<NtHash>,
}

impl ClientIdentity {
    /// A user with a password. `target` is the service, such as `cifs/files.example.net`.
    #[must_use]
    pub fn new(user: &str, domain: &str, hash: NtHash, target: &str) -> ClientIdentity {
        ClientIdentity {
            user: user.into(),
            domain: domain.into(),
            workstation: String::new(),
            target: target.into(),
            hash: Some(hash),
        }
    }

    /// The anonymous user.
    #[must_use]
    pub fn anonymous(target: &str) -> ClientIdentity {
        ClientIdentity {
            user: String::new(),
            domain: String::new(),
            workstation: String::new(),
            target: target.into(),
            hash: None,
        }
    }

    /// Sets the name of the client's machine, which servers log.
    #[must_use]
    pub fn on(mut self, workstation: &str) -> ClientIdentity {
        self.workstation = workstation.into();
        self
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIdentity")
            .field("user", &self.user)
            .field("domain", &self.domain)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// The reason why the client stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The challenge cannot be parsed.
    #[error(transparent)]
    BadChallenge(#[from] Malformed),
    /// The server supports no Unicode or no extended session security.
    #[error("the server offers too little security")]
    TooWeak,
    /// A name of the client or the server's description does not fit in a message.
    #[error("a name is too long for an NTLM message")]
    TooLong,
}

/// The response to a challenge, with its keys.
pub struct ChallengeReply {
    /// The AUTHENTICATE message to send.
    pub message: Vec<u8>,
    /// ExportedSessionKey.
    pub session_key: Key,
    /// The signatures for SPNEGO.
    pub signatures: Option<Signatures>,
}

/// One exchange of a client.
pub struct Client {
    identity: ClientIdentity,
    negotiate: Vec<u8>,
}

/// The features that the client requests.
const ASKED: NegotiateFlags = NegotiateFlags::UNICODE
    .union(NegotiateFlags::REQUEST_TARGET)
    .union(NegotiateFlags::SIGN)
    .union(NegotiateFlags::NTLM)
    .union(NegotiateFlags::ALWAYS_SIGN)
    .union(NegotiateFlags::EXTENDED_SESSIONSECURITY)
    .union(NegotiateFlags::VERSION)
    .union(NegotiateFlags::KEY_128)
    .union(NegotiateFlags::KEY_EXCH)
    .union(NegotiateFlags::KEY_56);

/// The features that the client requires. Without them the keys would be too weak.
const NEEDED: NegotiateFlags = NegotiateFlags::UNICODE.union(NegotiateFlags::EXTENDED_SESSIONSECURITY);

/// The longest name of the client and the longest description of a server, in bytes. It is well below the
/// limit of a 16-bit length field.
const MAX_FIELD_LEN: usize = 8 * 1024;

/// The random values of a response, so that a test can fix them.
struct Dice {
    client_challenge: [u8; 8],
    session_key: Key,
}

impl Client {
    /// Starts an exchange.
    #[must_use]
    pub fn new(identity: ClientIdentity) -> Client {
        let flags = if identity.hash.is_some() { ASKED } else { ASKED | NegotiateFlags::ANONYMOUS };
        Client { identity, negotiate: Negotiate { flags }.encode() }
    }

    /// The NEGOTIATE message to send.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.negotiate
    }

    /// Answers the CHALLENGE message.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn answer(&self, message: &[u8], now: Now) -> Result<ChallengeReply, ClientError> {
        let dice = Dice { client_challenge: random(), session_key: Zeroizing::new(random()) };
        self.answer_with(message, now, dice)
    }

    fn answer_with(&self, message: &[u8], now: Now, dice: Dice) -> Result<ChallengeReply, ClientError> {
        // MS-NLMP 3.1.5.1.2 (exception: a server that leaves out its NetBIOS names is not refused; small
        // servers do, and the names protect nothing)
        let challenge = parse_challenge(message)?;
        if !challenge.flags.contains(NEEDED) {
            return Err(ClientError::TooWeak);
        }
        let identity = &self.identity;
        let [user, domain, workstation, target] =
            [&identity.user, &identity.domain, &identity.workstation, &identity.target].map(|it| utf16le(it));
        let fields = [&user[..], &domain, &workstation, &target, challenge.target_info];
        if fields.iter().any(|field| field.len() > MAX_FIELD_LEN) {
            return Err(ClientError::TooLong);
        }
        let flags = (challenge.flags & ASKED) | (asked(identity) & NegotiateFlags::ANONYMOUS);
        let response = match &identity.hash {
            Some(hash) => {
                let key = ntowf_v2(hash, &user, &domain);
                response(&challenge, &key, &target, now, dice.client_challenge)?
            }
            None => Response::null(),
        };
        let (session_key, encrypted) = if flags.contains(NegotiateFlags::KEY_EXCH) {
            let encrypted = rc4k(&response.base_key, &dice.session_key);
            (dice.session_key, encrypted.to_vec())
        } else {
            (response.base_key, Vec::new())
        };
        let mut answer = Authenticate {
            lm_response: &response.lm,
            nt_response: &response.nt,
            domain: &domain,
            user: &user,
            workstation: &workstation,
            encrypted_session_key: &encrypted,
            flags,
        }
        .encode();
        if response.has_mic {
            let mic = message_mic(&session_key, &self.negotiate, message, &answer);
            answer[MIC_OFFSET..MIC_OFFSET + MIC_LEN].copy_from_slice(&mic[..]);
        }
        let signatures = Signatures::new(&session_key, flags);
        Ok(ChallengeReply { message: answer, session_key, signatures })
    }
}

/// The features that a NEGOTIATE of this identity requests.
fn asked(identity: &ClientIdentity) -> NegotiateFlags {
    if identity.hash.is_some() { ASKED } else { ASKED | NegotiateFlags::ANONYMOUS }
}

/// The result of ComputeResponse.
struct Response {
    lm: Vec<u8>,
    nt: Vec<u8>,
    base_key: Key,
    has_mic: bool,
}

impl Response {
    /// The response of the anonymous user.
    fn null() -> Response {
        // MS-NLMP 3.3.2
        Response { lm: vec![0], nt: Vec::new(), base_key: Zeroizing::new([0; 16]), has_mic: false }
    }
}

/// ComputeResponse for a user, with the AV pairs that the client adds.
fn response(
    challenge: &Challenge<'_>,
    key: &Key,
    target: &[u8],
    now: Now,
    client_challenge: [u8; 8],
) -> Result<Response, ClientError> {
    let offered = AvPairs::parse(challenge.target_info)?;
    // MS-NLMP 3.1.5.1.2
    let has_mic = offered.timestamp().is_some();
    let time = offered.timestamp().unwrap_or_else(|| filetime(now));
    let mut temp = Vec::with_capacity(128 + challenge.target_info.len() + target.len());
    temp.extend_from_slice(&[1, 1, 0, 0, 0, 0, 0, 0]);
    temp.extend_from_slice(&time.to_le_bytes());
    temp.extend_from_slice(&client_challenge);
    temp.extend_from_slice(&[0; 4]);
    let ours = [AvId::FLAGS, AvId::TARGET_NAME, AvId::CHANNEL_BINDINGS];
    for (id, value) in offered.iter().filter(|(id, _)| !ours.contains(id)) {
        push_av(&mut temp, id, value);
    }
    if has_mic {
        push_av(&mut temp, AvId::FLAGS, &(offered.flags() | AV_FLAG_MIC).to_le_bytes());
    }
    push_av(&mut temp, AvId::CHANNEL_BINDINGS, &[0; 16]);
    push_av(&mut temp, AvId::TARGET_NAME, target);
    push_av(&mut temp, AvId::EOL, &[]);
    temp.extend_from_slice(&[0; 4]);

    // MS-NLMP 3.3.2
    let proof = nt_proof(key, &challenge.server_challenge, &temp);
    let lm = if has_mic {
        vec![0; 24]
    } else {
        let proof = nt_proof(key, &challenge.server_challenge, &client_challenge);
        [&proof[..], &client_challenge].concat()
    };
    let nt = [&proof[..], &temp].concat();
    Ok(Response { lm, nt, base_key: session_base_key(key, &proof), has_mic })
}
