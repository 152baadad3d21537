//! The server's end of a log-on: SPNEGO with Kerberos ([`ticket`]) or NTLM, or bare tokens of one of them.

mod ticket;

use std::fmt;
use std::sync::Arc;

use wire::Now;

use crate::Key;
use crate::credentials::Credentials;
use crate::kerberos::{KerberosTicket, Mechanism};
use crate::ntlm::signature::{Signatures, SigningSide};
use crate::ntlm::{self, AuthenticatedClient, Names, Proof, Target};
use crate::pass_through::{DomainAccount, PassThrough};
use crate::refusal::Refusal;
use crate::spnego::{
    self, BadToken, KERBEROS, MS_KERBEROS, NTLMSSP, NegState, NegTokenInit, NegTokenResp, Token,
};
use ticket::{Form, TicketExchange};

/// The values that all exchanges of a server share. It is cheap to clone.
#[derive(Clone)]
pub struct Config {
    names: Arc<Names>,
    kerberos: Option<Arc<dyn Mechanism>>,
    /// The reason why there is no Kerberos.
    kerberos_off: Option<Arc<str>>,
    ntlm: bool,
    pass_through: Option<Arc<dyn PassThrough>>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("names", &self.names)
            .field("kerberos", &self.kerberos.is_some())
            .field("kerberos_off", &self.kerberos_off)
            .field("ntlm", &self.ntlm)
            .field("pass_through", &self.pass_through.is_some())
            .finish()
    }
}

impl Config {
    /// The configuration of a server with these names.
    #[must_use]
    pub fn new(names: Names) -> Config {
        let names = Arc::new(names);
        Config { names, kerberos: None, kerberos_off: None, ntlm: true, pass_through: None }
    }

    /// The same configuration with Kerberos, which clients prefer.
    #[must_use]
    pub fn with_kerberos(self, mechanism: Arc<dyn Mechanism>) -> Config {
        Config { kerberos: Some(mechanism), ..self }
    }

    /// The same configuration without Kerberos, for this reason.
    #[must_use]
    pub fn without_kerberos(self, why: Arc<str>) -> Config {
        Config { kerberos: None, kerberos_off: Some(why), ..self }
    }

    /// The same configuration without NTLM.
    #[must_use]
    pub fn without_ntlm(self) -> Config {
        Config { ntlm: false, ..self }
    }

    /// The same configuration with NTLM for users of a domain, whom a domain controller judges.
    #[must_use]
    pub fn with_pass_through(self, pass_through: Arc<dyn PassThrough>) -> Config {
        Config { pass_through: Some(pass_through), ..self }
    }

    /// The names.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The token for the SecurityBuffer of a NEGOTIATE response.
    #[must_use]
    pub fn hint(&self) -> Vec<u8> {
        let kerberos: &[&[u8]] = if self.kerberos.is_some() { &[MS_KERBEROS, KERBEROS] } else { &[] };
        let ntlm: &[&[u8]] = if self.ntlm { &[NTLMSSP] } else { &[] };
        spnego::hint(&[kerberos, ntlm].concat())
    }

    /// The reason why no mechanism of a client is supported.
    fn no_mechanism(&self, mechs: &[&[u8]]) -> Refusal {
        let has = |mech: &[u8]| mechs.contains(&mech);
        match &self.kerberos_off {
            Some(why) if has(KERBEROS) || has(MS_KERBEROS) => Refusal::KerberosOff(Arc::clone(why)),
            _ if !self.ntlm && has(NTLMSSP) => Refusal::NtlmOff,
            _ => Refusal::NoCommonMechanism,
        }
    }

    /// The mechanism of an object identifier, if this server supports it.
    fn choice(&self, mech: &[u8]) -> Option<Choice> {
        match mech {
            NTLMSSP if self.ntlm => Some(Choice::Ntlm),
            KERBEROS | MS_KERBEROS => self.kerberos.clone().map(Choice::Kerberos),
            _ => None,
        }
    }
}

/// A chosen mechanism.
enum Choice {
    Ntlm,
    Kerberos(Arc<dyn Mechanism>),
}

