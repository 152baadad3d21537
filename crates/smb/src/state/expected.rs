//! Opens from before a restart that the engines have not restored yet, by the ids with which their clients
//! ask for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use share::{Refusal, Share};
use smb_wire::Guid;

use super::persistent::Note;

/// An open of an engine.
type ExpectedOpen = (Weak<Share>, u64);

/// The Opens that are expected. One that is restored meanwhile stays until all of its engine are.
#[derive(Default)]
pub(crate) struct ExpectedOpens {
    /// Readable without the lock.
    is_any: AtomicBool,
    keys: Mutex<ExpectedKeys>,
}

#[derive(Default)]
struct ExpectedKeys {
    by_durable_id: HashMap<u64, ExpectedOpen>,
    by_create_guid: HashMap<Guid, Vec<ExpectedOpen>>,
    by_application: HashMap<Guid, Vec<ExpectedOpen>>,
}

impl ExpectedOpens {
    /// Enters an open of an engine.
    pub fn enter(&self, engine: &Arc<Share>, id: u64, note: &Note) {
        let mut keys = self.keys.lock();
        let open = || (Arc::downgrade(engine), id);
        keys.by_durable_id.insert(note.persistent, open());
        if let Some(create) = note.create_record.create_guid {
            keys.by_create_guid.entry(create).or_default().push(open());
        }
        if let Some(instance) = note.create_record.instance {
            keys.by_application.entry(instance.id).or_default().push(open());
        }
        self.is_any.store(true, Ordering::Release);
    }

    /// Has the Opens restored that have one of these ids.
    ///
    /// # Errors
    /// The host's error. Such an Open may be there, and is tried again later.
    pub fn restore(
        &self,
        durable_id: Option<u64>,
        create: Option<Guid>,
        instance: Option<Guid>,
    ) -> Result<(), Refusal> {
        if !self.is_any.load(Ordering::Acquire) {
            return Ok(());
        }
        let keys = self.keys.lock();
        let by_id = durable_id.and_then(|id| keys.by_durable_id.get(&id));
        let by_create = create.and_then(|create| keys.by_create_guid.get(&create));
        let by_instance = instance.and_then(|instance| keys.by_application.get(&instance));
        let lists = by_create.into_iter().chain(by_instance).flatten();
        let found: Vec<ExpectedOpen> = by_id.into_iter().chain(lists).cloned().collect();
        drop(keys);
        for (engine, id) in &found {
            if let Some(engine) = engine.upgrade() {
                engine.restore_open(*id)?;
            }
        }
        if found.iter().any(|(engine, _)| !is_restoring(engine)) {
            self.forget_restored();
        }
        Ok(())
    }

    /// Forgets the Opens of engines that have restored all.
    fn forget_restored(&self) {
        let mut keys = self.keys.lock();
        let ExpectedKeys { by_durable_id, by_create_guid, by_application } = &mut *keys;
        by_durable_id.retain(|_, (engine, _)| is_restoring(engine));
        for lists in [by_create_guid, by_application] {
            lists.retain(|_, opens| {
                opens.retain(|(engine, _)| is_restoring(engine));
                !opens.is_empty()
            });
        }
        self.is_any.store(!keys.by_durable_id.is_empty(), Ordering::Release);
    }
}

fn is_restoring(engine: &Weak<Share>) -> bool {
    engine.upgrade().is_some_and(|engine| engine.is_restoring())
}
