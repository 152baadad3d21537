//! The settings of a share in the forms of its engine and of the SMB server.

use std::path::Path;
use std::sync::Arc;

use share::engine::AccountMapping;

use super::audit::AuditLog;
use super::homes::HomeDirectories;
use super::identity::IdentityMap;
use super::recycle;
use crate::config::{Origin, Share, ShareProtocol};
use crate::serve::plan::ServePlan;

/// The settings of a share for its engine.
pub fn engine_config(
    share: &Share,
    path: &Path,
    plan: &ServePlan,
    principals: &Arc<IdentityMap>,
    audit: &Arc<AuditLog>,
) -> share::Config {
    use std::os::unix::ffi::OsStrExt;
    let accounts: Arc<dyn AccountMapping> = Arc::<IdentityMap>::clone(principals);
    share::Config {
        name: share.name.value.clone(),
        read_only: share.read_only.value,
        case_sensitive: share.case_sensitive.value,
        hide_unreadable: share.hide_unreadable.value,
        symlinks: share.symlinks.value,
        follow_links: share.follow_symlinks.value,
        delete_through_links: share.delete_through_symlinks.value,
        streams: share.streams.value,
        watches: share.change_notify.value,
        send_file: share.send_file.value,
        metadata_caching: share.metadata_caching.value,
        hidden: share.hide_files.value.clone(),
        recycle: recycle::rules(share).map(Arc::new),
        // The configured patterns already include `.*`.
        dot_files_hidden: false,
        stable_records: plan.config.node.tenure.is_some(),
        break_timeout_ns: plan.config.server.testing.break_timeout_ms.value.saturating_mul(1_000_000),
        whole_break_timeout_ns: plan.config.server.nfs_lease_time_s.value.saturating_mul(1_000_000_000),
        host_path: path.as_os_str().as_bytes().to_vec(),
        accounts,
        audit: Some(Arc::<AuditLog>::clone(audit)),
        audit_classes: crate::config::audit::classes(&share.audit.value),
        ..share::Config::default()
    }
}

/// The settings of a share for the SMB server.
pub fn share_config(
    share: &Share,
    path: &Path,
    engine: &Arc<share::Share>,
    principals: &Arc<IdentityMap>,
) -> smb::ShareConfig {
    let users = share.users.iter().map(|(user, granted)| {
        let accounts: Arc<dyn AccountMapping> = Arc::<IdentityMap>::clone(principals);
        (smb::Grantee::new(user, accounts), granted.value)
    });
    let users: Vec<_> = users.collect();
    warn_of_unknown_groups(&share.name.value, &users);
    smb::ShareConfig {
        name: share.name.value.clone(),
        homes: HomeDirectories::of(share, path),
        account: share.account.as_ref().map(|account| account.value.clone()),
        comment: share.comment.value.clone(),
        engine: Arc::clone(engine),
        read_only: share.read_only.value,
        users: Some(users),
        encryption: share.encryption.value,
        inherits_encryption: matches!(share.encryption.origin, Origin::Inherited(_)),
        signing: share.signing.value,
        min_dialect: share.min_dialect.value,
        case_sensitive: share.case_sensitive.value,
        hide_unreadable: share.hide_unreadable.value,
        hidden: share.name.value.ends_with('$'),
        continuously_available: engine.keeps_opens() && share.continuously_available.value,
    }
}

/// Logs a warning for each group or account of a domain that is unknown now and so has no access.
fn warn_of_unknown_groups(share: &str, users: &[(smb::Grantee, smb::Access)]) {
    for (grantee, _) in users.iter().filter(|(one, _)| one.needs_sid() && one.sid().is_none()) {
        let (name, (_, domain, _)) = (grantee.name(), smb::config::grantee::parts(grantee.name()));
        match domain {
            // The faults of the domain name it.
            Some(_) if grantee.is_unmarked_group() => {}
            None => tracing::warn!(
                share,
                name,
                "`users` names a group that the host does not know, and it has no access; run `getent \
                 group`, and reload once the group is there"
            ),
            Some(_) => tracing::warn!(
                share,
                name,
                "`users` names an account of a domain that the server does not know, and it has no access \
                 until it is known"
            ),
        }
    }
}

/// Warns when `continuously_available` is on, but the share was opened without keeping its opens.
pub fn warn_if_opens_need_restart(share: &Share, engine: &share::Share) {
    if share.continuously_available.value && !engine.keeps_opens() {
        tracing::warn!(
            share = %share.name.value,
            "`continuously_available` takes effect at the next start"
        );
    }
}

/// Whether the plan offers the share of this SMB configuration over SMB.
pub fn is_offered_over_smb(plan: &ServePlan, config: &smb::ShareConfig) -> bool {
    let mut named = plan.config.shares.values().filter(|share| share.name.value == config.name);
    named.all(|share| share.offers(ShareProtocol::Smb))
}
