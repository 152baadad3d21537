//! The signals of a server. They are heard from the first moment of `main` to the last: a script that starts
//! the server and sends SIGHUP must not end it.
//!
//! A thread of its own waits for them, because a start may wait for a disk for long. Before the server
//! serves, SIGTERM and SIGINT end the process at once. No file is half written then: a start can be cut at
//! any moment, as by a crash.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A request to the server by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRequest {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM or SIGINT: end.
    End,
}

/// The signals that a server listens to.
pub struct Signals {
    requests: UnboundedReceiver<SignalRequest>,
    is_serving: Arc<AtomicBool>,
}

impl Signals {
    /// Listens to the signals. As the first process of a container, the server gets no signal that it has not
    /// asked for.
    ///
    /// # Errors
    /// The error of the host.
    pub fn listen() -> io::Result<Signals> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let [mut hangup, mut terminate, mut interrupt] = {
            let _inside = runtime.enter();
            let [hangup, terminate, interrupt] =
                [SignalKind::hangup(), SignalKind::terminate(), SignalKind::interrupt()].map(signal);
            [hangup?, terminate?, interrupt?]
        };
        let (sender, requests) = unbounded_channel();
        let is_serving = Arc::new(AtomicBool::new(false));
        let serves = Arc::clone(&is_serving);
        let wait = async move {
            loop {
                let request = tokio::select! {
                    _ = hangup.recv() => SignalRequest::Reload,
                    _ = terminate.recv() => SignalRequest::End,
                    _ = interrupt.recv() => SignalRequest::End,
                };
                if request == SignalRequest::End && !serves.load(Ordering::SeqCst) {
                    tracing::info!("ended by a signal before it served");
                    kerberos::skip_destructors_at_exit();
                    std::process::exit(0);
                }
                if sender.send(request).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(wait))?;
        Ok(Signals { requests, is_serving })
    }

    /// From now on clients are served, and [`Signals::next`] has each request.
    pub fn begin_serving(&self) {
        self.is_serving.store(true, Ordering::SeqCst);
    }

    /// Waits for the next request.
    pub async fn next(&mut self) -> SignalRequest {
        match self.requests.recv().await {
            Some(request) => request,
            // The thread never ends while this exists.
            None => std::future::pending().await,
        }
    }
}
