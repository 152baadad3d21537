//! `trunkline health`: the probe of supervisors, also inside a container that has no shell.
//!
//! It prints one line and has the exit status 0 or 1, within the given time. The words alive and ready are
//! defined in `admin::health`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use admin::{Health, Request, Response};

use super::control;
use crate::cli::HealthArgs;

/// Runs the command. Mistakes in the configuration have the exit status 1 too, because supervisors give
/// others a meaning of their own.
pub fn run(args: &HealthArgs) -> ExitCode {
    let told = match control::state_dir(&args.location) {
        Ok(dir) => within(Duration::from_secs(args.timeout), &dir),
        Err(error) => Err(format!("{error:#}")),
    };
    let is_well = told.as_ref().is_ok_and(|health| args.live || health.is_ready());
    println!("{}", line(&told, args));
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn line(told: &Result<Health, String>, args: &HealthArgs) -> String {
    match told {
        Ok(health) if args.json => serde_json::to_string(health).unwrap_or_default(),
        Ok(_) if args.live => "alive".to_owned(),
        Ok(health) => health.to_string(),
        Err(why) => format!("not alive: {}", why.split_whitespace().collect::<Vec<_>>().join(" ")),
    }
}

/// The health of the server that runs on `dir`. A server that hangs may not even accept the connection, so a
/// thread asks it.
fn within(time: Duration, dir: &Path) -> Result<Health, String> {
    let (answer, answered) = mpsc::channel();
    let owned = dir.to_owned();
    let asked = std::thread::Builder::new().spawn(move || answer.send(ask(&owned)));
    asked.map_err(|error| error.to_string())?;
    answered.recv_timeout(time).unwrap_or_else(|_| {
        let (dir, seconds) = (dir.display(), time.as_secs());
        Err(format!("the server on {dir} has not answered within {seconds} s"))
    })
}

fn ask(dir: &Path) -> Result<Health, String> {
    match control::ask_running(dir, &Request::Health) {
        Ok(Response::Health(health)) => Ok(*health),
        Ok(_) => Err("the server sent an unexpected answer".to_owned()),
        Err(error) => Err(format!("{error:#}")),
    }
}
