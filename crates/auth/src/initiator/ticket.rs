//! A client's log-on with a Kerberos ticket in SPNEGO (RFC 4178, RFC 4121). The tickets come from outside, so
//! this crate depends on no Kerberos library.

use std::fmt;

use zeroize::Zeroizing;

use super::InitiatorStep;
use crate::refusal::Refusal;
use crate::spnego::{self, KERBEROS, MS_KERBEROS, NegState, NegTokenInit, NegTokenResp, Token};

/// The tickets of a client.
pub trait Tickets: Send + Sync + fmt::Debug {
    /// A security context for one log-on to the service `cifs` on `host`. This may ask a KDC and block.
    ///
    /// # Errors
    /// The reason why there is no ticket.
    fn context(&self, host: &str) -> Result<Box<dyn TicketContext>, TicketFailure>;
}

/// A security context of the initiator (RFC 2743 section 2.2.1). Its methods may block.
pub trait TicketContext: Send {
    /// Begins (without a token), or takes the server's next token.
    ///
    /// # Errors
    /// The reason why there is no ticket, or why the server is not the right one.
    fn step(&mut self, token: Option<&[u8]>) -> Result<TicketStep, TicketFailure>;

    /// The message integrity code of a message. The context is established.
    ///
    /// # Errors
    /// The reason why there is none.
    fn get_mic(&mut self, message: &[u8]) -> Result<Vec<u8>, TicketFailure>;

    /// Whether the message integrity code of a message is the server's. The context is established.
    fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> bool;
}

/// The result of a turn of Kerberos.
#[derive(Debug)]
pub enum TicketStep {
    /// Send this token, then pass in the server's next one.
    Continue(Vec<u8>),
    /// The server has proved itself.
    Done {
        /// The last token for it, which may be empty.
        token: Vec<u8>,
        /// The key that only client and server know, in full length.
        session_key: Zeroizing<Vec<u8>>,
    },
}

/// The reason why a client could not log on with a ticket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TicketFailure {
    /// The kind.
    pub kind: TicketFailureKind,
    /// The cause and what mends it.
    pub why: String,
}

/// The kind of a [`TicketFailure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TicketFailureKind {
    /// This host lacks the Kerberos library.
    NoLibrary,
    /// There is no ticket, or it has expired.
    NoTicket,
    /// The server is called by an address, for which the KDC has no service.
    AddressForName,
    /// The KDC does not know the service.
    UnknownService,
    /// No KDC of the realm can be reached.
    NoKdc,
    /// The clocks are too far apart.
    ClockSkew,
    /// The server does not offer Kerberos.
    NotOffered,
    /// The server takes nothing but Kerberos, and the client has a password.
    Required,
    /// Any other reason.
    Other,
}

/// Whether a server with this first `hint` supports Kerberos. A server that names no mechanism leaves the
/// choice to the client.
#[must_use]
pub fn takes_kerberos(hint: &[u8]) -> bool {
    match spnego::parse(hint) {
        Ok(Token::Init(init)) => {
            init.mechs.is_empty() || init.mechs.iter().any(|mech| is_kerberos_mech(mech))
        }
        _ => true,
    }
}

fn is_kerberos_mech(mech: &[u8]) -> bool {
    mech == KERBEROS || mech == MS_KERBEROS
}

/// One log-on with a ticket. Send [`TicketInitiator::first`], then pass each token of the server to
/// [`TicketInitiator::step`].
pub struct TicketInitiator {
    context: Box<dyn TicketContext>,
    state: TicketState,
    session_key: Option<Zeroizing<Vec<u8>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TicketState {
    /// Kerberos goes on.
    Begun,
    /// Kerberos is established, and our MIC was sent. The value tells whether the server's MIC was checked.
    MicSent(bool),
    Over,
}

impl TicketInitiator {
    /// A log-on to `host`. This may ask a KDC and block.
    ///
    /// # Errors
    /// [`Refusal::NoTicket`].
    pub fn new(tickets: &dyn Tickets, host: &str) -> Result<TicketInitiator, Refusal> {
        let context = tickets.context(host)?;
        Ok(TicketInitiator { context, state: TicketState::Begun, session_key: None })
    }

    /// The first token to send. This may ask a KDC and block.
    ///
    /// # Errors
    /// [`Refusal::NoTicket`].
    pub fn first(&mut self) -> Result<Vec<u8>, Refusal> {
        let token = match self.context.step(None)? {
            TicketStep::Continue(token) => token,
            // Without mutual authentication anybody may be the server.
            TicketStep::Done { .. } => return Err(Refusal::OutOfTurn),
        };
        let list = spnego::mech_list(&[KERBEROS]);
        Ok(NegTokenInit { mechs: Vec::new(), mech_list: &list, mech_token: Some(&token) }.encode())
    }

