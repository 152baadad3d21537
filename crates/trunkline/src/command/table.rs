//! Tables for people.

use std::fmt::Write;

/// Prints rows under titles, with each column as wide as necessary. Without rows it prints nothing.
pub fn rows<const N: usize>(titles: [&str; N], rows: &[[String; N]], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    let mut widths = titles.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut line = |cells: [&str; N]| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            let _ = write!(text, "{:width$}  ", plain(cell));
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(titles);
    for row in rows {
        line(std::array::from_fn(|at| row[at].as_str()));
    }
}

/// The text, or a dash if it is empty.
pub fn shown(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

/// Replaces control characters. Names come from clients and could send commands to a terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
