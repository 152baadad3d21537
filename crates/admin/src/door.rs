//! Authorization of requests to the admin API and to the metrics.
//!
//! A request needs a token, or it comes over TLS with a client certificate ([`Door::caller`]). A token is
//! needed on loopback too, because other users of the host are there as well. A page of another site must not
//! send requests from the browser of somebody who has a token or a certificate: it does not know the token,
//! and [`Door::is_no_other_site`] refuses what it sends.

use hyper::Method;
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::http::request::Parts;

use std::net::{IpAddr, SocketAddr};

use crate::Controlled;
use crate::access::{Caller, Role, TokenRefusal};
use crate::listener::HttpPeer;
use crate::tls::ClientCertificate;

/// The names of client certificates that have another role than [`Role::Read`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateRoles {
    /// DNS names with [`Role::Operate`].
    pub operate: Vec<String>,
    /// DNS names with [`Role::Administer`].
    pub administer: Vec<String>,
}

impl CertificateRoles {
    fn caller(&self, certificate: &ClientCertificate) -> Caller {
        let is_in = |names: &[String]| {
            certificate.names.iter().any(|own| names.iter().any(|name| name.eq_ignore_ascii_case(own)))
        };
        let role = match () {
            () if is_in(&self.administer) => Role::Administer,
            () if is_in(&self.operate) => Role::Operate,
            () => Role::Read,
        };
        let name = certificate.names.first().map_or("without a DNS name", String::as_str);
        Caller { name: format!("certificate {name}"), role }
    }
}

/// Lets requests in that have a token or a certificate and come from no other site.
#[derive(Debug, Clone, Default)]
pub struct Door {
    /// Whether requests come over TLS, from any host.
    pub is_sealed: bool,
    /// The roles of client certificates.
    pub certificates: CertificateRoles,
}

/// A request that is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotLetIn {
    pub status: StatusCode,
    pub text: String,
}

fn not(status: StatusCode, text: impl Into<String>) -> Result<(), NotLetIn> {
    Err(NotLetIn { status, text: text.into() })
}

impl Door {
    /// Whether a request names this host in an allowed way.
    ///
    /// Over TLS it may use any name. Another site may lead a name of its own to this host, but its page is
    /// then shown a certificate of another name.
    pub(crate) fn names_this_host(&self, head: &Parts) -> Result<(), NotLetIn> {
        match head.headers.get(HOST) {
            None if self.is_sealed => not(StatusCode::MISDIRECTED_REQUEST, "say which host is asked (Host)"),
            host if !self.is_sealed && !is_named_as_loopback(host) => {
                not(StatusCode::MISDIRECTED_REQUEST, "ask for this host by localhost or its address")
            }
            _ => Ok(()),
        }
    }

    /// Whether a request can come from a program or from the admin page. `has_body` tells whether it has a
    /// body of some length.
    pub(crate) fn is_no_other_site(&self, head: &Parts, has_body: bool) -> Result<(), NotLetIn> {
        let other = || not(StatusCode::FORBIDDEN, "this comes from a page of another site");
        if let Some(origin) = head.headers.get(ORIGIN) {
            let host = head.headers.get(HOST);
            let own = host.and_then(|host| host.to_str().ok()).map(|host| match self.is_sealed {
                true => format!("https://{host}"),
                false => format!("http://{host}"),
            });
            if own.as_deref() != origin.to_str().ok() {
                return other();
            }
        }
        // Browsers say from which site a request comes. A link to the page may come from any site.
        let site = head.headers.get(HeaderName::from_static("sec-fetch-site"));
        let is_page = head.method == Method::GET && head.uri.path() == "/";
        if site.is_some_and(|site| site != "same-origin" && site != "none") && !is_page {
            return other();
        }
        let is_read = [Method::GET, Method::HEAD, Method::DELETE].contains(&head.method);
        let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        // Another page can send neither this content type nor a token without asking first (CORS). Without a
        // body there is nothing that needs a type.
        let has_token = head.headers.contains_key(AUTHORIZATION);
        let is_asked_first = kind.eq_ignore_ascii_case("application/json") || (has_token && !has_body);
        if !is_read && !is_asked_first {
            return not(StatusCode::UNSUPPORTED_MEDIA_TYPE, "only Content-Type: application/json");
        }
        Ok(())
    }

    /// The sender of a request to `listener`. A token goes before a certificate. A token that is refused is
    /// logged.
    pub(crate) fn caller(
        &self,
        listener: &str,
        head: &Parts,
        peer: &HttpPeer,
        server: &dyn Controlled,
    ) -> Result<Caller, NotLetIn> {
        let caller = self.sender(head, peer.certificate.as_ref(), server);
        if let (Err(refused), true) = (&caller, head.headers.contains_key(AUTHORIZATION)) {
            peer.token_refused(listener, &refused.text);
        }
        caller
    }

    fn sender(
        &self,
        head: &Parts,
        certificate: Option<&ClientCertificate>,
        server: &dyn Controlled,
    ) -> Result<Caller, NotLetIn> {
        let unknown = |text: String| NotLetIn { status: StatusCode::UNAUTHORIZED, text };
        let Some(given) = head.headers.get(AUTHORIZATION) else {
            let known = certificate.map(|certificate| self.certificates.caller(certificate));
            return known.ok_or_else(|| unknown("send a token: Authorization: Bearer TOKEN".to_owned()));
        };
        let Some(token) = given.to_str().ok().and_then(|given| given.strip_prefix("Bearer ")) else {
            return Err(unknown("send the token as Authorization: Bearer TOKEN".to_owned()));
        };
        server.caller(token.trim()).map_err(|why| match why {
            TokenRefusal::Unknown => {
                unknown("this token is not known here; `trunkline token list` shows the names".to_owned())
            }
            TokenRefusal::Expired(name) => unknown(format!("the token {name} has expired")),
        })
    }
}

/// Whether a request names this host by a name or an address of loopback.
fn is_named_as_loopback(host: Option<&HeaderValue>) -> bool {
    let Some(host) = host.and_then(|host| host.to_str().ok()) else { return false };
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_reads_unless_one_of_its_names_has_another_role() {
        let names = |names: &[&str]| ClientCertificate {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let roles = CertificateRoles {
            operate: vec!["ops.example.net".to_owned()],
            administer: vec!["root.example.net".to_owned(), "OPS2.example.net".to_owned()],
        };
        for (own, name, role) in [
            (&["prom.example.net"][..], "certificate prom.example.net", Role::Read),
            (&[][..], "certificate without a DNS name", Role::Read),
            (&["x", "OPS.example.net"][..], "certificate x", Role::Operate),
            (&["ops.example.net", "ops2.example.net"][..], "certificate ops.example.net", Role::Administer),
            (&["ops.example.net.evil"][..], "certificate ops.example.net.evil", Role::Read),
        ] {
            assert_eq!(roles.caller(&names(own)), Caller { name: name.to_owned(), role });
        }
    }
}
