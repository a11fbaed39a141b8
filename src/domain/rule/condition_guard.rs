//! What keeps a condition small and cheap, before and after it is parsed.
//!
//! The parser and the interpreter recurse, so nesting is bounded before either sees the text. A
//! condition must not cost more than it shows, so loops do not nest, build nothing and match no
//! patterns.

use cel::common::ast::{
    ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};

use super::facts::lacks;

/// How deep a condition may nest: brackets, and operators or dots in a row.
pub(super) const DEPTH_MAX: usize = 40;
/// How many patterns a condition may match.
const MATCHES_MAX: usize = 5;
/// How much memory a compiled pattern may take, in bytes.
const PATTERN_SIZE_MAX: usize = 256 * 1024;
/// The longest pattern, in bytes.
const PATTERN_MAX: usize = 200;

/// Something that is wrong at a byte of the text.
pub(super) type Fault = (usize, String);

/// Bounds the nesting that the parser will meet.
///
/// Depth is counted from above: every open bracket, and in each of them the longest row of
/// operators, dots and calls. `&&` and `||` start a new row, as the parser balances them.
pub(super) fn nesting(text: &str) -> Result<(), Fault> {
    let bytes = text.as_bytes();
    let mut levels = vec![Level::default()];
    let mut at = 0;
    while at < bytes.len() {
        let next = match bytes[at] {
            b'"' | b'\'' => past_text(bytes, at)?,
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |end| at + end)
            }
            b'=' if is_alone(bytes, at) => {
                return Err((at, "`=` is not known; write `==` to compare".to_owned()));
            }
            byte => {
                count(&mut levels, byte, bytes.get(at + 1).copied());
                at + 1
            }
        };
        let depth: usize = levels.iter().map(|level| 1 + level.row + level.choices).sum();
        if depth > DEPTH_MAX {
            let reason = format!("it nests too deep: at most {DEPTH_MAX} levels");
            return Err((at, reason));
        }
        at = next;
    }
    Ok(())
}

/// Whether the `=` at `at` is no part of `==`, `!=`, `<=` or `>=`.
fn is_alone(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|at| bytes[at]);
    let after = bytes.get(at + 1);
    !before.is_some_and(|byte| b"=!<>".contains(&byte)) && after != Some(&b'=')
}

/// What has been seen since a bracket opened.
#[derive(Default)]
struct Level {
    /// Operators, dots and calls in a row.
    row: usize,
    /// `?` of `a ? b : c`.
    choices: usize,
}

fn count(levels: &mut Vec<Level>, byte: u8, next: Option<u8>) {
    match byte {
        b'(' | b'[' | b'{' => {
            if let Some(level) = levels.last_mut() {
                level.row += 1;
            }
            levels.push(Level::default());
        }
        b')' | b']' | b'}' if levels.len() > 1 => {
            levels.pop();
        }
        b',' => {
            if let Some(level) = levels.last_mut() {
                *level = Level::default();
            }
        }
        b'&' | b'|' if next == Some(byte) => {
            if let Some(level) = levels.last_mut() {
                level.row = 0;
            }
        }
        b'?' => {
            if let Some(level) = levels.last_mut() {
                level.row = 0;
                level.choices += 1;
            }
        }
        b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'!' | b'<' | b'>' | b'=' => {
            // `==`, `<=` and their like are one operator.
            let pair = matches!(byte, b'!' | b'<' | b'>' | b'=') && next == Some(b'=');
            if let Some(level) = levels.last_mut().filter(|_| !pair) {
                level.row += 1;
            }
        }
        // The `in` of `x in y`, or of a name: counted either way.
        b'i' if next == Some(b'n') => {
            if let Some(level) = levels.last_mut() {
                level.row += 1;
            }
        }
        _ => {}
    }
}

/// The byte after the text literal that opens at `at`.
fn past_text(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let word = bytes[..at].iter().rev().take_while(|b| is_word(b)).count();
    let prefix = &bytes[at - word..at];
    let raw = match prefix.to_ascii_lowercase().as_slice() {
        b"" | b"b" => false,
        b"r" | b"br" | b"rb" => true,
        _ => return Err((at, "a quote can't follow a name or a number".to_owned())),
    };
    let quote = bytes[at];
    let long = bytes[at..].starts_with(&[quote; 3]);
    let mut end = at + if long { 3 } else { 1 };
    while end < bytes.len() {
        match bytes[end] {
            b'\\' if !raw => end += 2,
            b'\n' | b'\r' if !long => break,
            byte if byte == quote && long && bytes[end..].starts_with(&[quote; 3]) => {
                return Ok(end + 3);
            }
            byte if byte == quote && !long => return Ok(end + 1),
            _ => end += 1,
        }
    }
    Err((at, "this text does not end".to_owned()))
}

