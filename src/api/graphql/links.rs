//! What history leads to: things that may have been deleted since, or that the caller may not see.
//! Then the link is null, and the id beside it still names the thing.

use async_graphql::Context;

use super::application::Application;
use super::audience::Audience;
use super::backend::Backend;
use super::batch::{Key, Load};
use super::context::{loaders, scope};
use super::error::Fault;
use super::event::Event;
use super::line_oa::LineOa;
use super::line_user::LineUser;
use super::loaders::{Loaders, NameOf};
use super::rule::TriggerRule;
use super::scheduled_action::ScheduledAction;
use super::scheduled_trigger_execution::ScheduledTriggerExecution;
use super::workflow::Workflow;
use crate::domain::access::Scope;
use crate::domain::id::{
    ApplicationId, AudienceId, BackendId, CycleId, EventId, LineOaId, ScheduledActionId,
    TriggerRuleId, WorkflowId,
};

/// Something that may be gone.
pub(super) type Link<T> = Option<Result<T, Fault>>;

async fn load<K, V, T>(ctx: &Context<'_>, key: Option<K>, into: impl FnOnce(V) -> T) -> Link<T>
where
    K: Key,
    Loaders: Load<K, Value = V>,
{
    let key = key?;
    let found = async { Ok::<_, Fault>(loaders(ctx)?.load_one(key).await?) };
    found.await.map(|found| found.map(into)).transpose()
}

/// The LINE OA; none for machine users.
pub(super) async fn line_oa(ctx: &Context<'_>, id: Option<LineOaId>) -> Link<LineOa> {
    load(ctx, id, LineOa).await
}

/// The user, as the LINE OA knows them; none for machine users.
pub(super) async fn line_user(
    ctx: &Context<'_>,
    line_oa: Option<LineOaId>,
    user: Option<&str>,
) -> Link<LineUser> {
    // Users are loaded without a look at the scope.
    if matches!(scope(ctx), Ok(Scope::Application(_))) {
        return None;
    }
    load(ctx, line_oa.zip(user.map(str::to_owned)), LineUser).await
}

/// The audience; none for machine users.
pub(super) async fn audience(ctx: &Context<'_>, id: Option<AudienceId>) -> Link<Audience> {
    load(ctx, id, Audience).await
}

/// The event; none for machine users.
pub(super) async fn event(ctx: &Context<'_>, id: Option<EventId>) -> Link<Event> {
    load(ctx, id, Event).await
}

/// The cycle; none for machine users.
pub(super) async fn execution(
    ctx: &Context<'_>,
    id: Option<CycleId>,
) -> Link<ScheduledTriggerExecution> {
    load(ctx, id, ScheduledTriggerExecution).await
}

/// The rule, also when it was deleted since; none for machine users.
pub(super) async fn rule(ctx: &Context<'_>, id: Option<TriggerRuleId>) -> Link<TriggerRule> {
    load(ctx, id, TriggerRule).await
}

/// The rule's name, also when the rule was deleted since; none for machine users.
pub(super) async fn rule_name(ctx: &Context<'_>, id: Option<TriggerRuleId>) -> Link<String> {
    load(ctx, id.map(NameOf), |name| name).await
}

/// The work.
pub(super) async fn scheduled_action(
    ctx: &Context<'_>,
    id: Option<ScheduledActionId>,
) -> Link<ScheduledAction> {
    load(ctx, id, ScheduledAction).await
}

/// The application.
pub(super) async fn application(ctx: &Context<'_>, id: Option<ApplicationId>) -> Link<Application> {
    load(ctx, id, Application).await
}

/// The backend.
pub(super) async fn backend(ctx: &Context<'_>, id: Option<BackendId>) -> Link<Backend> {
    load(ctx, id, Backend).await
}

/// The workflow.
pub(super) async fn workflow(ctx: &Context<'_>, id: Option<WorkflowId>) -> Link<Workflow> {
    load(ctx, id, Workflow).await
}
