//! Tenants: what an application's backends loop over. Maintainers and owners write.

use super::App;
use super::application::change_in;
use crate::domain::access::{Actor, Scope};
use crate::domain::application::{Application, Tenant};
use crate::domain::audit::Caller;
use crate::domain::id::{ApplicationId, TenantId};
use crate::domain::input;
use crate::domain::page::{Page, PageRequest};
use crate::error::Result;
use crate::store::{Hold, Tx, application};

/// What a new tenant is made of.
#[derive(Debug, Clone)]
pub struct CreateTenant {
    /// The application it belongs to.
    pub application_id: ApplicationId,
    /// The name in addresses, unique in the application and environment: lower-case letters,
    /// digits and hyphens.
    pub slug: String,
    /// Required, up to 100 characters.
    pub name: String,
    /// The environment's name, for example `production`; required, up to 100 characters.
    pub environment: String,
}

/// What of a tenant is to change; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateTenant {
    /// A new slug.
    pub slug: Option<String>,
    /// A new name.
    pub name: Option<String>,
    /// Another environment.
    pub environment: Option<String>,
}

impl App {
    /// Makes a tenant.
    ///
    /// # Errors
    /// `NOT_FOUND` for the application; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` when the
    /// application and environment have the slug already.
    pub async fn create_tenant(&self, caller: &Caller, new: CreateTenant) -> Result<Tenant> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let application =
            self.writable_application(&*tx, &caller.actor, new.application_id).await?;
        let tenant = Tenant {
            id: TenantId::new(),
            application_id: application.id,
            slug: input::slug("slug", &new.slug)?,
            name: input::name("name", &new.name)?,
            environment: input::name("environment", &new.environment)?,
            created_at: now,
            updated_at: now,
        };
        application::insert_tenant(&*tx, &tenant).await?;
        let entity = ("tenant", tenant.id.0);
        let created = change_in(&application, "tenant.create", entity, (None, Some(&tenant)))?;
        tx.commit(caller, now, &[created]).await?;
        Ok(tenant)
    }

    /// Changes a tenant.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`; `INVALID` on a field; `CONFLICT` when the application and
    /// environment have the slug already.
    pub async fn update_tenant(
        &self,
        caller: &Caller,
        id: TenantId,
        update: UpdateTenant,
    ) -> Result<Tenant> {
        let now = self.now();
        let tx = self.store.begin().await?;
        let (application, before) = self.held_tenant(&tx, &caller.actor, id).await?;
        let mut after = Tenant { updated_at: now, ..before.clone() };
        if let Some(slug) = update.slug {
            after.slug = input::slug("slug", &slug)?;
        }
        if let Some(name) = update.name {
            after.name = input::name("name", &name)?;
        }
        if let Some(environment) = update.environment {
            after.environment = input::name("environment", &environment)?;
        }
        application::update_tenant(&*tx, &after).await?;
        let both = (Some(&before), Some(&after));
        let updated = change_in(&application, "tenant.update", ("tenant", id.0), both)?;
        tx.commit(caller, now, &[updated]).await?;
        Ok(after)
    }

    /// Deletes a tenant.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN`.
    pub async fn delete_tenant(&self, caller: &Caller, id: TenantId) -> Result<Tenant> {
        let tx = self.store.begin().await?;
        let (application, before) = self.held_tenant(&tx, &caller.actor, id).await?;
        application::delete_tenant(&*tx, id).await?;
        let entity = ("tenant", id.0);
        let deleted = change_in(&application, "tenant.delete", entity, (Some(&before), None))?;
        tx.commit(caller, self.now(), &[deleted]).await?;
        Ok(before)
    }

    /// The tenant of that id.
    pub async fn tenant(&self, scope: Scope, id: TenantId) -> Result<Tenant> {
        application::tenant(self.store.read(), scope, id).await
    }

    /// An application's tenants, of one environment or of all, by slug; none of one out of scope.
    pub async fn tenants(
        &self,
        scope: Scope,
        application: ApplicationId,
        environment: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<Tenant>> {
        // A text that can be no name is the name of none, and some databases refuse it.
        let environment = environment.map(|name| if is_name(name) { name } else { "" });
        application::tenants(self.store.read(), scope, application, environment, request).await
    }

    /// The tenant of that id, after its application is held: as it is now.
    async fn held_tenant(
        &self,
        tx: &Tx,
        actor: &Actor,
        id: TenantId,
    ) -> Result<(Application, Tenant)> {
        let found = application::tenant(&**tx, actor.scope(), id).await?;
        let application =
            self.held_application(tx, actor, found.application_id, Hold::Change).await?;
        Ok((application, application::tenant(&**tx, actor.scope(), id).await?))
    }
}

fn is_name(text: &str) -> bool {
    input::name("environment", text).is_ok()
}
