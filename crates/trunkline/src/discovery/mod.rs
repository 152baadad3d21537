//! Lets people find the server without knowing its address: mDNS for Finder, Linux and the command line,
//! WS-Discovery for Explorer.
//!
//! Start with [`announce`]. Nothing here is needed to serve: what cannot be had is a line in the log.

mod interfaces;
mod mdns;
mod wsd;

use std::net::SocketAddr;

use mdns::Mdns;
use wsd::Wsd;

/// What is announced.
#[derive(Debug, Clone)]
pub struct Announcement {
    /// The server's name.
    pub name: String,
    /// The same in at most 15 characters.
    pub netbios_name: String,
    /// The workgroup.
    pub workgroup: String,
    /// The server's GUID.
    pub guid: [u8; 16],
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
}

impl Announcement {
    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.addresses.first().map_or(0, SocketAddr::port)
    }
}

/// What has been announced, and must be taken back at the end.
pub struct Announced {
    mdns: Option<Mdns>,
    wsd: Option<Wsd>,
}

impl Announced {
    /// Nothing.
    pub fn nothing() -> Announced {
        Announced { mdns: None, wsd: None }
    }

    /// Tells everyone that the server is gone.
    pub async fn end(self) {
        if let Some(wsd) = self.wsd {
            wsd.end().await;
        }
        if let Some(mdns) = self.mdns {
            // The daemon answers from a thread of its own.
            let _ = tokio::task::spawn_blocking(move || mdns.end()).await;
        }
    }
}

/// Announces the server wherever it listens. Must run inside a tokio runtime.
pub async fn announce(announcement: &Announcement) -> Announced {
    if announcement.addresses.iter().all(|address| address.ip().is_loopback()) {
        tracing::debug!("listening on loopback only: nobody to announce the server to");
        return Announced::nothing();
    }
    let mdns = Mdns::start(announcement)
        .inspect_err(|e| tracing::warn!(error = %e, "no mDNS: Finder will not list the server"));
    let wsd = Wsd::start(announcement).await;
    let wsd =
        wsd.inspect_err(|e| tracing::warn!(error = %e, "no WS-Discovery: Explorer will not list the server"));
    Announced { mdns: mdns.ok(), wsd: wsd.ok() }
}
