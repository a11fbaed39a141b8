//! GraphQL: what people and front ends ask.
//!
//! One file per noun: its type, its inputs, its queries and mutations. Resolvers translate and
//! nothing else: who may do what, and what is right, is decided in the use cases. `edge` is the
//! way in and out, over HTTP and websockets; `error` is the only place that decides what of an
//! error is shown.
//!
//! Every type, field, argument and value has a description, which a test insists on. The printed
//! schema stands in `schema.graphql`.

#![allow(
    clippy::too_many_arguments,
    reason = "the arguments of a field are its contract, and a connection alone has four"
)]

mod application;
mod audience;
mod audit;
mod backend;
mod batch;
mod catalog;
mod connection;
mod context;
mod cron;
mod delivery;
mod edge;
mod error;
mod event;
mod executor;
mod line_oa;
mod line_user;
mod links;
mod live;
mod loaders;
mod machine_user;
mod misfit;
mod occurrence;
mod project;
mod rule;
mod rule_input;
mod rule_test;
mod scheduled_action;
mod scheduled_trigger_execution;
mod session;
mod subscriber;
mod tenant;
#[cfg(test)]
mod tests;
mod time;
mod trigger;
mod trigger_log;
mod user;
mod workflow;

use async_graphql::{MergedObject, SDLExportOptions, SchemaBuilder};

pub use edge::router;

/// What can be asked.
#[derive(MergedObject, Default)]
struct Query(
    user::UserQuery,
    session::SessionQuery,
    project::ProjectQuery,
    application::ApplicationQuery,
    tenant::TenantQuery,
    machine_user::MachineUserQuery,
    trigger::TriggerQuery,
    occurrence::OccurrenceQuery,
    delivery::DeliveryQuery,
    backend::BackendQuery,
    audit::AuditLogQuery,
    executor::ExecutorQuery,
    line_oa::LineOaQuery,
    line_user::LineUserQuery,
    audience::AudienceQuery,
    workflow::WorkflowQuery,
    rule::TriggerRuleQuery,
    rule_test::TriggerRuleTestQuery,
    catalog::CatalogQuery,
    event::EventQuery,
    scheduled_action::ScheduledActionQuery,
    scheduled_trigger_execution::ScheduledTriggerExecutionQuery,
    trigger_log::TriggerLogQuery,
    cron::CronQuery,
);

/// What can be changed. Each change writes one row to the audit log, in its own transaction.
#[derive(MergedObject, Default)]
struct Mutation(
    session::SessionMutation,
    user::UserMutation,
    project::ProjectMutation,
    application::ApplicationMutation,
    tenant::TenantMutation,
    machine_user::MachineUserMutation,
    trigger::TriggerMutation,
    delivery::DeliveryMutation,
    backend::BackendMutation,
    line_oa::LineOaMutation,
    line_user::LineUserMutation,
    audience::AudienceMutation,
    workflow::WorkflowMutation,
    rule::TriggerRuleMutation,
    scheduled_action::ScheduledActionMutation,
);

type Schema = async_graphql::Schema<Query, Mutation, live::SubscriptionRoot>;

type Builder = SchemaBuilder<Query, Mutation, live::SubscriptionRoot>;

fn builder() -> Builder {
    Schema::build(Query::default(), Mutation::default(), live::SubscriptionRoot)
}

/// The schema in the GraphQL schema definition language, as `schema.graphql` holds it.
pub fn sdl() -> String {
    let options = SDLExportOptions::new()
        .use_space_ident()
        .prefer_single_line_descriptions()
        .include_specified_by();
    builder().finish().sdl_with_options(options)
}
