//! Keyset pages: a cursor names a row's place in the order, so that pages stay put while rows
//! come and go, and page 1,000 costs what page 1 costs.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::DateTime;
use sea_orm::sea_query::{Expr, ExprTrait, SimpleExpr};
use sea_orm::{
    ColumnTrait, ColumnType, ConnectionTrait, EntityTrait, FromQueryResult, ModelTrait, Order,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select, Value,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::page::{Direction, Page, PageRequest};
use crate::error::{Error, Result};

/// The years 0 to 9999, in milliseconds since 1970: what both databases can hold and order.
const TIMES: std::ops::Range<i64> = -62_167_219_200_000..253_402_300_800_000;

/// An order: a column that is never null, and the id, which makes places unique.
pub(super) struct By<C> {
    pub column: C,
    pub id: C,
    pub direction: Direction,
}

/// Reads one page of `select` and turns its rows into `T`.
pub(super) async fn page<E, T>(
    db: &impl ConnectionTrait,
    select: Select<E>,
    by: By<E::Column>,
    request: &PageRequest,
) -> Result<Page<T>>
where
    E: EntityTrait,
    E::Model: FromQueryResult + ModelTrait<Entity = E> + Send + Sync + Into<T>,
{
    let total_count = match request.with_total {
        true => Some(select.clone().count(db).await?),
        false => None,
    };
    let ascending = (by.direction == Direction::Ascending) != request.backwards;
    let order = if ascending { Order::Asc } else { Order::Desc };
    let mut rows = bounded(select, &by, request)?
        .order_by(by.column, order.clone())
        .order_by(by.id, order)
        .limit(request.limit + 1)
        .all(db)
        .await?;
    let more = rows.len() as u64 > request.limit;
    rows.truncate(usize::try_from(request.limit).unwrap_or(usize::MAX));
    if request.backwards {
        rows.reverse();
    }
    let rows = rows
        .into_iter()
        .map(|row| Ok((Cursor::of(&row, &by)?.encode()?, row.into())))
        .collect::<Result<Vec<_>>>()?;
    Ok(Page {
        rows,
        total_count,
        has_next_page: if request.backwards { request.before.is_some() } else { more },
        has_previous_page: if request.backwards { more } else { request.after.is_some() },
    })
}

fn bounded<E: EntityTrait>(
    mut select: Select<E>,
    by: &By<E::Column>,
    request: &PageRequest,
) -> Result<Select<E>> {
    let place = || Expr::tuple([by.column.into_expr(), by.id.into_expr()]);
    let up = by.direction == Direction::Ascending;
    if let Some(after) = &request.after {
        let bound = Cursor::decode("after", after, by)?.tuple();
        select = select.filter(if up { place().gt(bound) } else { place().lt(bound) });
    }
    if let Some(before) = &request.before {
        let bound = Cursor::decode("before", before, by)?.tuple();
        select = select.filter(if up { place().lt(bound) } else { place().gt(bound) });
    }
    Ok(select)
}

/// A row's place, and the list's table and column. Opaque to callers, but not secret.
#[derive(Serialize, Deserialize)]
struct Cursor(String, Key, Key);

fn list_of<C: ColumnTrait>(by: &By<C>) -> String {
    format!("{}.{}", by.column.entity_name(), by.column.as_str())
}

#[derive(Serialize, Deserialize)]
enum Key {
    #[serde(rename = "s")]
    Text(String),
    #[serde(rename = "t")]
    Milliseconds(i64),
    #[serde(rename = "u")]
    Id(Uuid),
    #[serde(rename = "n")]
    Number(i64),
}

impl Cursor {
    fn of<M: ModelTrait>(row: &M, by: &By<<M::Entity as EntityTrait>::Column>) -> Result<Self> {
        Ok(Self(list_of(by), Key::of(row.get(by.column))?, Key::of(row.get(by.id))?))
    }

    fn encode(&self) -> Result<String> {
        Ok(URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).map_err(Error::internal)?))
    }

    fn decode<C: ColumnTrait>(field: &'static str, text: &str, by: &By<C>) -> Result<Self> {
        URL_SAFE_NO_PAD
            .decode(text)
            .ok()
            .and_then(|json| serde_json::from_slice::<Self>(&json).ok())
            .filter(|Self(list, key, id)| {
                *list == list_of(by) && key.fits(by.column) && id.fits(by.id)
            })
            .ok_or_else(|| {
                Error::invalid(
                    field,
                    format!("{field} must be a cursor that this list has answered"),
                )
            })
    }

    fn tuple(self) -> SimpleExpr {
        Expr::tuple([Expr::value(self.1.value()), Expr::value(self.2.value())])
    }
}

impl Key {
    fn of(value: Value) -> Result<Self> {
        match value {
            Value::String(Some(text)) => Ok(Self::Text(text.to_string())),
            Value::ChronoDateTimeUtc(Some(at)) => Ok(Self::Milliseconds(at.timestamp_millis())),
            Value::Uuid(Some(id)) => Ok(Self::Id(id)),
            Value::BigInt(Some(number)) => Ok(Self::Number(number)),
            other => Err(Error::internal(format!("no order by {other:?}"))),
        }
    }

    /// Whoever makes a cursor up may write another kind of key, or one that no row can have.
    fn fits(&self, column: impl ColumnTrait) -> bool {
        let def = column.def();
        match def.get_column_type() {
            ColumnType::Uuid => matches!(self, Self::Id(_)),
            ColumnType::TimestampWithTimeZone => {
                matches!(self, Self::Milliseconds(at) if TIMES.contains(at))
            }
            ColumnType::BigInteger => matches!(self, Self::Number(_)),
            _ => matches!(self, Self::Text(text) if !text.contains('\0')),
        }
    }

    fn value(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Milliseconds(at) => {
                DateTime::from_timestamp_millis(at).unwrap_or(DateTime::UNIX_EPOCH).into()
            }
            Self::Id(id) => id.into(),
            Self::Number(number) => number.into(),
        }
    }
}
