//! The server's end of a login: SPNEGO or bare NTLMSSP around [`ntlm::Server`], one token at a time.

use std::fmt;
use std::sync::Arc;

use wire::Now;

use crate::Key;
use crate::credentials::Credentials;
use crate::ntlm::signature::Side;
use crate::ntlm::{self, Judgement, Names, Proof};
use crate::refusal::Refusal;
use crate::spnego::{self, BadToken, NTLMSSP, NegState, NegTokenInit, NegTokenResp, Token};

/// What all exchanges of a server share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Config {
    names: Arc<Names>,
}

impl Config {
    /// A server of these names.
    #[must_use]
    pub fn new(names: Names) -> Config {
        Config { names: Arc::new(names) }
    }

    /// The names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The token for the SecurityBuffer of a NEGOTIATE response.
    #[must_use]
    pub fn hint(&self) -> Vec<u8> {
        spnego::hint()
    }
}

/// What a token leads to.
#[derive(Debug)]
pub enum Step {
    /// Send this, and hand in the client's next token.
    Continue(Vec<u8>),
    /// The client is in.
    Done {
        /// Send this; empty when the exchange was bare NTLMSSP.
        reply: Vec<u8>,
        /// Who it is.
        login: Login,
    },
    /// The client is not let in. The exchange is over.
    Refused(Refusal),
}

/// Somebody who has logged on.
pub struct Login {
    /// Name of the account as it is stored; of the guest account for a guest; empty for the anonymous.
    pub user: String,
    /// Domain as the client gave it; it proves nothing.
    pub domain: String,
    /// The client's machine as it calls itself; it proves nothing.
    pub workstation: String,
    /// How the login was proved.
    pub proof: Proof,
    /// Session.SessionKey of MS-SMB2. For a guest it is zeros: never sign or encrypt with it.
    pub session_key: Key,
}

impl Login {
    /// Whether no user was named.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.proof == Proof::Anonymous
    }

    /// Whether an unknown user was let in as guest.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.proof == Proof::Guest
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("domain", &self.domain)
            .field("workstation", &self.workstation)
            .field("proof", &self.proof)
            .finish_non_exhaustive()
    }
}

/// One login as the server sees it.
///
/// ```
/// # use auth::{Acceptor, Accounts, Config, Names, Refusal, Step};
/// let config = Config::new(Names {
///     netbios_computer: "BOX".into(),
///     netbios_domain: "BOX".into(),
///     dns_computer: "box.example.net".into(),
///     dns_domain: "example.net".into(),
/// });
/// let mut acceptor = Acceptor::new(&config);
/// let step = acceptor.step(b"nonsense", &Accounts::default(), wire::Now::default());
/// assert!(matches!(step, Step::Refused(Refusal::BadToken(_))));
/// ```
pub struct Acceptor {
    names: Arc<Names>,
    state: State,
}

enum State {
    /// No token has come.
    Start,
    /// NTLMSSP was chosen; its NEGOTIATE is due.
    Chosen(Wrapping),
    /// A CHALLENGE was sent.
    Challenged(ntlm::Server, Wrapping),
    /// Let in or refused.
    Over,
}

/// How the NTLM messages travel.
#[derive(Debug)]
enum Wrapping {
    /// As they are.
    Bare,
    /// In SPNEGO.
    Spnego {
        /// The client's MechTypeList as sent.
        mech_list: Vec<u8>,
        /// NTLMSSP was not its first choice, so the list must be vouched for (RFC 4178 section 5).
        mic_required: bool,
    },
}

/// The longest NTLM NEGOTIATE that is kept for the MIC, in bytes: it holds at most two short names.
const MAX_NEGOTIATE_LEN: usize = 2 * 1024;

/// The longest list of mechanisms that is kept for the code over it, in bytes. Clients offer five at most, of a dozen bytes.
const MAX_MECH_LIST_LEN: usize = 1024;

impl Acceptor {
    /// An exchange that awaits its first token.
    #[must_use]
    pub fn new(config: &Config) -> Acceptor {
        Acceptor { names: Arc::clone(&config.names), state: State::Start }
    }

    /// Takes the client's next token.
    pub fn step(&mut self, token: &[u8], credentials: &dyn Credentials, now: Now) -> Step {
        let state = std::mem::replace(&mut self.state, State::Over);
        let stepped = match state {
            State::Start => self.begin(token, now),
            State::Chosen(wrapping) => self.negotiate(token, wrapping, now),
            State::Challenged(server, wrapping) => finish(token, &server, &wrapping, credentials),
            State::Over => Err(Refusal::OutOfTurn),
        };
        stepped.unwrap_or_else(Step::Refused)
    }

