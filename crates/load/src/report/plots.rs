//! Line plots as SVG, without scripts.

use std::fmt::Write;

/// The style sheet of a page with plots.
pub const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:1020px;\
margin:2em auto;padding:0 1em;color:#222}\
h2{margin-top:2em}table{border-collapse:collapse;width:100%}\
td,th{padding:.25em .6em;text-align:right;border-bottom:1px solid #ddd}\
td:first-child,th:first-child{text-align:left}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(400px,1fr));gap:1em}\
figure{margin:0}svg{width:100%;font:11px system-ui,sans-serif}figcaption{font-size:13px}.g{stroke:#e4e4e4}\
.t{font-size:14px;font-weight:600}\
.x{text-anchor:middle}.y{text-anchor:end}code{background:#f3f3f3;padding:.1em .3em}";

/// A plot: lines over the same named points.
#[derive(Debug)]
pub struct Plot<'a> {
    /// The title.
    pub title: &'a str,
    /// The name of the horizontal axis, for instance channels.
    pub across: &'a str,
    /// The names of the points.
    pub places: Vec<String>,
    /// The lines.
    pub lines: Vec<PlotLine>,
    /// Whether the vertical axis is logarithmic.
    pub logarithmic: bool,
}

/// A line with a value for each point that has one.
#[derive(Debug, Clone)]
pub struct PlotLine {
    /// The name in the legend.
    pub name: String,
    /// One value for each point.
    pub values: Vec<Option<f64>>,
}

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 260.0;
/// The margins for the scale, on the left and below, and for the title.
const LEFT: f64 = 62.0;
const BELOW: f64 = 42.0;
const ABOVE: f64 = 28.0;
const RIGHT: f64 = 14.0;

/// Colours that people with colour blindness can distinguish.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5d4a9c", "#7f7f7f"];

/// Escapes any text for a page.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number with the significant digits.
#[must_use]
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        size if size >= 0.001 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

impl Plot<'_> {
    /// Draws the plot and its legend.
    #[must_use]
    pub fn draw(&self) -> String {
        let values: Vec<f64> =
            self.lines.iter().flat_map(|line| line.values.iter().flatten().copied()).collect();
        let scale = Scale::of(&values, self.logarithmic);
        let mut out = format!(
            "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{0}</title><text class=\"t\" \
             x=\"{LEFT}\" y=\"16\">{0}</text>\n",
            escape(self.title)
        );
        for mark in scale.marks() {
            let y = scale.height(mark);
            let to = WIDTH - RIGHT;
            let (at, below) = (LEFT - 6.0, y + 4.0);
            put(
                &mut out,
                format_args!("<line class=\"g\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{to}\" y2=\"{y:.1}\"/>"),
            );
            put(
                &mut out,
                format_args!("<text class=\"y\" x=\"{at}\" y=\"{below:.1}\">{}</text>\n", short(mark)),
            );
        }
        // As many names of points as fit.
        let every = self.places.len().div_ceil(10).max(1);
        for (at, label) in self.places.iter().enumerate().step_by(every) {
            let (x, y) = (self.across_at(at), HEIGHT - BELOW + 16.0);
            put(
                &mut out,
                format_args!("<text class=\"x\" x=\"{x:.1}\" y=\"{y}\">{}</text>\n", escape(label)),
            );
        }
        let (x, y) = ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6.0);
        put(&mut out, format_args!("<text class=\"x\" x=\"{x}\" y=\"{y}\">{}</text>\n", escape(self.across)));
        for (number, line) in self.lines.iter().enumerate() {
            self.line(&mut out, number, line, &scale);
        }
        out.push_str("</svg><figcaption>");
        for (number, line) in self.lines.iter().enumerate().filter(|_| self.lines.len() > 1) {
            let colour = COLOURS[number % COLOURS.len()];
            put(
                &mut out,
                format_args!("<span style=\"color:{colour}\">&#9632;</span> {} &ensp;", escape(&line.name)),
            );
        }
        out.push_str("</figcaption></figure>\n");
        out
    }

    /// The horizontal position of a point.
    fn across_at(&self, index: usize) -> f64 {
        let room = WIDTH - LEFT - RIGHT - 20.0;
        let steps = self.places.len().saturating_sub(1).max(1) as f64;
        let alone = if self.places.len() == 1 { room / 2.0 } else { 0.0 };
        LEFT + 10.0 + alone + room * index as f64 / steps
    }

    fn line(&self, out: &mut String, number: usize, line: &PlotLine, scale: &Scale) {
        let colour = COLOURS[number % COLOURS.len()];
        let dots: Vec<(usize, f64)> =
            line.values.iter().enumerate().filter_map(|(at, it)| Some((at, (*it)?))).collect();
        let path: Vec<String> = dots
            .iter()
            .map(|(at, value)| format!("{:.1},{:.1}", self.across_at(*at), scale.height(*value)))
            .collect();
        put(
            out,
            format_args!(
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\n",
                path.join(" ")
            ),
        );
        let radius = if dots.len() > 40 { 1.0 } else { 3.5 };
        for (at, value) in dots {
            let (x, y) = (self.across_at(at), scale.height(value));
            let says = escape(&format!("{}, {}: {}", line.name, self.places[at], short(value)));
            put(
                out,
                format_args!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" \
                     fill=\"{colour}\"><title>{says}</title></circle>\n"
                ),
            );
        }
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
}

