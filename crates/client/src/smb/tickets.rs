//! Kerberos tickets for log-ons, by MIT's library: from the user's credential cache or from a keytab.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use auth::{TicketContext, TicketFailure, TicketFailureKind, TicketStep, Tickets};
use kerberos::{Cause, GssError, Initiated, InitiatorContext, InitiatorCredentials, Library, TicketSource};

use crate::smb::Credentials;

/// The options of commands that log on with tickets.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct TicketArgs {
    /// With smb://: log on with a Kerberos ticket instead of a password; its user counts, not USER
    // The commands all have this option, and none takes a password for a ticket.
    #[arg(long, conflicts_with = "password_file")]
    pub kerberos: bool,
    /// With --kerberos: the credential cache [default: the variable KRB5CCNAME, else that of `krb5.conf`]
    #[arg(long, value_name = "FILE", requires = "kerberos", conflicts_with = "keytab")]
    pub ccache: Option<PathBuf>,
    /// With --kerberos: get tickets with the keys in this file, again before they end
    #[arg(long, value_name = "FILE", requires = "kerberos", requires = "principal")]
    pub keytab: Option<PathBuf>,
    /// With --keytab: its principal, such as backup@EXAMPLE.NET
    #[arg(long, value_name = "NAME", requires = "keytab")]
    pub principal: Option<String>,
}

impl TicketArgs {
    /// The credentials that the options select, or `None` for a password.
    #[must_use]
    pub fn credentials(&self) -> Option<Credentials> {
        let source = match (&self.ccache, &self.keytab) {
            _ if !self.kerberos => return None,
            (Some(cache), _) => TicketSource::Cache(named_cache(cache.to_string_lossy().into_owned())),
            (None, Some(keytab)) => TicketSource::Keytab {
                keytab: keytab.clone(),
                principal: self.principal.clone().unwrap_or_default(),
            },
            (None, None) => TicketSource::Default,
        };
        Some(Credentials::of_tickets(Arc::new(LibraryTickets { source })))
    }
}

/// A path is a cache of the type `FILE`. Any other type is in front of the name, as in `KEYRING:session`.
fn named_cache(name: String) -> String {
    let has_type = name.split_once(':').is_some_and(|(kind, _)| kind.bytes().all(|b| b.is_ascii_uppercase()));
    if has_type { name } else { format!("FILE:{name}") }
}

/// The tickets of a source, by the library of this host. Each log-on reads the source anew, so a ticket that
/// was renewed counts at once.
#[derive(Debug)]
pub struct LibraryTickets {
    source: TicketSource,
}

impl Tickets for LibraryTickets {
    fn context(&self, host: &str) -> Result<Box<dyn TicketContext>, TicketFailure> {
        let library = Library::load().map_err(|why| TicketFailure {
            kind: TicketFailureKind::NoLibrary,
            why: format!("no log-on with a ticket: {why}"),
        })?;
        let failed = |why: GssError| failure(&why, host, &self.source);
        let credentials = Arc::new(InitiatorCredentials::new(&library, &self.source).map_err(failed)?);
        let context = InitiatorContext::new(&credentials, SERVICE, host).map_err(failed)?;
        Ok(Box::new(LibraryContext { context, host: host.to_owned(), source: self.source.clone() }))
    }
}

/// The service of SMB servers.
const SERVICE: &str = "cifs";

struct LibraryContext {
    context: InitiatorContext,
    host: String,
    source: TicketSource,
}

impl LibraryContext {
    fn failure(&self, why: &GssError) -> TicketFailure {
        failure(why, &self.host, &self.source)
    }
}

impl TicketContext for LibraryContext {
    fn step(&mut self, token: Option<&[u8]>) -> Result<TicketStep, TicketFailure> {
        match self.context.step(token).map_err(|why| self.failure(&why))? {
            Initiated::Continue(token) => Ok(TicketStep::Continue(token)),
            Initiated::Done { token, .. } => {
                let (session_key, _) = self.context.session_key().map_err(|why| self.failure(&why))?;
                Ok(TicketStep::Done { token, session_key })
            }
        }
    }

    fn get_mic(&mut self, message: &[u8]) -> Result<Vec<u8>, TicketFailure> {
        self.context.get_mic(message).map_err(|why| self.failure(&why))
    }

    fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> bool {
        self.context.verify_mic(message, mic).is_ok()
    }
}

impl fmt::Debug for LibraryContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LibraryContext").field("host", &self.host).finish_non_exhaustive()
    }
}

/// The reason why there is no log-on to `host`.
fn failure(why: &GssError, host: &str, source: &TicketSource) -> TicketFailure {
    let (kind, advice) = advice(why.cause(), host, source);
    let why = advice.map_or_else(|| why.to_string(), |advice| format!("{advice} ({})", why.details()));
    TicketFailure { kind, why }
}

