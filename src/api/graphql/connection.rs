//! Lists as Relay connections (the GraphQL Cursor Connections Specification).

use std::borrow::Cow;

use async_graphql::{Enum, Object, OutputType, SimpleObject, TypeName};
use futures::future::BoxFuture;

use crate::domain::page::{Direction, Page};
use crate::error::Result;

/// One page of a list.
pub struct Connection<T> {
    edges: Vec<Edge<T>>,
    page_info: PageInfo,
    total_count: Option<u64>,
}

/// A page that is being read. It is boxed where it is begun: the library makes a future for each
/// field of each row, `name` too, as large as the largest of the row's type.
pub(super) type Listed<'a, T> = BoxFuture<'a, Result<Connection<T>>>;

/// One thing in a list.
pub struct Edge<T> {
    cursor: String,
    node: T,
}

/// Where a page lies in its list.
#[derive(SimpleObject, Clone)]
pub struct PageInfo {
    /// Whether the list goes on after this page.
    has_next_page: bool,
    /// Whether the list has something before this page.
    has_previous_page: bool,
    /// The cursor of the page's first row; none on an empty page.
    start_cursor: Option<String>,
    /// The cursor of the page's last row, to be given as `after` for the next page; none on an
    /// empty page.
    end_cursor: Option<String>,
}

impl<T> Connection<T> {
    /// A page as its connection; `into` makes the nodes.
    pub fn new<U>(page: Page<U>, mut into: impl FnMut(U) -> T) -> Self {
        let page_info = PageInfo {
            has_next_page: page.has_next_page,
            has_previous_page: page.has_previous_page,
            start_cursor: page.rows.first().map(|(cursor, _)| cursor.clone()),
            end_cursor: page.rows.last().map(|(cursor, _)| cursor.clone()),
        };
        let edge = |(cursor, row)| Edge { cursor, node: into(row) };
        Self {
            edges: page.rows.into_iter().map(edge).collect(),
            page_info,
            total_count: page.total_count,
        }
    }
}

impl<T: OutputType> TypeName for Connection<T> {
    fn type_name() -> Cow<'static, str> {
        format!("{}Connection", T::type_name()).into()
    }
}

impl<T: OutputType> TypeName for Edge<T> {
    fn type_name() -> Cow<'static, str> {
        format!("{}Edge", T::type_name()).into()
    }
}

/// One page of a list.
#[Object(name_type)]
impl<T: OutputType> Connection<T> {
    /// The page's rows, each with its cursor.
    async fn edges(&self) -> &[Edge<T>] {
        &self.edges
    }

    /// The page's rows.
    async fn nodes(&self) -> Vec<&T> {
        self.edges.iter().map(|edge| &edge.node).collect()
    }

    /// Where the page lies in its list.
    async fn page_info(&self) -> &PageInfo {
        &self.page_info
    }

    /// How many rows the whole list has. Counting reads all of it: ask only where it is shown.
    async fn total_count(&self) -> u64 {
        self.total_count.unwrap_or_default()
    }
}

/// A row of a list and its place there.
#[Object(name_type)]
impl<T: OutputType> Edge<T> {
    /// The row's place, opaque, to be given as `after` or `before`. It stays valid while rows come
    /// and go, and also when this row is deleted.
    async fn cursor(&self) -> &str {
        &self.cursor
    }

    /// The row.
    async fn node(&self) -> &T {
        &self.node
    }
}

/// The direction of an order.
#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum OrderDirection {
    /// Smallest or earliest first.
    Asc,
    /// Largest or latest first.
    Desc,
}

impl From<OrderDirection> for Direction {
    fn from(direction: OrderDirection) -> Self {
        match direction {
            OrderDirection::Asc => Self::Ascending,
            OrderDirection::Desc => Self::Descending,
        }
    }
}
