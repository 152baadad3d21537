//! `trunkline load`: loads a server, this one or another, and reports what it did.

use load::{Args, Plan};

use crate::password;

/// Does what was asked.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let password = match args.password()? {
        Some(password) => password,
        None => password::ask_once(&args.target.user)?,
    };
    let report = load::run(Plan::new(args, &password)?)?;
    if args.json {
        println!("{:#}", report.json());
    } else {
        print!("{report}");
    }
    Ok(())
}
