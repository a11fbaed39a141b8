//! Who owns which project: a project must not lose its last owner by accident.

use sea_orm::sea_query::SelectStatement;
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, QueryTrait,
};

use super::entity::project;
use super::entity::project_member::{Column, Entity};
use super::{Hold, Tx};
use crate::domain::access::Role;
use crate::domain::id::{ProjectId, UserId};
use crate::error::Result;

/// How many owners a project has.
pub async fn count_owners(db: &impl ConnectionTrait, project: ProjectId) -> Result<u64> {
    let owners = Entity::find()
        .filter(Column::ProjectId.eq(project.0))
        .filter(Column::Role.eq(Role::Owner.as_str()));
    Ok(owners.count(db).await?)
}

/// Holds the projects that a user owns, so that nobody changes their members meanwhile.
pub async fn hold_owned(tx: &Tx, user: UserId) -> Result<()> {
    let select = project::Entity::find()
        .filter(project::Column::Id.in_subquery(owned(true, user)))
        .order_by_asc(project::Column::Id);
    tx.hold_all(select, Hold::Change).await
}

/// The slugs of the projects that have no owner beside this user, in their order.
pub async fn owned_alone(db: &impl ConnectionTrait, user: UserId) -> Result<Vec<String>> {
    let alone = project::Entity::find()
        .select_only()
        .column(project::Column::Slug)
        .filter(project::Column::Id.in_subquery(owned(true, user)))
        .filter(project::Column::Id.not_in_subquery(owned(false, user)))
        .order_by_asc(project::Column::Slug);
    Ok(alone.into_tuple().all(db).await?)
}

/// The projects that this user owns, or those that somebody else does.
fn owned(by_user: bool, user: UserId) -> SelectStatement {
    let of = if by_user { Column::UserId.eq(user.0) } else { Column::UserId.ne(user.0) };
    Entity::find()
        .select_only()
        .column(Column::ProjectId)
        .filter(Column::Role.eq(Role::Owner.as_str()))
        .filter(of)
        .into_query()
}
