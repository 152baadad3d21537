//! `trunkline copy`: copies a tree, and ends with robocopy's table and exit status.

use std::process::ExitCode;

use copy::{Args, Error, FATAL, Plan};

use crate::password;

/// Does what was asked. What keeps the copy from beginning is one line on standard error, and the exit status
/// is [`FATAL`], which is not that of other commands.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Every thread that reads files takes memory of its own, and small pages of it are soon cleared: with
    // large ones a thousand small files took more than twice the processor. Where it cannot be had it only
    // takes longer.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let ask = |user: &str| password::ask_once(user).map_err(|why| Error::new("asking for the password", why));
    let report = match Plan::new(args, &ask).and_then(copy::run) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("trunkline: {error}");
            return Ok(ExitCode::from(FATAL));
        }
    };
    if args.json {
        println!("{:#}", report.json());
    } else {
        print!("{report}");
    }
    Ok(ExitCode::from(report.status()))
}
