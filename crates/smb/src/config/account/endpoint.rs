//! Addresses of this server that are somebody's own: an account's, at which whoever comes is held to it, or a share's, at which there
//! is nothing else. All of them have the server's port.

use std::net::IpAddr;

use super::{Known, Standing};
use crate::config::{ServerConfig, same_name};

/// Whose own an address is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// That of the account of this name.
    Account(String),
    /// That of the share of this name.
    Share(String),
}

/// A share with addresses of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareEndpoint {
    /// Its name, as shown.
    pub share: String,
    /// Its account, to which whoever comes there is held.
    pub account: Option<String>,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
}

impl ServerConfig {
    /// What is known of whoever comes to this address of the server, if it is somebody's own.
    #[must_use]
    pub fn known_at(&self, local: IpAddr) -> Option<Known> {
        let local = local.to_canonical();
        if let Some(own) = self.share_endpoints.iter().find(|own| own.addresses.contains(&local)) {
            let endpoint = Some(Endpoint::Share(own.share.clone()));
            return Some(Known { account: own.account.clone(), endpoint });
        }
        let account = self.accounts.iter().find(|account| account.endpoint.contains(&local))?;
        let name = account.name.clone();
        Some(Known { account: Some(name.clone()), endpoint: Some(Endpoint::Account(name)) })
    }

    /// Whether two addresses of the server are of one endpoint, so that a session may have channels to both.
    #[must_use]
    pub fn is_one_endpoint(&self, one: IpAddr, other: IpAddr) -> bool {
        let endpoint = |address| self.known_at(address).and_then(|known| known.endpoint);
        endpoint(one) == endpoint(other)
    }
}

impl Standing {
    /// Why there is no such share for it, if its connections came to the address of another one.
    #[must_use]
    pub fn is_kept_from(&self, share: &str) -> Option<String> {
        match &self.endpoint {
            Some(Endpoint::Share(own)) if !same_name(own, share) => {
                Some(format!("the session came to an address of share `{own}`, where there is no other"))
            }
            _ => None,
        }
    }
}
