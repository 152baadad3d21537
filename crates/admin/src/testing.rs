//! A server for tests, which notes what it was asked to do.

use std::sync::Mutex;

use crate::{Channels, Controlled, Status, Transactions, UserChange, UserEntry, Workload};

/// The server.
#[derive(Default)]
pub struct Fake {
    /// What it was asked to do.
    pub calls: Mutex<Vec<String>>,
}

impl Controlled for Fake {
    fn status(&self) -> Status {
        Status { version: "7".to_owned(), ..Status::default() }
    }
    fn channels(&self) -> Channels {
        Channels { server_name: "S".to_owned(), ..Channels::default() }
    }
    fn transactions(&self) -> Transactions {
        Transactions { at_ns: 7, ..Transactions::default() }
    }
    fn workload(&self) -> Workload {
        Workload { server_name: "W".to_owned(), ..Workload::default() }
    }
    fn users(&self) -> Vec<UserEntry> {
        Vec::new()
    }
    fn change_user(&self, change: UserChange) -> Result<(), String> {
        Err(format!("no {}", change.name))
    }
    fn remove_user(&self, name: &str) -> Result<(), String> {
        self.calls.lock().unwrap().push(format!("remove {name}"));
        Ok(())
    }
    fn reload(&self) -> Result<(), String> {
        Ok(())
    }
    fn stop(&self) {
        self.calls.lock().unwrap().push("stop".to_owned());
    }
}
