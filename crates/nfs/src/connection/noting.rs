//! What is counted and recorded of a COMPOUND when it is answered.

use nfs_wire::NfsStat;
use share::counts::{RequestDescription, TransactionKind};

use super::Connection;
use crate::compound::course::{Course, Done, Sample};

impl Connection {
    /// Notes what was done of a COMPOUND that is answered now. How long it took counts for its operations on data and
    /// metadata: the answers of all of them leave together.
    pub(super) fn note(&mut self, course: Course) {
        for (at, Done { share, noted, status, sample }) in course.done.into_iter().enumerate() {
            let known = self.desk.known(share);
            let place = known.or_else(|| {
                let exports = self.server.exports();
                let export = exports.list().iter().find(|export| export.engine.number() == share)?;
                Some(self.desk.place(&export.engine))
            });
            let arrived_ns = (noted.kind != TransactionKind::Other).then_some(course.arrived_ns);
            self.desk.note(place.unwrap_or_default(), &noted, arrived_ns);
            if let Some(sample) = sample {
                let about = self.about(at, status, *sample);
                let (place, is_timed) = (place.unwrap_or_default(), arrived_ns.is_some());
                self.desk.record(place, &noted, course.arrived_ns, is_timed, about);
            }
        }
    }

    /// What a record says of the operation at this place of its COMPOUND beside what is counted.
    #[cold]
    fn about(&self, at: usize, status: NfsStat, sample: Sample) -> RequestDescription {
        let mut numbers = vec![("nfsPlaceInCompound", at as u64)];
        numbers.extend(sample.numbers);
        RequestDescription {
            client: self.way.peer.remote,
            server: self.way.peer.local,
            version: sample.version,
            path: sample.path,
            status: status.get(),
            status_text: format!("{status:?}"),
            numbers,
            words: sample.words,
        }
    }
}
