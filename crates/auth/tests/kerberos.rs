//! Log-ons with Kerberos through all steps of an exchange, with a mechanism that is no real one.

use std::sync::Arc;
use std::time::Duration;

use auth::spnego::{self, KERBEROS, MS_KERBEROS, NTLMSSP, NegState, NegTokenInit, NegTokenResp, Token};
use auth::{
    Acceptor, Accounts, Config, ContextStep, KerberosTicket, Login, Mechanism, Names, Proof, Refusal,
    SecurityContext, Step, TicketRefusal, TicketRefusalKind, Zeroizing,
};
use wire::Now;

const NOW: Now = Now { mono_ns: 0, wall_ns: 0 };
const KEY: [u8; 32] = *b"a subkey of two hundred fifty-si";
/// NEGOEX, which this server does not support.
const OTHER: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x1e];

/// Takes the token `request`, or `part one` and `part two` in this order.
struct TestMechanism;

struct TestContext {
    has_part: bool,
}

impl Mechanism for TestMechanism {
    fn context(&self) -> Box<dyn SecurityContext> {
        Box::new(TestContext { has_part: false })
    }
}

impl SecurityContext for TestContext {
    fn step(&mut self, token: &[u8]) -> Result<ContextStep, TicketRefusal> {
        // A bare token has its header.
        let token = token.strip_prefix(BARE).unwrap_or(token);
        match token {
            b"part one" if !self.has_part => {
                self.has_part = true;
                Ok(ContextStep::Continue(b"go on".to_vec()))
            }
            b"part two" if self.has_part => Ok(done()),
            b"request" => Ok(done()),
            _ => Err(TicketRefusal { kind: TicketRefusalKind::Invalid, why: "a bad token".to_owned() }),
        }
    }

    fn get_mic(&mut self, message: &[u8]) -> Result<Vec<u8>, TicketRefusal> {
        Ok(mic(b"server", message))
    }

    fn verify_mic(&mut self, message: &[u8], code: &[u8]) -> bool {
        code == mic(b"client", message)
    }
}

