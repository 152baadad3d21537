//! The report: for each server facts, findings and verdict, and how two of them compare. `terminal` and `html` show it; its
//! JSON is what the types say.

use serde::Serialize;

use crate::compare::Comparison;
use crate::facts::{Cause, Facts};
use crate::finding::Finding;
use crate::verdict::{State, Verdict};

/// Everything that came of an examination.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of the program.
    pub version: &'static str,
    /// quick, usual or full.
    pub course: &'static str,
    /// How long it took, in seconds.
    pub took_s: f64,
    /// Each server.
    pub targets: Vec<Examined>,
    /// Two of them side by side.
    pub comparison: Option<Comparison>,
}

/// One server.
#[derive(Debug, Clone, Serialize)]
pub struct Examined {
    /// What was measured.
    pub facts: Facts,
    /// What follows from it.
    pub findings: Vec<Finding>,
    /// What is said in the end.
    pub verdict: Verdict,
}

impl Report {
    /// The exit status: 0 when all was examined, whatever came of it; 1 when an examination ended early, or something
    /// was left behind; 130 when somebody ended it.
    #[must_use]
    pub fn status(&self) -> u8 {
        let interrupted =
            |it: &Examined| it.facts.stopped.as_ref().is_some_and(|it| it.cause == Cause::Interrupted);
        let failed = |it: &Examined| it.verdict.state == State::Stopped || it.facts.left_behind.is_some();
        match (self.targets.iter().any(interrupted), self.targets.iter().any(failed)) {
            (true, _) => 130,
            (_, true) => 1,
            _ => 0,
        }
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
