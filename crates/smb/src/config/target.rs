//! Checks that a log-on is meant for this server (MS-NLMP 3.2.5.1.2), so that no host can relay a client's
//! log-on to another server.
//!
//! A client names its service in the part of the response that its proof covers. That name is compared with
//! the names of this server. SMB has no TLS channel, so a response that is bound to one was meant for
//! another service.

use std::net::IpAddr;

use auth::Target;

use crate::config::{ServerConfig, same_name};

/// The requirement on the service name in a log-on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spn {
    /// The name is not checked.
    Off,
    /// A given name must be one of this server's.
    #[default]
    Accepted,
    /// A name is required, and it must be one of this server's.
    Required,
}

/// The rule that checks a log-on against the names of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TargetRule {
    /// The requirement on the service name.
    pub spn: Spn,
    /// Names of the server besides its addresses.
    pub names: Vec<String>,
    /// Names that the server has in its Kerberos realm. A reload may change them.
    pub realm_names: Vec<String>,
    /// Whether these are all names. If not, an unknown name is allowed. It may be one that only clients
    /// know, such as a DNS alias or the address of a container's host.
    pub is_complete: bool,
    /// Whether the server belongs to a realm or a domain.
    pub has_realm: bool,
}

impl TargetRule {
    /// The setting for a further name of the server.
    pub(crate) fn setting(&self) -> &'static str {
        if self.has_realm { "`names` in `[domain]`" } else { "`spn_names` in `[server]`" }
    }
}

/// The result of the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The log-on is allowed.
    Fine,
    /// The log-on is allowed with this unknown name.
    Unknown(String),
    /// The log-on is refused: it is meant for another service.
    Refused(String),
}

/// The service classes that SMB clients use. Windows takes `host` for all services of a machine.
const CLASSES: [&str; 2] = ["cifs", "host"];

/// The greatest difference between the time of a response and the server's time, in seconds:
/// MSV1_0_MAX_NTLM3_LIFE of Windows.
// MS-NLMP 3.1.1.1 MaxLifetime
pub const MAX_LIFETIME_S: u64 = 1800;

/// The most characters of a name in a message.
const SHOWN: usize = 128;

impl ServerConfig {
    /// Checks a log-on for `target` over a connection to the address `local` of a server with the addresses
    /// `own`.
    pub(crate) fn judge_target(
        &self,
        target: &Target,
        local: IpAddr,
        mut own: impl Iterator<Item = IpAddr>,
    ) -> Verdict {
        let rule = &self.target;
        if rule.spn == Spn::Off {
            return Verdict::Fine;
        }
        let refused = |why: String| Verdict::Refused(why);
        if let Some(apart) = target.apart_s.filter(|&apart| apart > MAX_LIFETIME_S) {
            return refused(format!("the response is {apart} s away from now"));
        }
        if target.is_channel_bound {
            return refused("the response is bound to a TLS channel, and this is none".to_owned());
        }
        let is_required = rule.spn == Spn::Required;
        let Some(service) = &target.service else {
            let why = "the client does not say which server it means, and `spn` requires it";
            return if is_required { refused(why.to_owned()) } else { Verdict::Fine };
        };
        let shown: String = service.chars().take(SHOWN).collect();
        let (class, host) = split(service);
        if class.is_some_and(|class| !CLASSES.iter().any(|known| known.eq_ignore_ascii_case(class))) {
            return refused(format!("the response is meant for the service `{shown}`"));
        }
        let is_own = match address(host) {
            Some(at) => {
                let is_told = |name: &String| address(name) == Some(at);
                at == local.to_canonical()
                    || own.any(|own| own.to_canonical() == at)
                    || rule.names.iter().chain(&rule.realm_names).any(is_told)
            }
            None => self.is_called(host, local),
        };
        match is_own {
            // MS-NLMP 3.2.5.1.2: an unverified name counts as none.
            true if target.is_unverified && is_required => refused(
                "the client does not vouch for the server that it names, and `spn` requires it".to_owned(),
            ),
            true => Verdict::Fine,
            false if rule.is_complete || is_required => refused(format!(
                "the response is meant for `{shown}`, which is none of this server's names; \
                 if it is one, add it to {}",
                rule.setting()
            )),
            false => Verdict::Unknown(shown),
        }
    }

    fn is_called(&self, host: &str, local: IpAddr) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let TargetRule { names, realm_names, .. } = &self.target;
        let own = [&self.name, &self.dns_name].into_iter().chain(names).chain(realm_names);
        own.chain(self.accounts.iter().map(|account| &account.name)).any(|name| same_name(name, host))
            || local.to_canonical().is_loopback() && same_name(host, "localhost")
    }
}