    /// The first token: bare NTLMSSP, or a list of mechanisms with the first one's token.
    fn begin(&mut self, token: &[u8], now: Now) -> Result<Step, Refusal> {
        if token.starts_with(ntlm::SIGNATURE) {
            return self.challenge(token, Wrapping::Bare, false, now);
        }
        let Token::Init(init) = spnego::parse(token)? else {
            return Err(Refusal::OutOfTurn);
        };
        let Some(rank) = init.mechs.iter().position(|mech| *mech == NTLMSSP) else {
            return Err(Refusal::NoCommonMechanism);
        };
        if init.mech_list.len() > MAX_MECH_LIST_LEN {
            return Err(BadToken::TooLong.into());
        }
        // RFC 4178 5
        let wrapping = Wrapping::Spnego { mech_list: init.mech_list.to_vec(), mic_required: rank > 0 };
        match init {
            NegTokenInit { mech_token: Some(message), .. } if rank == 0 => {
                self.challenge(message, wrapping, true, now)
            }
            _ => {
                // The optimistic token, if there is one, is for another mechanism.
                self.state = State::Chosen(wrapping);
                let state = if rank == 0 { NegState::AcceptIncomplete } else { NegState::RequestMic };
                let reply = NegTokenResp {
                    state: Some(state),
                    supported_mech: Some(NTLMSSP),
                    ..NegTokenResp::default()
                };
                Ok(Step::Continue(reply.encode()))
            }
        }
    }

    /// The token after the choice of NTLMSSP.
    fn negotiate(&mut self, token: &[u8], wrapping: Wrapping, now: Now) -> Result<Step, Refusal> {
        let (message, _) = ntlm_message(token, &wrapping)?;
        self.challenge(message, wrapping, false, now)
    }

    /// Answers an NTLM NEGOTIATE; `first` if no token of ours has gone out before.
    fn challenge(
        &mut self,
        message: &[u8],
        wrapping: Wrapping,
        first: bool,
        now: Now,
    ) -> Result<Step, Refusal> {
        if message.len() > MAX_NEGOTIATE_LEN {
            return Err(BadToken::TooLong.into());
        }
        let server = ntlm::Server::challenge(&self.names, message, now)?;
        let reply = match wrapping {
            Wrapping::Bare => server.message().to_vec(),
            Wrapping::Spnego { .. } => NegTokenResp {
                state: Some(NegState::AcceptIncomplete),
                supported_mech: first.then_some(NTLMSSP),
                response_token: Some(server.message()),
                mech_list_mic: None,
            }
            .encode(),
        };
        self.state = State::Challenged(server, wrapping);
        Ok(Step::Continue(reply))
    }
}

/// The last token: the NTLM AUTHENTICATE and, in SPNEGO, the code over the mechanisms.
fn finish(
    token: &[u8],
    server: &ntlm::Server,
    wrapping: &Wrapping,
    credentials: &dyn Credentials,
) -> Result<Step, Refusal> {
    let (message, mic) = ntlm_message(token, wrapping)?;
    let judgement = server.judge(message, credentials)?;
    let reply = match wrapping {
        Wrapping::Bare => Vec::new(),
        Wrapping::Spnego { mech_list, mic_required } => {
            let mic = vouch(&judgement, mech_list, mic, *mic_required)?;
            NegTokenResp {
                state: Some(NegState::AcceptCompleted),
                mech_list_mic: mic.as_ref().map(<[u8; 16]>::as_slice),
                ..NegTokenResp::default()
            }
            .encode()
        }
    };
    let Judgement { user, domain, workstation, proof, session_key, signatures: _ } = judgement;
    Ok(Step::Done { reply, login: Login { user, domain, workstation, proof, session_key } })
}

/// Checks the client's code over the mechanisms and returns ours, if there are to be any.
///
/// Without signatures (no SIGN agreed on, or a guest) neither side can make one, and RFC 4178 then has
/// none; who has no password to prove has no list worth protecting either.
fn vouch(
    judgement: &Judgement,
    mech_list: &[u8],
    mic: Option<&[u8]>,
    required: bool,
) -> Result<Option<[u8; 16]>, Refusal> {
    // RFC 4178 5
    let Some(signatures) = &judgement.signatures else {
        return Ok(None);
    };
    match mic {
        Some(mic) if signatures.verify(Side::Client, mech_list, mic) => {
            Ok(Some(signatures.sign(Side::Server, mech_list)))
        }
        Some(_) => Err(Refusal::WrongMechListMic),
        None if required && judgement.proof == Proof::Password => Err(Refusal::WrongMechListMic),
        None => Ok(None),
    }
}

