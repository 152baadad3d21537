//! One transaction, and the names of its operation and authentication.

use crate::limits::ResponseType;

/// A set of operations that are counted by name.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// The name of the whole family.
    pub name: &'static str,
    /// The names of the operations. An operation's number is its index here.
    pub operations: &'static [&'static str],
    /// The names of the kinds of authentication. A number is likewise the index here.
    pub authentications: &'static [&'static str],
}

/// The kind of work that a transaction does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TransactionKind {
    /// It reads data.
    Read,
    /// It writes data.
    Write,
    /// It works on names and opens rather than on data. Limits use the same distinction.
    Metadata,
    /// Anything else.
    #[default]
    Other,
}

impl TransactionKind {
    /// The number of kinds.
    pub const COUNT: usize = 4;
}

/// One transaction that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletedTransaction {
    /// The operation.
    pub operation: u8,
    /// The authentication of the client.
    pub authentication: u8,
    /// The kind of work.
    pub kind: TransactionKind,
    /// The outcome.
    pub response: ResponseType,
    /// Bytes of the request, with its headers.
    pub ingress: u64,
    /// Bytes of the reply, with its headers.
    pub egress: u64,
    /// Bytes of data that were read or written.
    pub data: u64,
}
