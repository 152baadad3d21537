//! The tokens of a log-on, in both directions.

use auth::ntlm::{parse_authenticate, parse_challenge, parse_negotiate};
use auth::{
    Acceptor, Account, Accounts, ClientIdentity, Config, Initiator, Names, NtHash, Step, Wrap,
    spnego as tokens,
};
use kerberos::pac::{LocalDomains, Pac};
use volume::security::Sid;
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
