//! Templates: texts with `{{ user.attributes.name }}` in them, in the Jinja language.
//!
//! What is not set, or null, renders as nothing, however deep (`{{ a.b.c }}`): a message to a
//! customer must not fail for want of a nickname. `default` puts something in its place. Nothing is escaped, as
//! the results are texts of a JSON document. There are `if` and `for`, and the filters and tests
//! that are listed here; nothing reads files, makes endless lists or defines names.
//!
//! Anybody who may edit a rule may write one: steps, output and source are bounded.

use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, filters, tests as is};
use serde_json::{Map, Value};

use super::facts::{Facts, TEXT_MAX, is_known, lacks};
use super::misfit::{Misfit, cut, join};
use super::template_guard::{check as guard, is_template};
use super::template_values::{Ended, LOOKS, counted};

/// The longest template and the longest text that one renders to, in UTF-16 code units, which is
/// what the LINE platform counts.
pub const RENDERED_MAX: usize = TEXT_MAX;
/// All texts of one configuration together, in bytes.
pub const ALL_MAX: usize = 50 * 1024;

/// Steps of the engine for one text.
const FUEL: u32 = 10_000;
/// How many elements can be looked at while the engine does a step.
const LOOKS_A_STEP: usize = 8;
const TOO_MANY_STEPS: &str = "it takes too many steps";
const WHOLE: &str = "texts that are rendered must not have more than 50 KiB together";

static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut engine = Environment::empty();
    engine.set_undefined_behavior(UndefinedBehavior::Chainable);
    engine.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    engine.set_fuel(Some(FUEL.into()));
    engine.set_recursion_limit(64);
    engine.set_formatter(|out, state, value| match bool::try_from(value.clone()) {
        // As JSON writes it, not as Python does.
        Ok(answer) if value.kind() == ValueKind::Bool => {
            Ok(out.write_str(if answer { "true" } else { "false" })?)
        }
        _ => minijinja::escape_formatter(out, state, value),
    });
    engine.add_filter("upper", filters::upper);
    engine.add_filter("lower", filters::lower);
    engine.add_filter("title", filters::title);
    engine.add_filter("capitalize", filters::capitalize);
    engine.add_filter("trim", filters::trim);
    engine.add_filter("length", filters::length);
    engine.add_filter("default", filters::default);
    engine.add_filter("first", filters::first);
    engine.add_filter("last", filters::last);
    engine.add_filter("join", joined);
    engine.add_filter("items", filters::items);
    engine.add_filter("round", filters::round);
    engine.add_filter("abs", filters::abs);
    engine.add_filter("int", filters::int);
    engine.add_filter("float", filters::float);
    engine.add_test("defined", is::is_defined);
    engine.add_test("undefined", is::is_undefined);
    engine.add_test("number", is::is_number);
    engine.add_test("string", is::is_string);
    engine.add_test("true", is::is_true);
    engine.add_test("false", is::is_false);
    engine
});

/// The elements of a list as one text. A separator has up to 20 characters.
fn joined(list: &minijinja::Value, between: Option<String>) -> Result<String, Error> {
    let between = between.unwrap_or_default();
    if between.chars().count() > 20 {
        let reason = "join takes a separator of at most 20 characters";
        return Err(Error::new(ErrorKind::InvalidOperation, reason));
    }
    let mut text = String::new();
    for (number, element) in list.try_iter()?.enumerate() {
        if number > 0 {
            text.push_str(&between);
        }
        match element.as_str() {
            Some(element) => text.push_str(element),
            None => text.push_str(&element.to_string()),
        }
        if text.len() > 4 * RENDERED_MAX {
            return Err(Error::new(ErrorKind::InvalidOperation, "join makes too long a text"));
        }
    }
    Ok(text)
}

/// Checks a text that may be a template.
///
/// # Errors
/// A misfit without a path. Where the template is wrong, its reason begins with the line.
pub fn check(text: &str) -> Result<(), Misfit> {
    bounded(text).map_err(|reason| Misfit::new("", reason))?;
    if !is_template(text) {
        return Ok(());
    }
    guard(text).map_err(|(at, reason)| {
        let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        Misfit::new("", format!("line {line}: {reason}"))
    })?;
    let compiled = catch_unwind(AssertUnwindSafe(|| ENGINE.template_from_str(text).map(|_| ())));
    match compiled {
        Ok(Ok(())) => unknown(text),
        Ok(Err(error)) => Err(Misfit::new("", readable(&error))),
        Err(_) => Err(Misfit::new("", "can't be read as a template")),
    }
}

/// Names that no event can give a value to are slips of the pen.
fn unknown(text: &str) -> Result<(), Misfit> {
    let found = names(text).into_iter().find_map(|name| {
        let mut parts = name.split('.');
        let (root, part) = (parts.next()?, parts.next());
        let (slip, right) = match is_known(root) {
            false => (root, "known are event, user and now".to_owned()),
            true => (name.as_str(), lacks(root, part?)?),
        };
        Some(format!("`{}` is not known; {right}", cut(slip, 50)))
    });
    found.map_or(Ok(()), |reason| Err(Misfit::new("", reason)))
}

/// The names that a template speaks of, with what is asked of them: `user.attributes.nick`. In
/// their order.
fn names(text: &str) -> BTreeSet<String> {
    let template = ENGINE.template_from_str(text);
    template.map_or_else(
        |_| BTreeSet::new(),
        |found| found.undeclared_variables(true).into_iter().collect(),
    )
}

