//! Projects and their members.

use async_graphql::{Context, Enum, ID, InputObject, Object};
use futures::FutureExt;

use super::application::{Application, read_applications};
use super::connection::Connection;
use super::context::{app, caller, loaders, page, scope};
use super::error::{Fault, nullable};
use super::line_oa::{LineOa, read_line_oas};
use super::time::DateTime;
use super::user::User;
use crate::app::{AddProjectMember, CreateProject, UpdateProject, UserRef};
use crate::domain::access;
use crate::domain::id::{ProjectId, ProjectMemberId, UserId};
use crate::domain::people as domain;
use crate::error::{Error, Result};

/// A project.
pub struct Project(pub domain::Project);

/// The owner of applications and LINE OAs. Has members with a role.
#[Object]
impl Project {
    /// The id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The name in addresses, unique.
    async fn slug(&self) -> &str {
        &self.0.slug
    }

    /// The name shown.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// Its applications, by slug.
    async fn applications(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Application>> {
        read_applications(ctx, Some(self.0.id), (first, after, last, before)).await
    }

    /// Its LINE OAs, by name. Machine users see none.
    async fn line_oas(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<LineOa>> {
        read_line_oas(ctx, Some(self.0.id), (first, after, last, before)).await
    }

    /// Its members, the oldest membership first. Machine users see none.
    async fn members(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<ProjectMember>> {
        let scope = scope(ctx)?;
        let request = page(ctx, (first, after, last, before))?;
        let page = app(ctx).project_members(scope, self.0.id, &request).boxed().await?;
        Ok(Connection::new(page, ProjectMember))
    }

    /// When it was made.
    async fn created_at(&self) -> DateTime {
        self.0.created_at.into()
    }

    /// When it was last changed.
    async fn updated_at(&self) -> DateTime {
        self.0.updated_at.into()
    }
}

/// A membership.
pub struct ProjectMember(pub domain::ProjectMember);

/// A user's membership in a project, with a role.
#[Object]
impl ProjectMember {
    /// The membership's id (not the user's).
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The project; none when it was deleted meanwhile.
    async fn project(&self, ctx: &Context<'_>) -> Option<Result<Project, Fault>> {
        load(ctx, self.0.project_id).await.transpose()
    }

    /// The member; none when the user was deleted meanwhile.
    async fn user(&self, ctx: &Context<'_>) -> Option<Result<User, Fault>> {
        super::user::load(ctx, self.0.user_id).await.transpose()
    }

    /// What the member may do.
    async fn role(&self) -> Role {
        self.0.role.into()
    }

    /// When it was made.
    async fn created_at(&self) -> DateTime {
        self.0.created_at.into()
    }

    /// When it was last changed.
    async fn updated_at(&self) -> DateTime {
        self.0.updated_at.into()
    }
}

/// What a member of a project may do.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "access::Role")]
pub enum Role {
    /// Reads everything of the project.
    Member,
    /// Also writes, except the project's members.
    Maintainer,
    /// Also manages the members and deletes the project.
    Owner,
}

/// A new project.
#[derive(InputObject)]
pub struct CreateProjectInput {
    /// The name in addresses, unique: 1 to 63 lower-case letters, digits and single hyphens.
    slug: String,
    /// The name shown, 1 to 100 characters.
    name: String,
}

/// What of a project is to change. What is left out or null stays as it is.
#[derive(InputObject)]
pub struct UpdateProjectInput {
    /// A new slug: 1 to 63 lower-case letters, digits and single hyphens.
    slug: Option<String>,
    /// A new name, 1 to 100 characters.
    name: Option<String>,
}

/// A new membership. Names the user by exactly one of `userId` and `email`.
#[derive(InputObject)]
pub struct AddProjectMemberInput {
    /// The project.
    project_id: ID,
    /// The user's id.
    user_id: Option<ID>,
    /// The user's address.
    email: Option<String>,
    /// What the member may do.
    role: Role,
}

/// What of a membership is to change.
#[derive(InputObject)]
pub struct UpdateProjectMemberInput {
    /// What the member may do from now on.
    role: Role,
}

/// Queries of projects.
#[derive(Default)]
pub struct ProjectQuery;

#[Object]
impl ProjectQuery {
    /// The project of that id or slug; give exactly one. `NOT_FOUND` when there is none that the
    /// caller may see.
    async fn project(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: Option<ID>,
        #[graphql(desc = "Its slug.")] slug: Option<String>,
    ) -> Option<Result<Project, Fault>> {
        let found = async {
            let scope = scope(ctx)?;
            match (id, slug) {
                (Some(id), None) => app(ctx).project(scope, ProjectId::parse(&id)?).await,
                (None, Some(slug)) => app(ctx).project_by_slug(scope, &slug).await,
                _ => Err(Error::invalid("id", "give exactly one of id and slug")),
            }
        };
        nullable(async { Ok(Project(found.await?)) }).await
    }

    /// The projects that the caller may see, by slug.
    async fn projects(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many from the start, 1 to 200; 50 unless given.")] first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "How many from the end, 1 to 200.")] last: Option<i32>,
        #[graphql(desc = "Only what precedes this cursor.")] before: Option<String>,
    ) -> Result<Connection<Project>> {
        let scope = scope(ctx)?;
        let request = page(ctx, (first, after, last, before))?;
        Ok(Connection::new(app(ctx).projects(scope, &request).await?, Project))
    }
}

/// Mutations of projects and their members.
#[derive(Default)]
pub struct ProjectMutation;

#[Object]
impl ProjectMutation {
    /// Makes a project. Any user may; the caller becomes its owner.
    async fn create_project(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The new project.")] input: CreateProjectInput,
    ) -> Result<Project> {
        let caller = caller(ctx)?;
        let new = CreateProject { slug: input.slug, name: input.name };
        Ok(Project(app(ctx).create_project(caller, new).await?))
    }

    /// Changes a project and answers it as it is then. Needs the maintainer or owner role in it.
    async fn update_project(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
        #[graphql(desc = "What is to change.")] input: UpdateProjectInput,
    ) -> Result<Project> {
        let caller = caller(ctx)?;
        let update = UpdateProject { slug: input.slug, name: input.name };
        Ok(Project(app(ctx).update_project(caller, ProjectId::parse(&id)?, update).await?))
    }

    /// Deletes a project for good, with everything in it, and answers it as it was. Needs the
    /// owner role in it.
    async fn delete_project(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Result<Project> {
        let caller = caller(ctx)?;
        Ok(Project(app(ctx).delete_project(caller, ProjectId::parse(&id)?).await?))
    }

    /// Makes a user a member of a project. Needs the owner role in it.
    async fn add_project_member(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The new membership.")] input: AddProjectMemberInput,
    ) -> Result<ProjectMember> {
        let caller = caller(ctx)?;
        let user = match (input.user_id, input.email) {
            (Some(id), None) => UserRef::Id(UserId::parse(&id)?),
            (None, Some(email)) => UserRef::Email(email),
            _ => return Err(Error::invalid("userId", "give exactly one of userId and email")),
        };
        let project_id = ProjectId::parse(&input.project_id)?;
        let new = AddProjectMember { project_id, user, role: input.role.into() };
        Ok(ProjectMember(app(ctx).add_project_member(caller, new).await?))
    }

    /// Gives a member another role. Needs the owner role in the project. `CONFLICT` when nobody
    /// would be left as owner, unless an administrator asks.
    async fn update_project_member(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The membership's id.")] id: ID,
        #[graphql(desc = "What is to change.")] input: UpdateProjectMemberInput,
    ) -> Result<ProjectMember> {
        let caller = caller(ctx)?;
        let id = ProjectMemberId::parse(&id)?;
        Ok(ProjectMember(app(ctx).update_project_member(caller, id, input.role.into()).await?))
    }

    /// Ends a membership and answers it as it was. Needs the owner role in the project.
    /// `CONFLICT` when nobody would be left as owner, unless an administrator asks.
    async fn remove_project_member(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The membership's id.")] id: ID,
    ) -> Result<ProjectMember> {
        let caller = caller(ctx)?;
        let id = ProjectMemberId::parse(&id)?;
        Ok(ProjectMember(app(ctx).remove_project_member(caller, id).await?))
    }
}

/// The project of that id, loaded with those of its siblings.
pub(super) async fn load(ctx: &Context<'_>, id: ProjectId) -> Result<Option<Project>, Fault> {
    Ok(loaders(ctx)?.load_one(id).await?.map(Project))
}
