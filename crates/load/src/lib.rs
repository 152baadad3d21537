//! Layer 5: workloads, pacing, histograms and reports.