/// The result of a token.
#[derive(Debug)]
pub enum Step {
    /// Send this token, then pass in the client's next one.
    Continue(Vec<u8>),
    /// The client is logged on.
    Done {
        /// Send this token. It is empty for bare NTLMSSP.
        reply: Vec<u8>,
        /// The user that has logged on.
        login: Login,
    },
    /// The client is refused. The exchange is over.
    Refused(Refusal),
}

/// A user that has logged on.
pub struct Login {
    /// Name of the account as it is stored. It is that of the guest account for a guest, and empty for an
    /// anonymous user.
    pub user: String,
    /// Domain as the client sent it. It proves nothing.
    pub domain: String,
    /// The name that the client's machine gives itself. It proves nothing.
    pub workstation: String,
    /// The proof of the log-on.
    pub proof: Proof,
    /// Session.SessionKey of MS-SMB2. It is zero for a guest: never sign or encrypt with it.
    pub session_key: Key,
    /// The intended target of the client's response.
    pub target: Target,
    /// The ticket, if the proof is one.
    pub ticket: Option<Box<KerberosTicket>>,
    /// The account of a domain, if a domain controller has judged the password.
    pub domain_account: Option<Box<DomainAccount>>,
}

impl Login {
    /// Whether the client named no user.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.proof == Proof::Anonymous
    }

    /// Session.FullSessionKey of MS-SMB2: the session key in the length that the mechanism gives it.
    #[must_use]
    pub fn full_session_key(&self) -> &[u8] {
        self.ticket.as_ref().map_or(self.session_key.as_slice(), |ticket| &ticket.session_key)
    }

    /// Whether an unknown user was logged on as guest.
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

/// One log-on from the server's view.
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
    config: Config,
    state: AcceptorState,
    proved: Option<String>,
}

enum AcceptorState {
    /// No token has come.
    Start,
    /// NTLMSSP was chosen. Its NEGOTIATE comes next.
    Chosen(Wrapping),
    /// A CHALLENGE was sent.
    Challenged(ntlm::Server, Wrapping),
    /// The client has proved its password. Its MIC of the list of mechanisms must follow.
    MicAwaited(Box<UnvouchedLogin>),
    /// Kerberos was chosen.
    Kerberos(TicketExchange),
    /// The client was logged on or refused.
    Over,
}

/// A log-on with a password whose list of mechanisms has no MIC yet.
struct UnvouchedLogin {
    login: Login,
    signatures: Signatures,
    mech_list: Vec<u8>,
}

/// The form of the NTLM messages.
#[derive(Debug)]
enum Wrapping {
    /// Without a wrapper.
    Bare,
    /// In SPNEGO.
    Spnego {
        /// The client's MechTypeList as it was sent.
        mech_list: Vec<u8>,
        /// NTLMSSP was not the client's first choice, so a MIC must protect the list (RFC 4178 section 5).
        mic_required: bool,
    },
}

/// The longest NTLM NEGOTIATE that is kept for the MIC, in bytes. It has at most two short names.
const MAX_NEGOTIATE_LEN: usize = 2 * 1024;

/// The longest list of mechanisms that is kept for its MIC, in bytes. Clients offer at most five, of a dozen
/// bytes each.
const MAX_MECH_LIST_LEN: usize = 1024;

impl Acceptor {
    /// An exchange that waits for its first token.
    #[must_use]
    pub fn new(config: &Config) -> Acceptor {
        Acceptor { config: config.clone(), state: AcceptorState::Start, proved: None }
    }

