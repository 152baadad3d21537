//! The users of the domain by winbindd, Samba's daemon: it has a domain controller judge their NTLM
//! responses.
//!
//! Start with [`Winbind::log_on`]. `library` calls Samba's library.

#[allow(unsafe_code)]
mod library;

use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::{
    DomainAccount, DomainLogon, NetworkLogon, PassThroughRefusal, PassThroughRefusalKind as Kind, Zeroizing,
};
use volume::security::Sid;

use library::Library;
pub use library::NotInstalled;

use crate::bounded_calls::{BoundedCalls, CallFailure};

/// A response with the names that it covers, as winbindd takes it.
struct NetworkResponse {
    user: String,
    domain: String,
    workstation: String,
    challenge: [u8; 8],
    nt_response: Vec<u8>,
    parameter_control: u32,
}

/// An accepted account, as winbindd describes it.
struct AuthenticatedAccount {
    name: String,
    domain: String,
    session_key: Zeroizing<[u8; 16]>,
    user_flags: u32,
    account_flags: u32,
    /// The account's SID, that of its primary group, and those of its groups.
    sids: Vec<(Sid, u32)>,
}

/// The reason why winbindd accepts no response.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Failure {
    /// A name has a zero byte, or a response is too long.
    Name,
    /// winbindd was not asked, or has not answered in time.
    NoAnswer(CallFailure),
    /// Nobody listens on winbindd's socket, or this process may not use it.
    NotRunning,
    /// winbindd does not know the domain.
    NoDomain,
    /// The domain controller refuses the response with this NTSTATUS.
    Refused { status: u32, name: String },
    /// The answer makes no sense.
    Malformed,
    /// The library has failed with this wbcErr.
    Other(i32),
}

/// MSV1_0_ALLOW_SERVER_TRUST_ACCOUNT and MSV1_0_ALLOW_WORKSTATION_TRUST_ACCOUNT: machines may log on as users
/// may (MS-NRPC 2.2.1.4.15).
const ALLOW_MACHINES: u32 = 0x20 | 0x800;
/// LOGON_GUEST of UserFlags (MS-NRPC 2.2.1.4.13): the account is the guest, who has proved nothing.
const LOGON_GUEST: u32 = 1;
/// WBC_ACB_DISABLED
const ACCOUNT_DISABLED: u32 = 1;

/// The longest wait for winbindd. Its library itself waits for five minutes.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The most calls at a time, with those that nobody waits for any more.
const MOST_CALLS: usize = 16;
/// The most calls at a time for clients of one address, so that none keeps all others from logging on.
const MOST_CALLS_OF_ONE: usize = MOST_CALLS / 2;

/// winbindd of this host.
#[derive(Clone)]
pub struct Winbind {
    library: Arc<Library>,
    calls: BoundedCalls,
}

impl Winbind {
    /// Loads Samba's library. It does not look whether winbindd runs.
    ///
    /// # Errors
    /// [`NotInstalled`].
    pub fn load() -> Result<Winbind, NotInstalled> {
        let calls = BoundedCalls::new("trunkline-ntlm", MOST_CALLS, MOST_CALLS_OF_ONE);
        Ok(Winbind { library: Arc::new(Library::load()?), calls })
    }

    /// Has a domain controller judge a response. It blocks until winbindd answers, for ten seconds at most.
    ///
    /// # Errors
    /// The reason why the user is refused.
    pub fn log_on(&self, logon: &NetworkLogon<'_>) -> Result<DomainLogon, PassThroughRefusal> {
        let NetworkLogon { user, domain, workstation, challenge, nt_response } = *logon;
        let asked = NetworkResponse {
            user: user.to_owned(),
            domain: domain.to_owned(),
            workstation: workstation.to_owned(),
            challenge,
            nt_response: nt_response.to_vec(),
            parameter_control: ALLOW_MACHINES,
        };
        self.authenticate(asked).map_err(refusal).and_then(accepted)
    }

    fn authenticate(&self, asked: NetworkResponse) -> Result<AuthenticatedAccount, Failure> {
        let library = Arc::clone(&self.library);
        let answer = self.calls.run(Instant::now() + ANSWER_LIMIT, move || library.authenticate(&asked));
        answer.map_err(Failure::NoAnswer)?
    }
}

/// The log-on of an accepted account.
fn accepted(by: AuthenticatedAccount) -> Result<DomainLogon, PassThroughRefusal> {
    let refused = |kind, why: &str| Err(PassThroughRefusal { kind, why: why.to_owned() });
    if by.user_flags & LOGON_GUEST != 0 {
        return refused(Kind::WrongCredentials, "the domain lets the user in as a guest only");
    }
    if by.account_flags & ACCOUNT_DISABLED != 0 {
        return refused(Kind::Disabled, "the account is disabled in the domain");
    }
    // A key of zeros would sign with a key that everybody knows.
    if *by.session_key == [0; 16] {
        return refused(Kind::Unavailable, "winbindd has given no session key");
    }
    let [(sid, _), (primary_group, _), groups @ ..] = &by.sids[..] else {
        return refused(Kind::Unavailable, "winbindd has named no groups of the user");
    };
    let account = DomainAccount {
        name: by.name,
        domain: by.domain,
        sid: *sid,
        primary_group: *primary_group,
        groups: groups.to_vec(),
    };
    Ok(DomainLogon { session_base_key: by.session_key, account })
}

