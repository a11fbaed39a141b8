//! Scopes as conditions: what a caller may not see is not found.

use sea_orm::sea_query::{Expr, ExprTrait, SelectStatement};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QuerySelect, QueryTrait};
use uuid::Uuid;

use super::entity::{application, project_member};
use crate::domain::access::Scope;

/// Rows whose `column` is the id of a project in `scope`.
pub(super) fn project(scope: Scope, column: impl ColumnTrait) -> Condition {
    match scope {
        Scope::Everything => Condition::all(),
        Scope::ProjectsOf(user) => Condition::all().add(column.in_subquery(projects_of(user.0))),
        Scope::Application(id) => {
            let own = application::Entity::find_by_id(id.0)
                .select_only()
                .column(application::Column::ProjectId)
                .into_query();
            Condition::all().add(column.in_subquery(own))
        }
    }
}

/// Rows whose `column` is the id of a project in `scope`, of what only people see: a machine sees
/// its project, and neither the project's members nor its LINE OAs.
pub(super) fn of_people(scope: Scope, column: impl ColumnTrait) -> Condition {
    match scope {
        Scope::Application(_) => Condition::all().add(Expr::val(1).eq(0)),
        Scope::Everything | Scope::ProjectsOf(_) => project(scope, column),
    }
}

/// Rows whose `column` is the id of an application in `scope`.
pub(super) fn application(scope: Scope, column: impl ColumnTrait) -> Condition {
    match scope {
        Scope::Everything => Condition::all(),
        Scope::Application(id) => Condition::all().add(column.eq(id.0)),
        Scope::ProjectsOf(user) => {
            let theirs = application::Entity::find()
                .select_only()
                .column(application::Column::Id)
                .filter(application::Column::ProjectId.in_subquery(projects_of(user.0)))
                .into_query();
            Condition::all().add(column.in_subquery(theirs))
        }
    }
}

fn projects_of(user: Uuid) -> SelectStatement {
    project_member::Entity::find()
        .select_only()
        .column(project_member::Column::ProjectId)
        .filter(project_member::Column::UserId.eq(user))
        .into_query()
}
