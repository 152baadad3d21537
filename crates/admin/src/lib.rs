//! Layer 5: what an administrator sees and does: status, users, reload, stop, over the control socket.
//!
//! Start with [`Controlled`], which the server implements. [`protocol`] is the conversation over the
//! socket, one JSON object on a line each way; [`server`] answers it, [`client`] asks, and [`deadline`] ends its waiting. [`status`] holds the
//! values of a status, under the names that `smbstatus --json` uses, [`channels`] those of Multichannel, [`nfs`]
//! those of NFS clients, [`usage`] what lies on shares, [`transactions`] what was asked of them, [`workload`] what clients
//! mostly do, [`objects`] accounts and shares, [`keys`] what accounts log on with. [`http`] and [`prometheus`] are for programs that gather metrics, [`api`] is the same and more for
//! programs and people who have the token, by [`tls`] where other hosts reach it, with [`overview`] for the admin page.

pub mod api;
pub mod channels;
pub mod client;
pub mod http;
pub mod keys;
pub mod limits;
pub mod metadata;
pub mod nfs;
pub mod objects;
pub mod open_files;
pub mod overview;
pub mod prometheus;
pub mod protocol;
pub mod server;
mod socket;
pub mod status;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod transactions;
pub mod usage;
pub mod deadline;
pub mod workload;

pub use channels::Channels;
pub use client::{ClientError, ControlClient};
pub use keys::{AccountKey, AccountKeys, KeyName};
pub use protocol::{NtHash, Request, Response, UserChange, UserEntry};
pub use status::Status;
pub use transactions::Transactions;
pub use workload::Workload;

/// A server that can be controlled. Every call returns soon; the answers are for people.
pub trait Controlled: Send + Sync + 'static {
    /// Who is connected, and what they hold.
    fn status(&self) -> Status;

    /// Which connections carry each session, and why no others do.
    fn channels(&self) -> Channels;

    /// What was asked of each share, and how that went.
    fn transactions(&self) -> Transactions;

    /// What clients do on shares.
    fn workload(&self) -> Workload;

    /// Every user that may log on.
    fn users(&self) -> Vec<UserEntry>;

    /// The hash of a password that a user may have, and why it is soon guessed, if it is.
    ///
    /// # Errors
    /// Why it cannot be a password, in one line that does not hold it.
    fn hash_password(&self, user: &str, password: &str) -> Result<(NtHash, Option<String>), String>;

    /// Adds a user, or changes what `change` names.
    ///
    /// # Errors
    /// Why not, in one line.
    fn change_user(&self, change: UserChange) -> Result<(), String>;

    /// Removes a user. Their sessions end.
    ///
    /// # Errors
    /// Why not, in one line.
    fn remove_user(&self, name: &str) -> Result<(), String>;

    /// The keys of an account.
    ///
    /// # Errors
    /// Why not, in one line.
    fn account_keys(&self, account: &str) -> Result<AccountKeys, String>;

    /// Puts a new key, or the given one, in the place of one of an account's, or of the first that was never made; gives which
    /// it was, and both. Sessions stay.
    ///
    /// # Errors
    /// Why not, in one line.
    fn renew_key(
        &self,
        account: &str,
        key: Option<KeyName>,
        given: Option<AccountKey>,
    ) -> Result<(KeyName, AccountKeys), String>;

    /// Every account or every share.
    fn objects(&self, kind: objects::Kind) -> Vec<objects::Object>;

    /// The JSON schema of the settings of an account or a share.
    fn settings_schema(&self, kind: objects::Kind) -> serde_json::Value;

    /// Makes, changes or removes an account or a share; sessions stay. What was changed is kept.
    ///
    /// # Errors
    /// Why not; nothing has been changed then.
    fn change(&self, change: objects::Change) -> Result<objects::Changed, objects::Refusal>;

    /// Closes the open or the locks with this `close_id` ([`status::Open::close_id`]) on behalf of an administrator.
    ///
    /// # Errors
    /// [`objects::Why::NotFound`] when there is nothing of this id any more.
    fn close_open(&self, close_id: &str) -> Result<open_files::ClosedState, objects::Refusal>;

    /// Reads the configuration again; sessions stay.
    ///
    /// # Errors
    /// Why not, in one line. What was served before is served on.
    fn reload(&self) -> Result<(), String>;

    /// Ends the server cleanly; returns before it has ended.
    fn stop(&self);
}
