//! Pages of lists, as the Relay connection specification counts them.

use crate::error::{Error, Result};

/// The largest page.
pub const PAGE_MAX: u64 = 200;
/// The page's size where the caller names none.
pub const PAGE_DEFAULT: u64 = 50;

/// Which page of a list is wanted. Cursors are opaque to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// How many, 1 to [`PAGE_MAX`].
    pub limit: u64,
    /// Only what follows this cursor.
    pub after: Option<String>,
    /// Only what precedes this cursor.
    pub before: Option<String>,
    /// Take the last `limit` rather than the first.
    pub backwards: bool,
    /// Whether the whole list is to be counted too, which reads all of it.
    pub with_total: bool,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { limit: PAGE_DEFAULT, after: None, before: None, backwards: false, with_total: false }
    }
}

impl PageRequest {
    /// Checks the four arguments of a connection. Refused: `first` and `last` together,
    /// a size outside 1 to [`PAGE_MAX`].
    pub fn new(
        first: Option<i32>,
        after: Option<String>,
        last: Option<i32>,
        before: Option<String>,
    ) -> Result<Self> {
        let (field, size) = match (first, last) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("first", "use first or last, not both"));
            }
            (None, Some(n)) => ("last", Some(n)),
            (n, None) => ("first", n),
        };
        let limit = match size {
            None => PAGE_DEFAULT,
            Some(n) => {
                u64::try_from(n).ok().filter(|n| (1..=PAGE_MAX).contains(n)).ok_or_else(|| {
                    Error::invalid(
                        field,
                        format!("{field} must be from 1 to {PAGE_MAX}, it is {n}"),
                    )
                })?
            }
        };
        Ok(Self { limit, after, before, backwards: last.is_some(), with_total: false })
    }
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The rows with their cursors, in the list's order.
    pub rows: Vec<(String, T)>,
    /// How many rows the whole list has, if the request asked for it.
    pub total_count: Option<u64>,
    /// Whether rows follow.
    pub has_next_page: bool,
    /// Whether rows precede.
    pub has_previous_page: bool,
}

impl<T> Page<T> {
    /// The page of a list that has nothing.
    pub fn empty(request: &PageRequest) -> Self {
        Self {
            rows: Vec::new(),
            total_count: request.with_total.then_some(0),
            has_next_page: false,
            has_previous_page: false,
        }
    }

    /// The same page of other things.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Page<U> {
        Page {
            rows: self.rows.into_iter().map(|(cursor, row)| (cursor, f(row))).collect(),
            total_count: self.total_count,
            has_next_page: self.has_next_page,
            has_previous_page: self.has_previous_page,
        }
    }
}

/// The direction of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Smallest first.
    #[default]
    Ascending,
    /// Largest first.
    Descending,
}
