//! A realm without a KDC, and the log-on of a client with its tickets. A ticket is text that the client makes
//! up, so only tests of the layers above the mechanism can use it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use auth::spnego::{self, KERBEROS, NegTokenInit};
use auth::{
    ContextStep, DomainAccount, KerberosTicket, Mechanism, SecurityContext, TicketRefusal, TicketRefusalKind,
    Zeroizing,
};
use share::Identity;
use smb::keys::{self, Seal};
use smb::{KerberosConfig, PrincipalRefusal, PrincipalResolver, UserConfig};
use smb_wire::negotiate::Capabilities;
use smb_wire::session_setup::{self, RequestFlags};
use smb_wire::{Header, NtStatus, SmbCommand};

use super::client::{Dial, Transcript};
use super::peer::{Keys, Peer};

/// The session key of every ticket, in full length.
pub const SESSION_KEY: [u8; 32] = *b"the key of all tickets, in full.";
/// The realm's name.
pub const REALM: &str = "TEST.NET";

/// The text of a ticket.
pub fn ticket(principal: &str, lifetime: Duration) -> Vec<u8> {
    format!("{principal} {}", lifetime.as_secs()).into_bytes()
}

/// The settings for log-ons with such tickets of these users.
pub fn kerberos(users: impl IntoIterator<Item = Arc<UserConfig>>) -> KerberosConfig {
    let users = users.into_iter().map(|user| Arc::clone(&user.identity)).collect();
    KerberosConfig { mechanism: Arc::new(TestRealm), resolver: Arc::new(TestPrincipals(users)) }
}

struct TestRealm;

impl Mechanism for TestRealm {
    fn context(&self) -> Box<dyn SecurityContext> {
        Box::new(TestContext)
    }
}

struct TestContext;

impl SecurityContext for TestContext {
    fn step(&mut self, token: &[u8]) -> Result<ContextStep, TicketRefusal> {
        let refused = |kind, why: &str| TicketRefusal { kind, why: why.to_owned() };
        let text = std::str::from_utf8(token).ok().and_then(|text| text.split_once(' '));
        let (principal, rest) = text.ok_or(refused(TicketRefusalKind::BadToken, "no ticket"))?;
        if rest == "skewed" {
            return Err(refused(TicketRefusalKind::ClockSkew, "the clocks are apart"));
        }
        let seconds = rest.parse().map_err(|_| refused(TicketRefusalKind::Invalid, "a bad ticket"))?;
        let ticket = KerberosTicket {
            principal: principal.to_owned(),
            service: format!("cifs/server@{REALM}"),
            session_key: Zeroizing::new(SESSION_KEY.to_vec()),
            encryption_type: "none".to_owned(),
            lifetime: Duration::from_secs(seconds),
            pac: None,
        };
        Ok(ContextStep::Done(b"the server's proof".to_vec(), ticket))
    }

    fn get_mic(&mut self, message: &[u8]) -> Result<Vec<u8>, TicketRefusal> {
        Ok([b"server", message].concat())
    }

    fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> bool {
        mic == [b"client", message].concat()
    }
}

struct TestPrincipals(Vec<Arc<Identity>>);

impl PrincipalResolver for TestPrincipals {
    fn resolve(&self, ticket: &KerberosTicket) -> Result<Arc<Identity>, PrincipalRefusal> {
        let unknown = || PrincipalRefusal::Unknown(format!("`{}` is unknown", ticket.principal));
        let (name, realm) = ticket.principal.rsplit_once('@').ok_or_else(unknown)?;
        let found = self.0.iter().find(|identity| identity.name == name && realm == REALM);
        found.cloned().ok_or_else(unknown)
    }

    fn resolve_account(&self, account: &DomainAccount) -> Result<Arc<Identity>, PrincipalRefusal> {
        Err(PrincipalRefusal::Unknown(format!("`{}` has no ticket", account.name)))
    }
}

impl Peer {
    /// Logs on with a ticket, or authenticates `session` again if it is not 0. Returns the status. `preauth`
    /// is the hash over NEGOTIATE.
    pub fn log_on_with_ticket(
        &mut self,
        dial: &Dial,
        preauth: [u8; 64],
        ticket: &[u8],
        session: u64,
    ) -> NtStatus {
        let mechs = spnego::mech_list(&[KERBEROS]);
        let init = NegTokenInit { mechs: Vec::new(), mech_list: &mechs, mech_token: Some(ticket) };
        let token = init.encode();
        self.session_id = session;
        let mut request = self.message(SmbCommand::SessionSetup, |out| {
            session_setup::Request {
                flags: RequestFlags::empty(),
                security_mode: dial.security_mode(),
                capabilities: Capabilities::empty(),
                previous_session_id: 0,
                security_buffer: &token,
            }
            .write(out);
        });
        let id = Header::parse(&request).expect("a header").message_id();
        let mut keys = None;
        if session == 0 {
            let mut transcript = Transcript(preauth);
            transcript.add(&request);
            let (protection, mut key) = (dial.protection(), [0; 16]);
            key.copy_from_slice(&SESSION_KEY[..16]);
            let signer = Rc::new(keys::signer(protection, &key, &transcript.0));
            let seal = keys::server_seal(protection, &key, &SESSION_KEY, &transcript.0);
            let seal = seal.map(|server| Rc::new(Seal { out: server.into, into: server.out }));
            let session = Rc::clone(&signer);
            keys = Some(Keys { signer, session, seal, signs: dial.requires_signing, seals: dial.seals });
        } else if dial.seals {
            request = self.seal(&request, session);
        } else {
            self.sign(&mut request);
        }
        self.deliver(request);
        let answer = self.answer(id).expect("an answer to SESSION_SETUP");
        self.session_id = answer.header.session_id();
        if let Some(keys) = keys {
            self.keys.insert(self.session_id, keys);
        }
        answer.status()
    }
}
