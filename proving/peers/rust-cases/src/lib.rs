//! The common parts of the peers: their arguments, the bytes that they send, and the report of a case (see
//! `../run.py`).

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

/// Sizes: nothing, one byte, around the limits of one credit and of several, and more than one request holds.
pub const SIZES: [usize; 6] = [0, 1, 65_535, 65_537, (1 << 20) + 3, (9 << 20) + 1];

/// The time that one case may take.
const CASE_LIMIT: Duration = Duration::from_secs(60);

/// The result of a case. An error is the reason of its failure.
pub type CaseResult = Result<(), Box<dyn std::error::Error>>;

/// The command line of a peer.
pub struct Arguments {
    /// TCP port on 127.0.0.1.
    pub port: u16,
    /// Name of the share.
    pub share: String,
    /// The user to log on.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Arguments {
    /// Reads `PORT SHARE USER PASSWORD`. None if the arguments differ.
    pub fn read() -> Option<Self> {
        let mut words = std::env::args().skip(1);
        Some(Self {
            port: words.next()?.parse().ok()?,
            share: words.next()?,
            user: words.next()?,
            password: words.next()?,
        })
    }
}

/// `size` bytes that are the same in every run (a linear congruential generator).
pub fn content(size: usize) -> Vec<u8> {
    let mut state = size as u64 ^ 0x9e37_79b9_7f4a_7c15;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    })
    .take(size)
    .collect()
}

/// Counts the failed cases.
#[derive(Default)]
pub struct CaseReport {
    failures: u32,
}

impl CaseReport {
    /// Runs one case and prints its result.
    pub async fn case(&mut self, name: impl Display, body: impl Future<Output = CaseResult>) {
        let outcome = match tokio::time::timeout(CASE_LIMIT, body).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("not over after {} s", CASE_LIMIT.as_secs()).into()),
        };
        match outcome {
            Ok(()) => println!("PASS {name}"),
            Err(why) => {
                self.failures += 1;
                println!("FAIL {name}: {}", why.to_string().replace('\n', " "));
            }
        }
    }

    /// The exit status.
    pub fn close(self) -> std::process::ExitCode {
        u8::from(self.failures > 0).into()
    }
}

/// Fails unless the two are equal.
pub fn same<T: PartialEq + std::fmt::Debug>(found: T, wanted: T, what: &str) -> CaseResult {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: wanted {wanted:?}, found {found:?}").chars().take(300).collect::<String>().into())
}
