//! The tokens of a log-on, in both directions.

use std::sync::Arc;
use std::time::Duration;

use auth::ntlm::{parse_authenticate, parse_challenge, parse_negotiate};
use auth::{
    Acceptor, Account, Accounts, ClientIdentity, Config, ContextStep, Initiator, KerberosTicket, Mechanism,
    Names, NtHash, SecurityContext, Step, TicketRefusal, TicketRefusalKind, Wrap, spnego as tokens,
};
use kerberos::ap_req;
use kerberos::pac::{LocalDomains, Pac};
use volume::security::Sid;
use wire::Now;

fn accounts() -> Accounts {
    let mut accounts = Accounts::default();
    accounts.insert(Account {
        name: "anna".into(),
        nt_hash: NtHash::from_password("s3cret"),
        second_hash: None,
        restriction: None,
    });
    accounts
}

fn config() -> Config {
    Config::new(Names {
        netbios_computer: "SERVER".into(),
        netbios_domain: "SERVER".into(),
        dns_computer: "server.example.net".into(),
        dns_domain: String::new(),
    })
}

fn acceptor() -> Acceptor {
    Acceptor::new(&config())
}

/// A mechanism whose tickets are these bytes. It goes on for a token that ends with a zero byte, and knows no
/// MIC.
struct Tickets;

const TICKET: &[u8] = b"tk";

impl Mechanism for Tickets {
    fn context(&self) -> Box<dyn SecurityContext> {
        Box::new(Tickets)
    }
}

fn refusal() -> TicketRefusal {
    TicketRefusal { kind: TicketRefusalKind::Invalid, why: String::new() }
}

impl SecurityContext for Tickets {
    fn step(&mut self, token: &[u8]) -> Result<ContextStep, TicketRefusal> {
        let _ = ap_req::encryption_types(token);
        match token {
            TICKET => Ok(ContextStep::Done(
                b"reply".to_vec(),
                KerberosTicket {
                    principal: "anna@EXAMPLE.NET".into(),
                    service: "cifs/server@EXAMPLE.NET".into(),
                    session_key: Default::default(),
                    encryption_type: String::new(),
                    lifetime: Duration::ZERO,
                    pac: None,
                },
            )),
            [.., 0] => Ok(ContextStep::Continue(b"more".to_vec())),
            _ => Err(refusal()),
        }
    }

    fn get_mic(&mut self, _: &[u8]) -> Result<Vec<u8>, TicketRefusal> {
        Ok(b"mic".to_vec())
    }

    fn verify_mic(&mut self, _: &[u8], _: &[u8]) -> bool {
        false
    }
}

/// Whether an invented token does not log on any user.
fn is_kept_out(acceptor: &mut Acceptor, token: &[u8]) -> bool {
    let now = Now { mono_ns: 1, wall_ns: 1_700_000_000_000_000_000 };
    match acceptor.step(token, &accounts(), now) {
        Step::Done { login, .. } => login.is_anonymous(),
        Step::Continue(_) | Step::Refused(_) => true,
    }
}

/// A bare NTLM message: for each parser, for a server before and after its challenge, and for a client.
pub fn ntlm(data: &[u8]) {
    if let Ok(negotiate) = parse_negotiate(data) {
        let written = negotiate.encode();
        assert_eq!(parse_negotiate(&written), Ok(negotiate));
    }
    let _ = parse_challenge(data);
    let _ = parse_authenticate(data);
    assert!(is_kept_out(&mut acceptor(), data));
    let identity = ClientIdentity::new("anna", "", NtHash::from_password("s3cret"), "cifs/server");
    let mut initiator = Initiator::new(identity, Wrap::Bare);
    let mut challenged = acceptor();
    assert!(is_kept_out(&mut challenged, &initiator.first()));
    assert!(is_kept_out(&mut challenged, data));
    let _ = initiator.step(data, Now::default());
}

/// A PAC: for the parser, and its groups for the filter of a server of the PAC's own domain and of another.
pub fn pac(data: &[u8]) {
    let Ok(pac) = Pac::parse(data) else { return };
    assert!(pac.groups.len() <= kerberos::pac::MAX_GROUPS);
    let _ = pac.check_logon(1_700_000_000_000_000_000);
    let other = Sid::new(5, &[21, 7, 7, 7]);
    for own in [pac.domain, other] {
        let local = LocalDomains { own, machine: Sid::new(5, &[21, 8, 8, 8]) };
        let Ok(kept) = pac.clone().filtered(&local) else { continue };
        let is_admitted = |sid: &Sid| sid.authority() == 5 && sid.subs().len() == 5 && sid.subs()[0] == 21;
        assert!(kept.enabled_groups().iter().all(is_admitted));
    }
}

/// A log-on with Kerberos: the token is the first one, or follows a choice of the mechanism. Only the ticket
/// logs on, and never where the list of mechanisms needs a MIC, since none is right.
fn kerberos(data: &[u8]) {
    const NEGOEX: &[u8] = &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 2, 2, 0x1e];
    let needs_mic = match tokens::parse(data) {
        Ok(tokens::Token::Init(init)) => {
            !matches!(init.mechs.first(), Some(&tokens::KERBEROS | &tokens::MS_KERBEROS))
        }
        _ => false,
    };
    let (first, second) = (tokens::hint(&[tokens::KERBEROS]), tokens::hint(&[NEGOEX, tokens::KERBEROS]));
    for (begun, needs_mic) in [(None, needs_mic), (Some(first), false), (Some(second), true)] {
        let mut acceptor = Acceptor::new(&config().with_kerberos(Arc::new(Tickets)));
        for token in begun.as_deref().into_iter().chain([data, data]) {
            let _ = acceptor.may_block(token, &accounts());
            if !is_kept_out(&mut acceptor, token) {
                assert!(!needs_mic && data.windows(TICKET.len()).any(|part| part == TICKET));
            }
        }
    }
}

/// A SPNEGO token: for the parser, for a server before and after its challenge, for one with Kerberos, and
/// for a client.
pub fn spnego(data: &[u8]) {
    let _ = tokens::parse(data);
    let _ = ap_req::encryption_types(data);
    kerberos(data);
    assert!(is_kept_out(&mut acceptor(), data));
    let identity = ClientIdentity::new("anna", "", NtHash::from_password("s3cret"), "cifs/server");
    let mut initiator = Initiator::new(identity, Wrap::Spnego);
    let mut challenged = acceptor();
    assert!(is_kept_out(&mut challenged, &initiator.first()));
    assert!(is_kept_out(&mut challenged, data));
    let _ = initiator.step(data, Now::default());
}
