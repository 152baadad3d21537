//! The gates that one request passes, from the narrowest to the widest: file, share, account.

use super::formula::{AccountProvision, Provision, Throughput};
use super::outcome::ResponseType;
use crate::FileNumber;

/// The work of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeteredWork {
    /// Reads data.
    Read {
        /// The file.
        file: FileNumber,
        /// How many bytes.
        len: u64,
    },
    /// Writes data.
    Write {
        /// The file.
        file: FileNumber,
        /// How many bytes.
        len: u64,
    },
    /// Anything that works on names and opens rather than on data.
    Metadata,
}

impl MeteredWork {
    /// The file whose data is transferred.
    #[must_use]
    pub fn file(self) -> Option<FileNumber> {
        match self {
            MeteredWork::Read { file, .. } | MeteredWork::Write { file, .. } => Some(file),
            MeteredWork::Metadata => None,
        }
    }

    /// The bytes that the request asks for.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            MeteredWork::Read { len, .. } | MeteredWork::Write { len, .. } => len,
            MeteredWork::Metadata => 0,
        }
    }
}

/// The object that a gate belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Owner {
    File(u32, FileNumber),
    Share(u32),
    Account,
}

/// The unit that a gate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum GateUnit {
    Operations,
    Ingress,
    Egress,
    /// Both directions together.
    Bytes,
    Metadata,
}

impl GateUnit {
    /// Whether the gate counts bytes. Unused bytes are returned.
    pub fn is_bytes(self) -> bool {
        matches!(self, GateUnit::Bytes | GateUnit::Ingress | GateUnit::Egress)
    }
}

/// The key of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub owner: Owner,
    pub passing: GateUnit,
}

impl Key {
    /// Whether a request that waits at this gate is held back by another limit than the operations of its
    /// share.
    pub fn withholds(self) -> bool {
        match self.owner {
            Owner::File(..) => false,
            Owner::Share(_) => !matches!(self.passing, GateUnit::Operations | GateUnit::Metadata),
            Owner::Account => true,
        }
    }
}

/// One gate on the path of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathGate {
    pub key: Key,
    /// The tokens that are taken there.
    pub cost: u64,
    /// The outcome of a request that is held there.
    pub met: ResponseType,
}

/// The most gates: two each for file, share and account.
const MOST: usize = 6;

/// The gates that one request passes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GatePath {
    steps: [Option<PathGate>; MOST],
    len: usize,
}

impl GatePath {
    /// The path of a request on this share.
    pub fn of(
        share: u32,
        work: MeteredWork,
        provision: &Provision,
        account: Option<&AccountProvision>,
    ) -> GatePath {
        let mut path = GatePath::default();
        let (file, len, writes) = match work {
            MeteredWork::Metadata => {
                let key = Key { owner: Owner::Share(share), passing: GateUnit::Metadata };
                path.push(PathGate { key, cost: 1, met: ResponseType::SuccessWithMetadataThrottling });
                return path;
            }
            MeteredWork::Read { file, len } => (file, len, false),
            MeteredWork::Write { file, len } => (file, len, true),
        };
        let own = if writes {
            ResponseType::SuccessWithShareIngressThrottling
        } else {
            ResponseType::SuccessWithShareEgressThrottling
        };
        let other = ResponseType::SuccessWithThrottling;
        let file = Owner::File(share, file);
        path.push(PathGate { key: Key { owner: file, passing: GateUnit::Operations }, cost: 1, met: other });
        path.push(PathGate { key: Key { owner: file, passing: GateUnit::Bytes }, cost: len, met: other });
        let operations = ResponseType::SuccessWithShareIopsThrottling;
        path.data(Owner::Share(share), writes, len, provision.throughput, operations, own);
        if let Some(account) = account {
            path.data(Owner::Account, writes, len, account.throughput, other, other);
        }
        path
    }

    fn data(
        &mut self,
        owner: Owner,
        writes: bool,
        len: u64,
        throughput: Throughput,
        operations_met: ResponseType,
        bytes_met: ResponseType,
    ) {
        let passing = match throughput {
            Throughput::Together(_) => GateUnit::Bytes,
            Throughput::Apart { .. } if writes => GateUnit::Ingress,
            Throughput::Apart { .. } => GateUnit::Egress,
        };
        self.push(PathGate {
            key: Key { owner, passing: GateUnit::Operations },
            cost: 1,
            met: operations_met,
        });
        self.push(PathGate { key: Key { owner, passing }, cost: len, met: bytes_met });
    }

    fn push(&mut self, step: PathGate) {
        if let Some(slot) = self.steps.get_mut(self.len) {
            *slot = Some(step);
            self.len += 1;
        }
    }

    /// The gate at this index; none behind the last one.
    pub fn step(&self, at: usize) -> Option<PathGate> {
        self.steps.get(at).copied().flatten()
    }

    /// All gates of the path.
    pub fn steps(&self) -> impl Iterator<Item = PathGate> + '_ {
        self.steps.iter().copied().flatten()
    }
}
