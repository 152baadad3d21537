//! Tests of the way from one version of the state directory to the next and back, with a power cut at each
//! step.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::disk::Disk;
use super::listing::member_names;
use super::lock::LockUse;
use super::version::{KnownVersions, VersionFile, next};
use super::{StateDir, StateError, replacement};

const OLD: KnownVersions = KnownVersions { newest: 1, migrations: &[] };
const NEW: KnownVersions = next::VERSIONS;

fn scratch_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn open(dir: &Path, known: &KnownVersions) -> Result<StateDir, StateError> {
    StateDir::open_as(dir, LockUse::Command, known, &Disk::default())
}

/// A directory of version 1 with a number and a file.
fn old_directory() -> tempfile::TempDir {
    let dir = scratch_dir();
    let state = open(dir.path(), &OLD).unwrap();
    state.write_file("changes.toml", b"[share.a]\npath = \"/srv/a\"\n").unwrap();
    state.opens_path(Path::new("/srv/a")).unwrap();
    dir
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    member_names(dir)
        .unwrap()
        .into_iter()
        .map(|name| (name.clone(), fs::read(dir.join(name)).unwrap()))
        .collect()
}

#[test]
fn the_next_version_and_back_keep_later_changes() {
    let dir = old_directory();
    let identity = open(dir.path(), &OLD).unwrap().store().identity();
    let state = open(dir.path(), &NEW).unwrap();
    assert_eq!(state.store().identity(), identity);
    let later = state.store().rid("ann").unwrap();
    drop(state);
    assert!(dir.path().join(next::FILE).exists() && dir.path().join("before-version-2.tar").exists());
    assert_eq!(fs::read_to_string(dir.path().join("version")).unwrap(), VersionFile::text(2));
    // The older program refuses it in one line.
    let before = files(dir.path());
    let error = open(dir.path(), &OLD).unwrap_err().to_string();
    let wanted = format!("its version is 2, written by {}", super::PROGRAM);
    assert!(error.contains(&wanted) && error.contains("downgrade") && !error.contains('\n'), "{error}");
    assert_eq!(files(dir.path()), before);
    assert_eq!(StateDir::downgrade(dir.path(), None, &NEW, &Disk::default()).unwrap(), (2, 1));
    assert!(!dir.path().join(next::FILE).exists());
    let state = open(dir.path(), &OLD).unwrap();
    assert_eq!((state.store().identity(), state.store().rid("ann").unwrap()), (identity, later));
    // There is nothing below the first version.
    drop(state);
    let error = StateDir::downgrade(dir.path(), None, &NEW, &Disk::default()).unwrap_err().to_string();
    assert!(error.contains("no step from version 1 to version 0"), "{error}");
}

#[test]
fn a_power_cut_leaves_the_old_version_or_the_new_one() {
    for is_up in [true, false] {
        let (mut were_old, mut were_new) = (0, 0);
        for changes in 0.. {
            let dir = old_directory();
            if !is_up {
                open(dir.path(), &NEW).unwrap();
            }
            let disk = Disk::failing_after(changes);
            let done = match is_up {
                true => StateDir::open_as(dir.path(), LockUse::Command, &NEW, &disk).map(drop),
                false => StateDir::downgrade(dir.path(), None, &NEW, &disk).map(drop),
            };
            replacement::recover(dir.path(), &Disk::default()).unwrap();
            let version = fs::read_to_string(dir.path().join("version")).unwrap();
            let is_second = version == VersionFile::text(2);
            assert!(is_second || version == VersionFile::text(1), "{version}");
            assert_eq!(dir.path().join(next::FILE).exists(), is_second);
            let is_new = is_second == is_up;
            were_old += u32::from(!is_new);
            were_new += u32::from(is_new);
            // Whichever it is, a program of that version starts, and the newer one in any case.
            open(dir.path(), if is_second { &NEW } else { &OLD }).unwrap();
            open(dir.path(), &NEW).unwrap();
            match done {
                Ok(()) => {
                    assert!(is_new);
                    break;
                }
                Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
            }
        }
        assert!(were_old > 4 && were_new > 4, "{were_old} and {were_new}");
    }
}

#[test]
fn a_version_without_a_way_is_refused_and_stays() {
    const LATER: KnownVersions = KnownVersions {
        newest: 3,
        migrations: &[super::version::Migration { from: 2, ..NEW.migrations[0] }],
    };
    let dir = old_directory();
    let before = files(dir.path());
    let error = open(dir.path(), &LATER).unwrap_err().to_string();
    assert!(error.contains("its version is 1") && error.contains("version 2 and up"), "{error}");
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_step_that_fails_changes_nothing() {
    fn fail(_: &mut super::version::FileImages) -> Result<(), String> {
        Err("a share has no path".to_owned())
    }
    const FAILS: KnownVersions = KnownVersions {
        newest: 2,
        migrations: &[super::version::Migration { from: 1, up: fail, down: fail }],
    };
    let dir = old_directory();
    let before = files(dir.path());
    let error = open(dir.path(), &FAILS).unwrap_err().to_string();
    assert!(error.contains("from version 1 to version 2: a share has no path; it stays as it is"), "{error}");
    assert_eq!(files(dir.path()), before);
    open(dir.path(), &OLD).unwrap();
}
