//! NTLM for users of the domain: winbindd has a domain controller judge their responses.
//!
//! Start with [`configure`].

use std::sync::Arc;

use ::identity::Domain;
use ::identity::winbind::Winbind;
use auth::{DomainLogon, Names, NetworkLogon, PassThrough, PassThroughRefusal, PassThroughRefusalKind};
use smb::{DomainMember, PrincipalResolver};

use super::domain_users::DomainIds;
use crate::config::Config;
use crate::config::values::Ntlm;

/// The settings of NTLM for users of the domain, or `None` if they may not log on with it, or if the realm is
/// no domain of Active Directory.
pub fn configure(
    config: &Config,
    resolver: Arc<dyn PrincipalResolver>,
    ids: Option<DomainIds>,
) -> Option<DomainMember> {
    let (domain, server) = (&config.domain, &config.server);
    let realm = &domain.realm.as_ref()?.value;
    let netbios_name = domain.netbios_name.as_ref().map(|name| name.value.to_uppercase())?;
    if domain.ntlm.value != Ntlm::On {
        return None;
    }
    let winbind = Winbind::load().map_err(|why| why.to_string());
    let names = Names {
        netbios_computer: server.netbios_name.value.clone(),
        netbios_domain: netbios_name.clone(),
        dns_computer: server.name.value.clone(),
        dns_domain: realm.to_lowercase(),
    };
    let trusted =
        domain.trusted.value.iter().map(|one| Domain::new(&one.realm, Some(&one.netbios))).collect();
    let domain = Domain::new(realm, Some(&netbios_name));
    let pass_through = Arc::new(DomainPassThrough { winbind, domain, trusted, ids });
    Some(DomainMember { names, pass_through, resolver })
}

/// The way to the domain's controllers.
struct DomainPassThrough {
    /// winbindd, or the reason why it cannot be asked.
    winbind: Result<Winbind, String>,
    domain: Domain,
    /// The trusted domains. Their users are told what works for them.
    trusted: Vec<Domain>,
    /// The users of the domain, whose principal names may have further suffixes.
    ids: Option<DomainIds>,
}

/// The name of a user's domain, by the names that the client has sent.
fn domain_of<'n>(user: &'n str, domain: &'n str) -> &'n str {
    match (user.rsplit_once('@'), user.split_once('\\')) {
        (Some((_, suffix)), _) => suffix,
        (None, Some((domain, _))) => domain,
        (None, None) => domain,
    }
}

impl DomainPassThrough {
    /// The trusted domain of a user.
    fn trusted_domain_of(&self, user: &str, domain: &str) -> Option<&Domain> {
        let name = domain_of(user, domain);
        self.trusted.iter().find(|one| one.is_named(name))
    }
}

impl PassThrough for DomainPassThrough {
    fn covers(&self, user: &str, domain: &str) -> bool {
        let name = domain_of(user, domain);
        let is_listed = |ids: &DomainIds| user.contains('@') && ids.resolver().is_known_suffix(name);
        self.domain.is_named(name)
            || self.trusted_domain_of(user, domain).is_some()
            || self.ids.as_ref().is_some_and(is_listed)
    }

    fn log_on(&self, logon: &NetworkLogon<'_>) -> Result<DomainLogon, PassThroughRefusal> {
        // winbindd could have a controller of the other domain judge. But its answer comes with SIDs that
        // only a ticket's PAC shows to be that domain's.
        if let Some(trusted) = self.trusted_domain_of(logon.user, logon.domain) {
            let why = format!(
                "users of the trusted domain {} log on with Kerberos alone: let them call the server by its \
                 name, and look at their tickets with `klist`. NTLM is for users of {} and of this server",
                trusted.realm, self.domain.realm
            );
            return Err(PassThroughRefusal { kind: PassThroughRefusalKind::Unavailable, why });
        }
        let told = |why: &str| {
            format!(
                "{why}. Users of {} can log on with Kerberos if they call the server by its name; \
                 `ntlm = \"local\"` in `[domain]` keeps NTLM to local users",
                self.domain.realm
            )
        };
        let winbind = self.winbind.as_ref().map_err(|why| PassThroughRefusal {
            kind: PassThroughRefusalKind::Unavailable,
            why: told(why),
        })?;
        winbind.log_on(logon).map_err(|refusal| match refusal.kind {
            PassThroughRefusalKind::Unavailable => PassThroughRefusal { why: told(&refusal.why), ..refusal },
            _ => refusal,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass_through() -> DomainPassThrough {
        DomainPassThrough {
            winbind: Err("no library".to_owned()),
            domain: Domain::new("CORP.EXAMPLE", Some("CORP")),
            trusted: vec![Domain::new("LAB.EXAMPLE", Some("LAB"))],
            ids: None,
        }
    }

    #[test]
    fn a_user_is_of_the_domain_by_either_form_of_its_name() {
        let covers = |user, domain| pass_through().covers(user, domain);
        for (user, domain) in [
            ("bob", "CORP"),
            ("bob", "corp"),
            ("bob", "corp.example"),
            ("bob@corp.example", ""),
            ("bob@CORP.EXAMPLE", "OTHER"),
            ("Corp\\bob", ""),
        ] {
            assert!(covers(user, domain), "{user} {domain}");
        }
        for (user, domain) in
            [("bob", ""), ("bob", "FILES"), ("bob@other.example", "CORP"), ("x\\bob", "CORP")]
        {
            assert!(!covers(user, domain), "{user} {domain}");
        }
    }

    fn logon<'a>(user: &'a str, domain: &'a str) -> NetworkLogon<'a> {
        NetworkLogon { user, domain, workstation: "", challenge: [0; 8], nt_response: &[] }
    }

    #[test]
    fn a_user_of_a_trusted_domain_is_told_that_tickets_work() {
        for (user, domain) in [("eve", "lab"), ("eve@LAB.example", "CORP"), ("LAB\\eve", "")] {
            assert!(pass_through().covers(user, domain), "{user} {domain}");
            let refusal = pass_through().log_on(&logon(user, domain)).unwrap_err();
            assert_eq!(refusal.kind, PassThroughRefusalKind::Unavailable);
            assert!(refusal.why.contains("LAB.EXAMPLE log on with Kerberos alone"), "{refusal}");
        }
    }

    #[test]
    fn without_winbindd_the_refusal_says_what_else_there_is() {
        let refusal = pass_through().log_on(&logon("bob", "CORP")).unwrap_err();
        assert_eq!(refusal.kind, PassThroughRefusalKind::Unavailable);
        assert!(refusal.why.contains("no library") && refusal.why.contains("Kerberos"), "{refusal}");
    }
}
