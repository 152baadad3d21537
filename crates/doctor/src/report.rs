//! The report: the measured values, findings and verdict of each server, and the comparison of two.
//! `terminal` and `html` show it. Its JSON follows the types.

use serde::Serialize;

use crate::compare::Comparison;
use crate::finding::Finding;
use crate::measurements::{Cause, TargetMeasurements};
use crate::verdict::{ShareHealth, Verdict};

/// The results of an examination.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The version of the program.
    pub version: &'static str,
    /// The name of the course: quick, usual or full.
    pub course: &'static str,
    /// The time that it took in seconds.
    pub took_s: f64,
    /// The results of each server.
    pub targets: Vec<Examined>,
    /// The comparison of two servers.
    pub comparison: Option<Comparison>,
}

/// The results of one server.
#[derive(Debug, Clone, Serialize)]
pub struct Examined {
    /// The measured values.
    pub facts: TargetMeasurements,
    /// The findings from them.
    pub findings: Vec<Finding>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Report {
    /// The exit status: 0 when everything was examined, whatever the result; 1 when an examination ended
    /// early, or files were left behind; 130 when a user or a signal ended it.
    #[must_use]
    pub fn status(&self) -> u8 {
        let interrupted =
            |it: &Examined| it.facts.stopped.as_ref().is_some_and(|it| it.cause == Cause::Interrupted);
        let failed =
            |it: &Examined| it.verdict.state == ShareHealth::Stopped || it.facts.left_behind.is_some();
        match (self.targets.iter().any(interrupted), self.targets.iter().any(failed)) {
            (true, _) => 130,
            (_, true) => 1,
            _ => 0,
        }
    }

    /// The report as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
