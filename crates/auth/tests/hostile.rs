//! Arbitrary and damaged bytes: no input causes a panic or a log-on.

use auth::ntlm::{self, AvPairs};
use auth::spnego;
use auth::{
    Acceptor, Account, Accounts, ClientIdentity, Config, Initiator, InitiatorStep, Names, NtHash, Step, Wrap,
};
use proptest::prelude::*;
use wire::Now;

fn config() -> Config {
    let name = || "BOX".to_owned();
    Config::new(Names {
        netbios_computer: name(),
        netbios_domain: name(),
        dns_computer: name(),
        dns_domain: String::new(),
    })
}

fn accounts() -> Accounts {
    let mut accounts = Accounts::default();
    let nt_hash = NtHash::from_password("pw");
    accounts.insert(Account { name: "alice".into(), nt_hash, second_hash: None, restriction: None });
    accounts
}

fn client(password: &str, wrap: Wrap) -> Initiator {
    Initiator::new(ClientIdentity::new("alice", "", NtHash::from_password(password), "cifs/box"), wrap)
}

fn wraps() -> impl Strategy<Value = Wrap> {
    prop_oneof![Just(Wrap::Spnego), Just(Wrap::Bare)]
}

/// Bytes that get further than noise: noise after the beginning of an NTLM message or of a token.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let beginnings: [&[u8]; 6] = [
        b"",
        b"NTLMSSP\0\x01\0\0\0",
        b"NTLMSSP\0\x02\0\0\0",
        b"NTLMSSP\0\x03\0\0\0",
        b"\x60\x48\x06\x06\x2b\x06\x01\x05\x05\x02\xa0\x3e\x30\x3c",
        b"\xa1\x81\x80\x30\x7d",
    ];
    (0..beginnings.len(), proptest::collection::vec(any::<u8>(), 0..300))
        .prop_map(move |(which, noise)| [beginnings[which], &noise].concat())
}

/// One way of damaging a token.
#[derive(Debug, Clone)]
enum Damage {
    Set(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, value)| Damage::Set(at, value)),
        any::<usize>().prop_map(Damage::Cut),
        (any::<usize>(), proptest::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
    ]
}

fn apply(token: &mut Vec<u8>, damage: &Damage) {
    if token.is_empty() {
        return;
    }
    match damage {
        Damage::Set(at, value) => {
            let at = at % token.len();
            token[at] = *value;
        }
        Damage::Cut(at) => token.truncate(at % token.len()),
        Damage::Insert(at, bytes) => {
            let at = at % token.len();
            token.splice(at..at, bytes.iter().copied());
        }
    }
}

proptest! {
    #[test]
    fn parsers_take_any_bytes(bytes in bytes()) {
        let _ = ntlm::parse_negotiate(&bytes);
        if let Ok(challenge) = ntlm::parse_challenge(&bytes) {
            let _ = AvPairs::parse(challenge.target_info).map(|pairs| pairs.iter().count());
        }
        if let Ok(authenticate) = ntlm::parse_authenticate(&bytes) {
            prop_assert!(authenticate.nt_response.len() <= bytes.len());
        }
        let _ = AvPairs::parse(&bytes).map(|pairs| (pairs.flags(), pairs.timestamp()));
        let _ = spnego::parse(&bytes);
    }

    #[test]
    fn an_acceptor_lets_no_noise_in(tokens in proptest::collection::vec(bytes(), 1..4), wrap in wraps()) {
        let accounts = accounts();
        let mut acceptor = Acceptor::new(&config());
        // The client's own first token gets a challenge. Noise must not be a valid response to it.
        let first = client("pw", wrap).first();
        prop_assert!(matches!(acceptor.step(&first, &accounts, Now::default()), Step::Continue(_)));
        for token in &tokens {
            let step = acceptor.step(token, &accounts, Now::default());
            // Without a user name, noise may be an anonymous log-on. That is reported and proves nothing.
            let proved = matches!(&step, Step::Done { login, .. } if !login.is_anonymous());
            prop_assert!(!proved, "{step:?}");
        }
    }

    #[test]
    fn noise_first_is_never_a_login(tokens in proptest::collection::vec(bytes(), 1..4)) {
        let accounts = accounts();
        let mut acceptor = Acceptor::new(&config());
        for token in &tokens {
            let step = acceptor.step(token, &accounts, Now::default());
            let proved = matches!(&step, Step::Done { login, .. } if !login.is_anonymous());
            prop_assert!(!proved, "{step:?}");
        }
    }

    #[test]
    fn a_damaged_login_with_a_wrong_password_fails(
        wrap in wraps(),
        turn in 0_usize..3,
        damages in proptest::collection::vec(damage(), 1..4),
    ) {
        let accounts = accounts();
        let mut initiator = client("wrong", wrap);
        let mut acceptor = Acceptor::new(&config());
        let mut token = initiator.first();
        for now in 0..4 {
            if now == turn {
                damages.iter().for_each(|damage| apply(&mut token, damage));
            }
            if now % 2 == 0 {
                match acceptor.step(&token, &accounts, Now::default()) {
                    Step::Continue(reply) => token = reply,
                    Step::Done { login, .. } => {
                        prop_assert!(login.is_anonymous(), "let in: {login:?}");
                        break;
                    }
                    Step::Refused(_) => break,
                }
            } else {
                match initiator.step(&token, Now::default()) {
                    InitiatorStep::Continue(next) => token = next,
                    _ => break,
                }
            }
        }
    }

    #[test]
    fn an_initiator_takes_any_bytes(tokens in proptest::collection::vec(bytes(), 1..4), wrap in wraps()) {
        let mut initiator = client("pw", wrap);
        for token in &tokens {
            let _ = initiator.step(token, Now::default());
        }
    }
}
