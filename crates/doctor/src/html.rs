//! The report as one self-contained page.

use load::plots::{Plot, PlotLine, STYLE, escape, short};

use crate::measurements::{RunKind, TargetMeasurements};
use crate::report::{Examined, Report};
use crate::terminal::work;

/// The report as a page; `command` is the command line.
#[must_use]
pub fn html(report: &Report, command: &str) -> String {
    let names: Vec<&str> = report.targets.iter().map(|it| it.facts.target.as_str()).collect();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>trunkline doctor: \
         {0}</title><style>{STYLE} pre{{background:#f6f6f6;padding:1em;overflow-x:auto}}</style>\n\
         <h1>Why is it slow?</h1>\n<p>{0}</p>\n<p><code>{1}</code></p>\n",
        escape(&names.join(", ")),
        escape(command)
    );
    if let Some(comparison) = &report.comparison {
        page.push_str(&format!(
            "<h2>Both</h2>\n<p>{}</p>\n<table><tr><th>what<th>first<th>second<th></tr>\n",
            escape(&comparison.paragraph)
        ));
        for row in &comparison.rows {
            let mark = if row.differs { "differs" } else { "" };
            let [what, first, second] = [row.what, &row.first, &row.second].map(escape);
            page.push_str(&format!("<tr><td>{what}<td>{first}<td>{second}<td>{mark}</tr>\n"));
        }
        page.push_str("</table>\n");
    }
    for examined in &report.targets {
        target(&mut page, examined);
    }
    page.push_str(&format!(
        "<p>trunkline {}, {} course, {} s. 1 MiB is 1,048,576 bytes; intervals hold all turns of a run, or \
         the mean with 95 % confidence.</p>\n</html>\n",
        report.version,
        report.course,
        short(report.took_s)
    ));
    page
}

fn target(page: &mut String, examined: &Examined) {
    let verdict = &examined.verdict;
    page.push_str(&format!(
        "<h2>{}</h2>\n<p><b>{}</b></p>\n",
        escape(&examined.facts.target),
        escape(&verdict.paragraph)
    ));
    if !verdict.changes.is_empty() {
        page.push_str("<h3>Changes, largest gain first</h3>\n<ol>\n");
        for change in &verdict.changes {
            let gain = change.gain.filter(|it| *it > 1.05).map(|it| format!(" (about {} times)", short(it)));
            page.push_str(&format!(
                "<li>{}: {}{}\n",
                change.side.name(),
                escape(&change.what),
                gain.unwrap_or_default()
            ));
        }
        page.push_str("</ol>\n");
    }
    page.push_str("<h3>What follows, by layer</h3>\n<table><tr><th>layer<th>statement<th>measured</tr>\n");
    for finding in &examined.findings {
        let mark = if finding.holds_back { "&#9888; " } else { "" };
        page.push_str(&format!(
            "<tr><td>{}<td style=\"text-align:left\">{mark}{}<td style=\"text-align:left\">{}</tr>\n",
            finding.layer.name(),
            escape(&finding.says),
            escape(&finding.rests_on.join("; "))
        ));
    }
    page.push_str("</table>\n<div class=\"plots\">\n");
    plots(&examined.facts).iter().for_each(|plot| page.push_str(&plot.draw()));
    page.push_str("</div>\n<details><summary>Everything that was measured</summary><pre>");
    page.push_str(&escape(&examined.to_string()));
    page.push_str("</pre></details>\n");
}

fn plots(measurements: &TargetMeasurements) -> Vec<Plot<'static>> {
    let mut plots = Vec::new();
    if let Some(transport) = &measurements.transport {
        let steps = transport.connect.histogram();
        plots.push(Plot {
            title: "TCP connects by what they took",
            across: "ms",
            places: steps.iter().map(|(from, _)| short(*from)).collect(),
            lines: vec![PlotLine {
                name: "connects".to_owned(),
                values: steps.iter().map(|(_, count)| Some(f64::from(*count))).collect(),
            }],
            logarithmic: false,
        });
    }
    let Some(data) = &measurements.data else { return plots };
    let mut counts: Vec<u32> = data.runs.iter().map(|it| it.connections).collect();
    counts.sort_unstable();
    counts.dedup();
    let line = |of: RunKind| PlotLine {
        name: work(of).to_owned(),
        values: counts.iter().map(|count| data.run(of, *count).map(|it| it.mib_s)).collect(),
    };
    plots.push(Plot {
        title: "throughput by connections, MiB/s",
        across: "connections",
        places: counts.iter().map(u32::to_string).collect(),
        lines: [RunKind::Write, RunKind::Read].map(line).to_vec(),
        logarithmic: false,
    });
    let small: Vec<_> = data.runs.iter().filter(|it| it.work == RunKind::SmallRead).collect();
    let depths: Vec<String> = small.iter().map(|it| it.depth.to_string()).collect();
    let of = |title, name: &str, values: Vec<Option<f64>>| Plot {
        title,
        across: "under way",
        places: depths.clone(),
        lines: vec![PlotLine { name: name.to_owned(), values }],
        logarithmic: false,
    };
    plots.push(of(
        "4 KiB reads for a second, by depth",
        "reads",
        small.iter().map(|it| Some(it.per_s)).collect(),
    ));
    plots.push(of(
        "their median latency, ms",
        "latency",
        small.iter().map(|it| Some(it.median_ms)).collect(),
    ));
    let longest = data.runs.iter().map(|it| it.parts.len()).max().unwrap_or(0);
    plots.push(Plot {
        title: "large work over the time of its run, MiB/s",
        across: "part of the run",
        places: (1..=longest).map(|it| it.to_string()).collect(),
        lines: data
            .runs
            .iter()
            .filter(|it| !matches!(it.work, RunKind::SmallRead | RunKind::SmallFiles))
            .map(|run| PlotLine {
                name: format!("{} over {}", work(run.work), run.connections),
                values: run.parts.iter().map(|it| Some(it * f64::from(run.block) / 1_048_576.0)).collect(),
            })
            .collect(),
        logarithmic: false,
    });
    plots
}
