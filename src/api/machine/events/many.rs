//! Lists that are read no further than they may go.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::app::EVENTS_MAX;
use crate::error::{Error, Result};

/// A list. Of its elements at most [`EVENTS_MAX`] are kept; the others are only counted, so that a
/// body of millions costs no memory.
pub(super) struct Many<T> {
    kept: Vec<T>,
    total: usize,
}

impl<T> Many<T> {
    /// The elements. `INVALID` on `events` if there were too many.
    pub fn take(self) -> Result<Vec<T>> {
        if self.total > EVENTS_MAX {
            let reason = format!("events must be 1 to {EVENTS_MAX}, they are {}", self.total);
            return Err(Error::invalid("events", reason));
        }
        Ok(self.kept)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Reader(PhantomData))
    }
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
    type Value = Many<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut kept = Vec::new();
        while kept.len() < EVENTS_MAX {
            match list.next_element::<Object<T>>()? {
                Some(Object(element)) => kept.push(element),
                None => return Ok(Many { total: kept.len(), kept }),
            }
        }
        let mut total = kept.len();
        while list.next_element::<IgnoredAny>()?.is_some() {
            total += 1;
        }
        Ok(Many { kept, total })
    }
}

/// An element that must be an object: a type of named fields alone would take an array of their
/// values, too.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectReader(PhantomData))
    }
}

struct ObjectReader<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectReader<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event, a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}
