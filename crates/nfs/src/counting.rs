//! Transactions: each operation of a COMPOUND is one. A COMPOUND may be done on other threads than its connection's, so
//! it takes along what is to be noted ([`Course`]), and its connection notes it with the answer.

use nfs_wire::NfsStat;
use nfs_wire::op::{Args, OpNum};
use share::counts::{Family, Kind, Noted, Sampled};
use share::limits::ResponseType;
use smallvec::SmallVec;

use crate::compound::Run;
use crate::compound::noting::Sample;
use crate::compound::pacing::{Count, count};
use crate::connection::Connection;

/// One more than the highest number of an operation (RFC 8276).
const OPERATIONS: usize = 76;

/// The operations by their numbers; the first place is for those that there are not.
pub static FAMILY: Family =
    Family { name: "NFS", operations: &NAMES, authentications: &["AUTH_SYS", "AUTH_NONE"] };

static NAMES: [&str; OPERATIONS] = names();

const fn names() -> [&'static str; OPERATIONS] {
    let mut names = ["Unknown"; OPERATIONS];
    let mut at = 0;
    while at < OPERATIONS {
        if let Some(name) = OpNum::new(at as u32).name() {
            names[at] = name;
        }
        at += 1;
    }
    names
}

/// Operations of the usual COMPOUND.
const USUAL: usize = 8;

/// An operation that was done.
#[derive(Debug)]
struct Done {
    /// The share's number; zero for none.
    share: u64,
    noted: Noted,
    status: NfsStat,
    /// What its record says further; none: it is not recorded.
    sample: Option<Box<Sample>>,
}

/// What is known of a COMPOUND until it is answered.
#[derive(Debug, Default)]
pub struct Course {
    /// When it was taken up (monotonic ns).
    arrived_ns: u64,
    authentication: u8,
    done: SmallVec<[Done; USUAL]>,
    /// Something in it has counted among the operations on data or metadata.
    has_counted: bool,
    /// Which of its operations are recorded.
    pub(crate) sampled: Option<Sampled>,
    /// Bytes of data that the operation which is done now has read or written.
    pub data: usize,
}

impl Course {
    /// Of a COMPOUND that begins.
    #[must_use]
    pub fn new(arrived_ns: u64, is_sys: bool) -> Course {
        Course { arrived_ns, authentication: u8::from(!is_sys), ..Course::default() }
    }

    /// The operation that was done last has met a limit after all.
    pub fn last_has_met(&mut self, met: ResponseType) {
        if let Some(last) = self.done.last_mut()
            && last.noted.response.is_success()
        {
            last.noted.response = met;
        }
    }

    fn kind(&mut self, number: OpNum) -> Kind {
        let kind = match (number, count(number)) {
            (OpNum::Read | OpNum::ReadPlus, _) => Kind::Read,
            (OpNum::Write, _) => Kind::Write,
            (_, Count::Always) => Kind::Metadata,
            (_, Count::Alone) if !self.has_counted => Kind::Metadata,
            (_, Count::Alone | Count::No) => Kind::Other,
        };
        self.has_counted |= kind != Kind::Other;
        kind
    }
}

impl Run {
    /// Notes an operation that has ended with the status that the COMPOUND has now; `ingress` and `egress` are the bytes of
    /// its arguments and of its result.
    pub(crate) fn note(&mut self, number: OpNum, args: Option<&Args<'_>>, ingress: usize, egress: usize) {
        let export = self.current.as_ref().and_then(|current| current.export());
        let share = export.map_or(0, |export| export.engine.number());
        let met = self.pacing.take_met();
        let kind = self.course.kind(number);
        let response = response(self.status, met);
        let data = std::mem::take(&mut self.course.data);
        let known = usize::try_from(number.get()).is_ok_and(|number| number < OPERATIONS);
        let noted = Noted {
            operation: if known { number.get() as u8 } else { 0 },
            authentication: self.course.authentication,
            kind,
            response,
            ingress: ingress as u64,
            egress: egress as u64,
            data: if response.is_success() { data as u64 } else { 0 },
        };
        let at = self.course.done.len() as u64;
        let sampled = self.course.sampled.filter(|sampled| sampled.takes(at));
        let sample = sampled.map(|sampled| self.sample(sampled, args));
        self.course.done.push(Done { share, noted, status: self.status, sample });
    }
}

impl Connection {
    /// Notes what was done of a COMPOUND that is answered now. How long it took counts for its operations on data and
    /// metadata: the answers of all of them leave together.
    pub(crate) fn note(&mut self, course: Course) {
        for (at, Done { share, noted, status, sample }) in course.done.into_iter().enumerate() {
            let known = self.desk.known(share);
            let place = known.or_else(|| {
                let exports = self.server.exports();
                let export = exports.list().iter().find(|export| export.engine.number() == share)?;
                Some(self.desk.place(&export.engine))
            });
            let arrived_ns = (noted.kind != Kind::Other).then_some(course.arrived_ns);
            self.desk.note(place.unwrap_or_default(), &noted, arrived_ns);
            if let Some(sample) = sample {
                let about = self.about(at, status, *sample);
                let arrived = (course.arrived_ns, arrived_ns.is_some());
                self.desk.record(place.unwrap_or_default(), &noted, arrived, about);
            }
        }
    }
}

/// How an operation went that ended with this status, when it had met this limit before.
fn response(status: NfsStat, met: ResponseType) -> ResponseType {
    match status {
        NfsStat::Ok => met,
        NfsStat::Access | NfsStat::Perm | NfsStat::RoFs => ResponseType::AuthorizationError,
        NfsStat::WrongSec | NfsStat::BadSession | NfsStat::StaleClientId => ResponseType::AuthenticationError,
        NfsStat::Io | NfsStat::ServerFault => ResponseType::ServerOtherError,
        _ => ResponseType::ClientOtherError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_their_names_by_their_numbers() {
        assert_eq!(NAMES[..4], ["Unknown", "Unknown", "Unknown", "ACCESS"]);
        assert_eq!(NAMES[OpNum::Read.get() as usize], "READ");
        assert_eq!(NAMES[OPERATIONS - 1], "REMOVEXATTR");
        assert_eq!(NAMES.iter().filter(|name| **name == "Unknown").count(), 3);
    }

    #[test]
    fn what_comes_along_with_something_else_counts_once() {
        let mut course = Course::default();
        assert_eq!([OpNum::Sequence, OpNum::PutFh].map(|number| course.kind(number)), [Kind::Other; 2]);
        assert_eq!(course.kind(OpNum::Lookup), Kind::Metadata);
        assert_eq!(course.kind(OpNum::GetAttr), Kind::Other);
        assert_eq!(course.kind(OpNum::Open), Kind::Metadata);
        assert_eq!(course.kind(OpNum::Write), Kind::Write);
    }
}
