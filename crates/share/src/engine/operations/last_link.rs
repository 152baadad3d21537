//! The last of the followed links in place of its target, for requests that remove or rename the name.

use std::sync::Arc;

use volume::security::Rights;

use crate::engine::Share;
use crate::engine::parts::followed_links::LastLink;
use crate::{
    AuditedOperation, CallResult, Caller, Deny, Disposition, Open, OpenRequest, OpenResult, Options, Refusal,
};

impl Share {
    /// Acts on the name by which a client has opened an object: on the link itself if its path ended with
    /// one.
    pub(crate) fn with_last_link(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        act: impl FnOnce(&Arc<Open>) -> CallResult<()>,
    ) -> CallResult<()> {
        match self.last_link(caller, open) {
            Some(CallResult::Done(link)) => act(&link),
            Some(CallResult::Wait(ticket)) => CallResult::Wait(ticket),
            Some(CallResult::Refused(why)) => CallResult::Refused(why),
            None => act(open),
        }
    }

    /// The link at the end of the path of an open, opened itself to be removed or renamed.
    fn last_link(&self, caller: &Caller<'_>, open: &Arc<Open>) -> Option<CallResult<Arc<Open>>> {
        let followed = open.followed.get().filter(|_| !open.stream.is_named)?;
        let last = followed.trail.last.as_ref()?;
        if !open.granted.contains(Rights::DELETE) {
            return Some(CallResult::Refused(Refusal::AccessDenied));
        }
        if let Some(opened) = followed.link() {
            return Some(CallResult::Done(opened));
        }
        Some(self.open_link(caller, last).map(|opened| {
            let link = opened.open;
            match followed.keep_link(&link) {
                Some(first) => {
                    let _nothing_goes = self.close(&link, caller.cause());
                    first
                }
                None => link,
            }
        }))
    }

    fn open_link(&self, caller: &Caller<'_>, last: &LastLink) -> CallResult<OpenResult> {
        let path = last.parent.path_to(&last.name);
        let request = OpenRequest {
            path: caller.identity.path_from_home(&path),
            stream: None,
            access: Rights::DELETE | Rights::READ_ATTRIBUTES,
            deny: Deny::empty(),
            disposition: Disposition::Open,
            options: Options::OPEN_LINK | Options::EXACT_CASE,
            attributes: crate::Attributes::empty(),
            mode: None,
            descriptor: None,
            extended: &[],
            allocation: 0,
            caching: None,
            step_of: Some(AuditedOperation::Open),
        };
        let opened = match self.create(caller, &request) {
            CallResult::Done(opened) => opened,
            other => return other,
        };
        if opened.open.file.id == last.id {
            return CallResult::Done(opened);
        }
        // The name leads to another object since.
        let _nothing_goes = self.close(&opened.open, caller.cause());
        CallResult::Refused(Refusal::Gone)
    }
}
