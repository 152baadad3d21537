//! An administrator of the domain, who changes accounts: the log-on by a password, and the controller that
//! takes the changes.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use identity::ldap::{DomainController, LdapTls};

use super::controllers::{self, Kdc, KdcSource, Kdcs};
use super::membership::{MembershipError, explained};
use super::permission::KeyVerdict;
use super::search::{CachedTickets, DirectorySearch, service_of};
use super::skew;
use super::ticket::TicketCache;

/// The principal of an administrator who is written as `NAME`, `DOMAIN\NAME` or `NAME@REALM`. `short_names`
/// are names of the domain beside its realm.
///
/// # Errors
/// The mistake, and the way to write the name.
pub fn principal(user: &str, realm: &str, short_names: &[&str]) -> Result<String, String> {
    let first = realm.split('.').next().unwrap_or_default();
    let (name, of) = match (user.split_once('\\'), user.rsplit_once('@')) {
        (Some((domain, name)), _) => {
            let mut own = short_names.iter().copied().chain([realm, first]);
            if !own.any(|own| own.eq_ignore_ascii_case(domain)) {
                return Err(format!(
                    "--user `{user}`: {domain} is no name of the domain {realm}; write a user of another \
                     domain as NAME@REALM"
                ));
            }
            (name, realm.to_owned())
        }
        (None, Some((name, of))) => (name, of.to_uppercase()),
        (None, None) => (user, realm.to_owned()),
    };
    match name.is_empty() || of.is_empty() {
        true => Err(format!("--user `{user}` must be NAME, DOMAIN\\NAME or NAME@REALM")),
        false => Ok(format!("{name}@{of}")),
    }
}

/// The controller that answers first, or the one that is named, if the clock is right.
///
/// # Errors
/// None answers, or the clock differs too much.
pub fn controller(realm: &str, named: Option<&str>) -> Result<Kdc, MembershipError> {
    let kdcs = match named {
        Some(host) => Kdcs::of_host(realm, "host", host),
        None => Kdcs::find(realm, "host"),
    };
    let Some((kdc, sign)) = kdcs.answering() else {
        let why = match (&kdcs.source, kdcs.silent().join(", ")) {
            (KdcSource::SilentDns, _) => "no name server of /etc/resolv.conf answers".to_owned(),
            (KdcSource::NoRecord, _) => {
                format!("the DNS has no record _kerberos._udp.{}", realm.to_lowercase())
            }
            (_, silent) => format!("no controller of {realm} answers at {}: {silent}", kdcs.ports()),
        };
        return Err(MembershipError::Unreachable(format!(
            "{why}; name a controller as DNS server in /etc/resolv.conf, or see docs/domain.md"
        )));
    };
    if let Some(far) = skew(sign.ahead_s) {
        return Err(MembershipError::Skew(far, kdc.host.clone()));
    }
    let mut kdc = kdc.clone();
    // The controller's services have its name, which krb5.conf need not give.
    if let (Ok(_), Some(at)) = (kdc.host.parse::<IpAddr>(), kdc.address)
        && let Some(name) = controllers::name_of(realm, at.ip())
    {
        kdc.host = name;
    }
    Ok(kdc)
}

/// An administrator who has logged on.
#[derive(Debug)]
pub struct Logon {
    realm: String,
    controller: DomainController,
    cache: TicketCache,
}

impl Logon {
    /// Logs on with a password. `controller` is the one to use, in place of the first that answers.
    ///
    /// # Errors
    /// The reason, and what mends it.
    pub fn begin(
        realm: &str,
        controller: Option<&str>,
        principal: &str,
        password: &str,
    ) -> Result<Logon, MembershipError> {
        let kdc = self::controller(realm, controller)?;
        let cache = TicketCache::new(realm, Some(&kdc))?;
        let end = cache.log_on(principal, password)?;
        if !end.is_success {
            return Err(explained("kinit", &end));
        }
        let end = cache.add(&format!("ldap/{}@{realm}", kdc.host))?;
        if !end.is_success {
            return Err(explained("kvno", &end));
        }
        let address = kdc.address.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        Ok(Logon { realm: realm.to_owned(), controller: service_of(&kdc.host, address), cache })
    }

    /// The host name of the controller.
    pub fn controller(&self) -> &str {
        &self.controller.host
    }

    /// The option by which `adcli` acts as the administrator.
    pub fn word(&self) -> OsString {
        format!("--login-ccache={}", self.cache.name()).into()
    }

    /// Asks the controller whether an account (`FILES$`) has the newest key of a keytab.
    pub fn verdict_on(&self, keytab: &Path, account: &str) -> KeyVerdict {
        match self.cache.try_key(keytab, &format!("{account}@{}", self.realm)) {
            Ok(end) => KeyVerdict::of(&end),
            Err(error) => KeyVerdict::Refused(error.to_string()),
        }
    }

    /// A connection to the directory, within TLS if there are settings for it.
    ///
    /// # Errors
    /// The reason.
    pub fn directory(&self, tls: Option<&LdapTls>) -> Result<DirectorySearch, MembershipError> {
        let (realm, cache) = (self.realm.clone(), self.cache.name().to_owned());
        let tickets = CachedTickets { realm, cache, controller: self.controller.clone() };
        DirectorySearch::begin(&tickets, &self.realm, tls, &[]).map_err(MembershipError::Directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_administrator_may_be_written_in_each_form() {
        for user in
            ["ann", "CORP\\ann", "corp\\ann", "ad.corp.example\\ann", "ann@ad.corp.example", "AD\\ann"]
        {
            let found = principal(user, "AD.CORP.EXAMPLE", &["CORP"]);
            assert_eq!(found.as_deref(), Ok("ann@AD.CORP.EXAMPLE"), "{user}");
        }
        assert_eq!(principal("ann@other.example", "R.EXAMPLE", &[]).as_deref(), Ok("ann@OTHER.EXAMPLE"));
        let why = principal("OTHER\\ann", "R.EXAMPLE", &["CORP"]).unwrap_err();
        assert!(why.contains("OTHER is no name of the domain R.EXAMPLE; write"), "{why}");
        for bad in ["", "CORP\\", "@R.EXAMPLE", "ann@"] {
            let why = principal(bad, "R.EXAMPLE", &["CORP"]).unwrap_err();
            assert!(why.ends_with("must be NAME, DOMAIN\\NAME or NAME@REALM"), "{why}");
        }
    }
}
