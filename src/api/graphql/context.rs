//! What a resolver finds beside its arguments: the use cases, who asks, the loaders.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_graphql::{Context, ID};
use uuid::Uuid;

use super::connection::Connection;
use super::loaders::RequestLoaders;
use crate::app::App;
use crate::domain::access::Scope;
use crate::domain::audit::Caller;
use crate::domain::id::MUST_BE_AN_ID;
use crate::domain::page::{Page, PageRequest};
use crate::domain::rule::misfit::cut;
use crate::error::{Error, Result};

/// The use cases. The schema always carries them.
pub(super) fn app<'a>(ctx: &Context<'a>) -> &'a Arc<App> {
    ctx.data_unchecked::<Arc<App>>()
}

/// Who asks: `UNAUTHENTICATED` when nobody in particular does.
pub(super) fn caller<'a>(ctx: &Context<'a>) -> Result<&'a Caller> {
    ctx.data_opt::<Caller>().ok_or(Error::Unauthenticated {
        reason: "this needs credentials; send the header Authorization: Bearer with a token",
    })
}

/// What the caller may see.
pub(super) fn scope(ctx: &Context<'_>) -> Result<Scope> {
    Ok(caller(ctx)?.actor.scope())
}

/// The loaders of this request.
pub(super) fn loaders<'a>(ctx: &Context<'a>) -> Result<&'a RequestLoaders> {
    caller(ctx)?;
    Ok(ctx.data_unchecked::<RequestLoaders>())
}

/// How many rows the lists of one query, or of one event of a subscription, may ask for together. A
/// list in a list asks once for each row of the outer one, which no count of fields shows.
const ROWS_MAX: u64 = 20_000;

/// What the lists of one query or event may still ask for.
pub(super) struct Budget(AtomicU64);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicU64::new(ROWS_MAX))
    }
}

impl Budget {
    fn take(&self, rows: u64) -> Result<()> {
        let left = |left: u64| left.checked_sub(rows);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) {
            Ok(_) => Ok(()),
            Err(_) => {
                let reason = format!(
                    "the lists of this query ask for more than {ROWS_MAX} rows together; ask for \
                     smaller pages of the lists within lists"
                );
                Err(Error::invalid("first", reason))
            }
        }
    }
}

/// The four arguments of a connection: first, after, last, before.
pub(super) type Paging = (Option<i32>, Option<String>, Option<i32>, Option<String>);

/// The page that is asked for. The whole list is counted only if `totalCount` is selected.
pub(super) fn page(ctx: &Context<'_>, paging: Paging) -> Result<PageRequest> {
    let (first, after, last, before) = paging;
    let mut request = PageRequest::new(first, after, last, before)?;
    request.with_total = ctx.look_ahead().field("totalCount").exists();
    take(ctx, request.limit)?;
    Ok(request)
}

/// A list that has no pages, as part of what the query may ask for.
pub(super) fn counted<T>(ctx: &Context<'_>, list: Option<Vec<T>>) -> Result<Vec<T>> {
    let list = list.unwrap_or_default();
    take(ctx, list.len() as u64)?;
    Ok(list)
}

fn take(ctx: &Context<'_>, rows: u64) -> Result<()> {
    ctx.data_unchecked::<Budget>().take(rows)
}

/// An id that a list is asked by, at `field`. Whether there is such a thing, the list says: without
/// it, it is empty.
///
/// # Errors
/// `INVALID` on `field` for what is no id.
pub(super) fn named<T: FromStr>(field: &'static str, id: &str) -> Result<T> {
    id.parse().map_err(|_| {
        let reason = format!("{field} {MUST_BE_AN_ID}; `{}` is not", cut(id, 50));
        Error::invalid(field, reason)
    })
}

/// [`named`], where a list may be asked by an id or not.
pub(super) fn wanted<T: FromStr>(field: &'static str, id: Option<ID>) -> Result<Option<T>> {
    id.map(|id| named(field, &id)).transpose()
}

/// Narrows the filter of a list below something to what hangs on that: `own`. `false` when the caller
/// asks for what hangs on another: all conditions that are given must hold, so that is [`nothing`].
/// What is no id stays, for whoever reads the filter to refuse.
pub(super) fn narrow(asked: &mut Option<ID>, own: impl Into<Uuid>) -> bool {
    let own = own.into();
    match asked.as_ref().map(|id| id.parse::<Uuid>()) {
        Some(Ok(other)) => other == own,
        Some(Err(_)) => true,
        None => {
            *asked = Some(own.to_string().into());
            true
        }
    }
}

/// [`narrow`] to what an argument beside the filter names, which may be left out.
///
/// # Errors
/// `INVALID` on `field` when the argument is no id.
pub(super) fn narrow_to(
    asked: &mut Option<ID>,
    field: &'static str,
    argument: Option<ID>,
) -> Result<bool> {
    let own: Option<Uuid> = wanted(field, argument)?;
    Ok(own.is_none_or(|own| narrow(asked, own)))
}

/// [`narrow`] to what concerns a LINE user.
pub(super) fn narrow_user(asked: &mut Option<String>, own: &str) -> bool {
    asked.get_or_insert_with(|| own.to_owned()) == own
}

/// A page of a list that can't have anything. `UNAUTHENTICATED` like any other.
pub(super) fn nothing<T>(ctx: &Context<'_>, paging: Paging) -> Result<Connection<T>> {
    caller(ctx)?;
    let empty = Page::<T>::empty(&page(ctx, paging)?);
    Ok(Connection::new(empty, |row| row))
}

/// The states that a filter names, each once.
pub(super) fn distinct<T, U: From<T> + PartialEq>(named: Option<Vec<T>>) -> Vec<U> {
    let mut states = Vec::new();
    for state in named.into_iter().flatten().map(U::from) {
        if !states.contains(&state) {
            states.push(state);
        }
    }
    states
}
