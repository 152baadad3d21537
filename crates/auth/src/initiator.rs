//! The client's end of a log-on. [`TicketInitiator`] uses Kerberos. [`Initiator`] wraps
//! [`ntlm::Client`] in SPNEGO or bare NTLMSSP, one token at a time.

mod ticket;

use wire::Now;

use crate::Key;
use crate::ntlm::signature::{Signatures, SigningSide};
use crate::ntlm::{self, ClientError, ClientIdentity};
use crate::refusal::Refusal;
use crate::spnego::{self, NTLMSSP, NegState, NegTokenInit, NegTokenResp, Token};

pub use ticket::{
    TicketContext, TicketFailure, TicketFailureKind, TicketInitiator, TicketStep, Tickets, takes_kerberos,
};

/// The result of a token from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum InitiatorStep {
    /// Send this token. [`Initiator::session_key`] is known from now on.
    Continue(Vec<u8>),
    /// The client is logged on.
    Done,
    /// The exchange is over.
    Refused(Refusal),
}

/// The form of the NTLM messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    /// In SPNEGO, with NTLMSSP as the only mechanism.
    Spnego,
    /// Without a wrapper.
    Bare,
}

/// Whether a server with this first `hint` supports NTLM. A server that names no mechanism leaves the choice
/// to the client.
#[must_use]
pub fn takes_ntlm(hint: &[u8]) -> bool {
    match spnego::parse(hint) {
        Ok(Token::Init(init)) => init.mechs.is_empty() || init.mechs.contains(&NTLMSSP),
        _ => true,
    }
}

/// One log-on from the client's view.
///
/// Send [`Initiator::first`], then pass each token of the server to [`Initiator::step`].
pub struct Initiator {
    client: ntlm::Client,
    wrap: Wrap,
    state: InitiatorState,
    session_key: Option<Key>,
}

enum InitiatorState {
    /// NEGOTIATE was sent.
    Negotiated,
    /// AUTHENTICATE was sent.
    Answered(Option<Signatures>),
    /// The client was logged on or refused.
    Over,
}

impl Initiator {
    /// A new log-on.
    #[must_use]
    pub fn new(identity: ClientIdentity, wrap: Wrap) -> Initiator {
        Initiator {
            client: ntlm::Client::new(identity),
            wrap,
            state: InitiatorState::Negotiated,
            session_key: None,
        }
    }

    /// The first token to send.
    #[must_use]
    pub fn first(&self) -> Vec<u8> {
        match self.wrap {
            Wrap::Bare => self.client.message().to_vec(),
            Wrap::Spnego => NegTokenInit {
                mechs: Vec::new(),
                mech_list: &spnego::mech_list(&[NTLMSSP]),
                mech_token: Some(self.client.message()),
            }
            .encode(),
        }
    }

    /// Takes the server's next token. The last one of a server without SPNEGO is empty.
    pub fn step(&mut self, token: &[u8], now: Now) -> InitiatorStep {
        let state = std::mem::replace(&mut self.state, InitiatorState::Over);
        let stepped = match state {
            InitiatorState::Negotiated => self.answer(token, now),
            InitiatorState::Answered(signatures) => self.finish(token, signatures.as_ref()),
            InitiatorState::Over => Err(Refusal::OutOfTurn),
        };
        stepped.unwrap_or_else(InitiatorStep::Refused)
    }

    /// The session key, after the response to the challenge. It proves nothing until the server has shown,
    /// by a signature, that it has the same key.
    #[must_use]
    pub fn session_key(&self) -> Option<&[u8; 16]> {
        self.session_key.as_deref()
    }

    fn answer(&mut self, token: &[u8], now: Now) -> Result<InitiatorStep, Refusal> {
        let challenge = match self.wrap {
            Wrap::Bare => token,
            Wrap::Spnego => match spnego::parse(token)? {
                Token::Resp(NegTokenResp { state: Some(NegState::Reject), .. }) => {
                    return Err(Refusal::Rejected);
                }
                Token::Resp(NegTokenResp { supported_mech: Some(mech), .. }) if mech != NTLMSSP => {
                    return Err(Refusal::NoCommonMechanism);
                }
                Token::Resp(NegTokenResp { response_token: Some(message), .. }) => message,
                _ => return Err(Refusal::OutOfTurn),
            },
        };
        let answer = self.client.answer(challenge, now).map_err(|error| match error {
            ClientError::BadChallenge(malformed) => Refusal::BadMessage(malformed),
            ClientError::TooWeak => Refusal::TooWeak,
            ClientError::TooLong => Refusal::BadToken(spnego::BadToken::TooLong),
        })?;
        let reply = match self.wrap {
            Wrap::Bare => answer.message,
            Wrap::Spnego => {
                // RFC 4178 5
                let list = spnego::mech_list(&[NTLMSSP]);
                let mic = answer.signatures.as_ref().map(|it| it.sign(SigningSide::Client, &list));
                NegTokenResp {
                    state: Some(NegState::AcceptIncomplete),
                    supported_mech: None,
                    response_token: Some(&answer.message),
                    mech_list_mic: mic.as_ref().map(<[u8; 16]>::as_slice),
                }
                .encode()
            }
        };
        self.session_key = Some(answer.session_key);
        self.state = InitiatorState::Answered(answer.signatures);
        Ok(InitiatorStep::Continue(reply))
    }

    fn finish(&self, token: &[u8], signatures: Option<&Signatures>) -> Result<InitiatorStep, Refusal> {
        if self.wrap == Wrap::Bare || token.is_empty() {
            return Ok(InitiatorStep::Done);
        }
        let Token::Resp(resp) = spnego::parse(token)? else {
            return Err(Refusal::OutOfTurn);
        };
        match resp.state {
            Some(NegState::Reject) => return Err(Refusal::Rejected),
            // RFC 4178 4.2.2: after its first token a server may leave it out.
            Some(NegState::AcceptCompleted) | None => {}
            _ => return Err(Refusal::OutOfTurn),
        }
        // RFC 4178 5
        // Only one mechanism was offered, so a list without a MIC is acceptable. A wrong MIC is not.
        let list = spnego::mech_list(&[NTLMSSP]);
        match (resp.mech_list_mic, signatures) {
            (Some(mic), Some(signatures)) if !signatures.verify(SigningSide::Server, &list, mic) => {
                Err(Refusal::WrongMechListMic)
            }
            _ => Ok(InitiatorStep::Done),
        }
    }
}
