//! Complete log-ons of the initiator with the acceptor, through all steps of an exchange.

use auth::ntlm::{self, AvPairs};
use auth::spnego::{self, KERBEROS, NTLMSSP, NegState, NegTokenInit, NegTokenResp, Token};
use auth::{
    Acceptor, Account, Accounts, ClientIdentity, Config, Credentials, Initiator, InitiatorStep, Login, Names,
    NtHash, Proof, Refusal, Step, Wrap,
};
use std::sync::Arc;
use wire::Now;

const NOW: Now = Now { mono_ns: 0, wall_ns: 1_790_000_000_000_000_000 };

fn config() -> Config {
    Config::new(Names {
        netbios_computer: "BOX".into(),
        netbios_domain: "WORKGROUP".into(),
        dns_computer: "box.example.net".into(),
        dns_domain: "example.net".into(),
    })
}

fn accounts() -> Accounts {
    let mut accounts = Accounts::default();
    for (name, password, restriction) in [("alice", "s3cret-ü", None), ("Bob", "builder", Some("no uid"))] {
        let nt_hash = NtHash::from_password(password);
        let restriction = restriction.map(Arc::from);
        accounts.insert(Account { name: name.into(), nt_hash, second_hash: None, restriction });
    }
    accounts
}

fn identity(user: &str, domain: &str, password: &str) -> ClientIdentity {
    ClientIdentity::new(user, domain, NtHash::from_password(password), "cifs/box").on("DESK")
}

/// The outcome of a log-on: the user and both session keys, or the refusal.
type LoginOutcome = Result<(Login, [u8; 16]), Refusal>;

/// Runs a log-on. `change` may alter the token of each step (0 is the client's first).
fn run(
    identity: ClientIdentity,
    wrap: Wrap,
    credentials: &dyn Credentials,
    change: &dyn Fn(usize, &mut Vec<u8>),
) -> LoginOutcome {
    let mut initiator = Initiator::new(identity, wrap);
    let mut acceptor = Acceptor::new(&config());
    let mut token = initiator.first();
    let mut turn = 0;
    loop {
        change(turn, &mut token);
        turn += 1;
        let (mut reply, login) = match acceptor.step(&token, credentials, NOW) {
            Step::Continue(reply) => (reply, None),
            Step::Done { reply, login } => (reply, Some(login)),
            Step::Refused(why) => return Err(why),
        };
        change(turn, &mut reply);
        turn += 1;
        match (initiator.step(&reply, NOW), login) {
            (InitiatorStep::Continue(next), None) => token = next,
            (InitiatorStep::Done, Some(login)) => {
                return Ok((login, *initiator.session_key().expect("known when done")));
            }
            (InitiatorStep::Refused(why), _) => return Err(why),
            (step, login) => panic!("out of step: {step:?}, {login:?}"),
        }
    }
}

fn untouched(identity: ClientIdentity, wrap: Wrap) -> LoginOutcome {
    run(identity, wrap, &accounts(), &|_, _| {})
}

#[test]
fn a_user_logs_on_with_and_without_spnego() {
    for wrap in [Wrap::Spnego, Wrap::Bare] {
        let (login, key) = untouched(identity("alice", "", "s3cret-ü"), wrap).unwrap();
        assert_eq!((login.user.as_str(), login.proof), ("alice", Proof::Password));
        assert_eq!(login.workstation, "DESK");
        assert_eq!(*login.session_key, key);
        assert_ne!(key, [0; 16]);
        let again = untouched(identity("alice", "", "s3cret-ü"), wrap).unwrap().1;
        assert_ne!(again, key, "each log-on has a key of its own");
    }
}

