//! The options of `trunkline doctor`, and what they come to.

use std::path::PathBuf;
use std::time::Duration;

use client::Url;
use load::turns::ENOUGH_TURNS;

use crate::Error;

/// What to examine, and how long.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// What to examine: smb://USER@HOST[:PORT]/SHARE[/DIR], nfs://HOST[:PORT]/EXPORT[/DIR] or the path where one is mounted
    #[arg(value_name = "TARGET", required = true, num_args = 1..=2, value_parser = target)]
    pub targets: Vec<Url>,
    /// Be done within 15 seconds
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Measure longer, with more connections and depths, within 120 seconds
    #[arg(long)]
    pub full: bool,
    /// Change nothing on the server: read a file that is there, and make none
    #[arg(long)]
    pub read_only: bool,
    /// Bytes to move in a second at most, for example 20m
    #[arg(long, value_name = "SIZE", value_parser = client::written::size)]
    pub max_rate: Option<u64>,
    /// Operations on small blocks and names to begin in a second at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iops: Option<u32>,
    /// Connections to try at most
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub connections: u32,
    /// Take one connection for a session, as a client does whose Multichannel or nconnect is off, to see what that costs
    #[arg(long)]
    pub one_connection: bool,
    /// Where the target is a Trunkline server: its state directory, its control socket, or the address of its metrics
    /// (http://127.0.0.1:9445), to learn from itself which requests its limits held
    #[arg(long, value_name = "PLACE")]
    pub server: Option<String>,
    /// File whose first line is the password [default: the variable TRUNKLINE_PASSWORD, else ask]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// The same for the second target [default: that of the first]
    #[arg(long, value_name = "FILE")]
    pub second_password_file: Option<PathBuf>,
    /// With nfs://: user of every call [default: our own]
    #[arg(long, value_name = "N")]
    pub uid: Option<u32>,
    /// With nfs://: group of every call [default: our own]
    #[arg(long, value_name = "N")]
    pub gid: Option<u32>,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    /// Write one page with plots of what was measured
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
    /// The password of each target, from files and the environment; else `ask` is called with the user.
    ///
    /// # Errors
    /// When a file cannot be read, or whatever `ask` says.
    pub fn passwords(&self, ask: &dyn Fn(&str) -> Result<String, Error>) -> Result<Vec<String>, Error> {
        let mut passwords: Vec<String> = Vec::new();
        for (number, target) in self.targets.iter().enumerate() {
            let own = self.second_password_file.as_ref().filter(|_| number == 1);
            let file = own.or(self.password_file.as_ref());
            let password = match file {
                _ if target.login().is_none() => String::new(),
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

    /// How long everything takes.
    pub(crate) fn course(&self) -> Course {
        let course = match (self.quick, self.full) {
            (true, _) => Course::quick(),
            (_, true) => Course::full(),
            _ => Course::usual(),
        };
        course.shared_by(self.targets.len() as u32).with_most(self.connections)
    }
}

/// How long and how much is measured of one target.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    /// Its name in reports.
    pub(crate) name: &'static str,
    /// What counts of one run, and what goes before it.
    pub(crate) run: Duration,
    pub(crate) ramp: Duration,
    /// How long each kind of work with names is measured.
    pub(crate) names: Duration,
    /// How often numbers of connections are measured in turn, what counts of one run of these, and what goes before it.
    pub(crate) turns: u32,
    pub(crate) turn: Duration,
    pub(crate) turn_ramp: Duration,
    pub(crate) connections: Vec<u32>,
    pub(crate) depths: Vec<u32>,
    /// TCP connects and echoes; on a short way twice as many connects.
    pub(crate) connects: u32,
    /// When the examination of the target ends, whatever is left to do.
    pub(crate) limit: Duration,
    /// What comes after that at most: deleting what was made, and the end of the sessions.
    pub(crate) farewell: Duration,
    /// How long one answer may take before the server counts as stalled.
    pub(crate) stall: Duration,
    /// Targets that share the time.
    targets: u32,
}

impl Course {
    fn quick() -> Course {
        Course {
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
            farewell: Duration::from_secs(2),
            stall: Duration::from_secs(3),
            targets: 1,
        }
    }
    fn usual() -> Course {
        Course {
            name: "usual",
            run: Duration::from_millis(1500),
            ramp: Duration::from_millis(500),
            names: Duration::from_millis(500),
            turns: 5,
            turn: Duration::from_millis(350),
            turn_ramp: Duration::from_millis(150),
            connects: 20,
            limit: Duration::from_secs(50),
            farewell: Duration::from_secs(7),
            stall: Duration::from_secs(6),
            ..Course::quick()
        }
    }
    fn full() -> Course {
        Course {
            name: "full",
            run: Duration::from_millis(2500),
            ramp: Duration::from_millis(800),
            names: Duration::from_millis(1000),
            turns: 6,
            turn: Duration::from_millis(700),
            turn_ramp: Duration::from_millis(250),
            connects: 50,
            limit: Duration::from_secs(116),
            farewell: Duration::from_millis(3400),
            stall: Duration::from_secs(8),
            ..Course::quick()
        }
    }

    /// The same for one of several targets that are examined one after the other in the same time.
    fn shared_by(mut self, targets: u32) -> Course {
        self.targets = targets;
        if targets > 1 && self.name != "usual" {
            self.run /= targets;
            // A congestion control that looks for the shortest round trip now and then, as BBR does, sends next to nothing for
            // 200 ms. All turns together are so long that a prediction is off by less than it may be.
            self.turn /= targets;
            self.ramp = self.ramp * 2 / 3;
            self.names /= targets;
            self.turn = if self.name == "full" { self.turn * 4 / 5 } else { self.turn / targets };
            self.limit /= targets;
            self.farewell /= targets;
            self.stall = self.stall.min(self.limit / 3);
        }
        self
    }

    fn with_most(mut self, most: u32) -> Course {
        let (connections, depths): (&[u32], &[u32]) = match self.name {
            // What is compared are one connection and as many as a client takes: there is no time for what is between them.
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

    /// What all runs of a course take when every answer comes at once.
    fn least(course: &Course) -> Duration {
        let steps = course.connections.len() as u32;
        let run = course.run + course.ramp;
        let data = (course.turn + course.turn_ramp) * 2 * steps * course.turns + run * 3;
        let depths = (course.run / 2 + course.ramp / 2) * course.depths.len() as u32;
        data + depths + course.names * 10
    }

    #[test]
    fn every_course_leaves_room_for_a_long_path() {
        let course = |of: Course, targets| of.shared_by(targets).with_most(8);
        for targets in 1..=2 {
            let (quick, full) = (course(Course::quick(), targets), course(Course::full(), targets));
            assert!(quick.limit * targets <= Duration::from_millis(12_500), "{quick:?}");
            assert!(full.limit * targets <= Duration::from_secs(116), "{full:?}");
            // With the end of the process (`run::LAST_WAIT`) within 15 and 120 seconds.
            let whole = |course: &Course| (course.limit + course.farewell) * targets;
            assert!(whole(&quick) <= Duration::from_millis(14_500), "{quick:?}");
            assert!(whole(&full) <= Duration::from_millis(119_500), "{full:?}");
            for course in [&quick, &full, &course(Course::usual(), targets)] {
                assert!(least(course) < course.limit * 4 / 5, "{:?}: {course:?}", least(course));
            }
        }
    }
}
