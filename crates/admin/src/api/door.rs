//! Who may ask the admin API.
//!
//! Whoever has the token may do whatever the server's owner may, so that it is asked for on loopback too: other users of the host are
//! there as well. A page of another site in the browser of somebody who has it must not ask in their name: it neither knows
//! the token, nor is what it sends let in ([`Door::admits`]).

use hyper::Method;
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use subtle::ConstantTimeEq;

use super::ApiResponse;
use crate::http::is_named_as_loopback;

/// Shortest token, in characters.
pub const SHORTEST_TOKEN: usize = 32;

/// Lets in who may ask.
pub struct Door {
    token: String,
    /// Whether requests come by TLS, from anywhere.
    is_sealed: bool,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Door(…)")
    }
}

impl Door {
    /// One that opens to this token.
    ///
    /// # Errors
    /// When it is none that could be asked for.
    pub fn new(token: &str) -> Result<Door, String> {
        if token.len() < SHORTEST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("a token has at least {SHORTEST_TOKEN} letters and digits"));
        }
        Ok(Door { token: token.to_owned(), is_sealed: false })
    }

    /// The same for requests that come by TLS.
    ///
    /// They may name this host as they like: a page of another site under a name that it has led here is shown a certificate
    /// that is not of that name.
    #[must_use]
    pub(super) fn behind_tls(self) -> Door {
        Door { is_sealed: true, ..self }
    }

    /// Whether a request can come from one of the host's own programs or from the admin page.
    pub(super) fn admits(&self, head: &Parts) -> Result<(), ApiResponse> {
        let host = head.headers.get(HOST);
        if self.is_sealed && host.is_none() {
            return Err(ApiResponse::error(StatusCode::MISDIRECTED_REQUEST, "say which host is asked (Host)"));
        }
        if !self.is_sealed && !is_named_as_loopback(host) {
            let why = "ask for this host by localhost or its address";
            return Err(ApiResponse::error(StatusCode::MISDIRECTED_REQUEST, why));
        }
        let other = || Err(ApiResponse::error(StatusCode::FORBIDDEN, "this comes from a page of another site"));
        if let Some(origin) = head.headers.get(ORIGIN) {
            let own = host.and_then(|host| host.to_str().ok()).map(|host| match self.is_sealed {
                true => format!("https://{host}"),
                false => format!("http://{host}"),
            });
            if own.as_deref() != origin.to_str().ok() {
                return other();
            }
        }
        // Browsers say themselves where a request comes from; a link to the page may come from anywhere.
        let site = head.headers.get(HeaderName::from_static("sec-fetch-site"));
        let is_page = head.method == Method::GET && head.uri.path() == "/";
        if site.is_some_and(|site| site != "same-origin" && site != "none") && !is_page {
            return other();
        }
        let is_read = [Method::GET, Method::HEAD, Method::DELETE].contains(&head.method);
        let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        // What a form of another page can send is never this.
        if !is_read && !kind.eq_ignore_ascii_case(super::JSON) {
            let why = "only Content-Type: application/json";
            return Err(ApiResponse::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
        Ok(())
    }

    /// Whether it has the token.
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
