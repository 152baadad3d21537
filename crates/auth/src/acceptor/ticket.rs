//! A log-on with a Kerberos ticket, in SPNEGO (RFC 4178) or as bare tokens of the mechanism (RFC 4121).

use zeroize::Zeroizing;

use super::{Login, Step};
use crate::kerberos::{ContextStep, KerberosTicket, SecurityContext};
use crate::ntlm::{Proof, Target};
use crate::refusal::Refusal;
use crate::spnego::{self, BadToken, NegState, NegTokenResp, Token};

/// The form of the tokens.
pub(super) enum Form {
    /// Without a wrapper.
    Bare,
    /// In SPNEGO.
    Spnego {
        /// The object identifier of Kerberos that the client named.
        mech: Vec<u8>,
        /// The client's MechTypeList as it was sent.
        mech_list: Vec<u8>,
        /// Kerberos was not the client's first choice, so a MIC must protect the list (RFC 4178 section 5).
        mic_required: bool,
    },
}

/// A log-on with a ticket that is under way.
pub(super) struct TicketExchange {
    context: Box<dyn SecurityContext>,
    form: Form,
    stage: TicketStage,
}

enum TicketStage {
    /// The mechanism was chosen, and the client must send its first token.
    Chosen,
    /// The context needs another token.
    Incomplete,
    /// The client has proved itself. Its MIC of the list of mechanisms must follow.
    MicAwaited(Login),
}

/// The result of a token, and the exchange if it goes on.
type Turn = Result<(Step, Option<TicketExchange>), Refusal>;

impl TicketExchange {
    pub(super) fn new(context: Box<dyn SecurityContext>, form: Form) -> TicketExchange {
        TicketExchange { context, form, stage: TicketStage::Chosen }
    }

    /// The reply that names the mechanism, if the first token of the client was for another one.
    pub(super) fn choice(&self) -> Vec<u8> {
        let (mech, state) = match &self.form {
            Form::Spnego { mech, mic_required: true, .. } => (mech.as_slice(), NegState::RequestMic),
            Form::Spnego { mech, .. } => (mech.as_slice(), NegState::AcceptIncomplete),
            Form::Bare => (spnego::KERBEROS, NegState::AcceptIncomplete),
        };
        NegTokenResp { state: Some(state), supported_mech: Some(mech), ..NegTokenResp::default() }.encode()
    }

    /// Takes the client's first token, which came with the list of mechanisms or alone. `proved` gets the
    /// principal that has proved itself, also if the client is refused.
    pub(super) fn begin(self, token: &[u8], proved: &mut Option<String>) -> Turn {
        self.advance(token, None, true, proved)
    }

    /// Takes a later token of the client.
    pub(super) fn step(self, token: &[u8], proved: &mut Option<String>) -> Turn {
        if let Form::Bare = self.form {
            if token.len() > spnego::MAX_TOKEN_LEN {
                return Err(BadToken::TooLong.into());
            }
            return self.advance(token, None, false, proved);
        }
        let response = match spnego::parse(token)? {
            Token::Resp(NegTokenResp { state: Some(NegState::Reject), .. }) => return Err(Refusal::Rejected),
            Token::Resp(response) => response,
            Token::Init(_) => return Err(Refusal::OutOfTurn),
        };
        match (response.response_token, response.mech_list_mic) {
            (Some(token), mic) if !matches!(self.stage, TicketStage::MicAwaited(_)) => {
                self.advance(token, mic, false, proved)
            }
            (None, Some(mic)) => self.conclude(mic),
            _ => Err(Refusal::OutOfTurn),
        }
    }

    /// Passes a token to the context. `first` is set if no token of the server has been sent before.
    fn advance(mut self, token: &[u8], mic: Option<&[u8]>, first: bool, proved: &mut Option<String>) -> Turn {
        let (reply, ticket) = match self.context.step(token)? {
            ContextStep::Continue(reply) => {
                let reply = self.wrap(NegState::AcceptIncomplete, Some(&reply), None, first);
                self.stage = TicketStage::Incomplete;
                return Ok((Step::Continue(reply), Some(self)));
            }
            ContextStep::Done(reply, ticket) => (reply, ticket),
        };
        *proved = Some(ticket.principal.clone());
        let login = login(ticket);
        let (list, required) = match &self.form {
            Form::Bare => return Ok((Step::Done { reply, login }, None)),
            Form::Spnego { mech_list, mic_required, .. } => (mech_list.clone(), *mic_required),
        };
        // RFC 4178 5
        if let Some(mic) = mic {
            let own = self.verify(&list, mic)?;
            let reply = self.wrap(NegState::AcceptCompleted, Some(&reply), Some(&own), first);
            return Ok((Step::Done { reply, login }, None));
        }
        if required {
            let own = self.context.get_mic(&list)?;
            let reply = self.wrap(NegState::AcceptIncomplete, Some(&reply), Some(&own), first);
            self.stage = TicketStage::MicAwaited(login);
            return Ok((Step::Continue(reply), Some(self)));
        }
        let reply = self.wrap(NegState::AcceptCompleted, Some(&reply), None, first);
        Ok((Step::Done { reply, login }, None))
    }

    /// Takes the client's MIC after the context is established.
    fn conclude(mut self, mic: &[u8]) -> Turn {
        let Form::Spnego { mech_list, .. } = &self.form else { return Err(Refusal::OutOfTurn) };
        let TicketStage::MicAwaited(login) = self.stage else { return Err(Refusal::OutOfTurn) };
        if !self.context.verify_mic(mech_list, mic) {
            return Err(Refusal::WrongMechListMic);
        }
        let reply =
            NegTokenResp { state: Some(NegState::AcceptCompleted), ..NegTokenResp::default() }.encode();
        Ok((Step::Done { reply, login }, None))
    }

    /// Checks the client's MIC and returns the server's.
    fn verify(&mut self, mech_list: &[u8], mic: &[u8]) -> Result<Vec<u8>, Refusal> {
        if !self.context.verify_mic(mech_list, mic) {
            return Err(Refusal::WrongMechListMic);
        }
        Ok(self.context.get_mic(mech_list)?)
    }

    fn wrap(&self, state: NegState, token: Option<&[u8]>, mic: Option<&[u8]>, first: bool) -> Vec<u8> {
        match &self.form {
            Form::Bare => token.unwrap_or_default().to_vec(),
            Form::Spnego { mech, .. } => NegTokenResp {
                state: Some(state),
                supported_mech: first.then_some(mech),
                response_token: token.filter(|token| !token.is_empty()),
                mech_list_mic: mic,
            }
            .encode(),
        }
    }
}

/// The log-on with an accepted ticket.
fn login(ticket: KerberosTicket) -> Login {
    // MS-SMB2 3.3.1.8 SessionKey: the first 16 bytes, padded with zeros.
    let mut session_key = Zeroizing::new([0; 16]);
    let len = ticket.session_key.len().min(16);
    session_key[..len].copy_from_slice(&ticket.session_key[..len]);
    Login {
        user: ticket.principal.clone(),
        domain: String::new(),
        workstation: String::new(),
        proof: Proof::Ticket,
        session_key,
        target: Target { service: Some(ticket.service.clone()), ..Target::default() },
        ticket: Some(Box::new(ticket)),
        domain_account: None,
    }
}
