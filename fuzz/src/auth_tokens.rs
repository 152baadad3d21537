//! The tokens of a log-on, in both directions.

use auth::ntlm::{parse_authenticate, parse_challenge, parse_negotiate};
use auth::{
    Acceptor, Account, Accounts, ClientIdentity, Config, Initiator, Names, NtHash, Step, Wrap,
    spnego as tokens,
};
use wire::Now;

fn accounts() -> Accounts {
    let mut accounts = Accounts::default();
    accounts.insert(Account {
        name: "anna".into(),
        nt_hash: NtHash::from_password("s3cret"),
        second_hash: None,
        disabled: false,
    });
    accounts
}

fn acceptor() -> Acceptor {
    Acceptor::new(&Config::new(Names {
        netbios_computer: "SERVER".into(),
        netbios_domain: "SERVER".into(),
        dns_computer: "server.example.net".into(),
        dns_domain: String::new(),
    }))
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

/// A SPNEGO token: for the parser, for a server before and after its challenge, and for a client.
pub fn spnego(data: &[u8]) {
    let _ = tokens::parse(data);
    assert!(is_kept_out(&mut acceptor(), data));
    let identity = ClientIdentity::new("anna", "", NtHash::from_password("s3cret"), "cifs/server");
    let mut initiator = Initiator::new(identity, Wrap::Spnego);
    let mut challenged = acceptor();
    assert!(is_kept_out(&mut challenged, &initiator.first()));
    assert!(is_kept_out(&mut challenged, data));
    let _ = initiator.step(data, Now::default());
}