    /// Takes the server's next token.
    pub fn step(&mut self, token: &[u8]) -> InitiatorStep {
        let stepped = match std::mem::replace(&mut self.state, TicketState::Over) {
            TicketState::Begun => self.advance(token),
            TicketState::MicSent(is_checked) => self.finish(token, is_checked),
            TicketState::Over => Err(Refusal::OutOfTurn),
        };
        stepped.unwrap_or_else(InitiatorStep::Refused)
    }

    /// The session key in full length, once Kerberos is established.
    #[must_use]
    pub fn session_key(&self) -> Option<&[u8]> {
        self.session_key.as_ref().map(|key| key.as_slice())
    }

    fn advance(&mut self, token: &[u8]) -> Result<InitiatorStep, Refusal> {
        let resp = response(token)?;
        if resp.supported_mech.is_some_and(|mech| !is_kerberos_mech(mech)) {
            return Err(Refusal::NoCommonMechanism);
        }
        let inner = resp.response_token.ok_or(Refusal::OutOfTurn)?;
        let last = match self.context.step(Some(inner))? {
            TicketStep::Continue(next) => {
                self.state = TicketState::Begun;
                let reply = NegTokenResp { response_token: Some(&next), ..NegTokenResp::default() };
                return Ok(InitiatorStep::Continue(reply.encode()));
            }
            TicketStep::Done { token, session_key } => {
                self.session_key = Some(session_key);
                token
            }
        };
        let is_checked = self.check_mic(resp.mech_list_mic)?;
        match resp.state {
            Some(NegState::AcceptCompleted) if last.is_empty() => Ok(InitiatorStep::Done),
            Some(NegState::AcceptIncomplete | NegState::RequestMic) | None => {
                // RFC 4178 5
                let mic = self.context.get_mic(&spnego::mech_list(&[KERBEROS]))?;
                let response_token = (!last.is_empty()).then_some(last.as_slice());
                self.state = TicketState::MicSent(is_checked);
                let reply = NegTokenResp {
                    state: Some(NegState::AcceptCompleted),
                    response_token,
                    mech_list_mic: Some(&mic),
                    ..NegTokenResp::default()
                };
                Ok(InitiatorStep::Continue(reply.encode()))
            }
            _ => Err(Refusal::OutOfTurn),
        }
    }

    fn finish(&mut self, token: &[u8], is_checked: bool) -> Result<InitiatorStep, Refusal> {
        let resp = response(token)?;
        let is_checked = self.check_mic(resp.mech_list_mic)? || is_checked;
        match resp.state {
            // RFC 4178 5: once one side has sent a MIC, the other one must.
            Some(NegState::AcceptCompleted) | None if !is_checked => Err(Refusal::WrongMechListMic),
            Some(NegState::AcceptCompleted) | None => Ok(InitiatorStep::Done),
            _ => Err(Refusal::OutOfTurn),
        }
    }

