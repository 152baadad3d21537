//! The opens from before a restart: who takes them over, and the threads that restore those that no request
//! has asked for yet.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use share::{Identity, OpenRestorer, Restored, UnrestoredOpen};
use volume::security::Sid;
use wire::Now;

use super::exports::Servers;
use super::identity::IdentityMap;
use super::locks::held;
use crate::config::Share;

/// The threads that restore opens at once. Each waits for the store most of the time.
const THREADS: usize = 16;

/// Takes the restored opens of a share over, for the servers.
pub struct ShareRestorer {
    share: Share,
    principals: Arc<IdentityMap>,
    smb: Arc<smb::Server>,
    config: Arc<smb::ShareConfig>,
    nfs: Arc<Servers>,
    /// The time of the restart, from which opens are kept.
    restarted: Now,
    begun: Instant,
    smb_opens: AtomicUsize,
    nfs_opens: AtomicUsize,
}

/// Whether an open is that of an NFS client.
fn is_claimed(note: &[u8]) -> bool {
    nfs::state::record::Note::is_one(note)
}

impl ShareRestorer {
    /// Lets requests ask for the opens of a share from now on, and has them restored for the servers.
    pub fn begin(
        share: &Share,
        principals: &Arc<IdentityMap>,
        smb: &Arc<smb::Server>,
        config: &smb::ShareConfig,
        nfs: &Arc<Servers>,
        mut unrestored: Vec<UnrestoredOpen>,
    ) {
        if unrestored.is_empty() {
            return;
        }
        let (opens, config) = (unrestored.len(), Arc::new(config.clone()));
        tracing::info!(share = %config.name, opens, "opens from before the restart are restored from now on");
        unrestored.retain(|open| !is_claimed(&open.note));
        smb.expect(&config, &unrestored);
        let engine = Arc::clone(&config.engine);
        engine.restore_for(Arc::new(ShareRestorer {
            share: share.clone(),
            principals: Arc::clone(principals),
            smb: Arc::clone(smb),
            config,
            nfs: Arc::clone(nfs),
            restarted: net::now(),
            begun: Instant::now(),
            smb_opens: AtomicUsize::new(0),
            nfs_opens: AtomicUsize::new(0),
        }));
    }
}

impl OpenRestorer for ShareRestorer {
    fn user(&self, sid: &Sid) -> Option<Arc<Identity>> {
        let identity = self.principals.restored(sid)?;
        Some(super::homes::at_home(&self.share, &identity))
    }

    fn take(&self, restored: Restored) {
        let (is_kept, opens) = if is_claimed(&restored.note) {
            (self.nfs.restore(&self.config.engine, restored), &self.nfs_opens)
        } else {
            let is_kept = self.smb.restore_open(&self.config, restored, self.restarted, net::now());
            (is_kept, &self.smb_opens)
        };
        opens.fetch_add(usize::from(is_kept), Ordering::Relaxed);
    }
}

impl Drop for ShareRestorer {
    /// All opens of the share are restored.
    fn drop(&mut self) {
        let smb = self.smb_opens.load(Ordering::Relaxed);
        let nfs = self.nfs_opens.load(Ordering::Relaxed);
        let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let share = &self.config.name;
        tracing::info!(%share, smb, nfs, ms, "all opens from before the restart wait for their clients");
    }
}

/// The threads that restore opens behind the requests. Dropping it stops them.
#[derive(Default)]
pub struct Restoring {
    is_over: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Restoring {
    /// Restores all opens of these shares.
    pub fn start(&self, engines: Vec<Arc<share::Share>>) {
        if engines.is_empty() {
            return;
        }
        let engines = Arc::new(engines);
        let mut threads = held(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        for _ in 0..THREADS {
            let (shared, is_over) = (Arc::clone(&engines), Arc::clone(&self.is_over));
            let spawned =
                thread::Builder::new().name("restore".into()).spawn(move || restore(&shared, &is_over));
            match spawned {
                Ok(thread) => threads.push(thread),
                // The others do the work.
                Err(_) if !threads.is_empty() => break,
                Err(_) => return restore(&engines, &self.is_over),
            }
        }
    }

    /// Stops the threads. Opens that are not restored stay recorded.
    pub fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in held(&self.threads).drain(..) {
            // The thread only restores opens, so its result does not matter.
            let _ = thread.join();
        }
    }
}

impl Drop for Restoring {
    fn drop(&mut self) {
        self.stop();
    }
}

fn restore(engines: &[Arc<share::Share>], is_over: &AtomicBool) {
    for engine in engines {
        while !is_over.load(Ordering::Relaxed) && engine.restore_next() {}
    }
}
