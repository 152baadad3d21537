//! The steps of the examination that need the directory of Active Directory: the log-on to it, and the ids of
//! the domain's users. A plain realm has neither.

use std::time::Instant;

use identity::AccountKey;

use super::accounts;
use super::controllers::Kdcs;
use super::directory::MachineAccount;
use super::examine::{DomainStepResult, Examination};
use super::keytab::Keytab;
use super::search::DirectorySearch;

/// The relative identifier of Domain Users, which each domain has (MS-DTYP 2.4.2.4).
const DOMAIN_USERS: u32 = 513;

impl Examination<'_> {
    /// Logs on to the directory as the machine account and reads its entry.
    pub(super) fn directory(&mut self, kdcs: &Kdcs, own: &Keytab) {
        const STEP: &str = "directory";
        let Some(account) = own.machine_account() else {
            if self.is_directory && !own.entries.is_empty() {
                let seen = "the keytab has no machine account, so nobody can ask the directory".to_owned();
                let mend = format!("for names and ids of users, `trunkline domain join {}`", self.of.realm);
                self.add(STEP, DomainStepResult::Remark, seen, Some(mend));
            }
            return;
        };
        if !self.has_worked("ticket") {
            return self.untried(STEP);
        }
        let begun = Instant::now();
        match self.read_entry(account, &kdcs.silent()) {
            Ok((controller, true)) => {
                let protected = if self.of.settings.ldap_ca.is_some() { "TLS" } else { "Kerberos" };
                let took = begun.elapsed().as_millis();
                let seen = format!(
                    "{controller} takes the log-on of {account} and shows its entry after {took} ms, \
                     protected by {protected}"
                );
                self.works(STEP, seen);
            }
            Ok((controller, false)) => {
                let seen = format!("{controller} shows no entry of {account}");
                let mend = "wait until the controllers have copied it, or let the account read itself";
                self.fault(STEP, seen, mend);
            }
            Err(why) => {
                let mend = "open port 389 (TCP) to the controllers; for TLS check `ldap_ca` in [domain], and \
                            the certificate of the controller";
                self.fault(STEP, why, mend);
            }
        }
    }

    /// The controller that took the log-on, and whether it shows the entry of the account.
    fn read_entry(&self, account: &str, silent: &[&str]) -> Result<(String, bool), String> {
        let realm = self.of.realm;
        let tls = accounts::DirectoryAccess::of(self.of.settings)?.tls()?;
        let machine = MachineAccount::new(realm, &format!("{account}@{realm}"), self.of.keytab.to_owned());
        let mut search = DirectorySearch::begin(&machine, realm, tls.as_ref(), silent)?;
        let is_there = search.account(account)?.is_some();
        Ok((search.controller, is_there))
    }

    /// Looks up the group that all users of the domain are in.
    pub(super) fn ids(&mut self, own: &Keytab) {
        const STEP: &str = "ids";
        let settings = self.of.settings;
        if own.machine_account().is_none() && settings.id_mapping.is_none() {
            return;
        }
        if settings.id_mapping.is_none() {
            let seen = "`id_mapping` is not set, so only users of the server itself log on".to_owned();
            let mend =
                "for users of the domain set `id_mapping = \"rid\"` and `id_range` in [domain]".to_owned();
            return self.add(STEP, DomainStepResult::Remark, seen, Some(mend));
        }
        let mapping = match accounts::id_mapping(settings) {
            Ok(mapping) => mapping,
            Err(mend) => return self.fault(STEP, "users of the domain have no ids", mend),
        };
        if !self.has_worked("directory") {
            return self.untried(STEP);
        }
        let group = accounts::domain_sid(settings).and_then(|sid| {
            let key =
                sid.child(DOMAIN_USERS).map(AccountKey::Sid).ok_or("mend `domain_sid` in `[domain]`")?;
            let access = accounts::DirectoryAccess::of(settings)?;
            let resolver = accounts::resolver(&access, accounts::settings(settings, mapping)?)?;
            resolver.group(&key).map_err(|why| why.to_string())
        });
        match group {
            Ok(Some(group)) => match group.gid {
                Some(gid) => self.works(STEP, format!("{} has the gid {gid}", group.nt_name())),
                None => {
                    let seen = format!("{} has no gid", group.nt_name());
                    let mend = "give it `gidNumber` within `id_range`, or a line in `id_file`".to_owned();
                    self.add(STEP, DomainStepResult::Remark, seen, Some(mend));
                }
            },
            Ok(None) => {
                let seen = "the directory has no group Domain Users with the SID of `domain_sid`";
                self.fault(STEP, seen, "take `domain_sid` from `trunkline domain join`");
            }
            Err(why) => self.fault(STEP, why, "see the step directory, and docs/identity.md"),
        }
    }
}
