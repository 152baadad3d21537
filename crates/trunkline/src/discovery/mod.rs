//! Announces the server, so that people find it without knowing its address: mDNS for Finder, Linux and the
//! command line, WS-Discovery for Explorer.
//!
//! Start with [`announce`]. The server also works without announcements: a failure here is only a line in the
//! log.

mod interfaces;
mod mdns;
mod wsd;

use std::net::SocketAddr;

use mdns::Mdns;
use wsd::Wsd;

/// The data to announce.
#[derive(Debug, Clone)]
pub struct Announcement {
    /// The server's name.
    pub name: String,
    /// The server's name in at most 15 characters.
    pub netbios_name: String,
    /// The workgroup.
    pub workgroup: String,
    /// The server's GUID.
    pub guid: [u8; 16],
    /// The addresses on which the server listens.
    pub addresses: Vec<SocketAddr>,
}

impl Announcement {
    /// The port on which the server listens.
    pub fn port(&self) -> u16 {
        self.addresses.first().map_or(0, SocketAddr::port)
    }
}

/// The current announcements. They must be withdrawn at the end.
pub struct Announced {
    mdns: Option<Mdns>,
    wsd: Option<Wsd>,
}

impl Announced {
    /// No announcements.
    pub fn nothing() -> Announced {
        Announced { mdns: None, wsd: None }
    }

    /// Withdraws all announcements.
    pub async fn end(self) {
        if let Some(wsd) = self.wsd {
            wsd.end().await;
        }
        if let Some(mdns) = self.mdns {
            // `end` waits for the daemon's own thread.
            let _ = tokio::task::spawn_blocking(move || mdns.end()).await;
        }
    }
}

/// Announces the server at all addresses on which it listens. Must run inside a tokio runtime.
pub async fn announce(announcement: &Announcement) -> Announced {
    if announcement.addresses.iter().all(|address| address.ip().is_loopback()) {
        tracing::debug!("listening on loopback only, so the server is not announced");
        return Announced::nothing();
    }
    let mdns = Mdns::start(announcement)
        .inspect_err(|e| tracing::warn!(error = %e, "no mDNS: Finder will not list the server"));
    let wsd = Wsd::start(announcement).await;
    let wsd =
        wsd.inspect_err(|e| tracing::warn!(error = %e, "no WS-Discovery: Explorer will not list the server"));
    Announced { mdns: mdns.ok(), wsd: wsd.ok() }
}
