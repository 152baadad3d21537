//! The command `trunkline load` alone. It measures a server without building one.

use std::process::ExitCode;

use clap::Parser;
use load::{Args, Error, Plan};

/// Loads an SMB or NFS server and reports the result.
#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn run(args: &Args) -> Result<(), Error> {
    let missing = || Error::Usage("no password: use --password-file or set TRUNKLINE_PASSWORD".to_owned());
    let password = args.password()?.ok_or_else(missing)?;
    let plans = Plan::all(args, &password)?;
    let reports = load::run_all(plans)?;
    if args.json {
        println!("{:#}", load::json(&reports))
    } else {
        reports.iter().for_each(|report| print!("{report}"))
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Cli::parse().args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::from(2)
        }
    }
}