    /// Whether the next call of [`Acceptor::step`] with this token may block, since it goes to Kerberos or to
    /// a domain controller.
    #[must_use]
    pub fn may_block(&self, token: &[u8], credentials: &dyn Credentials) -> bool {
        match &self.state {
            AcceptorState::Kerberos(_) => true,
            // The identity of the account may be far away.
            AcceptorState::MicAwaited(unvouched) => unvouched.login.domain_account.is_some(),
            AcceptorState::Challenged(server, wrapping) => {
                let (pass_through, message) =
                    (self.config.pass_through.as_ref(), ntlm_message(token, wrapping));
                pass_through.zip(message.ok()).is_some_and(|(pass_through, (message, _))| {
                    server.is_for_domain(message, credentials, &**pass_through)
                })
            }
            AcceptorState::Start if self.config.kerberos.is_none() || token.starts_with(ntlm::SIGNATURE) => {
                false
            }
            AcceptorState::Start => match spnego::parse(token) {
                Ok(Token::Init(init)) => matches!(self.first_choice(&init), Some((_, Choice::Kerberos(_)))),
                Ok(Token::Resp(_)) => false,
                Err(_) => spnego::is_kerberos(token),
            },
            _ => false,
        }
    }

    /// Takes the client's next token.
    pub fn step(&mut self, token: &[u8], credentials: &dyn Credentials, now: Now) -> Step {
        let state = std::mem::replace(&mut self.state, AcceptorState::Over);
        let stepped = match state {
            AcceptorState::Start => self.begin(token, now),
            AcceptorState::Chosen(wrapping) => self.negotiate(token, wrapping, now),
            AcceptorState::Challenged(server, wrapping) => {
                self.finish(token, &server, wrapping, credentials, now)
            }
            AcceptorState::MicAwaited(unvouched) => conclude(token, *unvouched),
            AcceptorState::Kerberos(exchange) => {
                exchange.step(token, &mut self.proved).map(|turn| self.take(turn))
            }
            AcceptorState::Over => Err(Refusal::OutOfTurn),
        };
        stepped.unwrap_or_else(Step::Refused)
    }

    /// The user or the principal that has proved itself, also if the client is refused for another reason.
    #[must_use]
    pub fn proved(&self) -> Option<&str> {
        self.proved.as_deref()
    }

    /// The user whose password the client's next token proves, in one form for all spellings. `None` if the
    /// token proves nothing. The result does not depend on whether the user exists.
    #[must_use]
    pub fn claimed(&self, token: &[u8], credentials: &dyn Credentials) -> Option<String> {
        let AcceptorState::Challenged(server, wrapping) = &self.state else { return None };
        let (message, _) = ntlm_message(token, wrapping).ok()?;
        server.claimed(message, credentials)
    }

    /// Handles the first token: a bare one, or a list of mechanisms with a token of the first one.
    fn begin(&mut self, token: &[u8], now: Now) -> Result<Step, Refusal> {
        if token.starts_with(ntlm::SIGNATURE) {
            if !self.config.ntlm {
                return Err(Refusal::NtlmOff);
            }
            return self.challenge(token, Wrapping::Bare, false, now);
        }
        if let Some(why) = self.config.kerberos_off.as_ref().filter(|_| spnego::is_kerberos(token)) {
            return Err(Refusal::KerberosOff(Arc::clone(why)));
        }
        if let Some(mechanism) = self.config.kerberos.as_ref().filter(|_| spnego::is_kerberos(token)) {
            if token.len() > spnego::MAX_TOKEN_LEN {
                return Err(BadToken::TooLong.into());
            }
            let exchange = TicketExchange::new(mechanism.context(), Form::Bare);
            let turn = exchange.begin(token, &mut self.proved)?;
            return Ok(self.take(turn));
        }
        let Token::Init(init) = spnego::parse(token)? else {
            return Err(Refusal::OutOfTurn);
        };
        let Some((rank, choice)) = self.first_choice(&init) else {
            return Err(self.config.no_mechanism(&init.mechs));
        };
        if init.mech_list.len() > MAX_MECH_LIST_LEN {
            return Err(BadToken::TooLong.into());
        }
        let (mech_list, mic_required) = (init.mech_list.to_vec(), rank > 0);
        // The optimistic token, if any, is for the client's first mechanism.
        let optimistic = init.mech_token.filter(|_| rank == 0);
        match choice {
            // RFC 4178 5
            Choice::Ntlm => self.begin_ntlm(optimistic, Wrapping::Spnego { mech_list, mic_required }, now),
            Choice::Kerberos(mechanism) => {
                let mech = init.mechs[rank].to_vec();
                let form = Form::Spnego { mech, mech_list, mic_required };
                let exchange = TicketExchange::new(mechanism.context(), form);
                match optimistic {
                    Some(token) => exchange.begin(token, &mut self.proved).map(|turn| self.take(turn)),
                    None => {
                        let reply = exchange.choice();
                        self.state = AcceptorState::Kerberos(exchange);
                        Ok(Step::Continue(reply))
                    }
                }
            }
        }
    }

