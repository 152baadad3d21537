//! Runs the operations of a COMPOUND, one after the other. Start with [`Run::dispatch`].

use nfs_wire::NfsStat;
use nfs_wire::compound::Operations;
use nfs_wire::op::{Args, OpNum};

use super::current::Current;
use super::{CompoundProgress, Run, Stop};
use crate::op;

impl Run {
    /// Runs operations until all are done, one fails, or one must wait.
    pub fn dispatch<'a>(&mut self, mut operations: Operations<'a, Args<'a>>) -> CompoundProgress {
        let _scope = share::RequesterScope::enter(self.credentials.address());
        loop {
            let (position, left, from) = (operations.position(), operations.left(), self.writer.len());
            let args = match operations.next() {
                None => return CompoundProgress::Done,
                Some(Ok(Args::Illegal(_))) => {
                    // At any position (RFC 8881 15.1.3.4).
                    self.status = NfsStat::OpIllegal;
                    self.writer.put_illegal();
                    self.note(OpNum::Unknown(0), None, 0, self.writer.len() - from);
                    return CompoundProgress::Done;
                }
                Some(Ok(args)) => args,
                Some(Err(bad)) => {
                    tracing::debug!(%bad, "refused an operation");
                    self.status = NfsStat::BadXdr;
                    self.writer.put_status(bad.number, NfsStat::BadXdr);
                    self.note(OpNum::new(bad.number), None, 0, self.writer.len() - from);
                    return CompoundProgress::Done;
                }
            };
            self.is_last = left == 1;
            if matches!(args, Args::Sequence(_)) {
                self.next_number = operations.clone().next().and_then(Result::ok).map(|next| next.number());
            }
            let mark = self.writer.mark();
            let number = args.number();
            self.current_op = Some((mark, number));
            let done = self.check_place(number).map_err(Stop::Fail);
            let done = done.and_then(|()| self.check_groups(number));
            let done = done.and_then(|()| self.throttle_metadata(number)).and_then(|()| op::run(self, &args));
            match done {
                Ok(()) if self.replay.is_some() => return CompoundProgress::Done,
                Ok(()) => {}
                Err(stop @ (Stop::Work | Stop::Hold)) => {
                    self.writer.truncate(mark);
                    return match stop {
                        Stop::Hold => CompoundProgress::Hold { position, left },
                        _ => CompoundProgress::Work { position, left },
                    };
                }
                Err(Stop::Written(status)) => self.status = status,
                Err(Stop::Fail(status)) => {
                    let status = self.revoked_meanwhile(&args, status).unwrap_or(status);
                    self.writer.truncate(mark);
                    self.writer.put_status(number, status);
                    self.status = status;
                }
            }
            if let Some(status) = self.too_big() {
                self.writer.truncate(mark);
                self.writer.put_status(number, status);
                self.status = status;
            }
            self.note(number, Some(&args), operations.position() - position, self.writer.len() - from);
            if !self.status.is_ok() {
                tracing::debug!(operation = ?number, status = ?self.status, "a COMPOUND ended early");
                return CompoundProgress::Done;
            }
            self.throttle.operation_done();
            if self.throttle.is_waiting() {
                return CompoundProgress::Hold { position: operations.position(), left: operations.left() };
            }
        }
    }

    /// Checks that an operation is allowed at its position in the COMPOUND.
    // RFC 8881 2.6.3.1.1.1, 18.46.3
    fn check_place(&self, number: OpNum) -> Result<(), NfsStat> {
        let is_first = self.writer.is_empty();
        let stands_alone = matches!(
            number,
            OpNum::ExchangeId
                | OpNum::CreateSession
                | OpNum::DestroySession
                | OpNum::BindConnToSession
                | OpNum::DestroyClientId
        );
        match number {
            OpNum::Sequence if is_first => Ok(()),
            OpNum::Sequence => Err(NfsStat::SequencePos),
            OpNum::BindConnToSession if self.count > 1 => Err(NfsStat::NotOnlyOp),
            _ if !is_first => Ok(()),
            _ if stands_alone && self.count > 1 => Err(NfsStat::NotOnlyOp),
            _ if stands_alone => Ok(()),
            _ => Err(NfsStat::OpNotInSession),
        }
    }

    /// Makes sure that the groups of the requester are known for an operation on files. Operations that give
    /// something back need none, so a directory that is silent keeps no lock.
    fn check_groups(&self, number: OpNum) -> Result<(), Stop> {
        let needs_none = matches!(
            number,
            OpNum::Sequence
                | OpNum::PutFh
                | OpNum::PutRootFh
                | OpNum::PutPubFh
                | OpNum::SaveFh
                | OpNum::RestoreFh
                | OpNum::GetFh
                | OpNum::Close
                | OpNum::LockU
                | OpNum::OpenDowngrade
                | OpNum::DelegReturn
                | OpNum::FreeStateId
                | OpNum::TestStateId
                | OpNum::ReclaimComplete
                | OpNum::BackchannelCtl
        );
        if needs_none {
            return Ok(());
        }
        let handles = self.current.iter().chain(&self.saved);
        handles.filter_map(Current::export).try_for_each(|export| self.look_up_groups(export))
    }

    /// The error for a reply that is longer than the session allows.
    fn too_big(&self) -> Option<NfsStat> {
        let (serving, session) = (self.serving?, self.session.as_ref()?);
        let len = self.writer.len();
        if len > session.fore.maxresponsesize as usize {
            Some(NfsStat::RepTooBig)
        } else if serving.cache && len > session.fore.maxresponsesize_cached as usize {
            Some(NfsStat::RepTooBigToCache)
        } else {
            None
        }
    }
}
