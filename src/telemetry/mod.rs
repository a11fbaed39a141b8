//! What the program tells its operators: log lines and metrics.
//!
//! Log lines go to standard error, so that what a subcommand prints stays clean.
//! Nothing here decides anything, and no metric is global: whoever counts holds a
//! [`Metrics`].

mod metrics;
mod rules;
mod series;
#[cfg(test)]
mod tests;
mod trouble;

use std::io::IsTerminal;

use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter, util::SubscriberInitExt};

pub use self::metrics::{CONTENT_TYPE, DispatchStatus, Metrics};
pub use self::rules::RulesWaiting;
pub use self::trouble::Trouble;
use crate::config::{LogConfig, LogFormat};

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The level is no filter; a checked configuration never gets here.
    #[error("log.level: {0}; write a level such as info, or single modules as in info,sqlx=warn")]
    Level(#[from] tracing_subscriber::filter::ParseError),
    /// Logging was set up before; the first setting stays.
    #[error("logging is set up already: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Sends log lines to standard error from now on. For the program's start, once.
///
/// # Errors
/// [`InitError`]; a second call changes nothing and is refused.
pub fn init(config: &LogConfig) -> Result<(), InitError> {
    match config.format {
        LogFormat::Text => text(config, std::io::stderr)?.try_init()?,
        LogFormat::Json => json(config, std::io::stderr)?.try_init()?,
    }
    Ok(())
}

fn text<W>(config: &LogConfig, writer: W) -> Result<impl Subscriber + Send + Sync, InitError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt().with_env_filter(filter(config)?).with_writer(writer);
    Ok(lines.with_ansi(std::io::stderr().is_terminal()).finish())
}

fn json<W>(config: &LogConfig, writer: W) -> Result<impl Subscriber + Send + Sync, InitError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt().with_env_filter(filter(config)?).with_writer(writer);
    Ok(lines.json().flatten_event(true).with_current_span(true).with_span_list(false).finish())
}

fn filter(config: &LogConfig) -> Result<EnvFilter, InitError> {
    // Blanks after commas are allowed in our setting, the filter takes them for names.
    let mut directives: String = config.level.split_whitespace().collect();
    // The first says two lines a change of the schema, where the store says one in all; the second
    // repeats what the database notices.
    if directives.split(',').any(|directive| directive == "info") {
        directives.insert_str(0, "sea_orm_migration=warn,sqlx=warn,");
    }
    Ok(EnvFilter::builder().parse(directives)?)
}
