//! The use cases: what a caller may ask for, whoever transports the question.
//!
//! Each mutation has one shape: begin a transaction, find the thing in the caller's scope, check
//! the role, check the input, write, commit together with the audit row, wake the executors. It
//! knows nothing of GraphQL, HTTP or the executor.

mod access;
mod application;
mod audience;
mod auth;
mod backend;
mod batch;
mod bootstrap;
mod catalog;
mod change;
mod event;
mod health;
mod heartbeat;
mod history;
mod line_oa;
mod line_user;
mod live;
mod machine;
mod machine_user;
mod member;
#[cfg(test)]
mod people_tests;
mod project;
mod resume;
mod retry;
mod rule;
mod rule_history;
mod scheduled_action;
mod secret_key;
mod take_back;
mod tenant;
#[cfg(test)]
mod test_app;
mod token;
mod trigger;
mod user;
mod wake;
mod webhook;
mod workflow;

use chrono::{DateTime, Duration, Utc};
use std::sync::atomic::AtomicBool;
use tokio_util::sync::CancellationToken;

use crate::clock::SharedClock;
use crate::config::Config;
use crate::domain::cron::Zone;
use crate::domain::fan_out::RetryPolicy;
use crate::domain::window::Limits;
use crate::egress::Egress;
use crate::error::{Error, Result};
use crate::line::LineClient;
use crate::secrets::{Cipher, SecretKey, SessionSigner};
use crate::store::Store;
use crate::telemetry::Metrics;

pub use crate::store::audience::{Filter as AudienceFilter, Sort as AudienceSort};
pub use crate::store::line::UserFilter as LineUserFilter;
pub use crate::store::log::Entry as LogEntry;
pub use crate::store::rule::{Filter as TriggerRuleFilter, Sort as TriggerRuleSort};
pub use crate::store::trigger::{Filter as TriggerFilter, Sort as TriggerSort};
pub use application::{CreateApplication, UpdateApplication};
pub use audience::{CreateAudience, MEMBERS_MAX, UpdateAudience};
pub use auth::SignedIn;
pub(crate) use backend::secret_place;
pub use backend::{BACKENDS_MAX, RegisterBackend, Registration};
pub use bootstrap::{Bootstrap, has_secret_key};
pub use catalog::{
    Catalog, CatalogAction, CatalogSource, catalog, known_action_type, known_event_type,
    known_source_type,
};
pub use event::{EVENTS_MAX, EventWords, NewEvent, ReceivedEvents, RefusedEvents};
pub use health::SKEW_MAX;
pub use heartbeat::HeartbeatOf;
pub use history::{AuditFilter, DeliveryFilter, ExecutorStatus, OccurrenceFilter};
pub use line_oa::{CreateLineOa, LineCredentials, UpdateLineOa};
pub use live::{Live, Watch, Watched};
pub use machine::MachineIdentity;
pub use machine_user::{CreateMachineUser, UpdateMachineUser};
pub use member::{AddProjectMember, UserRef};
pub use project::{CreateProject, UpdateProject};
pub use resume::ScheduleResume;
pub use retry::{RETRY_MAX, Retried, Retryable};
pub use rule::{
    CreateTriggerRule, DryRun, RuleToTest, SampleEvent, TestedAction, TestedGate,
    UpdateTriggerRule, timetable,
};
pub use rule_history::{CycleFilter, EventFilter, TriggerLogFilter};
pub use scheduled_action::ScheduledActionFilter;
pub use secret_key::Resealed;
pub(crate) use take_back::counted;
pub use tenant::{CreateTenant, UpdateTenant};
pub use trigger::{CreateTrigger, CronPreview, PreviewedOccurrence, UpdateTrigger};
pub use user::{CreateUser, UpdateUser};
pub use wake::Wake;
pub use webhook::IncomingWebhook;
pub use workflow::{CreateWorkflow, UpdateWorkflow};

/// The parts that all use cases share. One a process.
pub struct App {
    /// The database.
    pub store: Store,
    /// The time.
    pub clock: SharedClock,
    /// The settings.
    pub config: Config,
    /// The zone of triggers that name none.
    pub zone: Zone,
    /// Everything outbound.
    pub egress: Egress,
    /// Calls of the LINE platform.
    pub line: LineClient,
    /// Encrypts what must be readable again.
    pub cipher: Cipher,
    /// Signs sessions.
    pub sessions: SessionSigner,
    /// The counters.
    pub metrics: Metrics,
    /// Makes executors look.
    pub wake: Wake,
    /// Cancelled when the process begins to end.
    pub stopping: CancellationToken,
    /// Tells those who watch what executors do.
    pub live: Live,
    auth: auth::Auth,
    /// Whether the clock was wrong when it was last looked at.
    skewed: AtomicBool,
}

/// What an [`App`] is made of.
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The time.
    pub clock: SharedClock,
    /// The settings.
    pub config: Config,
    /// The zone of triggers that name none.
    pub zone: Zone,
    /// Everything outbound.
    pub egress: Egress,
    /// The key that everything secret hangs on.
    pub key: SecretKey,
}

impl App {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Result<Self> {
        Ok(Self {
            wake: Wake::new(parts.store.clone()),
            stopping: CancellationToken::new(),
            live: Live::new(parts.store.clone()),
            cipher: Cipher::new(&parts.key),
            sessions: SessionSigner::new(&parts.key)?,
            line: LineClient::new(parts.egress.clone(), &parts.config.line)?,
            metrics: Metrics::new().map_err(Error::internal)?,
            auth: auth::Auth::new(&parts.config.auth)?,
            skewed: AtomicBool::new(false),
            store: parts.store,
            clock: parts.clock,
            config: parts.config,
            zone: parts.zone,
            egress: parts.egress,
        })
    }

    /// The time.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// The zone of a trigger: its own, or the server's.
    pub fn zone_of(&self, time_zone: Option<&str>) -> Result<Zone> {
        match time_zone {
            Some(name) => Ok(Zone::parse(name)?),
            None => Ok(self.zone.clone()),
        }
    }

    /// How often and how long deliveries are tried.
    pub fn retry_policy(&self) -> RetryPolicy {
        let retry = &self.config.dispatch.retry;
        RetryPolicy {
            initial: span(retry.initial),
            max: span(retry.max),
            multiplier: retry.multiplier,
            max_attempts: i32::try_from(retry.max_attempts).unwrap_or(i32::MAX),
            max_age: span(retry.max_age),
        }
    }

    /// The limits of an evaluation of schedules.
    pub fn window_limits(&self) -> Limits {
        let cron = &self.config.cron;
        Limits {
            catch_up_window: span(cron.catch_up_window),
            per_window: usize::try_from(cron.max_occurrences_per_window).unwrap_or(usize::MAX),
            on_time: span(cron.trigger_check_interval) * 2,
        }
    }

    /// How old a backend's last heartbeat may be.
    pub fn heartbeat_timeout(&self) -> Duration {
        span(self.config.cron.backend_heartbeat_timeout)
    }
}

/// A configured duration as calendar arithmetic wants it. Configured ones are bounded far below
/// what would not fit.
pub(crate) fn span(duration: std::time::Duration) -> Duration {
    Duration::from_std(duration).unwrap_or(Duration::MAX)
}
