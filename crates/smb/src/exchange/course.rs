//! What limits, counts and records know of a request until it is answered.

use share::counts::{Sampled, ShareIndex};
use share::limits::{Charge, ResponseType};
use smb_wire::FileId;
use wire::Now;

use crate::counting::NOT_PROVED;

/// What is known of a request until it is answered.
#[derive(Debug)]
pub struct Course {
    /// The limits of its share have let it pass, or hold it just now.
    pub has_passed: bool,
    /// What it has taken from them while it waited for its turn.
    pub(crate) charge: Charge,
    /// The share that it is for.
    pub place: ShareIndex,
    /// Which limit it has met.
    pub met: ResponseType,
    /// When it was taken up (monotonic ns).
    pub(crate) arrived_ns: u64,
    /// Its bytes.
    pub(crate) len: usize,
    /// Bytes of data that it has written.
    pub written: usize,
    /// Bytes of data behind what is in its answer's frame.
    pub attached: usize,
    /// How its session was logged on: a place in [`FAMILY`]'s authentications.
    pub authentication: u8,
    /// What its record says further; none: it is not recorded.
    pub(crate) sample: Option<Box<Sample>>,
}

impl Course {
    /// Of a request of so many bytes.
    pub fn new(len: usize, now: Now) -> Course {
        Course {
            has_passed: false,
            charge: Charge::default(),
            place: ShareIndex::default(),
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

/// What is known of a request that is recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    pub with_paths: bool,
    pub path: Option<String>,
    pub file_id: Option<FileId>,
    /// The file's number on its file system.
    pub file: Option<u64>,
    pub is_directory: bool,
    /// What kind of its command it is, or what came of it.
    pub minor: Option<String>,
    /// What it says further.
    pub detail: Option<String>,
}

impl Sample {
    /// Of a request of which nothing is looked at.
    pub(crate) fn unseen(sampled: Sampled) -> Box<Sample> {
        Box::new(Sample { with_paths: sampled.with_paths, ..Sample::default() })
    }
}
