//! `trunkline doctor`: examines one server or two, and says why they are slow. `trunkline advise`: answers
//! from a workload.

use std::process::ExitCode;

use doctor::{AdviseArgs, Args, Error};

use crate::command::page::Page;
use crate::password;

/// Does what was asked. Whatever is found, the exit status is 0 when all was examined.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let page = args.html.as_deref().map(Page::begin).transpose()?;
    let ask =
        |user: &str| password::ask_once(user).map_err(|why| Error::host("asking for the password", why));
    let report = doctor::run(args, &ask)?;
    if let Some(page) = page {
        let command: Vec<String> =
            ["trunkline".to_owned()].into_iter().chain(std::env::args().skip(1)).collect();
        page.end(&doctor::html(&report, &command.join(" ")))?;
    }
    if args.json {
        println!("{:#}", report.json());
    } else {
        print!("{report}");
    }
    Ok(ExitCode::from(report.status()))
}

/// `trunkline advise`.
pub fn advise(args: &AdviseArgs) -> anyhow::Result<()> {
    let advice = doctor::advise(args)?;
    if args.json {
        println!("{:#}", advice.json());
    } else {
        print!("{advice}");
    }
    Ok(())
}
