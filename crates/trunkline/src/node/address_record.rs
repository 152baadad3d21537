//! The record of the addresses that a node has brought up on its host.
//!
//! It is written before the first address is added. A process that was killed leaves its addresses behind,
//! and the next one on this host finds here that they are not the host's own.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// The record: the id of the boot, and one address in each further line.
#[derive(Debug)]
pub struct AddressRecord {
    path: PathBuf,
    boot_id: String,
    /// Those that this process has noted, also if the file could not be written.
    noted: Mutex<BTreeSet<IpAddr>>,
}

impl AddressRecord {
    /// The record of a virtual server in the directory of its node. Addresses of an earlier boot are gone, so
    /// a record with another `boot_id` is empty.
    pub fn new(run_dir: &Path, server: &str, boot_id: &str) -> AddressRecord {
        let path = run_dir.join(format!("node-{server}.addresses"));
        AddressRecord { path, boot_id: boot_id.to_owned(), noted: Mutex::default() }
    }

    /// The addresses that were noted, by this process or an earlier one of this boot.
    pub fn read(&self) -> BTreeSet<IpAddr> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let mut lines = text.lines();
        let is_of_boot = lines.next().is_some_and(|first| first == self.boot_id);
        let recorded = lines.filter(|_| is_of_boot).filter_map(|line| line.parse().ok());
        recorded.chain(self.noted.lock().iter().copied()).collect()
    }

    /// Notes addresses, in addition to those that are there.
    ///
    /// # Errors
    /// The file cannot be written. This process knows the addresses nevertheless.
    pub fn write(&self, addresses: impl Iterator<Item = IpAddr>) -> io::Result<()> {
        self.noted.lock().extend(addresses);
        let lines = self.read().into_iter().map(|address| format!("{address}\n"));
        let text = format!("{}\n{}", self.boot_id, lines.collect::<String>());
        let failed = |why: io::Error| io::Error::new(why.kind(), format!("{}: {why}", self.path.display()));
        let new = self.path.with_extension("addresses.new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &self.path)).map_err(failed)
    }

    /// Forgets all addresses, since this host has none of them any more.
    pub fn clear(&self) {
        self.noted.lock().clear();
        // One that stays names addresses that are not here.
        let _absent = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_process_of_the_same_boot_knows_the_addresses_until_they_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let of = |boot: &str| AddressRecord::new(dir.path(), "files", boot);
        let [four, six]: [IpAddr; 2] = ["10.0.0.50", "fd00::50"].map(|text| text.parse().unwrap());
        let record = of("1");
        assert!(record.read().is_empty());
        record.write([four, six].into_iter()).unwrap();
        assert_eq!(of("1").read(), BTreeSet::from([four, six]));
        assert!(of("2").read().is_empty());
        assert!(AddressRecord::new(dir.path(), "other", "1").read().is_empty());
        of("1").clear();
        assert!(of("1").read().is_empty());
    }

    #[test]
    fn a_record_that_cannot_be_written_is_told_of_and_the_process_knows_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let record = AddressRecord::new(&dir.path().join("missing"), "files", "1");
        let address: IpAddr = "10.0.0.50".parse().unwrap();
        let why = record.write(std::iter::once(address)).unwrap_err().to_string();
        assert!(why.contains("node-files.addresses"), "{why}");
        assert!(record.read().contains(&address));
        record.clear();
        assert!(record.read().is_empty());
    }
}