/// The header of a bare token: the mechanism's identifier (RFC 2743 section 3.1).
const BARE: &[u8] = &[0x60, 0x12, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

fn done() -> ContextStep {
    let ticket = KerberosTicket {
        principal: "bob@EXAMPLE.NET".to_owned(),
        service: "cifs/box@EXAMPLE.NET".to_owned(),
        session_key: Zeroizing::new(KEY.to_vec()),
        encryption_type: "aes256".to_owned(),
        lifetime: Duration::from_secs(60),
        pac: None,
    };
    ContextStep::Done(b"reply".to_vec(), ticket)
}

/// A code over the whole message and the side that made it.
fn mic(side: &[u8], message: &[u8]) -> Vec<u8> {
    let sum = message.iter().fold(5381_u64, |sum, byte| sum.wrapping_mul(33) ^ u64::from(*byte));
    [side, &sum.to_be_bytes()].concat()
}

fn config() -> Config {
    let name = || "BOX".to_owned();
    Config::new(Names {
        netbios_computer: name(),
        netbios_domain: name(),
        dns_computer: name(),
        dns_domain: name(),
    })
    .with_kerberos(Arc::new(TestMechanism))
}

fn init(mechs: &[&[u8]], token: Option<&[u8]>) -> Vec<u8> {
    NegTokenInit { mechs: Vec::new(), mech_list: &spnego::mech_list(mechs), mech_token: token }.encode()
}

fn response(token: Option<&[u8]>, mic: Option<&[u8]>) -> Vec<u8> {
    NegTokenResp { response_token: token, mech_list_mic: mic, ..NegTokenResp::default() }.encode()
}

fn step(acceptor: &mut Acceptor, token: &[u8]) -> Step {
    acceptor.step(token, &Accounts::default(), NOW)
}

fn refused(acceptor: &mut Acceptor, token: &[u8]) -> Refusal {
    match step(acceptor, token) {
        Step::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

fn logged_on(step: Step) -> (Vec<u8>, Login) {
    match step {
        Step::Done { reply, login } => (reply, login),
        other => panic!("{other:?}"),
    }
}

fn continued(step: Step) -> Vec<u8> {
    match step {
        Step::Continue(reply) => reply,
        other => panic!("{other:?}"),
    }
}

fn parsed(token: &[u8]) -> NegTokenResp<'_> {
    match spnego::parse(token) {
        Ok(Token::Resp(response)) => response,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_choice_is_taken_at_once_under_either_identifier() {
    for mechs in [&[MS_KERBEROS, KERBEROS, OTHER, NTLMSSP][..], &[KERBEROS, NTLMSSP], &[KERBEROS]] {
        let mut acceptor = Acceptor::new(&config());
        let token = init(mechs, Some(b"request"));
        assert!(acceptor.may_block(&token, &Accounts::default()));
        let (reply, login) = logged_on(step(&mut acceptor, &token));
        let reply = parsed(&reply);
        assert_eq!(reply.state, Some(NegState::AcceptCompleted));
        assert_eq!((reply.supported_mech, reply.response_token), (Some(mechs[0]), Some(&b"reply"[..])));
        assert_eq!(reply.mech_list_mic, None);
        assert_eq!((login.user.as_str(), login.proof), ("bob@EXAMPLE.NET", Proof::Ticket));
        assert_eq!(login.target.service.as_deref(), Some("cifs/box@EXAMPLE.NET"));
        // MS-SMB2 3.3.1.8
        assert_eq!((&login.session_key[..], login.full_session_key()), (&KEY[..16], &KEY[..]));
        assert_eq!(refused(&mut acceptor, &token), Refusal::OutOfTurn);
    }
}

// RFC 4178 5
#[test]
fn a_later_choice_needs_codes_of_both_sides_over_the_list() {
    let mechs: &[&[u8]] = &[OTHER, KERBEROS, NTLMSSP];
    let list = spnego::mech_list(mechs);
    let asked = || {
        let mut acceptor = Acceptor::new(&config());
        let reply = continued(step(&mut acceptor, &init(mechs, Some(b"for another mechanism"))));
        let reply = parsed(&reply);
        assert_eq!((reply.state, reply.supported_mech), (Some(NegState::RequestMic), Some(KERBEROS)));
        acceptor
    };
    let accepted = || {
        let mut acceptor = asked();
        let reply = continued(step(&mut acceptor, &response(Some(b"request"), None)));
        let reply = parsed(&reply);
        assert_eq!(
            (reply.state, reply.response_token),
            (Some(NegState::AcceptIncomplete), Some(&b"reply"[..]))
        );
        assert_eq!(reply.mech_list_mic, Some(&mic(b"server", &list)[..]));
        acceptor
    };
    let (reply, login) = logged_on(step(&mut accepted(), &response(None, Some(&mic(b"client", &list)))));
    assert_eq!((parsed(&reply).state, login.proof), (Some(NegState::AcceptCompleted), Proof::Ticket));
    // A client that is done at once sends its code with its token.
    let early = response(Some(b"request"), Some(&mic(b"client", &list)));
    let (reply, _) = logged_on(step(&mut asked(), &early));
    assert_eq!(parsed(&reply).mech_list_mic, Some(&mic(b"server", &list)[..]));
    // The code over another list, that of the server, and none at all.
    let other = mic(b"client", &spnego::mech_list(&[KERBEROS, NTLMSSP]));
    for wrong in [&other[..], &mic(b"server", &list), b""] {
        assert_eq!(refused(&mut accepted(), &response(None, Some(wrong))), Refusal::WrongMechListMic);
        let early = response(Some(b"request"), Some(wrong));
        assert_eq!(refused(&mut asked(), &early), Refusal::WrongMechListMic);
    }
    // The principal is known, for the audit.
    for (mut acceptor, token) in [(accepted(), response(None, Some(b""))), (asked(), early)] {
        step(&mut acceptor, &token);
        assert_eq!(acceptor.proved(), Some("bob@EXAMPLE.NET"));
    }
    assert_eq!(refused(&mut accepted(), &response(None, None)), Refusal::OutOfTurn);
    assert_eq!(refused(&mut accepted(), &response(Some(b"request"), None)), Refusal::OutOfTurn);
}

#[test]
fn every_change_of_the_list_on_its_way_is_found() {
    let mechs: &[&[u8]] = &[OTHER, KERBEROS, NTLMSSP];
    let list = spnego::mech_list(mechs);
    let sent = init(mechs, None);
    let at = sent.windows(list.len()).position(|window| window == list).expect("the list is in the token");
    let mut carried_on = 0;
    for byte in at..at + list.len() {
        for bit in 0..8 {
            let mut changed = sent.clone();
            changed[byte] ^= 1 << bit;
            let mut acceptor = Acceptor::new(&config());
            // NTLM, or nothing in common, is not this test's matter.
            let Step::Continue(reply) = step(&mut acceptor, &changed) else { continue };
            if parsed(&reply).supported_mech == Some(NTLMSSP) {
                continue;
            }
            match step(&mut acceptor, &response(Some(b"request"), None)) {
                Step::Continue(_) => {
                    let code = response(None, Some(&mic(b"client", &list)));
                    assert_eq!(refused(&mut acceptor, &code), Refusal::WrongMechListMic, "byte {byte}");
                    carried_on += 1;
                }
                Step::Refused(_) => {}
                done => panic!("byte {byte}: {done:?}"),
            }
        }
    }
    assert!(carried_on > 100, "{carried_on} changes reached the code");
}

#[test]
fn a_context_may_take_several_tokens_and_come_without_a_wrapper() {
    let mut acceptor = Acceptor::new(&config());
    let reply = continued(step(&mut acceptor, &init(&[KERBEROS], Some(b"part one"))));
    assert_eq!(parsed(&reply).response_token, Some(&b"go on"[..]));
    assert!(acceptor.may_block(b"", &Accounts::default()));
    let (reply, _) = logged_on(step(&mut acceptor, &response(Some(b"part two"), None)));
    assert_eq!(
        (parsed(&reply).supported_mech, parsed(&reply).state),
        (None, Some(NegState::AcceptCompleted))
    );

    let mut acceptor = Acceptor::new(&config());
    let bare = [BARE, b"request"].concat();
    assert!(acceptor.may_block(&bare, &Accounts::default()));
    assert_eq!(logged_on(step(&mut acceptor, &bare)).0, b"reply");
    // The mechanism's own refusal ends the exchange.
    let mut acceptor = Acceptor::new(&config());
    let why = refused(&mut acceptor, &init(&[KERBEROS, NTLMSSP], Some(b"forged")));
    assert!(matches!(why, Refusal::Ticket(_)), "{why:?}");
    assert_eq!(refused(&mut acceptor, b"NTLMSSP\0"), Refusal::OutOfTurn);
}

#[test]
fn mechanisms_that_are_off_are_neither_offered_nor_taken() {
    let names = config().names().clone();
    let without_ntlm = config().without_ntlm();
    let offered = |config: &Config| match spnego::parse(&config.hint()) {
        Ok(Token::Init(init)) => init.mechs.iter().map(|mech| mech.to_vec()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(offered(&config()), [MS_KERBEROS, KERBEROS, NTLMSSP]);
    assert_eq!(offered(&without_ntlm), [MS_KERBEROS, KERBEROS]);
    assert_eq!(offered(&Config::new(names.clone())), [NTLMSSP]);
    for token in [init(&[NTLMSSP], Some(b"NTLMSSP\0")), b"NTLMSSP\0\x01\0\0\0".to_vec()] {
        let mut acceptor = Acceptor::new(&without_ntlm);
        assert!(!acceptor.may_block(&token, &Accounts::default()));
        assert_eq!(refused(&mut acceptor, &token), Refusal::NtlmOff);
    }
    let nothing = init(&[OTHER], None);
    assert_eq!(refused(&mut Acceptor::new(&without_ntlm), &nothing), Refusal::NoCommonMechanism);
    // The reason for having no Kerberos is told about a client that can do nothing else.
    let off = Config::new(names.clone()).without_kerberos("no keytab".into());
    let bare = [BARE, b"request"].concat();
    for token in [init(&[KERBEROS], Some(b"request")), init(&[OTHER, MS_KERBEROS], None), bare] {
        assert!(!Acceptor::new(&off).may_block(&token, &Accounts::default()));
        assert_eq!(refused(&mut Acceptor::new(&off), &token), Refusal::KerberosOff("no keytab".into()));
    }
    assert_eq!(offered(&off), [NTLMSSP]);
    assert_eq!(refused(&mut Acceptor::new(&off), &nothing), Refusal::NoCommonMechanism);
    let both = continued(step(&mut Acceptor::new(&off), &init(&[KERBEROS, NTLMSSP], Some(b"request"))));
    assert_eq!(parsed(&both).supported_mech, Some(NTLMSSP));
    // Without Kerberos such a client is moved to NTLM.
    let mut acceptor = Acceptor::new(&Config::new(names));
    assert!(!acceptor.may_block(&init(&[KERBEROS, NTLMSSP], Some(b"request")), &Accounts::default()));
    let reply = continued(step(&mut acceptor, &init(&[KERBEROS, NTLMSSP], Some(b"request"))));
    assert_eq!(parsed(&reply).supported_mech, Some(NTLMSSP));
}
