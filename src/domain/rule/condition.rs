//! Conditions: expressions of the Common Expression Language over [`Facts`] that answer true or
//! false.
//!
//! Anybody who may edit a rule may write one, so it is bounded: in length, in nesting, and in what
//! a loop can cost, from the text alone where that is possible and from the size of the facts where
//! it is not. There is no `map`, and `matches` takes written patterns only.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use cel::common::ast::SourceInfo;
use cel::parser::{Expression, Parser};
use cel::{ExecutionError, Value};

use super::condition_guard::{DEPTH_MAX, Survey, nesting, survey};
use super::facts::Facts;
use super::misfit::{Misfit, cut};

/// The longest condition, in characters.
pub const CONDITION_MAX: usize = 2_000;

/// The stack of the parser, in bytes; only what is used is taken from the machine.
const PARSER_STACK: usize = 32 * 1024 * 1024;

/// What a condition of the greatest length costs without its loops and the facts it reads.
const UNLOOPED_COST: usize = 400;

/// What it costs to read the pattern of a `matches`, which is done each time.
const PATTERN_COST: usize = 8_000;

/// What a loop may cost: elements times what is looked at for each.
const LOOP_COST_MAX: usize = 4_000_000;

/// A condition that was understood.
#[derive(Debug)]
pub struct Condition {
    expression: Expression,
    survey: Survey,
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// A misfit without a path whose reason begins with line and column.
    pub fn compile(text: &str) -> Result<Self, Misfit> {
        if text.chars().count() > CONDITION_MAX {
            let reason = format!("must have at most {CONDITION_MAX} characters");
            return Err(Misfit::new("", reason));
        }
        if text.trim().is_empty() {
            return Err(Misfit::new("", "must not be empty; leave it out if there is none"));
        }
        nesting(text).map_err(|(at, reason)| Misfit::new("", placed(text, at, &reason)))?;
        // The generated parser takes a lot of stack a level, and may panic: it gets a thread of its
        // own, whose end is the text's fault as far as the caller is concerned.
        let unread = || Misfit::new("", "can't be read as a condition");
        thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(PARSER_STACK);
            let parser = thread.spawn_scoped(scope, || parse(text)).map_err(|_| unread())?;
            parser.join().map_err(|_| unread())?
        })
    }

    /// What it costs to evaluate it, at the most: 1 is about a step of the interpreter.
    pub fn cost(&self, facts: &Facts<'_>) -> usize {
        let looped = self.loop_cost(facts);
        let loops = if looped > LOOP_COST_MAX { 0 } else { looped };
        let patterns = self.survey.matches * PATTERN_COST;
        (UNLOOPED_COST + patterns).saturating_add(facts.size().weight).saturating_add(loops)
    }

    fn loop_cost(&self, facts: &Facts<'_>) -> usize {
        if self.survey.looped == 0 {
            return 0;
        }
        let size = facts.size();
        let each = self.survey.looped + self.survey.looped_facts * size.weight;
        size.longest.max(self.survey.longest).saturating_mul(each)
    }

    /// What the condition says of the facts.
    ///
    /// # Errors
    /// A sentence for people if it can't say: something is not set, the types do not meet, it
    /// answers something else than true or false, or the event holds too much for its loop.
    pub fn evaluate(&self, facts: &Facts<'_>) -> Result<bool, String> {
        if self.loop_cost(facts) > LOOP_COST_MAX {
            return Err("the event and the user hold too much for a condition with a loop".into());
        }
        let context = facts.cel();
        // The interpreter is not ours: should it panic, this one condition fails, not the process.
        let answer = catch_unwind(AssertUnwindSafe(|| Value::resolve(&self.expression, context)));
        match answer {
            Ok(Ok(Value::Bool(answer))) => Ok(answer),
            Ok(Ok(other)) => Err(format!(
                "the condition must answer true or false, it answered {}",
                kind(&other)
            )),
            Ok(Err(error)) => Err(cut(&readable(&error), 300)),
            Err(_) => Err("the condition could not be evaluated".to_owned()),
        }
    }
}

fn parse(text: &str) -> Result<Condition, Misfit> {
    let depth = u16::try_from(2 * DEPTH_MAX).unwrap_or(u16::MAX);
    let parser = Parser::new().max_recursion_depth(depth);
    let (expression, places) = parser.parse_with_source_info(text).map_err(|errors| {
        let Some(error) = errors.errors.first() else {
            return Misfit::new("", "can't be read as a condition");
        };
        let message = error.msg.trim_start_matches("Syntax error: ");
        let (line, column) = (error.pos.0.max(1), error.pos.1.max(1));
        Misfit::new("", format!("line {line}, column {column}: {}", cut(message, 200)))
    })?;
    let survey = survey(&expression)
        .map_err(|(id, reason)| Misfit::new("", placed(text, start(&places, id), &reason)))?;
    Ok(Condition { expression, survey })
}

fn start(places: &SourceInfo, id: u64) -> usize {
    places.offset_for(id).map_or(0, |(start, _)| start as usize)
}

/// The reason with the line and column of a byte.
fn placed(text: &str, at: usize, reason: &str) -> String {
    let before = text.get(..at.min(text.len())).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {reason}")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "a list",
        Value::Map(_) | Value::Struct(_) => "an object",
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => "a number",
        Value::String(_) | Value::Bytes(_) => "a text",
        Value::Duration(_) => "a duration",
        Value::Timestamp(_) => "a timestamp",
        Value::Null => "null",
        _ => "something else",
    }
}

fn readable(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("{key} is not set"),
        ExecutionError::NoSuchOverload(overload) => {
            let types = overload.argument_types().join(" and ");
            format!("{} does not work on {types}", operator(overload.function()))
        }
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "it divides by zero".to_owned()
        }
        ExecutionError::Overflow(..) => "a number becomes too large".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "a list is shorter than the index".to_owned(),
        ExecutionError::ValuesNotComparable(one, other) => {
            format!("{} can't be compared to {}", kind(one), kind(other))
        }
        other => other.to_string(),
    }
}

/// `_+_` as people write it.
fn operator(name: &str) -> &str {
    match name {
        "@in" => "in",
        "_[_]" => "[]",
        name => name.trim_matches('_'),
    }
}

#[cfg(test)]
#[path = "condition_tests.rs"]
mod tests;
