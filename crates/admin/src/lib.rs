//! Layer 5: the administration of a running server, over the control socket and over HTTP.
//!
//! Start with [`Controlled`], which the server implements. [`protocol`] has the requests of the control
//! socket, [`server`] answers them, and [`client`] sends them within a deadline ([`deadline`]). [`status`]
//! holds the values of a status under the names of `smbstatus --json`. [`channels`] holds those of
//! Multichannel, [`nfs`] those of NFS clients, [`usage`] the files on shares, [`transactions`] the counters,
//! and [`workload`] what clients mostly do. [`objects`] are accounts and shares, [`keys`] the keys with which
//! accounts log on, [`open_files`] opens and locks to be closed, [`health`] the words alive and ready.
//!
//! [`http`] and [`prometheus`] are for programs that gather metrics. [`api`] is for programs and people who
//! have a token, with [`overview`] for the admin page. [`listener`] accepts the connections of both, [`tls`]
//! lets other hosts in, [`door`] finds out who sends a request, and [`access`] has the roles.

pub mod access;
pub mod api;
pub mod channels;
pub mod client;
pub mod deadline;
pub mod door;
pub mod health;
pub mod http;
pub mod keys;
pub mod limits;
pub mod listener;
pub mod metadata;
pub mod nfs;
pub mod objects;
pub mod open_files;
pub mod overview;
mod probes;
pub mod prometheus;
pub mod protocol;
mod refusals;
pub mod server;
mod socket;
pub mod status;
mod strangers;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod transactions;
pub mod usage;
pub mod workload;

pub use channels::Channels;
pub use client::{ClientError, ControlClient};
pub use health::Health;
pub use keys::{AccountKey, AccountKeys, KeyName};
pub use protocol::{DomainSettings, IdChange, NtHash, Request, Response, UserChange, UserEntry};
pub use status::Status;
pub use transactions::Transactions;
pub use workload::Workload;

/// Writes an archive. It may be called in another thread, later.
pub type ArchiveOutput = Box<dyn FnOnce(&mut dyn std::io::Write) -> std::io::Result<()> + Send>;

/// A server that can be controlled. Every call returns soon. The answers are for people.
pub trait Controlled: Send + Sync + 'static {
    /// Whether the server is ready. The call may take a few seconds when a disk does not answer.
    fn health(&self) -> Health;

    /// Notes for the audit that a request was done, or was refused for a reason. `by` is the name of a token
    /// or certificate, or `control socket` with the caller's uid on the host. `request` has no secret.
    fn note_request(&self, by: (&str, Option<u32>), request: &str, refused: Option<&str>) {
        let _unaudited = (by, request, refused);
    }

    /// Sessions, connections, opens and locks.
    fn status(&self) -> Status;

    /// The connections of each session, and the reasons why it has no others.
    fn channels(&self) -> Channels;

    /// The counters of each share.
    fn transactions(&self) -> Transactions;

    /// The workload of clients on shares.
    fn workload(&self) -> Workload;

    /// Every user that may log on.
    fn users(&self) -> Vec<UserEntry>;

    /// The hash of a password, and the reason why the password is soon guessed, if it is.
    ///
    /// # Errors
    /// The reason why it cannot be a password. The text does not hold it.
    fn hash_password(&self, user: &str, password: &str) -> Result<(NtHash, Option<String>), String>;

    /// Adds a user, or changes the given fields of one.
    ///
    /// # Errors
    /// The reason.
    fn change_user(&self, change: UserChange) -> Result<(), objects::Refusal>;

    /// Removes a user. The user's sessions end.
    ///
    /// # Errors
    /// The reason.
    fn remove_user(&self, name: &str) -> Result<(), objects::Refusal>;

    /// The caller that has this token. It asks no disk.
    ///
    /// # Errors
    /// The reason why the token lets nobody in.
    fn caller(&self, token: &str) -> Result<access::Caller, access::TokenRefusal>;

    /// Every token by its name, without its text.
    fn tokens(&self) -> Vec<access::TokenEntry>;

    /// Makes a token. Its text is nowhere else.
    ///
    /// # Errors
    /// The reason.
    fn add_token(&self, request: access::TokenRequest) -> Result<access::NewToken, objects::Refusal>;

    /// Revokes a token. The next request with it is refused.
    ///
    /// # Errors
    /// The reason.
    fn revoke_token(&self, name: &str) -> Result<(), objects::Refusal>;

    /// The keys of an account.
    ///
    /// # Errors
    /// The reason, in one line.
    fn account_keys(&self, account: &str) -> Result<AccountKeys, String>;

    /// Replaces a key of an account by the given one or a new one; without a name, the first that was never
    /// made. Gives the name and both keys. Sessions stay.
    ///
    /// # Errors
    /// The reason, in one line.
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

    /// Makes, changes or deletes an account or a share. Sessions stay. The change outlives the server.
    ///
    /// # Errors
    /// The reason. Nothing has been changed then.
    fn change(&self, change: objects::Change) -> Result<objects::Changed, objects::Refusal>;

    /// Sets keys of `[domain]`; null drops the change of a key. The change outlives the server. Returns notes
    /// for the administrator.
    ///
    /// # Errors
    /// The reason. Nothing has been changed then.
    fn change_domain(&self, settings: &DomainSettings) -> Result<Vec<String>, objects::Refusal>;

    /// Creates the user that a start with a share would create, if nobody may log on. Returns a note.
    /// Somebody who makes the first share by command then has a user; the admin page asks for one.
    fn first_user(&self) -> Option<String>;

    /// Closes the open or the locks with this `close_id` ([`status::Open::close_id`]) for an administrator.
    ///
    /// # Errors
    /// [`objects::RefusalKind::NotFound`] when nothing has this id any more.
    fn close_open(&self, close_id: &str) -> Result<open_files::ClosedState, objects::Refusal>;

    /// The state directory at this moment, as an archive to be written.
    ///
    /// # Errors
    /// The reason, in one line.
    fn backup(&self) -> Result<ArchiveOutput, String>;

    /// Reads the configuration again, and returns notes for the administrator. Sessions stay.
    ///
    /// # Errors
    /// The reason, in one line. The server goes on as before.
    fn reload(&self) -> Result<Vec<String>, String>;

    /// Ends the server cleanly. The call returns before it has ended.
    fn stop(&self);
}
