//! `trunkline backup` and `trunkline restore`.

use std::io::IsTerminal;
use std::path::Path;

use super::control;
use crate::archive::Summary;
use crate::backup::restore::{RestoreMode, RestoredBackup};
use crate::backup::{self, LeftOut, create, restore as restoring};
use crate::cli::{BackupArgs, RestoreArgs};
use crate::state::store::image::ReturningRights;

/// `trunkline backup`
pub fn backup(args: &BackupArgs) -> anyhow::Result<()> {
    if args.verify {
        return tell(&create::verify(&args.file)?, &args.file);
    }
    let dir = control::state_dir(&args.location)?;
    let is_stream = args.file == Path::new("-");
    anyhow::ensure!(
        !is_stream || !std::io::stdout().is_terminal(),
        "a backup holds password hashes and keys, and is not written to a terminal; give a file or a pipe"
    );
    let created = create::create(&dir, &args.file, !args.no_sidecar)?;
    report(&created.left_out, "is not in the backup");
    let line = backup::shown(&created.summary);
    if is_stream {
        eprintln!("trunkline: {line}");
    } else {
        println!("{}: {line}", args.file.display());
    }
    Ok(())
}

/// `trunkline restore`
pub fn restore(args: &RestoreArgs) -> anyhow::Result<()> {
    if args.check {
        return tell(&restoring::check(&args.file)?, &args.file);
    }
    let dir = control::state_dir(&args.location)?;
    let mode = match (args.sidecar_only, args.replace) {
        (true, _) => RestoreMode::SidecarOnly,
        (false, true) => RestoreMode::Replace,
        (false, false) => RestoreMode::IntoEmpty,
    };
    let RestoredBackup { summary, sidecar_files, left_out, replaced, kept_numbers, returning } =
        restoring::restore(&args.file, &dir, mode)?;
    warn_of_returning(&returning);
    report(&left_out, "was not attached; when the file is there, `trunkline restore --sidecar-only` does it");
    if kept_numbers.is_none() {
        eprintln!(
            "trunkline: the state that was there could not be read, so RIDs that it had given since the \
             backup may be given again"
        );
    }
    if let Some(replaced) = replaced {
        println!("the state that was there is now in {}", dir.join(replaced).display());
    }
    let sidecar = format!("sidecar data of {sidecar_files} of {} files", summary.sidecar_files);
    let time = summary.manifest.time.escape_debug();
    if args.sidecar_only {
        println!("{}: {sidecar} attached, from the backup of {time}", dir.display());
    } else {
        println!("{} restored, as of {time}; {sidecar}", dir.display());
    }
    Ok(())
}

/// Names those who may do again what they might not do any more before the restore.
fn warn_of_returning(ReturningRights { users, passwords, tokens, keys }: &ReturningRights) {
    for (names, what, then) in [
        (users, "users who were removed since the backup may log on again", "user remove NAME"),
        (passwords, "users have the password of the backup again", "user passwd NAME"),
        (tokens, "tokens that were revoked since the backup are valid again", "token revoke NAME"),
        (keys, "accounts have the keys of the backup again", "account keys renew NAME"),
    ] {
        if !names.is_empty() {
            eprintln!("trunkline: warning: {what}: {}; `trunkline {then}` mends that", names.join(", "));
        }
    }
}

fn tell(summary: &Summary, file: &Path) -> anyhow::Result<()> {
    println!("{}: complete; {}", file.display(), backup::shown(summary));
    Ok(())
}

/// Names files whose sidecar data is missing.
fn report(left_out: &LeftOut, what: &str) {
    for example in &left_out.examples {
        eprintln!("trunkline: sidecar data {what}: {example}");
    }
    let others = left_out.count - left_out.examples.len() as u64;
    if others > 0 {
        eprintln!("trunkline: and that of {others} more files");
    }
}