/// The refusal for a failure.
fn refusal(failure: Failure) -> PassThroughRefusal {
    let (kind, why) = match failure {
        Failure::Refused { status, name } => (kind_of(status), format!("the domain answers {name}")),
        Failure::Name => (Kind::WrongCredentials, "the user's name cannot be passed on".to_owned()),
        Failure::NotRunning => (
            Kind::Unavailable,
            "winbindd does not answer: start it (`systemctl start winbind`), or, if this server does not run \
             as root, add its user to the group `winbindd_priv`"
                .to_owned(),
        ),
        Failure::NoAnswer(CallFailure::Late) => {
            (Kind::Unavailable, "winbindd has not answered within 10 s: look at `wbinfo -t`".to_owned())
        }
        Failure::NoAnswer(CallFailure::Busy) => (
            Kind::Unavailable,
            format!("{MOST_CALLS} log-ons wait for winbindd already: look at `wbinfo -t`"),
        ),
        Failure::NoAnswer(CallFailure::BusyForAddress) => (
            Kind::Unavailable,
            format!("{MOST_CALLS_OF_ONE} log-ons from this address wait for winbindd already"),
        ),
        Failure::NoDomain => {
            (Kind::Unavailable, "winbindd does not know the domain: look at `wbinfo -m`".to_owned())
        }
        Failure::Malformed => {
            (Kind::Unavailable, "winbindd's answer lacks the user's identifiers".to_owned())
        }
        Failure::Other(status) => {
            (Kind::Unavailable, format!("winbindd has failed (wbcErr {status}): look at `wbinfo -t`"))
        }
    };
    PassThroughRefusal { kind, why }
}

/// The kind of a domain controller's refusal, by its NTSTATUS (MS-ERREF 2.3.1).
fn kind_of(status: u32) -> Kind {
    match status {
        // STATUS_ACCOUNT_DISABLED
        0xC000_0072 => Kind::Disabled,
        // STATUS_ACCOUNT_LOCKED_OUT
        0xC000_0234 => Kind::LockedOut,
        // STATUS_PASSWORD_EXPIRED, STATUS_PASSWORD_MUST_CHANGE
        0xC000_0071 | 0xC000_0224 => Kind::PasswordExpired,
        // STATUS_ACCOUNT_RESTRICTION, STATUS_INVALID_LOGON_HOURS, STATUS_INVALID_WORKSTATION,
        // STATUS_LOGON_TYPE_NOT_GRANTED, STATUS_ACCOUNT_EXPIRED, STATUS_AUTHENTICATION_FIREWALL_FAILED,
        // STATUS_NTLM_BLOCKED
        0xC000_006E | 0xC000_006F | 0xC000_0070 | 0xC000_015B | 0xC000_0193 | 0xC000_0413 | 0xC000_0418 => {
            Kind::Restricted
        }
        // STATUS_NO_SUCH_USER, STATUS_WRONG_PASSWORD, STATUS_LOGON_FAILURE
        0xC000_0064 | 0xC000_006A | 0xC000_006D => Kind::WrongCredentials,
        _ => Kind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(sids: &[&str]) -> AuthenticatedAccount {
        AuthenticatedAccount {
            name: "bob".to_owned(),
            domain: "CORP".to_owned(),
            session_key: Zeroizing::new([7; 16]),
            user_flags: 0x120,
            account_flags: 0x10,
            sids: sids.iter().map(|sid| (sid.parse().unwrap(), 7)).collect(),
        }
    }

    const SIDS: [&str; 3] = ["S-1-5-21-1-2-3-1104", "S-1-5-21-1-2-3-513", "S-1-5-21-1-2-3-1105"];

    #[test]
    fn the_first_sid_is_the_user_and_the_second_the_primary_group() {
        let logon = accepted(account(&SIDS)).unwrap();
        assert_eq!((logon.account.sid, logon.account.primary_group), {
            (SIDS[0].parse().unwrap(), SIDS[1].parse().unwrap())
        });
        assert_eq!(logon.account.groups, [(SIDS[2].parse().unwrap(), 7)]);
        assert_eq!(*logon.session_base_key, [7; 16]);
    }

    #[test]
    fn a_guest_a_disabled_account_and_an_answer_without_key_or_groups_are_refused() {
        let kind = |account| accepted(account).unwrap_err().kind;
        assert_eq!(kind(AuthenticatedAccount { user_flags: 1, ..account(&SIDS) }), Kind::WrongCredentials);
        assert_eq!(kind(AuthenticatedAccount { account_flags: 0x11, ..account(&SIDS) }), Kind::Disabled);
        let session_key = Zeroizing::new([0; 16]);
        assert_eq!(kind(AuthenticatedAccount { session_key, ..account(&SIDS) }), Kind::Unavailable);
        assert_eq!(kind(account(&SIDS[..1])), Kind::Unavailable);
    }

    #[test]
    fn each_failure_has_its_kind_and_names_the_next_step() {
        let refused = |status| refusal(Failure::Refused { status, name: "NT_STATUS_X".to_owned() }).kind;
        assert_eq!(refused(0xC000_006D), Kind::WrongCredentials);
        assert_eq!(refused(0xC000_0234), Kind::LockedOut);
        assert_eq!(refused(0xC000_0224), Kind::PasswordExpired);
        assert_eq!(refused(0xC000_006F), Kind::Restricted);
        // STATUS_NO_LOGON_SERVERS
        assert_eq!(refused(0xC000_005E), Kind::Unavailable);
        for failure in [CallFailure::Busy, CallFailure::BusyForAddress, CallFailure::Late] {
            assert_eq!(refusal(Failure::NoAnswer(failure)).kind, Kind::Unavailable);
        }
        assert!(refusal(Failure::NotRunning).why.contains("winbindd_priv"));
        assert!(refusal(Failure::NoDomain).why.contains("wbinfo -m"));
    }
}
