//! The condition of a list: what is asked for, among what may be seen.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::IntoCondition;
use sea_orm::{ColumnTrait, Condition, Value};

use super::dialect;

/// Rows that are visible and, as far as something is asked for, what is asked for: none restricts
/// nothing.
pub(super) struct Wanted(Condition);

impl Wanted {
    /// All that is `visible`.
    pub fn among(visible: impl IntoCondition) -> Self {
        Self(Condition::all().add(visible.into_condition()))
    }

    /// Whose `column` is `value`.
    pub fn eq<V: Into<Value>>(self, column: impl ColumnTrait, value: Option<V>) -> Self {
        self.and(value.map(|value| column.eq(value.into())))
    }

    /// Whose `column` is one of `names`; of an empty list: any.
    pub fn one_of(
        self,
        column: impl ColumnTrait,
        names: impl ExactSizeIterator<Item = &'static str>,
    ) -> Self {
        let any = names.len() == 0;
        self.and((!any).then(|| column.is_in(names)))
    }

    /// Whose `column` holds `text`, whatever the case.
    pub fn contains(self, column: impl ColumnTrait, text: Option<&String>) -> Self {
        self.and(text.map(|text| dialect::contains(column, text)))
    }

    /// Whose `column` is `since` or later, and before `until`.
    pub fn between(
        self,
        column: impl ColumnTrait,
        since: Option<DateTime<Utc>>,
        until: Option<DateTime<Utc>>,
    ) -> Self {
        self.and(since.map(|since| column.gte(since))).and(until.map(|until| column.lt(until)))
    }

    /// What meets `condition` too.
    pub fn and(self, condition: Option<impl IntoCondition>) -> Self {
        Self(self.0.add_option(condition.map(IntoCondition::into_condition)))
    }
}

impl From<Wanted> for Condition {
    fn from(wanted: Wanted) -> Self {
        wanted.0
    }
}