/// What a parsed condition holds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Survey {
    /// Nodes inside loops.
    pub(super) looped: usize,
    /// Where `event` or `user` stand inside loops.
    pub(super) looped_facts: usize,
    /// The most elements of a list that is written out.
    pub(super) longest: usize,
    /// Patterns of `matches`.
    pub(super) matches: usize,
}

/// Where an expression stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Outside,
    /// In the list that a loop goes through.
    Range,
    /// In what a loop does for each element.
    Body,
}

/// Walks a parsed condition and refuses what is unknown, or could cost too much. The number of a
/// fault is the id of the node.
pub(super) fn survey(expression: &IdedExpr) -> Result<Survey, (u64, String)> {
    let mut walk = Walk::default();
    walk.expression(expression, Place::Outside)?;
    Ok(walk.survey)
}

#[derive(Default)]
struct Walk<'a> {
    survey: Survey,
    names: Vec<&'a str>,
}

const FACTS: [&str; 2] = ["event", "user"];
const TYPES: [&str; 10] =
    ["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"];
const FUNCTIONS: &str = "_?_:_ _&&_ _||_ !_ _-_ _+_ _*_ _/_ _%_ _==_ _!=_ _>=_ _<=_ _>_ _<_ -_ _[_] @in \
    @not_strictly_false size contains startsWith endsWith matches int uint double string bool bytes \
    type dyn duration timestamp getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours \
    getMilliseconds getMinutes getMonth getSeconds";

