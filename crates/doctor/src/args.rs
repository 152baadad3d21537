//! The options of `trunkline doctor`, and the budgets that follow from them.

// Brackets in the text of --help mark optional parts.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;
use std::time::Duration;

use client::smb::TicketArgs;
use client::{Scheme, Url};
use load::comparison::ENOUGH_TURNS;

use crate::Error;

/// Target and length of the examination.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Target: smb://USER@HOST[:PORT]/SHARE[/DIR], nfs://HOST[:PORT]/EXPORT[/DIR] or the path where one
    /// is mounted
    #[arg(value_name = "TARGET", required = true, num_args = 1..=2, value_parser = target)]
    pub targets: Vec<Url>,
    /// Finish within 15 seconds
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Measure longer, with more connections and depths, within 120 seconds
    #[arg(long)]
    pub full: bool,
    /// Change nothing on the server: read an existing file, and create none
    #[arg(long)]
    pub read_only: bool,
    /// Most bytes to move in a second, for example 20m
    #[arg(long, value_name = "SIZE", value_parser = client::written::size)]
    pub max_rate: Option<u64>,
    /// Most operations on small blocks and names to begin in a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iops: Option<u32>,
    /// Most connections to try
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub connections: u32,
    /// Use one connection for a session, like a client with Multichannel or nconnect off, to see the cost
    /// of that
    #[arg(long)]
    pub one_connection: bool,
    /// If the target is a Trunkline server: its state directory, its control socket, or the address of
    /// its metrics (http://127.0.0.1:9445); the server then tells which requests its limits throttled
    #[arg(long, value_name = "PLACE")]
    pub server: Option<String>,
    /// File whose first line is the password [default: the variable TRUNKLINE_PASSWORD, or else a prompt]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// The same for the second target [default: that of the first]
    #[arg(long, value_name = "FILE", conflicts_with = "kerberos")]
    pub second_password_file: Option<PathBuf>,
    /// Log-ons with tickets.
    #[command(flatten)]
    pub tickets: TicketArgs,
    /// With nfs://: user of every call [default: the user of this process]
    #[arg(long, value_name = "N")]
    pub uid: Option<u32>,
    /// With nfs://: group of every call [default: the group of this process]
    #[arg(long, value_name = "N")]
    pub gid: Option<u32>,
    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Write a page with plots of the results
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

fn target(text: &str) -> Result<Url, String> {
    match load::target(text)? {
        load::LoadTarget::Files(url) => Ok(url),
        load::LoadTarget::Null { .. } => {
            Err("null:// has nothing to examine; take smb:// or nfs://".to_owned())
        }
    }
}

impl Args {
    /// The password of each target, from files and the environment. Otherwise `ask` is called with the
    /// user.
    ///
    /// # Errors
    /// If a file cannot be read, if a target cannot be examined, if `--kerberos` has no meaning for any
    /// target, or an error of `ask`.
    pub fn passwords(&self, ask: &dyn Fn(&str) -> Result<String, Error>) -> Result<Vec<String>, Error> {
        if self.tickets.kerberos && !self.targets.iter().any(|target| target.scheme == Scheme::Smb) {
            let text = "--kerberos goes with smb://, and no target is one; leave it out";
            return Err(Error::Usage(text.to_owned()));
        }
        let mut passwords: Vec<String> = Vec::new();
        for (number, target) in self.targets.iter().enumerate() {
            let own = self.second_password_file.as_ref().filter(|_| number == 1);
            let file = own.or(self.password_file.as_ref());
            let password = match file {
                _ if target.login().is_none() || self.tickets.kerberos => String::new(),
                Some(file) => client::written::secret(file)
                    .map_err(|why| Error::Usage(format!("password file {}: {why}", file.display())))?,
                None => match std::env::var("TRUNKLINE_PASSWORD") {
                    Ok(password) => password,
                    Err(_) => match passwords.first().filter(|first| !first.is_empty()) {
                        Some(first) => first.clone(),
                        None => ask(&target.user)?,
                    },
                },
            };
            passwords.push(password);
        }
        Ok(passwords)
    }

    /// The budget of the examination.
    pub(crate) fn course(&self) -> MeasurementBudget {
        let course = match (self.quick, self.full) {
            (true, _) => MeasurementBudget::quick(),
            (_, true) => MeasurementBudget::full(),
            _ => MeasurementBudget::usual(),
        };
        course.shared_by(self.targets.len() as u32).with_most(self.connections)
    }
}

/// The times and amounts of work for the examination of one target.
#[derive(Debug, Clone)]
pub(crate) struct MeasurementBudget {
    /// Its name in reports.
    pub(crate) name: &'static str,
    /// The counted time of one run, and the time before it.
    pub(crate) run: Duration,
    pub(crate) ramp: Duration,
    /// The time for each kind of work with names.
    pub(crate) names: Duration,
    /// The number of turns over the numbers of connections, the counted time of each run in them, and the
    /// time before it.
    pub(crate) turns: u32,
    pub(crate) turn: Duration,
    pub(crate) turn_ramp: Duration,
    pub(crate) connections: Vec<u32>,
    pub(crate) depths: Vec<u32>,
    /// TCP connects and echoes. On a short path there are twice as many connects.
    pub(crate) connects: u32,
    /// The end of the examination of the target, even if work is left.
    pub(crate) limit: Duration,
    /// The longest time after that: to delete the test files and end the sessions.
    pub(crate) cleanup: Duration,
    /// The time for one reply after which the server counts as stalled.
    pub(crate) stall: Duration,
    /// The number of targets that share the time.
    targets: u32,
}

