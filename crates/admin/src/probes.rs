//! `/livez` and `/readyz` for Kubernetes and other supervisors, on the listener of the metrics and on that of
//! the admin page.
//!
//! [`crate::health`] defines alive and ready. Everybody who can reach a listener may ask, and learns nothing
//! but `ok` or `not ok`. With `?verbose` a caller who may read learns the reasons.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::http::request::Parts;
use tokio::sync::Semaphore;

use crate::Controlled;
use crate::health::{Health, Unready};

/// The number of callers whose question is looked into at once; more wait. A disk that does not answer holds
/// each of them for seconds.
const MAX_CALLERS: usize = 4;

/// The question of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Whether the server is alive.
    Live,
    /// Whether clients should be sent to it.
    Ready,
}

/// Answers probes.
pub(crate) struct Probes {
    places: Semaphore,
    server: Arc<dyn Controlled>,
}

impl Probe {
    /// The probe of a path.
    pub(crate) fn of(path: &str) -> Option<Probe> {
        match path {
            "/livez" => Some(Probe::Live),
            "/readyz" => Some(Probe::Ready),
            _ => None,
        }
    }

    /// Whether the request asks for the reasons.
    pub(crate) fn is_verbose(head: &Parts) -> bool {
        let query = head.uri.query().unwrap_or_default();
        query.split('&').any(|item| item.split('=').next() == Some("verbose"))
    }

    fn name(self) -> &'static str {
        match self {
            Probe::Live => "livez",
            Probe::Ready => "readyz",
        }
    }
}

impl Probes {
    pub(crate) fn new(server: Arc<dyn Controlled>) -> Probes {
        Probes { places: Semaphore::new(MAX_CALLERS), server }
    }

    /// The status and the text for a probe. Only callers who may read get `is_verbose`.
    pub(crate) async fn answer(&self, probe: Probe, is_verbose: bool) -> (StatusCode, String) {
        let health = match (probe, is_verbose) {
            // Whoever gets this answer knows that the server is alive.
            (Probe::Live, _) => Health::default(),
            (Probe::Ready, _) => {
                let Ok(_place) = self.places.acquire().await else {
                    return (StatusCode::SERVICE_UNAVAILABLE, "not ok\n".to_owned());
                };
                let server = Arc::clone(&self.server);
                // It asks the disks.
                match tokio::task::spawn_blocking(move || server.health()).await {
                    Ok(health) => health,
                    Err(_) => return (StatusCode::INTERNAL_SERVER_ERROR, "not ok\n".to_owned()),
                }
            }
        };
        let status = if health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, text(probe, &health, is_verbose))
    }
}

/// The text of an answer. The verbose one has the form of Kubernetes' own components.
fn text(probe: Probe, health: &Health, is_verbose: bool) -> String {
    if !is_verbose {
        return if health.is_ready() { "ok\n" } else { "not ok\n" }.to_owned();
    }
    let checks: &[(&str, Option<Unready>)] = match probe {
        Probe::Live => &[("answer", None)],
        Probe::Ready => &[
            ("running", Some(Unready::Stopping)),
            ("shares", Some(Unready::NoUsableShare)),
            ("check", Some(Unready::CheckFailed)),
        ],
    };
    let mut out = String::new();
    for (name, reason) in checks {
        match reason.filter(|reason| health.unready.contains(reason)) {
            None => out += &format!("[+]{name} ok\n"),
            Some(reason) => out += &format!("[-]{name} failed: {reason}\n"),
        }
    }
    health.faults.iter().for_each(|fault| out += &format!("   {fault}\n"));
    let end = if health.is_ready() { "passed" } else { "failed" };
    out + &format!("{} check {end}\n", probe.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::ShareFault;

    #[test]
    fn reasons_are_told_only_where_they_are_asked_for() {
        let fault = |share: &str| ShareFault {
            share: share.to_owned(),
            path: "/x".to_owned(),
            why: "gone".to_owned(),
        };
        let one_of_two = Health::new(false, 2, vec![fault("docs")]);
        assert_eq!(text(Probe::Ready, &one_of_two, false), "ok\n");
        assert_eq!(
            text(Probe::Ready, &one_of_two, true),
            "[+]running ok\n[+]shares ok\n[+]check ok\n   share `docs`: /x: gone\nreadyz check passed\n"
        );
        let none = Health::new(true, 1, vec![fault("docs")]);
        assert_eq!(text(Probe::Ready, &none, false), "not ok\n");
        assert_eq!(
            text(Probe::Ready, &none, true),
            "[-]running failed: the server is stopping\n[-]shares failed: no share can be used\n[+]check \
             ok\n   share `docs`: /x: gone\nreadyz check failed\n"
        );
        assert_eq!(text(Probe::Live, &Health::default(), true), "[+]answer ok\nlivez check passed\n");
    }
}