/// The mapping from values to heights.
#[derive(Debug)]
struct Scale {
    least: f64,
    most: f64,
    logarithmic: bool,
}

impl Scale {
    fn of(values: &[f64], logarithmic: bool) -> Scale {
        let most = values.iter().copied().fold(0.0, f64::max);
        if !logarithmic {
            return Scale { least: 0.0, most: round_up(most), logarithmic };
        }
        let least = values.iter().copied().filter(|it| *it > 0.0).fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() { 10f64.powf(least.log10().floor()) } else { 0.1 };
        let most = 10f64.powf(most.max(least * 1.001).log10().ceil());
        Scale { least, most, logarithmic }
    }

    fn height(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.least) / self.least).log10() / (self.most / self.least).log10()
        } else {
            value / self.most
        };
        HEIGHT - BELOW - part * (HEIGHT - BELOW - ABOVE)
    }

    /// The values that have a grid line.
    fn marks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.most / self.least).log10().round() as i32;
            return (0..=decades).map(|step| self.least * 10f64.powi(step)).collect();
        }
        (0..=5).map(|step| self.most * f64::from(step) / 5.0).collect()
    }
}

/// The next number whose fifths are easy to read.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0];
    power * steps.into_iter().find(|step| power * step >= value).unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_hold_all_values() {
        assert_eq!([0.0, 7.6, 21.0, 100.0, 1.7].map(round_up), [1.0, 10.0, 25.0, 100.0, 2.0]);
        for logarithmic in [false, true] {
            let scale = Scale::of(&[0.03, 2.0, 740.0], logarithmic);
            let heights: Vec<f64> = [0.03, 2.0, 740.0].map(|it| scale.height(it)).to_vec();
            assert!(heights.is_sorted_by(|a, b| a > b), "{heights:?}");
            assert!(heights.iter().all(|it| (ABOVE..=HEIGHT - BELOW + 0.01).contains(it)), "{heights:?}");
            assert!(scale.marks().len() > 2);
        }
        assert!(Scale::of(&[], true).height(0.0).is_finite());
    }

    #[test]
    fn a_plot_is_whole_and_holds_no_markup_of_others() {
        let values = vec![Some(1.0), None, Some(3.0)];
        let line = PlotLine { name: "<b>".to_owned(), values };
        let places = ["1", "2", "4"].map(str::to_owned).to_vec();
        let plot = Plot {
            title: "a & b",
            across: "channels",
            places,
            lines: vec![line.clone(), line],
            logarithmic: false,
        };
        let drawn = plot.draw();
        assert!(drawn.contains("a &amp; b") && drawn.contains("&lt;b&gt;") && !drawn.contains("<b>"));
        assert_eq!((drawn.matches("<circle").count(), drawn.matches("<polyline").count()), (4, 2));
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    }
}
