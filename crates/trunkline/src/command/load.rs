//! `trunkline load`: loads a server, this one or another, and reports what it did.

use load::{Args, Plan};

use crate::password;

/// Does what was asked.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let password = match args.password()? {
        Some(password) => password,
        None => password::ask_once(&args.target.user)?,
    };
    let plans = Plan::all(args, &password)?;
    let reports = plans.into_iter().map(load::run).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        println!("{:#}", load::json(&reports));
    } else {
        reports.iter().for_each(|report| print!("{report}"));
    }
    Ok(())
}
