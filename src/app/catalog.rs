//! What rules can be made of, from the lists of sources and actions: nothing is written twice.

use std::sync::LazyLock;

use serde_json::Value;

use super::event::event_type;
use crate::domain::rule::Frequency;
use crate::error::Result;
use crate::{actions, sources};

/// All that a rule can be made of.
#[derive(Debug)]
pub struct Catalog {
    /// What a rule can wait for.
    pub sources: Vec<CatalogSource>,
    /// What a rule can do.
    pub actions: Vec<CatalogAction>,
    /// How often a rule may fire.
    pub frequencies: Vec<Frequency>,
}

/// A type of source.
#[derive(Debug)]
pub struct CatalogSource {
    /// The name, which is also the type of its events.
    pub name: &'static str,
    /// What it waits for, in a sentence.
    pub description: &'static str,
    /// Whether events of this type come in.
    pub accepts_events: bool,
    /// The JSON Schema of a rule's source configuration.
    pub config_schema: Value,
    /// The JSON Schema of an event's payload.
    pub payload_schema: Value,
}

/// A type of action.
#[derive(Debug)]
pub struct CatalogAction {
    /// The name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub description: &'static str,
    /// Whether it can't be done without a user.
    pub needs_user: bool,
    /// The JSON Schema of a rule's action configuration.
    pub config_schema: Value,
}

/// All that a rule can be made of. The same as long as the process runs.
pub fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog {
        sources: sources::ALL
            .iter()
            .map(|kind| CatalogSource {
                name: kind.name,
                description: kind.description,
                accepts_events: kind.accepts_events,
                config_schema: kind.config_schema(),
                payload_schema: kind.payload_schema(),
            })
            .collect(),
        actions: actions::ALL
            .iter()
            .map(|kind| CatalogAction {
                name: kind.name,
                description: kind.description,
                needs_user: kind.needs_user,
                config_schema: kind.config_schema(),
            })
            .collect(),
        frequencies: Frequency::ALL.to_vec(),
    });
    &CATALOG
}

/// A source type that a filter asks for.
///
/// # Errors
/// `UNKNOWN_SOURCE_TYPE` on `sourceType`, with those that there are.
pub fn known_source_type(name: String) -> Result<String> {
    sources::find(&name).map(|_| name)
}

/// An action type that a filter asks for.
///
/// # Errors
/// `UNKNOWN_ACTION_TYPE` on `actionType`, with those that there are.
pub fn known_action_type(name: String) -> Result<String> {
    actions::find(&name).map(|_| name)
}

/// A type of events that a filter asks for.
///
/// # Errors
/// `UNKNOWN_EVENT_TYPE` on `type`, with those that there are.
pub fn known_event_type(name: String) -> Result<String> {
    event_type("type", &name).map(|_| name)
}
