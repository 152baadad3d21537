//! A domain without a controller: it judges NTLM responses of its users by their passwords, as a controller
//! would (MS-NLMP 3.3.2).

use std::collections::HashMap;
use std::sync::Arc;

use auth::ntlm::message::utf16le;
use auth::ntlm::response::{nt_proof, ntowf_v2, session_base_key};
use auth::{
    DomainAccount, DomainLogon, KerberosTicket, Names, NetworkLogon, NtHash, PassThrough, PassThroughRefusal,
    PassThroughRefusalKind, fold_name,
};
use share::Identity;
use smb::{DomainMember, PrincipalRefusal, PrincipalResolver};
use volume::security::Sid;

/// The domain's NetBIOS name.
pub const DOMAIN: &str = "CORP";
/// The domain's SID.
pub const DOMAIN_SID: Sid = Sid::new(5, &[21, 7, 8, 9]);

/// The settings for log-ons of users of the domain, each with a password and a relative identifier.
pub fn domain_member(users: &[(&str, &str, u32)]) -> DomainMember {
    let of = |&(name, password, rid): &(&str, &str, u32)| {
        (name.to_owned(), (NtHash::from_password(password), rid))
    };
    DomainMember {
        names: Names {
            netbios_computer: "SERVER".to_owned(),
            netbios_domain: DOMAIN.to_owned(),
            dns_computer: "server.corp.example".to_owned(),
            dns_domain: "corp.example".to_owned(),
        },
        pass_through: Arc::new(TestDomain { users: users.iter().map(of).collect() }),
        resolver: Arc::new(TestAccounts),
    }
}

struct TestDomain {
    users: HashMap<String, (NtHash, u32)>,
}

impl PassThrough for TestDomain {
    fn covers(&self, user: &str, domain: &str) -> bool {
        let of = user.split_once('\\').map_or(domain, |(domain, _)| domain);
        fold_name(of) == fold_name(DOMAIN)
    }

    fn log_on(&self, logon: &NetworkLogon<'_>) -> Result<DomainLogon, PassThroughRefusal> {
        let refused =
            |kind| PassThroughRefusal { kind, why: "refused by the controller of the test".to_owned() };
        let name = logon.user.split_once('\\').map_or(logon.user, |(_, name)| name);
        if name == "silent" {
            return Err(refused(PassThroughRefusalKind::Unavailable));
        }
        let wrong = || refused(PassThroughRefusalKind::WrongCredentials);
        let (hash, rid) = self.users.get(name).ok_or_else(wrong)?;
        let (proof, blob) = logon.nt_response.split_at_checked(16).ok_or_else(wrong)?;
        let key = ntowf_v2(hash, &utf16le(logon.user), &utf16le(logon.domain));
        let expected = nt_proof(&key, &logon.challenge, blob);
        if expected.as_slice() != proof {
            return Err(wrong());
        }
        let account = DomainAccount {
            name: name.to_owned(),
            domain: DOMAIN.to_owned(),
            sid: DOMAIN_SID.child(*rid).expect("a short SID"),
            primary_group: DOMAIN_SID.child(513).expect("a short SID"),
            groups: Vec::new(),
        };
        Ok(DomainLogon { session_base_key: session_base_key(&key, &expected), account })
    }
}

struct TestAccounts;

impl PrincipalResolver for TestAccounts {
    fn resolve(&self, ticket: &KerberosTicket) -> Result<Arc<Identity>, PrincipalRefusal> {
        Err(PrincipalRefusal::Unknown(format!("`{}` has a ticket", ticket.principal)))
    }

    fn resolve_account(&self, account: &DomainAccount) -> Result<Arc<Identity>, PrincipalRefusal> {
        let DomainAccount { name, domain, sid, .. } = account;
        let uid = 100_000 + sid.subs().last().copied().unwrap_or_default();
        let of = super::user(name, "", uid).identity;
        Ok(Arc::new(Identity { name: format!("{domain}\\{name}"), sid: *sid, ..Identity::clone(&of) }))
    }
}
