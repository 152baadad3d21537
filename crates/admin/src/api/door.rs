//! Authorization of requests to the admin API.
//!
//! The token allows all that the server's owner may do. It is needed on loopback too, because other users of
//! the host are there as well. A page of another site must not send requests from the browser of somebody who
//! has the token. It does not know the token, and [`Door::admits`] refuses what it sends.

use hyper::Method;
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use subtle::ConstantTimeEq;

use super::ApiResponse;
use crate::http::is_named_as_loopback;

/// The shortest token, in characters.
pub const SHORTEST_TOKEN: usize = 32;

/// Lets requests in that have the token and come from no other site.
pub struct Door {
    token: String,
    /// Whether requests come over TLS, from any host.
    is_sealed: bool,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Door(…)")
    }
}

impl Door {
    /// Opens to this token.
    ///
    /// # Errors
    /// When the token is too short or holds other characters.
    pub fn new(token: &str) -> Result<Door, String> {
        if token.len() < SHORTEST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("a token has at least {SHORTEST_TOKEN} letters and digits"));
        }
        Ok(Door { token: token.to_owned(), is_sealed: false })
    }

    /// The same door for requests over TLS.
    ///
    /// They may name this host as they like. Another site may lead a name of its own to this host, but its
    /// page is then shown a certificate of another name.
    #[must_use]
    pub(super) fn behind_tls(self) -> Door {
        Door { is_sealed: true, ..self }
    }

    /// Whether a request can come from a program of this host or from the admin page.
    pub(super) fn admits(&self, head: &Parts) -> Result<(), ApiResponse> {
        let host = head.headers.get(HOST);
        if self.is_sealed && host.is_none() {
            return Err(ApiResponse::error(
                StatusCode::MISDIRECTED_REQUEST,
                "say which host is asked (Host)",
            ));
        }
        if !self.is_sealed && !is_named_as_loopback(host) {
            let why = "ask for this host by localhost or its address";
            return Err(ApiResponse::error(StatusCode::MISDIRECTED_REQUEST, why));
        }
        let other =
            || Err(ApiResponse::error(StatusCode::FORBIDDEN, "this comes from a page of another site"));
        if let Some(origin) = head.headers.get(ORIGIN) {
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
        // A form of another page cannot send this content type.
        if !is_read && !kind.eq_ignore_ascii_case(super::JSON) {
            let why = "only Content-Type: application/json";
            return Err(ApiResponse::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
        Ok(())
    }

    /// Whether the request has the token.
    pub(super) fn knows(&self, head: &Parts) -> Result<(), ApiResponse> {
        let given = head.headers.get(AUTHORIZATION).and_then(|given| given.to_str().ok());
        let Some(given) = given.and_then(|given| given.strip_prefix("Bearer ")) else {
            return Err(ApiResponse::unknown(
                "send the token of the state directory: Authorization: Bearer TOKEN",
            ));
        };
        if bool::from(given.trim().as_bytes().ct_eq(self.token.as_bytes())) {
            return Ok(());
        }
        Err(ApiResponse::unknown("this is not the token; it stands in `admin-token` in the state directory"))
    }
}