    /// The first mechanism of the client that this server supports, with its rank.
    fn first_choice(&self, init: &NegTokenInit<'_>) -> Option<(usize, Choice)> {
        let mut mechs = init.mechs.iter().enumerate();
        mechs.find_map(|(rank, mech)| Some((rank, self.config.choice(mech)?)))
    }

    /// Begins with NTLMSSP, which was chosen by SPNEGO.
    fn begin_ntlm(&mut self, token: Option<&[u8]>, wrapping: Wrapping, now: Now) -> Result<Step, Refusal> {
        if let Some(message) = token {
            return self.challenge(message, wrapping, true, now);
        }
        let asks = matches!(wrapping, Wrapping::Spnego { mic_required: true, .. });
        self.state = AcceptorState::Chosen(wrapping);
        let state = if asks { NegState::RequestMic } else { NegState::AcceptIncomplete };
        let reply =
            NegTokenResp { state: Some(state), supported_mech: Some(NTLMSSP), ..NegTokenResp::default() };
        Ok(Step::Continue(reply.encode()))
    }

    /// Keeps an exchange that goes on, and returns the result of its token.
    fn take(&mut self, (step, exchange): (Step, Option<TicketExchange>)) -> Step {
        if let Some(exchange) = exchange {
            self.state = AcceptorState::Kerberos(exchange);
        }
        step
    }

    /// Handles the token after the choice of NTLMSSP.
    fn negotiate(&mut self, token: &[u8], wrapping: Wrapping, now: Now) -> Result<Step, Refusal> {
        let (message, _) = ntlm_message(token, &wrapping)?;
        self.challenge(message, wrapping, false, now)
    }

    /// Answers an NTLM NEGOTIATE. `first` is set if no token of the server has been sent before.
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
        let server = ntlm::Server::challenge(&self.config.names, message, now)?;
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
        self.state = AcceptorState::Challenged(server, wrapping);
        Ok(Step::Continue(reply))
    }

    /// Handles the NTLM AUTHENTICATE and, in SPNEGO, the MIC of the list of mechanisms.
    fn finish(
        &mut self,
        token: &[u8],
        server: &ntlm::Server,
        wrapping: Wrapping,
        credentials: &dyn Credentials,
        now: Now,
    ) -> Result<Step, Refusal> {
        let (message, mic) = ntlm_message(token, &wrapping)?;
        let pass_through = self.config.pass_through.as_deref();
        let pass_through = pass_through.filter(|by| server.is_for_domain(message, credentials, *by));
        let (judgement, domain_account) = match pass_through {
            Some(pass_through) => {
                let (judgement, account) = server.judge_by(message, pass_through, now)?;
                (judgement, Some(Box::new(account)))
            }
            None => (server.judge(message, credentials, now)?, None),
        };
        self.proved = Some(judgement.user.clone()).filter(|_| judgement.proof == Proof::Password);
        let (mech_list, vouched) = match wrapping {
            Wrapping::Bare => (None, MechListMic::None),
            Wrapping::Spnego { mech_list, mic_required } => {
                let vouched = vouch(&judgement, &mech_list, mic, mic_required)?;
                (Some(mech_list), vouched)
            }
        };
        let AuthenticatedClient { user, domain, workstation, proof, session_key, signatures, target, .. } =
            judgement;
        let login =
            Login { user, domain, workstation, proof, session_key, target, ticket: None, domain_account };
        let Some(mech_list) = mech_list else { return Ok(Step::Done { reply: Vec::new(), login }) };
        let own = signatures.as_ref().map(|signatures| signatures.sign(SigningSide::Server, &mech_list));
        match (vouched, signatures) {
            (MechListMic::Awaited, Some(signatures)) => {
                let unvouched = UnvouchedLogin { login, signatures, mech_list };
                self.state = AcceptorState::MicAwaited(Box::new(unvouched));
                Ok(Step::Continue(completion(NegState::AcceptIncomplete, own.as_ref())))
            }
            (MechListMic::Verified, _) => {
                Ok(Step::Done { reply: completion(NegState::AcceptCompleted, own.as_ref()), login })
            }
            _ => Ok(Step::Done { reply: completion(NegState::AcceptCompleted, None), login }),
        }
    }
}

