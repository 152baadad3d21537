//! Notification of changes of the host's addresses.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::messages::CHANGES;
use super::{InterfaceAddress, read};
use crate::netlink::{NetlinkFamily, Socket};

/// A change seldom comes alone: the time to wait for related ones.
const SETTLE: Duration = Duration::from_millis(50);
/// The time until addresses that could not be read are read again.
const RETRY: Duration = Duration::from_secs(5);

/// Watches the addresses until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Writing fails only if the event counter is full, and nobody else writes to this one.
        let _woken = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // It holds nothing that anybody needs, however it ended.
            let _ended = thread.join();
        }
    }
}

/// Calls `on_change` with the host's addresses: once before this returns, then after each change, on a thread
/// of its own.
///
/// # Errors
/// The kernel refuses netlink sockets, or the host has no thread left.
pub fn watch(mut on_change: impl FnMut(&[InterfaceAddress]) + Send + 'static) -> io::Result<Watcher> {
    // Opened before the first reading, so that no change is missed in between.
    let changes = Socket::open(NetlinkFamily::Route, CHANGES)?;
    let mut known = read()?;
    on_change(&known);
    let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let stopped = Arc::clone(&stop);
    let run = move || {
        let mut patience = None;
        while !wait(&stopped, Some(&changes), patience) && !wait(&stopped, None, Some(SETTLE)) {
            changes.drain();
            patience = match read() {
                Ok(now) => {
                    if now != known {
                        on_change(&now);
                        known = now;
                    }
                    None
                }
                Err(error) => {
                    tracing::warn!(
                        %error,
                        "the host's addresses cannot be read; the last known addresses stay in use"
                    );
                    Some(RETRY)
                }
            };
        }
    };
    let thread = std::thread::Builder::new().name("trunkline-interfaces".to_owned()).spawn(run)?;
    Ok(Watcher { stop, thread: Some(thread) })
}

/// Waits for a change, or until `patience` is over. Returns true if the watch is to end.
fn wait(stop: &OwnedFd, changes: Option<&Socket>, patience: Option<Duration>) -> bool {
    let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
    let mut waited = vec![PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)];
    waited.extend(changes.map(|changes| PollFd::from_borrowed_fd(changes.as_fd(), PollFlags::IN)));
    match poll(&mut waited, patience.as_ref()) {
        Ok(_) => waited[0].revents().contains(PollFlags::IN),
        Err(rustix::io::Errno::INTR) => false,
        // Without poll there is no watching. The server continues with the known addresses.
        Err(error) => {
            tracing::warn!(%error, "changes of the host's addresses are no longer noticed");
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_told_at_once_and_dropping_it_ends_it() {
        let (tell, told) = std::sync::mpsc::channel();
        let watcher = watch(move |addresses| tell.send(addresses.to_vec()).expect("somebody listens"));
        let watcher = watcher.expect("netlink");
        assert_eq!(told.try_recv().expect("told before it returned"), read().expect("netlink"));
        drop(watcher);
        // The thread is gone, and with it the sender.
        assert!(matches!(told.recv(), Err(std::sync::mpsc::RecvError)));
    }
}
