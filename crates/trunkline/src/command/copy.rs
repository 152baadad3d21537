//! `trunkline copy`: copies a tree, and ends with robocopy's table and exit status.

use std::process::ExitCode;

use copy::{Args, Error, FATAL, Plan};

use crate::password;

/// Runs the command. An error that prevents the copy is one line on standard error. Its exit status is
/// [`FATAL`], which differs from that of other commands.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Every thread that reads files takes memory of its own, and small pages of it are cleared fast. With
    // large pages a thousand small files took more than twice the processor time. If the host refuses, the
    // copy only takes longer.
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
