//! Addresses of this server that belong to one account or one share. A session at an account's address may
//! use only that account. A session at a share's address may use only that share. All such addresses use the
//! server's port.

use std::net::IpAddr;

use super::{AccountHint, SessionSettings};
use crate::config::{ServerConfig, same_name};

/// The owner of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// The account of this name.
    Account(String),
    /// The share of this name.
    Share(String),
}

/// A share with addresses of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareEndpoint {
    /// The share's name.
    pub share: String,
    /// Its account, which sessions there are bound to.
    pub account: Option<String>,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
}

impl ServerConfig {
    /// The account of a connection to this address of the server, if the address belongs to one account or
    /// share.
    #[must_use]
    pub fn account_at(&self, local: IpAddr) -> Option<AccountHint> {
        let local = local.to_canonical();
        if let Some(own) = self.share_endpoints.iter().find(|own| own.addresses.contains(&local)) {
            let endpoint = Some(Endpoint::Share(own.share.clone()));
            return Some(AccountHint { account: own.account.clone(), endpoint });
        }
        let account = self.accounts.iter().find(|account| account.endpoint.contains(&local))?;
        let name = account.name.clone();
        Some(AccountHint { account: Some(name.clone()), endpoint: Some(Endpoint::Account(name)) })
    }

    /// Whether two addresses of the server belong to the same endpoint, so that a session may have channels
    /// to both.
    #[must_use]
    pub fn is_one_endpoint(&self, one: IpAddr, other: IpAddr) -> bool {
        let endpoint = |address| self.account_at(address).and_then(|known| known.endpoint);
        endpoint(one) == endpoint(other)
    }
}

impl SessionSettings {
    /// The reason why this share does not exist for a session that came to the address of another share.
    #[must_use]
    pub fn refusal_for_share(&self, share: &str) -> Option<String> {
        match &self.endpoint {
            Some(Endpoint::Share(own)) if !same_name(own, share) => {
                Some(format!("the session came to an address of share `{own}`, where there is no other"))
            }
            _ => None,
        }
    }
}