/// The service class, if there is one, and the host without port, instance and realm.
fn split(service: &str) -> (Option<&str>, &str) {
    let (class, rest) = match service.split_once('/') {
        Some((class, rest)) => (Some(class), rest),
        None => (None, service),
    };
    let host = rest.split(['/', '@']).next().unwrap_or_default();
    if let Some((inner, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (class, inner);
    }
    // A host with more than one colon is an IPv6 address.
    match host.split_once(':') {
        Some((name, port)) if !port.contains(':') => (class, name),
        _ => (class, host),
    }
}

/// The address of a host that is named by its address. Windows has a form of IPv6 addresses that is a host
/// name.
fn address(host: &str) -> Option<IpAddr> {
    const LITERAL: &str = ".ipv6-literal.net";
    let cut = host.len().checked_sub(LITERAL.len()).filter(|&at| host.is_char_boundary(at));
    let literal = cut.map(|at| host.split_at(at)).filter(|(_, end)| end.eq_ignore_ascii_case(LITERAL));
    let text = literal.map_or(host.to_owned(), |(start, _)| start.replace('-', ":").replace(['s', 'S'], "%"));
    text.split('%').next()?.parse::<IpAddr>().ok().map(|at| at.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(service: &str) -> Target {
        Target { service: Some(service.to_owned()), ..Target::default() }
    }

    fn judge(rule: TargetRule, target: &Target) -> Verdict {
        let mut config = crate::config::account::tests::server(true, Vec::new());
        (config.name, config.dns_name) = ("BOX".to_owned(), "box.example.net".to_owned());
        config.target = rule;
        let own = ["192.0.2.1", "2001:db8::1"].map(|at| at.parse().unwrap());
        config.judge_target(target, "::ffff:198.51.100.1".parse().unwrap(), own.into_iter())
    }

    fn rule(spn: Spn, is_complete: bool) -> TargetRule {
        let names = ["files.lan", "203.0.113.9"].map(str::to_owned).to_vec();
        TargetRule { spn, names, realm_names: vec!["old.lan".to_owned()], is_complete, has_realm: false }
    }

    #[test]
    fn the_setting_for_further_names_is_that_of_the_domain_if_there_is_one() {
        let refused = |has_realm| {
            let rule = TargetRule { has_realm, ..rule(Spn::Accepted, true) };
            match judge(rule, &meant("cifs/alias.example.net")) {
                Verdict::Refused(why) => why,
                other => panic!("{other:?}"),
            }
        };
        assert!(refused(true).ends_with("add it to `names` in `[domain]`"), "{}", refused(true));
        assert!(refused(false).ends_with("add it to `spn_names` in `[server]`"), "{}", refused(false));
    }

    #[test]
    fn the_servers_names_and_addresses_are_taken_in_every_form() {
        for name in [
            "cifs/box",
            "CIFS/BOX.example.net.",
            "host/files.lan",
            "box",
            "cifs/box:445",
            "cifs/box/realm",
            "cifs/box@EXAMPLE.NET",
            "cifs/192.0.2.1",
            "cifs/198.51.100.1",
            "cifs/203.0.113.9",
            "cifs/OLD.lan",
            "cifs/198.51.100.1:445",
            "cifs/2001:db8::1",
            "cifs/[2001:DB8::1]:445",
            "cifs/2001-db8--1.ipv6-literal.net",
            "cifs/2001-db8--1s4.IPv6-Literal.net",
        ] {
            assert_eq!(judge(rule(Spn::Required, true), &meant(name)), Verdict::Fine, "{name}");
        }
        let long = "cifs/".to_owned() + &"\u{e9}".repeat(4000);
        assert!(matches!(judge(rule(Spn::Accepted, true), &meant(&long)), Verdict::Refused(_)));
    }

    #[test]
    fn a_machine_account_of_the_server_is_the_server() {
        let mut own = rule(Spn::Required, true);
        assert!(matches!(judge(own.clone(), &meant("FILES$@EXAMPLE.NET")), Verdict::Refused(_)));
        own.names.push("FILES$".to_owned());
        assert_eq!(judge(own.clone(), &meant("FILES$@EXAMPLE.NET")), Verdict::Fine);
        assert!(matches!(judge(own, &meant("OTHER$@EXAMPLE.NET")), Verdict::Refused(_)));
    }

    #[test]
    fn an_unknown_name_is_let_in_only_where_there_may_be_more_names() {
        for name in ["cifs/other", "cifs/192.0.2.2", "cifs/localhost", "cifs/"] {
            let target = meant(name);
            assert_eq!(judge(rule(Spn::Accepted, false), &target), Verdict::Unknown(name.to_owned()));
            for rule in [rule(Spn::Accepted, true), rule(Spn::Required, false)] {
                assert!(matches!(judge(rule, &target), Verdict::Refused(_)), "{name}");
            }
            assert_eq!(judge(rule(Spn::Off, true), &target), Verdict::Fine);
        }
        let web = judge(rule(Spn::Accepted, false), &meant("HTTP/box"));
        assert_eq!(web, Verdict::Refused("the response is meant for the service `HTTP/box`".to_owned()));
    }

    #[test]
    fn what_is_not_said_counts_only_where_it_is_required() {
        let unverified = Target { is_unverified: true, ..meant("cifs/box") };
        for target in [Target::default(), unverified] {
            assert_eq!(judge(rule(Spn::Accepted, true), &target), Verdict::Fine);
            assert!(matches!(judge(rule(Spn::Required, true), &target), Verdict::Refused(_)));
        }
    }

    #[test]
    fn a_bound_or_an_old_response_is_for_something_else() {
        let bound = Target { is_channel_bound: true, ..meant("cifs/box") };
        let old = Target { apart_s: Some(MAX_LIFETIME_S + 1), ..meant("cifs/box") };
        for target in [&bound, &old] {
            assert!(matches!(judge(rule(Spn::Accepted, false), target), Verdict::Refused(_)));
            assert_eq!(judge(rule(Spn::Off, false), target), Verdict::Fine);
        }
        let late = Target { apart_s: Some(MAX_LIFETIME_S), ..meant("cifs/box") };
        assert_eq!(judge(rule(Spn::Accepted, true), &late), Verdict::Fine);
    }
}