#[test]
fn names_may_come_in_any_case_and_with_any_domain() {
    for (user, domain) in [
        ("ALICE", ""),
        ("Alice", "WORKGROUP"),
        ("alice", "."),
        ("alice", "elsewhere.example"),
        ("alice@box.example.net", ""),
        ("BOX\\alice", ""),
    ] {
        let (login, _) = untouched(identity(user, domain, "s3cret-ü"), Wrap::Spnego).unwrap();
        assert_eq!((login.user.as_str(), login.domain.as_str()), ("alice", domain), "{domain}\\{user}");
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_look_alike() {
    for (user, password) in [("alice", "S3cret-ü"), ("alice", ""), ("nobody", "s3cret-ü"), ("nobody", "")] {
        let refused = untouched(identity(user, "", password), Wrap::Spnego).unwrap_err();
        assert_eq!(refused, Refusal::WrongCredentials, "{user}");
    }
    let zero = ClientIdentity::new("nobody", "", NtHash::from_bytes([0; 16]), "cifs/box");
    assert_eq!(untouched(zero, Wrap::Spnego).unwrap_err(), Refusal::WrongCredentials);
}

#[test]
fn a_restricted_account_is_named_only_to_who_knows_its_password() {
    let right = untouched(identity("bob", "", "builder"), Wrap::Spnego).unwrap_err();
    assert_eq!(right, Refusal::AccountRestriction("no uid".into()));
    let wrong = untouched(identity("bob", "", "guess"), Wrap::Spnego).unwrap_err();
    assert_eq!(wrong, Refusal::WrongCredentials);
}

#[test]
fn the_anonymous_are_reported_as_such() {
    for wrap in [Wrap::Spnego, Wrap::Bare] {
        let (login, key) = untouched(ClientIdentity::anonymous("cifs/box"), wrap).unwrap();
        assert!(login.is_anonymous() && !login.is_guest());
        assert_eq!((login.user.as_str(), *login.session_key), ("", key));
    }
}

struct WithGuest(Accounts);

impl Credentials for WithGuest {
    fn lookup(&self, user: &str) -> Option<Account> {
        self.0.lookup(user)
    }

    fn guest(&self) -> Option<String> {
        Some("visitor".into())
    }
}

#[test]
fn only_unknown_users_become_the_guest() {
    let credentials = WithGuest(accounts());
    let login = |user, password| run(identity(user, "", password), Wrap::Spnego, &credentials, &|_, _| {});
    let (guest, _) = login("nobody", "x").unwrap();
    assert!(guest.is_guest());
    assert_eq!((guest.user.as_str(), *guest.session_key), ("visitor", [0; 16]));
    assert_eq!(login("alice", "x").unwrap_err(), Refusal::WrongCredentials);
    assert_eq!(login("alice", "s3cret-ü").unwrap().0.proof, Proof::Password);
}

/// The offset of the NTLM message in a token.
fn ntlm_offset(token: &[u8]) -> usize {
    token.windows(8).position(|window| window == ntlm::SIGNATURE).expect("an NTLM message")
}

/// The range of this step's NTLM message in the token.
fn ntlm_range(turn: usize) -> std::ops::Range<usize> {
    let range = std::cell::RefCell::new(0..0);
    run(identity("alice", "dom", "s3cret-ü"), Wrap::Spnego, &accounts(), &|at, token| {
        if at == turn {
            let start = ntlm_offset(token);
            let Ok(
                Token::Init(NegTokenInit { mech_token: Some(message), .. })
                | Token::Resp(NegTokenResp { response_token: Some(message), .. }),
            ) = spnego::parse(token)
            else {
                panic!("no message in turn {turn}")
            };
            *range.borrow_mut() = start..start + message.len();
        }
    })
    .unwrap();
    range.into_inner()
}

/// One changed bit anywhere in one of the client's NTLM messages ends the log-on.
#[test]
fn every_changed_bit_of_the_clients_messages_is_refused() {
    let accounts = accounts();
    for turn in [0, 2] {
        for at in ntlm_range(turn) {
            for bit in [0x01, 0x80] {
                let outcome =
                    run(identity("alice", "dom", "s3cret-ü"), Wrap::Spnego, &accounts, &|now, token| {
                        if now == turn {
                            token[at] ^= bit;
                        }
                    });
                assert!(outcome.is_err(), "turn {turn}, byte {at}, bit {bit:#x}: {outcome:?}");
            }
        }
    }
}

/// One changed bit in the challenge ends the log-on too. The exceptions are changes that hide the time stamp,
/// after which the client leaves its MIC out.
#[test]
fn every_changed_bit_of_a_challenge_is_refused_where_there_is_a_mic() {
    let accounts = accounts();
    let mut without_mic = 0;
    for at in ntlm_range(1) {
        let had_mic = std::cell::Cell::new(true);
        let outcome = run(identity("alice", "dom", "s3cret-ü"), Wrap::Spnego, &accounts, &|turn, token| {
            if turn == 1 {
                token[at] ^= 0x01;
            } else if turn == 2 {
                let message = &token[ntlm_offset(token)..];
                let sent = ntlm::parse_authenticate(message).unwrap();
                had_mic.set(AvPairs::parse(&sent.nt_response[44..]).unwrap().flags() & 2 != 0);
            }
        });
        assert!(outcome.is_err() || !had_mic.get(), "byte {at}: {outcome:?}");
        without_mic += usize::from(!had_mic.get());
    }
    assert!(without_mic < 32, "{without_mic} changes left no MIC");
}

#[test]
fn a_wrong_code_over_the_mechanisms_is_refused_by_both_sides() {
    for turn in [2, 3] {
        let outcome = run(identity("alice", "", "s3cret-ü"), Wrap::Spnego, &accounts(), &|at, token| {
            if at == turn {
                // The MIC is the last element. Its checksum is before the 4-byte sequence number.
                let at = token.len() - 8;
                token[at] ^= 1;
            }
        });
        assert_eq!(outcome.unwrap_err(), Refusal::WrongMechListMic, "turn {turn}");
    }
}

/// A client that prefers Kerberos. It sends `ticket` for it, then follows the server.
fn kerberos_first(keep_mic: bool) -> Result<(Login, Vec<Option<NegState>>), Refusal> {
    let accounts = accounts();
    let mechs = spnego::mech_list(&[KERBEROS, NTLMSSP]);
    let init = NegTokenInit { mechs: vec![], mech_list: &mechs, mech_token: Some(b"a ticket") }.encode();
    let mut acceptor = Acceptor::new(&config());
    let mut states = Vec::new();
    let mut ask = |token: &[u8]| match acceptor.step(token, &accounts, NOW) {
        Step::Continue(reply) => Ok((reply, None)),
        Step::Done { reply, login } => Ok((reply, Some(login))),
        Step::Refused(why) => Err(why),
    };
    let resp = |token: &[u8]| match spnego::parse(token).unwrap() {
        Token::Resp(resp) => (
            resp.state,
            resp.supported_mech.map(<[u8]>::to_vec),
            resp.response_token.map(<[u8]>::to_vec),
            resp.mech_list_mic.map(<[u8]>::to_vec),
        ),
        Token::Init(_) => panic!("a NegTokenInit from an acceptor"),
    };

    let (reply, _) = ask(&init)?;
    let (state, mech, token, _) = resp(&reply);
    assert_eq!((mech.as_deref(), token), (Some(NTLMSSP), None));
    states.push(state);

    let client = ntlm::Client::new(identity("alice", "", "s3cret-ü"));
    let wrapped = |message: &[u8], mic: Option<&[u8]>| {
        NegTokenResp { response_token: Some(message), mech_list_mic: mic, ..NegTokenResp::default() }.encode()
    };
    let (reply, _) = ask(&wrapped(client.message(), None))?;
    let (state, mech, token, _) = resp(&reply);
    assert_eq!(mech, None, "the mechanism is named once");
    states.push(state);

    let answer = client.answer(&token.expect("a challenge"), NOW).unwrap();
    let signatures = answer.signatures.expect("SIGN was agreed on");
    let mic = signatures.sign(ntlm::signature::SigningSide::Client, &mechs);
    let (reply, login) = ask(&wrapped(&answer.message, keep_mic.then_some(&mic[..])))?;
    let (state, _, _, mic) = resp(&reply);
    states.push(state);
    let mic = mic.expect("the acceptor vouches for the list too");
    assert!(signatures.verify(ntlm::signature::SigningSide::Server, &mechs, &mic));
    Ok((login.expect("done"), states))
}

#[test]
fn a_client_that_prefers_kerberos_is_moved_to_ntlm() {
    let (login, states) = kerberos_first(true).unwrap();
    assert_eq!(login.user, "alice");
    let expected = [NegState::RequestMic, NegState::AcceptIncomplete, NegState::AcceptCompleted];
    assert_eq!(states, expected.map(Some));
}

#[test]
fn a_client_that_was_moved_must_vouch_for_its_list() {
    assert_eq!(kerberos_first(false).unwrap_err(), Refusal::WrongMechListMic);
}

/// A client that prefers Kerberos, and somebody on the way who takes it off the list, and the MIC of the list
/// off the proof. Returns the acceptor after the proof, and the client's signatures.
fn stripped() -> (Acceptor, auth::ntlm::signature::Signatures) {
    let accounts = accounts();
    let client = ntlm::Client::new(identity("alice", "", "s3cret-ü"));
    let mech_list = &spnego::mech_list(&[NTLMSSP]);
    let init = NegTokenInit { mechs: vec![], mech_list, mech_token: Some(client.message()) }.encode();
    let mut acceptor = Acceptor::new(&config());
    let Step::Continue(reply) = acceptor.step(&init, &accounts, NOW) else { panic!("refused") };
    let Ok(Token::Resp(resp)) = spnego::parse(&reply) else { panic!("not a NegTokenResp") };
    let answer = client.answer(resp.response_token.expect("a challenge"), NOW).unwrap();
    let signatures = answer.signatures.expect("SIGN was agreed on");
    let proof = NegTokenResp { response_token: Some(&answer.message), ..NegTokenResp::default() }.encode();
    let Step::Continue(reply) = acceptor.step(&proof, &accounts, NOW) else {
        panic!("it is let in without a MIC, or refused without being asked for one")
    };
    let Ok(Token::Resp(resp)) = spnego::parse(&reply) else { panic!("not a NegTokenResp") };
    assert_eq!((resp.state, resp.response_token), (Some(NegState::AcceptIncomplete), None));
    let mic = resp.mech_list_mic.expect("the server vouches for the list that it has got");
    let side = ntlm::signature::SigningSide::Server;
    assert!(signatures.verify(side, mech_list, mic));
    assert!(!signatures.verify(side, &spnego::mech_list(&[KERBEROS, NTLMSSP]), mic), "the client notices");
    assert_eq!(acceptor.proved(), Some("alice"));
    (acceptor, signatures)
}

#[test]
fn a_client_that_makes_mics_must_vouch_for_a_list_that_has_ntlm_alone() {
    let conclude = |mechs: Option<&[&[u8]]>| {
        let (mut acceptor, signatures) = stripped();
        let side = ntlm::signature::SigningSide::Client;
        let mic = mechs.map(|mechs| signatures.sign(side, &spnego::mech_list(mechs)));
        let mech_list_mic = mic.as_ref().map(|mic| &mic[..]);
        acceptor.step(&NegTokenResp { mech_list_mic, ..NegTokenResp::default() }.encode(), &accounts(), NOW)
    };
    let refused = |step: Step| match step {
        Step::Refused(why) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(conclude(Some(&[KERBEROS, NTLMSSP]))), Refusal::WrongMechListMic);
    assert_eq!(refused(conclude(None)), Refusal::OutOfTurn);
    // The list is the client's, and it only sent the MIC late.
    let Step::Done { reply, login } = conclude(Some(&[NTLMSSP])) else { panic!("refused") };
    let Ok(Token::Resp(resp)) = spnego::parse(&reply) else { panic!("not a NegTokenResp") };
    assert_eq!((login.user.as_str(), resp.state), ("alice", Some(NegState::AcceptCompleted)));
}

#[test]
fn a_client_that_did_not_guess_gets_the_mechanism_named() {
    let init = NegTokenInit { mechs: vec![], mech_list: &spnego::mech_list(&[NTLMSSP]), mech_token: None };
    let mut acceptor = Acceptor::new(&config());
    let Step::Continue(reply) = acceptor.step(&init.encode(), &accounts(), NOW) else { panic!("refused") };
    let Token::Resp(resp) = spnego::parse(&reply).unwrap() else { panic!("not a NegTokenResp") };
    assert_eq!((resp.state, resp.supported_mech), (Some(NegState::AcceptIncomplete), Some(NTLMSSP)));
}

#[test]
fn without_ntlm_there_is_nothing_in_common() {
    let list = spnego::mech_list(&[KERBEROS]);
    let init = NegTokenInit { mechs: vec![], mech_list: &list, mech_token: Some(b"a ticket") }.encode();
    let step = Acceptor::new(&config()).step(&init, &accounts(), NOW);
    assert!(matches!(step, Step::Refused(Refusal::NoCommonMechanism)), "{step:?}");
}

#[test]
fn a_server_need_not_say_at_the_end_that_it_is_the_end() {
    let silent = |turn: usize, token: &mut Vec<u8>| {
        if turn == 3 {
            let Ok(Token::Resp(last)) = spnego::parse(token) else { panic!("not a NegTokenResp") };
            assert_eq!(last.state, Some(NegState::AcceptCompleted));
            *token = NegTokenResp { state: None, ..last }.encode();
        }
    };
    run(identity("alice", "", "s3cret-ü"), Wrap::Spnego, &accounts(), &silent).unwrap();
}

#[test]
fn who_takes_ntlm_is_told_by_the_first_word_of_a_server() {
    let hint = |mechs: &[&[u8]]| {
        let mech_list = &spnego::mech_list(mechs);
        NegTokenInit { mechs: vec![], mech_list, mech_token: None }.encode()
    };
    assert!(auth::takes_ntlm(&spnego::hint(&[NTLMSSP])) && auth::takes_ntlm(&hint(&[KERBEROS, NTLMSSP])));
    assert!(auth::takes_ntlm(&[]) && auth::takes_ntlm(&hint(&[])), "the choice is the client's");
    assert!(!auth::takes_ntlm(&hint(&[KERBEROS])));
}

#[test]
fn an_exchange_that_is_over_stays_over() {
    let mut acceptor = Acceptor::new(&config());
    let first = Initiator::new(identity("alice", "", "x"), Wrap::Spnego).first();
    assert!(matches!(acceptor.step(&[], &accounts(), NOW), Step::Refused(Refusal::BadToken(_))));
    assert!(matches!(acceptor.step(&first, &accounts(), NOW), Step::Refused(Refusal::OutOfTurn)));
}

#[test]
fn nothing_secret_is_shown() {
    let (login, _) = untouched(identity("alice", "", "s3cret-ü"), Wrap::Spnego).unwrap();
    let text = format!("{login:?} {:?} {:?}", accounts().lookup("alice"), identity("alice", "", "s3cret-ü"));
    assert!(text.contains("alice") && !text.contains("s3cret"), "{text}");
    assert!(!text.contains("session_key") && text.contains("NtHash(..)"), "{text}");
}