impl<'a> Walk<'a> {
    fn expression(&mut self, node: &'a IdedExpr, place: Place) -> Result<(), (u64, String)> {
        let fault = |reason: String| Err((node.id, reason));
        if place == Place::Body {
            self.survey.looped += 1;
        }
        match &node.expr {
            Expr::Unspecified => fault("it is not complete".to_owned()),
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.name(node.id, name, place),
            Expr::Select(select) => {
                self.part(node.id, select)?;
                self.expression(&select.operand, place)
            }
            Expr::Call(call) => self.call(node.id, call, place),
            Expr::Comprehension(_) if place != Place::Outside => fault(
                "loops (all, exists, exists_one, filter) can't stand in each other".to_owned(),
            ),
            Expr::Comprehension(each) => self.each(node.id, each),
            Expr::List(list) => {
                self.survey.longest = self.survey.longest.max(list.elements.len());
                let plain = list.elements.iter().all(|each| matches!(each.expr, Expr::Literal(_)));
                if place == Place::Body && !plain {
                    return fault("a list inside a loop can hold plain values only".to_owned());
                }
                list.elements.iter().try_for_each(|each| self.expression(each, place))
            }
            Expr::Map(_) if place == Place::Body => {
                fault("no object can be made inside a loop".to_owned())
            }
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.expression(&entry.key, place)?;
                    self.expression(&entry.value, place)
                }
                EntryExpr::StructField(_) => fault("this kind of object is not known".to_owned()),
            }),
            Expr::Struct(_) => fault("typed objects are not known".to_owned()),
        }
    }

    fn name(&mut self, id: u64, name: &str, place: Place) -> Result<(), (u64, String)> {
        let plain = name.trim_start_matches('.');
        if FACTS.contains(&plain) && place == Place::Body {
            self.survey.looped_facts += 1;
        }
        let known = FACTS.contains(&plain)
            || plain == "now"
            || TYPES.contains(&plain)
            || self.names.contains(&plain);
        if known {
            return Ok(());
        }
        Err((id, format!("`{plain}` is not known; known are event, user and now")))
    }

    /// A part that `event` or `user` never has is a slip of the pen.
    fn part(&self, id: u64, select: &SelectExpr) -> Result<(), (u64, String)> {
        let Expr::Ident(name) = &select.operand.expr else { return Ok(()) };
        let name = name.trim_start_matches('.');
        if self.names.contains(&name) {
            return Ok(());
        }
        match lacks(name, &select.field) {
            None => Ok(()),
            Some(right) => Err((id, format!("`{name}.{}` is not known; {right}", select.field))),
        }
    }

    fn call(
        &mut self,
        id: u64,
        call: &'a cel::common::ast::CallExpr,
        place: Place,
    ) -> Result<(), (u64, String)> {
        let name = call.func_name.as_str();
        if !FUNCTIONS.split_whitespace().any(|known| known == name) {
            return Err((id, format!("the function `{name}` is not known")));
        }
        if name == "matches" {
            self.pattern(id, call, place)?;
        }
        let number = |each: &IdedExpr| {
            use LiteralValue::{Double, Int, UInt};
            matches!(&each.expr, Expr::Literal(Double(_) | Int(_) | UInt(_)))
        };
        if name == operators::ADD && place != Place::Outside && !call.args.iter().any(number) {
            let reason = "inside a loop only a written number can be added";
            return Err((id, reason.to_owned()));
        }
        let parts = call.target.as_deref().into_iter().chain(&call.args);
        parts.into_iter().try_for_each(|part| self.expression(part, place))
    }

    fn pattern(
        &mut self,
        id: u64,
        call: &cel::common::ast::CallExpr,
        place: Place,
    ) -> Result<(), (u64, String)> {
        let fault = |reason: &str| Err((id, reason.to_owned()));
        self.survey.matches += 1;
        if place != Place::Outside {
            return fault("matches can't stand inside a loop");
        }
        if self.survey.matches > MATCHES_MAX {
            return fault("it matches too many patterns: at most 5");
        }
        let Some(Expr::Literal(LiteralValue::String(pattern))) = call.args.last().map(|a| &a.expr)
        else {
            return fault("the pattern of matches must be written out as a text");
        };
        let pattern = pattern.inner();
        if pattern.len() > PATTERN_MAX {
            return fault("the pattern is too long: at most 200 bytes");
        }
        match regex::RegexBuilder::new(pattern).size_limit(PATTERN_SIZE_MAX).build() {
            Ok(_) => Ok(()),
            Err(regex::Error::CompiledTooBig(_)) => fault("the pattern is too large"),
            Err(error) => {
                let last = error.to_string().lines().last().unwrap_or_default().to_owned();
                Err((id, format!("the pattern is not a regular expression: {last}")))
            }
        }
    }

    /// A loop, in the form into which the parser brings its macros.
    fn each(&mut self, id: u64, each: &'a ComprehensionExpr) -> Result<(), (u64, String)> {
        self.expression(&each.iter_range, Place::Range)?;
        let names = self.names.len();
        self.names.extend([each.iter_var.as_str(), each.accu_var.as_str()]);
        self.names.extend(each.iter_var2.as_deref());
        self.expression(&each.accu_init, Place::Body)?;
        self.expression(&each.loop_cond, Place::Body)?;
        self.step(id, &each.loop_step, each)?;
        self.expression(&each.result, Place::Body)?;
        self.names.truncate(names);
        Ok(())
    }

    /// `filter` keeps elements as they are; whatever makes new ones is `map`.
    fn step(
        &mut self,
        id: u64,
        step: &'a IdedExpr,
        each: &'a ComprehensionExpr,
    ) -> Result<(), (u64, String)> {
        if !matches!(each.accu_init.expr, Expr::List(_)) {
            return self.expression(step, Place::Body);
        }
        let keeps = |added: &IdedExpr| {
            let Expr::Call(add) = &added.expr else { return false };
            let Some(Expr::List(list)) = add.args.last().map(|each| &each.expr) else {
                return false;
            };
            let [Expr::Ident(name)] = list.elements.iter().map(|e| &e.expr).collect::<Vec<_>>()[..]
            else {
                return false;
            };
            *name == each.iter_var
        };
        match &step.expr {
            Expr::Call(call) if call.func_name == operators::CONDITIONAL => match &call.args[..] {
                [test, added, _] if keeps(added) => self.expression(test, Place::Body),
                _ => Err((id, MAP.to_owned())),
            },
            _ => Err((id, MAP.to_owned())),
        }
    }
}

const MAP: &str = "map is not known; ask with all, exists, exists_one or size(….filter(…))";
