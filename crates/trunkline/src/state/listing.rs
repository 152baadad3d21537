//! The files of a state directory that a backup contains.

use std::fs;
use std::io;
use std::path::Path;

use super::FIRST_PASSWORD;
use super::last_epoch;
use crate::archive::is_plain;

/// The names of all files that are part of a backup, as paths below the directory `dir`. Sidecar data, which
/// belongs to files of shares, is not among them.
pub fn member_names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = files_in(dir, "", is_member)?;
    let volumes = dir.join("volumes");
    if volumes.is_dir() {
        names.extend(files_in(&volumes, "volumes/", |name| name.ends_with(".opens"))?);
        for entry in fs::read_dir(&volumes)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() && is_number(&name) {
                // The folders there are sidecar data.
                let known = |name: &str| name == "file-systems" || name == "nodes";
                names.extend(files_in(&entry.path(), &format!("volumes/{name}/"), known)?);
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Whether a file at the top of the directory is part of a backup. The password of the first user is not: it
/// is there in plain text, for a few minutes. Sockets and locks belong to a process, and the last epoch to a
/// tenure store. The mark of a journal does not hold for an earlier content. Backups are no part of backups,
/// also those that a shell has compressed and put there, and those that are not complete.
fn is_member(name: &str) -> bool {
    let is_left_over = [".damaged", ".tar", ".partial"].iter().any(|part| name.contains(part));
    let is_left_over = is_left_over || name.ends_with(".new") || name.ends_with(".complete");
    !is_left_over && !["lock", "control.sock", last_epoch::NAME, FIRST_PASSWORD].contains(&name)
}

pub fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

fn files_in(dir: &Path, prefix: &str, fits: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_file() && fits(&name[prefix.len()..]) && is_plain(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_are_no_part_of_backups() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "state.redb",
            "nfs-clients.1.complete",
            "b.tar",
            "b.tar.zst",
            "b.7.partial",
            "b.tar.7.partial",
            "x.damaged",
            "lock",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(member_names(dir.path()).unwrap(), ["state.redb"]);
    }
}
