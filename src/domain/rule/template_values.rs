//! What templates are given: lists and objects that count how often somebody looks into them.
//!
//! The engine's fuel pays for instructions and for what they make. It does not see that a
//! comparison goes through all that nested lists hold, nor what a list costs that becomes a text to
//! be searched for. Both have to ask the lists, and so does whatever else is forgotten.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectExt, ObjectRepr};

/// How many elements one rendering may look at.
pub(super) const LOOKS: usize = 10_000;

thread_local! {
    /// How many elements the rendering on this thread may still look at; none: nothing is rendered.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Why a rendering ended before its time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It looked at more than [`LOOKS`] elements.
    TooManyLooks,
    /// The engine panicked.
    Panicked,
}

/// What a rendering is unwound with that looks at too much.
struct TooManyLooks;

/// Renders on this thread, and ends it when it looks at too many elements: nothing inside the
/// engine could be told so. The engine is not ours: should it panic, this one rendering fails, not
/// the process.
pub(super) fn counted<T>(render: impl FnOnce() -> T) -> Result<T, Ended> {
    LEFT.set(Some(LOOKS));
    let rendered = catch_unwind(AssertUnwindSafe(render));
    LEFT.set(None);
    rendered.map_err(|with| match with.is::<TooManyLooks>() {
        true => Ended::TooManyLooks,
        false => Ended::Panicked,
    })
}

fn look() {
    let Some(left) = LEFT.get() else { return };
    match left.checked_sub(1) {
        Some(left) => LEFT.set(Some(left)),
        None => resume_unwind(Box::new(TooManyLooks)),
    }
}

/// A list of values.
pub(super) fn list(values: impl Iterator<Item = Value>) -> Value {
    Value::from_object(List(values.collect()))
}

/// An object with fields.
pub(super) fn fields<'k>(entries: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value));
    Value::from_object(Fields(entries.collect()))
}

#[derive(Debug)]
struct List(Vec<Value>);

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        look();
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }
}

#[derive(Debug)]
struct Fields(BTreeMap<String, Value>);

impl Object for Fields {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        look();
        self.0.get(key.as_str()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_rev_enumerator(|fields| {
            Box::new(fields.0.keys().inspect(|_| look()).map(|key| Value::from(key.as_str())))
        })
    }
}
