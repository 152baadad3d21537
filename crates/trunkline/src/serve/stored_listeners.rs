//! Listening sockets that outlive this process.
//!
//! The service manager stores them (`FileDescriptorStoreMax=` of the units) and passes them to the next
//! process, by the protocol of `sd_notify(3)` and `sd_listen_fds(3)`. A client that connects between two
//! processes waits in the queue of a socket. Linux's NFS client would wait 3 s after a refused connection.
//!
//! A node that does not serve must not keep any: its clients would wait for nobody.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use net::{InheritedListeners, Listeners, stop_listening, stored_name};
use parking_lot::{Mutex, MutexGuard};

use super::notify;

/// The listening sockets of this process at the service manager.
#[derive(Debug, Default)]
pub struct StoredListeners {
    inherited: Mutex<InheritedListeners>,
    /// Duplicates of the sockets that a node has opened, with their names.
    opened: Mutex<Vec<(String, TcpListener)>>,
}

impl StoredListeners {
    /// The sockets of this process. It must not have opened anything before.
    ///
    /// # Errors
    /// One line for the user: the service manager has passed something that is no list of descriptors.
    pub fn of_process() -> anyhow::Result<StoredListeners> {
        let inherited = InheritedListeners::of_process();
        let inherited = inherited.context("the sockets of the service manager cannot be taken over")?;
        Ok(StoredListeners { inherited: Mutex::new(inherited), opened: Mutex::default() })
    }

    /// Refuses sockets that the service manager opens itself: it listens also while a node waits.
    ///
    /// # Errors
    /// One line for the user.
    pub fn check_for_node(&self) -> anyhow::Result<()> {
        match self.inherited.lock().opened_by_manager() {
            None => Ok(()),
            Some(address) => anyhow::bail!(
                "the service manager listens on {address} for this node, also while it waits; disable the \
                 .socket unit: a node opens its sockets itself"
            ),
        }
    }

    /// The inherited sockets, to be taken over.
    pub fn inherited(&self) -> MutexGuard<'_, InheritedListeners> {
        self.inherited.lock()
    }

    /// Lets the service manager store the sockets of `listeners` that it does not have, and forget those that
    /// nobody has taken over. A node can close them later.
    ///
    /// # Errors
    /// The host has no descriptor left.
    pub fn store(&self, listeners: &[&Listeners], is_node: bool) -> io::Result<()> {
        self.close_left();
        let taken: Vec<_> = self.inherited.lock().taken().collect();
        for (listener, address) in listeners.iter().flat_map(|listeners| listeners.sockets()) {
            if taken.contains(&address) {
                tracing::info!(%address, "a listening socket of the service manager is taken over");
                continue;
            }
            let name = stored_name(address);
            notify::store(&name, listener);
            if is_node {
                self.opened.lock().push((name, listener.try_clone()?));
            }
        }
        Ok(())
    }

    /// Closes the inherited sockets that nobody has taken over.
    pub fn close_left(&self) {
        let mut inherited = self.inherited.lock();
        inherited.close_left();
        forget_closed(&mut inherited);
    }

    /// Closes those sockets after this time, also if the storage of a node has not answered by then.
    ///
    /// # Errors
    /// The host has no thread.
    pub fn close_left_after(self: &Arc<StoredListeners>, time: Duration) -> io::Result<()> {
        if self.inherited.lock().is_empty() {
            return Ok(());
        }
        let listeners = Arc::clone(self);
        thread::Builder::new().name("node".into()).spawn(move || {
            thread::sleep(time);
            listeners.close_left();
        })?;
        Ok(())
    }

    /// Closes all sockets of a node that no longer serves. Nobody listens on them then, in any process.
    pub fn close(&self) {
        let mut inherited = self.inherited.lock();
        inherited.close_all();
        forget_closed(&mut inherited);
        for (name, listener) in self.opened.lock().drain(..) {
            notify::forget(&name);
            stop_listening(&listener);
        }
    }
}

impl Drop for StoredListeners {
    /// A process that fails before it serves leaves no socket that nobody wants.
    fn drop(&mut self) {
        self.close_left();
    }
}

/// Lets the service manager forget the sockets that were closed.
fn forget_closed(inherited: &mut InheritedListeners) {
    inherited.closed_names().iter().for_each(|name| notify::forget(name));
}