/// The NTLM message in a later token, and the code over the mechanisms that came along.
fn ntlm_message<'a>(token: &'a [u8], wrapping: &Wrapping) -> Result<(&'a [u8], Option<&'a [u8]>), Refusal> {
    match wrapping {
        Wrapping::Bare => {
            if token.len() > spnego::MAX_TOKEN_LEN {
                return Err(BadToken::TooLong.into());
            }
            Ok((token, None))
        }
        Wrapping::Spnego { .. } => match spnego::parse(token)? {
            Token::Resp(NegTokenResp { state: Some(NegState::Reject), .. }) => Err(Refusal::Rejected),
            Token::Resp(NegTokenResp { response_token: Some(message), mech_list_mic, .. }) => {
                Ok((message, mech_list_mic))
            }
            _ => Err(Refusal::OutOfTurn),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;
    use crate::{Account, Accounts, NtHash};

    #[test]
    fn a_token_may_be_long_and_what_is_kept_of_its_mechanisms_is_short() {
        let names = || "BOX".to_owned();
        let config = Config::new(Names {
            netbios_computer: names(),
            netbios_domain: names(),
            dns_computer: names(),
            dns_domain: names(),
        });
        // A list of NTLMSSP and of one mechanism more, which has this many bytes.
        let step = |bytes: usize, message: &[u8]| {
            let element = |tag: u8, content: &[u8]| {
                let len = u16::try_from(content.len()).expect("it is short").to_be_bytes();
                [&[tag, 0x82, len[0], len[1]][..], content].concat()
            };
            let ntlmssp = element(0x06, NTLMSSP);
            let mech_list = element(0x30, &[ntlmssp, element(0x06, &vec![0x2a; bytes])].concat());
            let init =
                NegTokenInit { mechs: Default::default(), mech_list: &mech_list, mech_token: Some(message) };
            Acceptor::new(&config).step(&init.encode(), &accounts("x"), Now::default())
        };
        let refused = |step: Step| matches!(step, Step::Refused(Refusal::BadToken(BadToken::TooLong)));
        assert!(refused(step(MAX_MECH_LIST_LEN, b"")));
        assert!(refused(step(60_000, b"")));
        assert!(!refused(step(MAX_MECH_LIST_LEN - 30, b"")));
    }

    fn accounts(password: &str) -> Accounts {
        let mut accounts = Accounts::default();
        let nt_hash = NtHash::from_password(password);
        accounts.insert(Account { name: "alice".into(), nt_hash, second_hash: None, disabled: false });
        accounts
    }

    /// The NTLM message in a token of either kind.
    fn message_in(token: &[u8]) -> Vec<u8> {
        match spnego::parse(token) {
            Ok(Token::Init(init)) => init.mech_token.expect("an optimistic token").to_vec(),
            Ok(Token::Resp(resp)) => resp.response_token.expect("a response token").to_vec(),
            Err(_) => token.to_vec(),
        }
    }

    /// Puts an acceptor where a recorded exchange stood after its CHALLENGE and gives it the last token.
    fn replay(recorded: &str, password: &str) -> (Step, Vec<Vec<u8>>) {
        let lines = recorded.lines().filter(|line| !line.starts_with('#'));
        let turns: Vec<Vec<u8>> = lines.map(|line| hex(line.trim_matches('-'))).collect();
        let names = || "BOX".to_owned();
        let config = Config::new(Names {
            netbios_computer: names(),
            netbios_domain: names(),
            dns_computer: names(),
            dns_domain: names(),
        });
        let mut acceptor = Acceptor::new(&config);
        let step = acceptor.step(&turns[0], &accounts(password), Now::default());
        assert!(matches!(step, Step::Continue(_)), "{step:?}");
        let State::Challenged(_, wrapping) = acceptor.state else { panic!("no challenge was sent") };
        let server = ntlm::Server::resumed(&message_in(&turns[0]), &message_in(&turns[1]));
        acceptor.state = State::Challenged(server, wrapping);
        (acceptor.step(&turns[2], &accounts(password), Now::default()), turns)
    }

    /// Logins that foreign clients made: their messages are let in, give the session key that the client
    /// had, and the same last token; and none of them with another password.
    #[test]
    fn recorded_logins_of_foreign_clients_are_let_in() {
        for (peer, recorded) in [
            ("impacket", include_str!("../tests/recorded/impacket.txt")),
            ("pyspnego", include_str!("../tests/recorded/pyspnego.txt")),
            ("samba", include_str!("../tests/recorded/samba.txt")),
            ("samba, bare", include_str!("../tests/recorded/samba-bare.txt")),
        ] {
            let (step, turns) = replay(recorded, "s3cret");
            let Step::Done { reply, login } = step else { panic!("{peer}: {step:?}") };
            assert_eq!(login.user, "alice", "{peer}");
            assert_eq!(reply, turns[3], "{peer}");
            assert_eq!(login.session_key.as_slice(), turns[4], "{peer}");
            let (step, _) = replay(recorded, "S3cret");
            assert!(matches!(step, Step::Refused(Refusal::WrongCredentials)), "{peer}: {step:?}");
        }
    }
}
