//! Gets tickets by MIT's programs, to see whether the KDC and the keytab agree.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::controllers::{Kdc, krb5_conf};
use super::membership::MembershipError;
use super::program::{KINIT, KVNO, ProgramEnd, ProgramError};
use super::scratch::ScratchDir;

/// The longest run of one program.
const LIMIT: Duration = Duration::from_secs(10);
/// The lifetime of an administrator's ticket, and of one that is only tried. Two runs of `adcli` take less,
/// and clocks may be 5 minutes apart.
const LIFETIME: &str = "10m";

/// A credential cache of its own, with a krb5.conf that begins with the KDC that answered. Both are removed
/// with the value.
#[derive(Debug)]
pub struct TicketCache {
    directory: ScratchDir,
    /// The name of the cache, such as `FILE:/tmp/cache`.
    name: String,
    variables: Vec<(&'static str, OsString)>,
}

impl TicketCache {
    /// An empty cache. `kdc` is asked first, so that no program waits for a dead one.
    ///
    /// # Errors
    /// The host's.
    pub fn new(realm: &str, kdc: Option<&Kdc>) -> Result<TicketCache, MembershipError> {
        let directory = ScratchDir::new(&std::env::temp_dir())?;
        let mut configuration = krb5_conf();
        if let Some(address) = kdc.and_then(|kdc| kdc.address) {
            let file = directory.path().join("krb5.conf");
            let text = format!("[realms]\n  {realm} = {{\n    kdc = {address}\n  }}\n");
            std::fs::write(&file, text).map_err(|error| MembershipError::Host(file.clone(), error))?;
            configuration = [file.as_os_str(), ":".as_ref(), &configuration].into_iter().collect();
        }
        let name = format!("FILE:{}", directory.path().join("cache").display());
        let variables = vec![("KRB5_CONFIG", configuration), ("KRB5CCNAME", name.clone().into())];
        Ok(TicketCache { directory, name, variables })
    }

    /// The name of the cache, such as `FILE:/tmp/cache`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gets a first ticket for a user by the password.
    ///
    /// # Errors
    /// [`ProgramError`]
    pub fn log_on(&self, principal: &str, password: &str) -> Result<ProgramEnd, ProgramError> {
        let words = ["-l".into(), LIFETIME.into(), principal.into()];
        KINIT.run(&words, &self.variables, &format!("{password}\n"), LIMIT)
    }

    /// Gets a ticket for a service.
    ///
    /// # Errors
    /// [`ProgramError`]
    pub fn add(&self, principal: &str) -> Result<ProgramEnd, ProgramError> {
        KVNO.run(&[principal.into()], &self.variables, "", LIMIT)
    }

    /// Gets a first ticket for a principal by its key.
    ///
    /// # Errors
    /// [`ProgramError`]
    pub fn first(&self, keytab: &Path, principal: &str) -> Result<ProgramEnd, ProgramError> {
        let words = ["-k".into(), "-t".into(), keytab.as_os_str().to_owned(), principal.into()];
        KINIT.run(&words, &self.variables, "", LIMIT)
    }

    /// Tries whether a principal gets a first ticket by its key. The tickets of the cache stay.
    ///
    /// # Errors
    /// [`ProgramError`]
    pub fn try_key(&self, keytab: &Path, principal: &str) -> Result<ProgramEnd, ProgramError> {
        let other = format!("FILE:{}", self.directory.path().join("tried").display());
        let mut words = ["-c".into(), other.into(), "-l".into(), LIFETIME.into()].to_vec();
        words.extend(["-k".into(), "-t".into(), keytab.as_os_str().to_owned(), principal.into()]);
        KINIT.run(&words, &self.variables, "", LIMIT)
    }

    /// Gets a ticket for a service, and decrypts it by the keytab.
    ///
    /// # Errors
    /// [`ProgramError`]
    pub fn service(&self, keytab: &Path, principal: &str) -> Result<ProgramEnd, ProgramError> {
        let words = ["-k".into(), keytab.as_os_str().to_owned(), principal.into()];
        KVNO.run(&words, &self.variables, "", LIMIT)
    }
}
