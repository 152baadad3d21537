//! The log: structured lines on standard error, as text or JSON. [`output`] writes them.

mod output;

use std::io::IsTerminal;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

use crate::config::Config;
use crate::config::values::{Choice, LogFormat};
use output::LogOutput;

/// Environment variable that sets the log levels of single crates (`smb=debug,info`).
const VARIABLE: &str = "TRUNKLINE_LOG";

/// Starts logging as `config` says.
///
/// # Errors
/// One line that names the setting.
pub fn begin(config: &Config) -> anyhow::Result<()> {
    let wanted = std::env::var(VARIABLE).unwrap_or_default();
    let filter = if wanted.is_empty() {
        EnvFilter::new(config.server.log_level.value.name())
    } else {
        EnvFilter::try_new(&wanted).map_err(|e| anyhow::anyhow!("${VARIABLE}: {e}"))?
    };
    let format = config.server.log_format.value;
    let output =
        LogOutput::of_stderr(format).map_err(|e| anyhow::anyhow!("the log cannot be started: {e}"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Mutex::new(output));
    let begun = match format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
    };
    begun.map_err(|e| anyhow::anyhow!("the log cannot be started: {e}"))
}