/// Takes the client's MIC after its proof.
fn conclude(token: &[u8], unvouched: UnvouchedLogin) -> Result<Step, Refusal> {
    let UnvouchedLogin { login, signatures, mech_list } = unvouched;
    let mic = match spnego::parse(token)? {
        Token::Resp(NegTokenResp { state: Some(NegState::Reject), .. }) => return Err(Refusal::Rejected),
        Token::Resp(NegTokenResp { response_token: None | Some([]), mech_list_mic: Some(mic), .. }) => mic,
        _ => return Err(Refusal::OutOfTurn),
    };
    if !signatures.verify(SigningSide::Client, &mech_list, mic) {
        return Err(Refusal::WrongMechListMic);
    }
    Ok(Step::Done { reply: completion(NegState::AcceptCompleted, None), login })
}

/// A token of the server without a message of the mechanism.
fn completion(state: NegState, mic: Option<&[u8; 16]>) -> Vec<u8> {
    let mech_list_mic = mic.map(<[u8; 16]>::as_slice);
    NegTokenResp { state: Some(state), mech_list_mic, ..NegTokenResp::default() }.encode()
}

/// The state of the MIC that protects the list of mechanisms.
enum MechListMic {
    /// Neither side can make one, or the client makes none.
    None,
    /// The client's is right.
    Verified,
    /// The client must still send it.
    Awaited,
}

/// Checks the client's MIC of the list of mechanisms.
///
/// Without signatures (no SIGN agreed on, or a guest) neither side can make a MIC, and RFC 4178 then
/// requires none. A client without a password to prove has no list that needs protection either.
fn vouch(
    judgement: &AuthenticatedClient,
    mech_list: &[u8],
    mic: Option<&[u8]>,
    required: bool,
) -> Result<MechListMic, Refusal> {
    // RFC 4178 5
    let Some(signatures) = &judgement.signatures else {
        return Ok(MechListMic::None);
    };
    match mic {
        Some(mic) if signatures.verify(SigningSide::Client, mech_list, mic) => Ok(MechListMic::Verified),
        Some(_) => Err(Refusal::WrongMechListMic),
        None if required && judgement.proof == Proof::Password => Err(Refusal::WrongMechListMic),
        // The list that came may lack Kerberos, which the client had first, and the client's MIC was taken
        // off with it. A client that makes the MIC of its messages makes this one too, as Samba has it.
        None if judgement.has_mic => Ok(MechListMic::Awaited),
        None => Ok(MechListMic::None),
    }
}

/// The NTLM message in a later token, with the MIC of the list of mechanisms.
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
        // A list of NTLMSSP and one more mechanism, with this many bytes.
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
        accounts.insert(Account { name: "alice".into(), nt_hash, second_hash: None, restriction: None });
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

    /// Puts an acceptor in the state of a recorded exchange after its CHALLENGE, and passes in the last
    /// token.
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
        let AcceptorState::Challenged(_, wrapping) = acceptor.state else { panic!("no challenge was sent") };
        let server = ntlm::Server::resumed(&message_in(&turns[0]), &message_in(&turns[1]));
        acceptor.state = AcceptorState::Challenged(server, wrapping);
        (acceptor.step(&turns[2], &accounts(password), Now::default()), turns)
    }

    /// Recorded log-ons of foreign clients. Their messages are accepted, give the session key of the client,
    /// and the same last token. None is accepted with another password.
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
