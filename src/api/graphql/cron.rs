//! What a schedule means.

use async_graphql::{Context, Object, SimpleObject};

use super::context::app;
use super::time::DateTime;
use crate::app;
use crate::domain::cron::CronError;
use crate::error::{Error, Result};

/// What a schedule means, or why saving it would be refused.
#[derive(SimpleObject)]
pub struct CronPreview {
    /// The schedule in words; none for one that is refused.
    description: Option<String>,
    /// The IANA time zone that it was read in.
    time_zone: String,
    /// Its next due times, the earliest first; empty for one that is refused.
    occurrences: Vec<CronPreviewOccurrence>,
    /// Why saving it would be refused; none for one that would be saved.
    error: Option<CronPreviewError>,
}

/// A due time, as an instant and as the clock on the wall shows it.
#[derive(SimpleObject)]
pub struct CronPreviewOccurrence {
    /// The instant.
    at: DateTime,
    /// What the clock on the wall shows then, without offset, for example `2026-03-01T09:00:00`.
    local: String,
    /// The zone's offset from UTC then, for example `+01:00`.
    offset: String,
}

/// Why a schedule would be refused.
#[derive(SimpleObject)]
pub struct CronPreviewError {
    /// A stable code, for example `CRON_OUT_OF_RANGE`.
    code: String,
    /// What is wrong, and what would be right.
    message: String,
    /// `cronExpression` or `timeZone`.
    field: String,
}

impl From<app::CronPreview> for CronPreview {
    fn from(preview: app::CronPreview) -> Self {
        let occurrences = preview.occurrences.into_iter();
        Self {
            description: preview.description,
            time_zone: preview.time_zone,
            occurrences: occurrences
                .map(|due| CronPreviewOccurrence {
                    at: due.at.into(),
                    local: due.local,
                    offset: due.offset,
                })
                .collect(),
            error: preview.error.map(Into::into),
        }
    }
}

impl From<CronError> for CronPreviewError {
    fn from(error: CronError) -> Self {
        Self { code: error.code.into(), message: error.message, field: error.field.into() }
    }
}

/// Queries of schedules.
#[derive(Default)]
pub struct CronQuery;

#[Object]
impl CronQuery {
    /// What a schedule means and when it is due next. A schedule that would be refused is no
    /// error of the query: `error` tells why. Needs no credentials.
    async fn cron_preview(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Six fields, seconds first, or a shorthand such as `@daily`.")]
        expression: String,
        #[graphql(desc = "The IANA time zone to read it in; none: the server's.")]
        time_zone: Option<String>,
        #[graphql(desc = "Due times after this instant; none: after now.")] after: Option<DateTime>,
        #[graphql(desc = "How many due times, 1 to 100.", default = 5)] count: i32,
    ) -> Result<CronPreview> {
        let count = usize::try_from(count).map_err(|_| {
            Error::invalid("count", format!("count must be from 1 to 100, it is {count}"))
        })?;
        let zone = time_zone.as_deref();
        Ok(app(ctx).cron_preview(&expression, zone, after.map(Into::into), count)?.into())
    }
}
