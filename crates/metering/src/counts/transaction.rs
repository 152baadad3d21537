//! One transaction, and the names of what it can be.

use crate::limits::ResponseType;

/// Operations that are counted by name.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// What they are together called.
    pub name: &'static str,
    /// Their names; an operation is its place here.
    pub operations: &'static [&'static str],
    /// How who asks can have been proved; likewise.
    pub authentications: &'static [&'static str],
}

/// What a transaction works on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// It reads data.
    Read,
    /// It writes data.
    Write,
    /// It works on names and opens rather than on data, as limits count it.
    Metadata,
    /// Anything else.
    #[default]
    Other,
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = 4;
}

/// One transaction that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// The operation.
    pub operation: u8,
    /// How who asks was proved.
    pub authentication: u8,
    /// What it works on.
    pub kind: Kind,
    /// How it went.
    pub response: ResponseType,
    /// Bytes of the request, with its headers.
    pub ingress: u64,
    /// Bytes of the answer, with its headers.
    pub egress: u64,
    /// Bytes of data that were read or written.
    pub data: u64,
}