/// The kind of a failure, and what to do if that depends on the server or on the source of tickets.
fn advice(cause: Cause, host: &str, source: &TicketSource) -> (TicketFailureKind, Option<String>) {
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let kind = match cause {
        // Tickets are for names. A KDC knows an address only if somebody has added it as a name.
        Cause::UnknownService | Cause::Unreachable if is_address => TicketFailureKind::AddressForName,
        Cause::UnknownService => TicketFailureKind::UnknownService,
        Cause::NoCredentials | Cause::Expired | Cause::NoKeytab => TicketFailureKind::NoTicket,
        Cause::UnknownClient | Cause::WrongPassword => TicketFailureKind::NoTicket,
        Cause::Unreachable => TicketFailureKind::NoKdc,
        Cause::Skew | Cause::NotYetValid => TicketFailureKind::ClockSkew,
        _ => TicketFailureKind::Other,
    };
    let advice = match kind {
        TicketFailureKind::AddressForName => format!(
            "there is no ticket for an address: call the server by its name instead of {host}; or add the \
             service `{SERVICE}/{host}` to the realm"
        ),
        TicketFailureKind::UnknownService => format!(
            "the realm does not know the service `{SERVICE}/{host}`: call the server by the name with which \
             it joined, or add this one: in a domain with `setspn -S {SERVICE}/{host} COMPUTER`, in an MIT \
             realm with `kadmin -q \"addprinc -randkey {SERVICE}/{host}\"` and `ktadd`"
        ),
        TicketFailureKind::NoTicket => no_ticket(cause, source),
        _ => return (kind, None),
    };
    (kind, Some(advice))
}

/// The way to a ticket of a source.
fn no_ticket(cause: Cause, source: &TicketSource) -> String {
    let (option, shown) = match source {
        TicketSource::Keytab { keytab, principal } => {
            let keytab = keytab.display();
            return match cause {
                Cause::UnknownClient => format!(
                    "the realm has no user {principal}: correct `--principal`; `klist -k {keytab}` lists \
                     whose keys the file has"
                ),
                Cause::WrongPassword => format!(
                    "the realm refuses the key of {principal} in {keytab}: it is older than the password; \
                     make a new one with `ktadd`"
                ),
                Cause::Expired => format!("the ticket of {principal} has ended, and there was no new one"),
                _ => format!(
                    "{keytab} has no key of {principal}, or cannot be read: correct `--keytab` or \
                     `--principal`; `klist -k {keytab}` lists whose keys it has"
                ),
            };
        }
        TicketSource::Cache(cache) => (format!(" -c {cache}"), format!("the credential cache {cache}")),
        TicketSource::Default => (String::new(), "the credential cache of this user".to_owned()),
    };
    match cause {
        Cause::Expired => format!("the ticket in {shown} has ended: get one with `kinit{option}`"),
        _ => format!(
            "there is no ticket in {shown}: get one with `kinit{option} USER@REALM`, or name another cache \
             with `--ccache`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_a_path_or_has_its_type_in_front() {
        assert_eq!(named_cache("/tmp/krb5cc_0".to_owned()), "FILE:/tmp/krb5cc_0");
        assert_eq!(named_cache("rel:ative".to_owned()), "FILE:rel:ative");
        assert_eq!(named_cache("KEYRING:session:x".to_owned()), "KEYRING:session:x");
    }

    #[test]
    fn options_select_the_source() {
        let mut args = TicketArgs::default();
        assert!(args.credentials().is_none());
        args.kerberos = true;
        let said = |args: &TicketArgs| format!("{:?}", args.credentials().unwrap());
        assert!(said(&args).contains("Default"), "{}", said(&args));
        args.keytab = Some("/k".into());
        args.principal = Some("backup@EXAMPLE.NET".to_owned());
        assert!(said(&args).contains("backup@EXAMPLE.NET"), "{}", said(&args));
    }

    #[test]
    fn a_missing_ticket_is_told_with_the_command_that_gets_one() {
        let keytab = TicketSource::Keytab { keytab: "/k".into(), principal: "backup@EXAMPLE.NET".to_owned() };
        let cache = TicketSource::Cache("FILE:/c".to_owned());
        let said = |cause, source| {
            let (kind, text) = advice(cause, "files.example.net", source);
            assert_eq!(kind, TicketFailureKind::NoTicket, "{cause:?}");
            text.unwrap()
        };
        for (cause, source, words) in [
            (Cause::NoCredentials, &TicketSource::Default, "get one with `kinit USER@REALM`"),
            (Cause::NoCredentials, &cache, "get one with `kinit -c FILE:/c USER@REALM`"),
            (Cause::Expired, &TicketSource::Default, "has ended: get one with `kinit`"),
            (Cause::NoKeytab, &keytab, "/k has no key of backup@EXAMPLE.NET"),
            (Cause::UnknownClient, &keytab, "the realm has no user backup@EXAMPLE.NET"),
            (Cause::WrongPassword, &keytab, "older than the password"),
        ] {
            assert!(said(cause, source).contains(words), "{}", said(cause, source));
        }
        let kind = |cause, host| advice(cause, host, &TicketSource::Default).0;
        assert_eq!(kind(Cause::UnknownService, "192.0.2.1"), TicketFailureKind::AddressForName);
        assert_eq!(kind(Cause::Unreachable, "[2001:db8::1]"), TicketFailureKind::AddressForName);
        assert_eq!(kind(Cause::UnknownService, "files.example.net"), TicketFailureKind::UnknownService);
        assert_eq!(kind(Cause::Unreachable, "files.example.net"), TicketFailureKind::NoKdc);
    }
}