/// What the texts inside a JSON value speak of and has no value in `facts`, so that it renders as
/// nothing: each name once, in their order. Elements of lists are not looked at.
pub fn without_value(value: &Value, facts: &Facts<'_>) -> Vec<String> {
    let mut all = BTreeSet::new();
    // The visit refuses nothing; a key that can't be rendered ends it, and is told elsewhere.
    let _ = each(value, "", &mut |_, text| {
        if is_template(text) && guard(text).is_ok() {
            all.append(&mut names(text));
        }
        Ok(Value::Null)
    });
    all.retain(|name| {
        let found = name.split('.').try_fold(facts.template(), |of, part| of.get_attr(part));
        found.map_or(true, |found| found.is_undefined())
    });
    all.into_iter().collect()
}

/// Checks each text inside a JSON value as [`check`] does.
///
/// # Errors
/// The path, such as `messages[0].text`, of the first that is wrong; an empty one if they are too
/// much together.
pub fn check_strings(value: &Value) -> Result<(), Misfit> {
    let mut total = 0;
    each(value, "", &mut |path, text| {
        total += text.len();
        check(text).map_err(|misfit| misfit.below(path))?;
        whole(total)?;
        Ok(Value::Null)
    })?;
    Ok(())
}

/// What it costs to render each text inside a JSON value, at the most: 1 is about a step of the
/// engine.
pub fn cost(value: &Value) -> usize {
    match value {
        Value::String(text) if text.contains("{%") => FUEL as usize + LOOKS / LOOKS_A_STEP,
        Value::String(text) if is_template(text) => text.len() + LOOKS / LOOKS_A_STEP,
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(cost).sum(),
        Value::Object(map) => map.values().map(cost).sum(),
        _ => 0,
    }
}

/// Renders one text.
///
/// # Errors
/// A sentence for people, if the template fails, takes too many steps or makes too long a text, or
/// a text with U+0000 in it.
pub fn render(text: &str, facts: &Facts<'_>) -> Result<String, String> {
    bounded(text)?;
    if !is_template(text) {
        return Ok(text.to_owned());
    }
    guard(text).map_err(|(_, reason)| reason)?;
    let rendering = || -> Result<String, Error> {
        let mut out = Bounded(Vec::new());
        ENGINE.template_from_str(text)?.render_captured_to(facts.template(), &mut out)?;
        String::from_utf8(out.0).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))
    };
    let rendered = match counted(rendering) {
        Ok(Ok(rendered)) => rendered,
        Ok(Err(error)) => return Err(readable(&error)),
        Err(Ended::TooManyLooks) => return Err(TOO_MANY_STEPS.to_owned()),
        Err(Ended::Panicked) => return Err("the template could not be rendered".to_owned()),
    };
    bounded(&rendered).map(|()| rendered)
}

/// Renders each text inside a JSON value; keys stay as they are.
///
/// # Errors
/// The path, such as `messages[0].text`, of the first that fails as in [`render`]; an empty one if
/// the texts are more than [`ALL_MAX`] together.
pub fn render_strings(value: &Value, facts: &Facts<'_>) -> Result<Value, Misfit> {
    let mut total = 0;
    each(value, "", &mut |path, text| {
        let rendered = render(text, facts).map_err(|reason| Misfit::new(path, reason))?;
        total += rendered.len();
        whole(total)?;
        Ok(Value::String(rendered))
    })
}

fn whole(total: usize) -> Result<(), Misfit> {
    if total > ALL_MAX { Err(Misfit::new("", WHOLE)) } else { Ok(()) }
}

type Visit<'v> = dyn FnMut(&str, &str) -> Result<Value, Misfit> + 'v;

/// The value with each of its texts replaced.
fn each(value: &Value, path: &str, visit: &mut Visit<'_>) -> Result<Value, Misfit> {
    match value {
        Value::String(text) => visit(path, text),
        Value::Array(list) => {
            let list = list.iter().enumerate();
            list.map(|(at, value)| each(value, &join(path, &format!("[{at}]")), visit))
                .collect::<Result<Vec<_>, _>>()
                .map(Value::Array)
        }
        Value::Object(map) => {
            let mut all = Map::new();
            for (key, value) in map {
                if key.contains('\0') {
                    return Err(Misfit::new(path, "must not have a null character in a key"));
                }
                all.insert(key.clone(), each(value, &join(path, key), visit)?);
            }
            Ok(Value::Object(all))
        }
        other => Ok(other.clone()),
    }
}

/// The bounds of every text, before and after it is rendered.
fn bounded(text: &str) -> Result<(), String> {
    if text.len() > RENDERED_MAX && text.encode_utf16().count() > RENDERED_MAX {
        return Err(format!("must have at most {RENDERED_MAX} characters"));
    }
    if text.contains('\0') {
        return Err("must not contain the character U+0000".to_owned());
    }
    Ok(())
}

/// Takes as many bytes as the longest text can have and one more.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > 3 * RENDERED_MAX {
            let reason = format!("must have at most {RENDERED_MAX} characters");
            return Err(io::Error::other(reason));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn readable(error: &Error) -> String {
    let what = match error.kind() {
        ErrorKind::OutOfFuel => TOO_MANY_STEPS.to_owned(),
        ErrorKind::WriteFailure => format!("must have at most {RENDERED_MAX} characters"),
        kind => error.detail().map_or(kind.to_string(), |detail| format!("{kind}: {detail}")),
    };
    let what = cut(&what, 200);
    error.line().map_or(what.clone(), |line| format!("line {line}: {what}"))
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
