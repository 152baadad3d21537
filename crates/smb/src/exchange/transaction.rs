//! The values that limits, counts and records need of a request until it is answered.

use share::counts::{Sampled, ShareIndex};
use share::limits::{Charge, ResponseType};
use smb_wire::FileId;
use wire::Now;

use crate::counting::NOT_PROVED;

/// The state of a request for limits, counts and records, until it is answered.
#[derive(Debug)]
pub struct TransactionState {
    /// The limits of its share have let it pass, or they delay it now.
    pub has_passed: bool,
    /// The charge that it took from the limits while it waited.
    pub(crate) charge: Charge,
    /// The share that it is counted for.
    pub share_index: ShareIndex,
    /// The limit that it has met.
    pub met: ResponseType,
    /// When it arrived (monotonic ns).
    pub(crate) arrived_ns: u64,
    /// Its length in bytes.
    pub(crate) len: usize,
    /// The bytes of data that it has written.
    pub written: usize,
    /// The bytes of data that follow its reply's frame.
    pub attached: usize,
    /// The authentication of its session: an index into `FAMILY`'s authentications.
    pub authentication: u8,
    /// The values of its record, if it is sampled.
    pub(crate) sample: Option<Box<Sample>>,
}

impl TransactionState {
    /// The state of a request of `len` bytes.
    pub fn new(len: usize, now: Now) -> TransactionState {
        TransactionState {
            has_passed: false,
            charge: Charge::default(),
            share_index: ShareIndex::default(),
            met: ResponseType::Success,
            arrived_ns: now.mono_ns,
            len,
            written: 0,
            attached: 0,
            authentication: NOT_PROVED,
            sample: None,
        }
    }
}

/// The values of a sampled request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    pub with_paths: bool,
    pub path: Option<String>,
    pub file_id: Option<FileId>,
    /// The file's number on its file system.
    pub file: Option<u64>,
    pub is_directory: bool,
    /// The variant of its command, or its result.
    pub minor: Option<String>,
    /// Further details of it.
    pub detail: Option<String>,
}

impl Sample {
    /// The sample of a request that was not read.
    pub(crate) fn unseen(sampled: Sampled) -> Box<Sample> {
        Box::new(Sample { with_paths: sampled.with_paths, ..Sample::default() })
    }
}
