//! `trunkline.toml(5)`: the table of settings as a man page. Start with [`page`].

use clap_mangen::roff::{Inline, Roff, bold, roman};
use trunkline_parsers::reference;

use super::{MANUAL, SOURCE, definition};

/// The text above the tables.
const INTRODUCTION: [&str; 3] = [
    "The configuration is a TOML file. `trunkline serve --config FILE` and all other commands read it, and \
     the service reads `/etc/trunkline/trunkline.toml`. Relative paths refer to the directory of the file. A \
     list of one string may be written as the string.",
    "An unknown key is refused with its line and the most similar known name. `trunkline config check` \
     reports mistakes, and `trunkline config show` prints each value with its origin.",
    "A `live` key applies when the configuration is read again (`systemctl reload trunkline`), a `start` key \
     at the next start. Pages named docs/... lie in `/usr/share/doc/trunkline`.",
];

/// The page.
pub fn page() -> Roff {
    let mut roff = Roff::new();
    roff.control("TH", ["trunkline.toml", "5", "", SOURCE, MANUAL]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("trunkline.toml - configuration of the Trunkline file server")]);
    roff.control("SH", ["DESCRIPTION"]);
    for paragraph in INTRODUCTION {
        roff.text(styled(paragraph));
        roff.control("PP", []);
    }
    for (title, about, keys) in reference::tables() {
        roff.control("SH", [title]);
        roff.text(styled(about.trim()));
        for key in keys {
            let mut term = vec![bold(key.name), roman(" = ")];
            term.extend(styled(&reference::values(&key)));
            definition(&mut roff, term, styled(key.help));
            let applies = if key.is_live { "live" } else { "start" };
            roff.control("RS", []);
            roff.text(styled(&format!("Default: {}. Applies: {applies}.", reference::default(&key))));
            roff.control("RE", []);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("trunkline"), roman("(1), "), bold("trunkline-config"), roman("(1)")]);
    roff
}

/// A text with code between backticks: the code is bold.
fn styled(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { bold(part) } else { roman(part) }).collect()
}
