//! What trigger rules can be made of.

use async_graphql::{Context, Json, Object};
use serde_json::Value;

use super::context::caller;
use super::rule::TriggerRuleFrequency;
use crate::app;
use crate::domain::rule as domain;
use crate::error::Result;

/// All that a rule can be made of.
pub struct Catalog(&'static app::Catalog);

/// All that a trigger rule can be made of.
#[Object]
impl Catalog {
    /// What a rule can wait for.
    async fn sources(&self) -> Vec<CatalogSource> {
        self.0.sources.iter().map(CatalogSource).collect()
    }

    /// What a rule can do.
    async fn actions(&self) -> Vec<CatalogAction> {
        self.0.actions.iter().map(CatalogAction).collect()
    }

    /// How often a rule may fire for one user.
    async fn frequencies(&self) -> Vec<CatalogFrequency> {
        self.0.frequencies.iter().copied().map(CatalogFrequency).collect()
    }
}

/// A type of source.
pub struct CatalogSource(&'static app::CatalogSource);

/// A type of source: what a trigger rule can wait for.
#[Object]
impl CatalogSource {
    /// The name, to be given as `sourceType`. It is also the type of its events.
    #[graphql(name = "type")]
    async fn kind(&self) -> &str {
        self.0.name
    }

    /// What it waits for, in a sentence.
    async fn description(&self) -> &str {
        self.0.description
    }

    /// Whether events of this type can be posted.
    async fn accepts_events(&self) -> bool {
        self.0.accepts_events
    }

    /// The JSON Schema (2020-12) of `sourceConfig`.
    async fn config_schema(&self) -> Json<&Value> {
        Json(&self.0.config_schema)
    }

    /// The JSON Schema (2020-12) of the payload of its events.
    async fn payload_schema(&self) -> Json<&Value> {
        Json(&self.0.payload_schema)
    }
}

/// A type of action.
pub struct CatalogAction(&'static app::CatalogAction);

/// A type of action: what a trigger rule can do.
#[Object]
impl CatalogAction {
    /// The name, to be given as `actionType`.
    #[graphql(name = "type")]
    async fn kind(&self) -> &str {
        self.0.name
    }

    /// What it does, in a sentence.
    async fn description(&self) -> &str {
        self.0.description
    }

    /// Whether it can't be done for an event without a user.
    async fn needs_user(&self) -> bool {
        self.0.needs_user
    }

    /// The JSON Schema (2020-12) of `actionConfig`.
    async fn config_schema(&self) -> Json<&Value> {
        Json(&self.0.config_schema)
    }
}

/// A frequency.
pub struct CatalogFrequency(domain::Frequency);

/// A frequency, and what it means.
#[Object]
impl CatalogFrequency {
    /// The value, to be given as `frequency`.
    async fn frequency(&self) -> TriggerRuleFrequency {
        self.0.into()
    }

    /// Its name in the trigger log and the audit log.
    async fn name(&self) -> &str {
        self.0.as_str()
    }

    /// How many seconds after a firing the next one may come; none: never.
    async fn window_seconds(&self) -> Option<i64> {
        self.0.window().map(|window| window.num_seconds())
    }

    /// Whether a rule has it unless another one is given.
    async fn is_default(&self) -> bool {
        self.0 == domain::Frequency::default()
    }
}

/// Queries of the catalog.
#[derive(Default)]
pub struct CatalogQuery;

#[Object]
impl CatalogQuery {
    /// All that a trigger rule can be made of: each source and action type with the JSON Schema of
    /// its configuration, and the frequencies. The same for every caller.
    async fn catalog(&self, ctx: &Context<'_>) -> Result<Catalog> {
        caller(ctx)?;
        Ok(Catalog(app::catalog()))
    }
}