impl MeasurementBudget {
    fn quick() -> MeasurementBudget {
        MeasurementBudget {
            name: "quick",
            run: Duration::from_millis(450),
            ramp: Duration::from_millis(250),
            names: Duration::from_millis(150),
            turns: ENOUGH_TURNS as u32,
            turn: Duration::from_millis(160),
            turn_ramp: Duration::from_millis(60),
            connections: Vec::new(),
            depths: Vec::new(),
            connects: 10,
            limit: Duration::from_millis(12_500),
            cleanup: Duration::from_secs(2),
            stall: Duration::from_secs(3),
            targets: 1,
        }
    }
    fn usual() -> MeasurementBudget {
        MeasurementBudget {
            name: "usual",
            run: Duration::from_millis(1500),
            ramp: Duration::from_millis(500),
            names: Duration::from_millis(500),
            turns: 5,
            turn: Duration::from_millis(350),
            turn_ramp: Duration::from_millis(150),
            connects: 20,
            limit: Duration::from_secs(50),
            cleanup: Duration::from_secs(7),
            stall: Duration::from_secs(6),
            ..MeasurementBudget::quick()
        }
    }
    fn full() -> MeasurementBudget {
        MeasurementBudget {
            name: "full",
            run: Duration::from_millis(2500),
            ramp: Duration::from_millis(800),
            names: Duration::from_millis(1000),
            turns: 6,
            turn: Duration::from_millis(700),
            turn_ramp: Duration::from_millis(250),
            connects: 50,
            limit: Duration::from_secs(116),
            cleanup: Duration::from_millis(3400),
            stall: Duration::from_secs(8),
            ..MeasurementBudget::quick()
        }
    }

    /// The budget for one of several targets, which are examined one after the other in the same total
    /// time.
    fn shared_by(mut self, targets: u32) -> MeasurementBudget {
        self.targets = targets;
        if targets > 1 && self.name != "usual" {
            self.run /= targets;
            // A congestion control that probes for the shortest round trip now and then, as BBR does,
            // sends next to nothing for 200 ms. All turns together are long enough to keep the error of a
            // prediction within its limit.
            self.turn /= targets;
            self.ramp = self.ramp * 2 / 3;
            self.names /= targets;
            self.turn = if self.name == "full" { self.turn * 4 / 5 } else { self.turn / targets };
            self.limit /= targets;
            self.cleanup /= targets;
            self.stall = self.stall.min(self.limit / 3);
        }
        self
    }

    fn with_most(mut self, most: u32) -> MeasurementBudget {
        let (connections, depths): (&[u32], &[u32]) = match self.name {
            // One connection is compared with as many as a client uses. There is no time for numbers
            // between them.
            "quick" if self.targets > 1 && most >= 4 => (&[1, 4], &[1, 8, 64]),
            "quick" => (&[1, 2, 4], &[1, 8, 64]),
            "full" => (&[1, 2, 4, 8], &[1, 4, 16, 32, 64, 128]),
            _ => (&[1, 2, 4], &[1, 4, 16, 64, 128]),
        };
        self.connections = connections.iter().copied().filter(|it| *it <= most).collect();
        self.depths = depths.to_vec();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of all runs of a budget when every reply comes at once.
    fn least(course: &MeasurementBudget) -> Duration {
        let steps = course.connections.len() as u32;
        let run = course.run + course.ramp;
        let data = (course.turn + course.turn_ramp) * 2 * steps * course.turns + run * 3;
        let depths = (course.run / 2 + course.ramp / 2) * course.depths.len() as u32;
        data + depths + course.names * 10
    }

    #[test]
    fn every_course_leaves_room_for_a_long_path() {
        let course = |of: MeasurementBudget, targets| of.shared_by(targets).with_most(8);
        for targets in 1..=2 {
            let (quick, full) =
                (course(MeasurementBudget::quick(), targets), course(MeasurementBudget::full(), targets));
            assert!(quick.limit * targets <= Duration::from_millis(12_500), "{quick:?}");
            assert!(full.limit * targets <= Duration::from_secs(116), "{full:?}");
            // Together with the end of the process (`run::LAST_WAIT`) within 15 and 120 seconds.
            let whole = |course: &MeasurementBudget| (course.limit + course.cleanup) * targets;
            assert!(whole(&quick) <= Duration::from_millis(14_500), "{quick:?}");
            assert!(whole(&full) <= Duration::from_millis(119_500), "{full:?}");
            for course in [&quick, &full, &course(MeasurementBudget::usual(), targets)] {
                assert!(least(course) < course.limit * 4 / 5, "{:?}: {course:?}", least(course));
            }
        }
    }
}
