//! Counts and records the operations of a COMPOUND when its reply is sent.

use nfs_wire::NfsStat;
use share::counts::{RequestDescription, TransactionKind};

use super::Connection;
use crate::compound::transactions::{CompoundTransactions, CountedOperation, Sample};

impl Connection {
    /// Counts the operations of a COMPOUND whose reply is sent now. The latency counts for its operations on
    /// data and metadata, since one reply carries all of them.
    pub(super) fn note(&mut self, transactions: CompoundTransactions) {
        for (at, CountedOperation { share, noted, status, sample }) in
            transactions.done.into_iter().enumerate()
        {
            let known = self.counters.known(share);
            let share_index = known.or_else(|| {
                let exports = self.server.exports();
                let export = exports.list().iter().find(|export| export.engine.number() == share)?;
                Some(self.counters.share_index(&export.engine))
            });
            let arrived_ns = (noted.kind != TransactionKind::Other).then_some(transactions.arrived_ns);
            self.counters.note(share_index.unwrap_or_default(), &noted, arrived_ns);
            if let Some(sample) = sample {
                let about = self.about(at, status, *sample);
                let (share_index, is_timed) = (share_index.unwrap_or_default(), arrived_ns.is_some());
                self.counters.record(share_index, &noted, transactions.arrived_ns, is_timed, about);
            }
        }
    }

    /// The details for the record of the operation at this position.
    #[cold]
    fn about(&self, at: usize, status: NfsStat, sample: Sample) -> RequestDescription {
        let mut numbers = vec![("nfsPlaceInCompound", at as u64)];
        numbers.extend(sample.numbers);
        RequestDescription {
            client: self.handle.peer.remote,
            server: self.handle.peer.local,
            version: sample.version,
            path: sample.path,
            status: status.get(),
            status_text: format!("{status:?}"),
            numbers,
            words: sample.words,
        }
    }
}