    /// Checks a MIC of the list of mechanisms. Returns whether there was one.
    fn check_mic(&mut self, mic: Option<&[u8]>) -> Result<bool, Refusal> {
        match mic {
            None => Ok(false),
            Some(mic) if self.context.verify_mic(&spnego::mech_list(&[KERBEROS]), mic) => Ok(true),
            Some(_) => Err(Refusal::WrongMechListMic),
        }
    }
}

fn response(token: &[u8]) -> Result<NegTokenResp<'_>, Refusal> {
    match spnego::parse(token)? {
        Token::Resp(NegTokenResp { state: Some(NegState::Reject), .. }) => Err(Refusal::Rejected),
        Token::Resp(resp) => Ok(resp),
        Token::Init(_) => Err(Refusal::OutOfTurn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mechanism with one round trip: `request`, then `reply`. Its MIC is the message behind `mic`.
    #[derive(Debug)]
    struct OneTrip;

    impl Tickets for OneTrip {
        fn context(&self, _: &str) -> Result<Box<dyn TicketContext>, TicketFailure> {
            Ok(Box::new(OneTrip))
        }
    }

    impl TicketContext for OneTrip {
        fn step(&mut self, token: Option<&[u8]>) -> Result<TicketStep, TicketFailure> {
            match token {
                None => Ok(TicketStep::Continue(b"request".to_vec())),
                Some(b"reply") => {
                    Ok(TicketStep::Done { token: Vec::new(), session_key: Zeroizing::new(vec![7; 32]) })
                }
                Some(_) => Err(TicketFailure { kind: TicketFailureKind::Other, why: "no".to_owned() }),
            }
        }

        fn get_mic(&mut self, message: &[u8]) -> Result<Vec<u8>, TicketFailure> {
            Ok([b"mic", message].concat())
        }

        fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> bool {
            mic == [b"mic", message].concat()
        }
    }

    fn begun() -> TicketInitiator {
        let mut initiator = TicketInitiator::new(&OneTrip, "files").unwrap();
        let first = initiator.first().unwrap();
        let Token::Init(init) = spnego::parse(&first).unwrap() else { panic!("{first:?}") };
        assert_eq!((init.mechs.as_slice(), init.mech_token), (&[KERBEROS][..], Some(&b"request"[..])));
        initiator
    }

    fn reply(state: Option<NegState>, mic: Option<&[u8]>) -> Vec<u8> {
        let (supported_mech, response_token) = (Some(MS_KERBEROS), Some(&b"reply"[..]));
        NegTokenResp { state, supported_mech, response_token, mech_list_mic: mic }.encode()
    }

    fn right_mic() -> Vec<u8> {
        [b"mic".to_vec(), spnego::mech_list(&[KERBEROS])].concat()
    }

    #[test]
    fn one_round_trip_ends_with_the_whole_key() {
        let mut initiator = begun();
        assert!(initiator.session_key().is_none());
        assert_eq!(initiator.step(&reply(Some(NegState::AcceptCompleted), None)), InitiatorStep::Done);
        assert_eq!(initiator.session_key(), Some(&[7; 32][..]));
        assert_eq!(
            begun().step(&reply(Some(NegState::AcceptCompleted), Some(&right_mic()))),
            InitiatorStep::Done
        );
    }

    #[test]
    fn a_mic_that_the_server_requests_is_sent_and_its_own_is_required() {
        for state in [NegState::RequestMic, NegState::AcceptIncomplete] {
            for (mic, ended) in [
                (Some(right_mic()), InitiatorStep::Done),
                (None, InitiatorStep::Refused(Refusal::WrongMechListMic)),
                (Some(b"mic of another list".to_vec()), InitiatorStep::Refused(Refusal::WrongMechListMic)),
            ] {
                let mut initiator = begun();
                let InitiatorStep::Continue(sent) = initiator.step(&reply(Some(state), None)) else {
                    panic!("no MIC was sent")
                };
                assert_eq!(response(&sent).unwrap().mech_list_mic, Some(right_mic().as_slice()));
                let state = Some(NegState::AcceptCompleted);
                let last = NegTokenResp { state, mech_list_mic: mic.as_deref(), ..NegTokenResp::default() };
                assert_eq!(initiator.step(&last.encode()), ended);
            }
        }
    }

    #[test]
    fn wrong_tokens_end_the_exchange() {
        let refused = |token: &[u8]| match begun().step(token) {
            InitiatorStep::Refused(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(&reply(Some(NegState::Reject), None)), Refusal::Rejected);
        assert_eq!(refused(&reply(Some(NegState::AcceptCompleted), Some(b"bad"))), Refusal::WrongMechListMic);
        let other = NegTokenResp { supported_mech: Some(spnego::NTLMSSP), ..NegTokenResp::default() };
        assert_eq!(refused(&other.encode()), Refusal::NoCommonMechanism);
        let empty = NegTokenResp { state: Some(NegState::AcceptCompleted), ..NegTokenResp::default() };
        assert_eq!(refused(&empty.encode()), Refusal::OutOfTurn, "the server has not proved itself");
        let bad = NegTokenResp { response_token: Some(b"forged"), ..NegTokenResp::default() };
        assert!(matches!(refused(&bad.encode()), Refusal::NoTicket(_)));
        assert!(matches!(refused(b"\x60\x03abc"), Refusal::BadToken(_)));
    }

    #[test]
    fn a_hint_tells_whether_the_server_takes_kerberos() {
        assert!(takes_kerberos(&[]) && takes_kerberos(&spnego::hint(&[KERBEROS])));
        assert!(takes_kerberos(&spnego::hint(&[MS_KERBEROS, spnego::NTLMSSP])));
        assert!(!takes_kerberos(&spnego::hint(&[spnego::NTLMSSP])));
    }
}
