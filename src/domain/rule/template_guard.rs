//! What keeps a template small and cheap, before it is compiled.
//!
//! The engine bounds the number of steps, and the values that it is given bound how often they are
//! looked into; what one step may make is bounded here. No part of a
//! template can give a name to what it built, so nothing doubles and doubles again: there is no
//! `set`, loops do not nest, and they go through what is there, not through what was made.

/// The longest tag, in bytes.
const TAG_MAX: usize = 300;
/// The largest whole number that something may be multiplied by: a text times a number repeats it.
const FACTOR_MAX: u64 = 100;

const STATEMENTS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];

/// The filters that the engine is given.
pub(super) const FILTERS: [&str; 15] = [
    "abs",
    "capitalize",
    "default",
    "first",
    "float",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lower",
    "round",
    "title",
    "trim",
    "upper",
];
/// The tests that the engine is given, for `is`.
pub(super) const TESTS: [&str; 6] = ["defined", "undefined", "number", "string", "true", "false"];
const WORDS: [&str; 9] = ["and", "or", "not", "in", "if", "elif", "else", "is", "for"];

/// Something that is wrong at a byte of the text.
type Fault = (usize, String);

/// Whether there is anything to be rendered.
pub(super) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|open| text.contains(open))
}

/// Refuses what could cost more than it shows.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    let mut loops = 0_usize;
    let mut at = 0;
    while let Some((start, kind)) = next_tag(text, at) {
        let end = past(text, start, kind)?;
        let inner = &text[start + 2..end - 2];
        if kind != '#' && inner.len() > TAG_MAX {
            return Err((start, format!("what stands in braces can have at most {TAG_MAX} bytes")));
        }
        let tokens = tokens(inner);
        match kind {
            '%' => statement(&tokens, &mut loops).map_err(|reason| (start, reason))?,
            '{' => expression(&tokens).map_err(|reason| (start, reason))?,
            _ => {}
        }
        at = end;
    }
    Ok(())
}

fn next_tag(text: &str, from: usize) -> Option<(usize, char)> {
    let bytes = text.as_bytes();
    (from..bytes.len().saturating_sub(1)).find_map(|at| match (bytes[at], bytes[at + 1]) {
        (b'{', b'{' | b'%' | b'#') => Some((at, char::from(bytes[at + 1]))),
        _ => None,
    })
}

/// The byte after the tag that opens at `start`.
fn past(text: &str, start: usize, kind: char) -> Result<usize, Fault> {
    let close = match kind {
        '{' => b"}}",
        '%' => b"%}",
        _ => b"#}",
    };
    let bytes = text.as_bytes();
    let mut at = start + 2;
    let mut quote = None;
    let mut braces = 0_usize;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, byte @ (b'"' | b'\'')) if kind != '#' => quote = Some(byte),
            (None, b'{') if kind != '#' => braces += 1,
            (None, b'}') if kind != '#' && braces > 0 => braces -= 1,
            (None, _) if bytes[at..].starts_with(close) => return Ok(at + 2),
            _ => {}
        }
        at += 1;
    }
    Err((start, format!("what opens with {{{kind} does not end")))
}

#[derive(Debug, PartialEq)]
enum Token<'a> {
    Name(&'a str),
    Number(&'a str),
    Text,
    Sign(char),
}

fn tokens(inner: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = inner.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']);
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            '"' | '\'' => text_length(rest, first),
            c if c.is_ascii_digit() => {
                rest.find(|c: char| !word(c) && c != '.').unwrap_or(rest.len())
            }
            c if word(c) => rest.find(|c: char| !word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, tail) = rest.split_at(length);
        match first {
            c if c.is_whitespace() => {}
            '"' | '\'' => found.push(Token::Text),
            c if c.is_ascii_digit() => found.push(Token::Number(token)),
            c if word(c) => found.push(Token::Name(token)),
            c => found.push(Token::Sign(c)),
        }
        rest = tail;
    }
    found
}

fn text_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn statement(tokens: &[Token<'_>], loops: &mut usize) -> Result<(), String> {
    let Some(Token::Name(name)) = tokens.first() else {
        return Err("a statement must begin with if or for".to_owned());
    };
    if !STATEMENTS.contains(name) {
        let known = STATEMENTS.join(", ");
        return Err(format!("the statement `{name}` is not known; known are {known}"));
    }
    match *name {
        "for" if *loops > 0 => return Err("loops can't stand in each other".to_owned()),
        "for" => {
            *loops += 1;
            return each(tokens);
        }
        "endfor" => *loops = loops.saturating_sub(1),
        _ => {}
    }
    expression(&tokens[1..])
}

/// `for x in event.payload.items`, or `for key, value in user.attributes | items`.
fn each(tokens: &[Token<'_>]) -> Result<(), String> {
    let plain = |token: &Token<'_>| match token {
        Token::Name(name) => !["recursive", "if", "else", "in"].contains(name),
        Token::Number(_) | Token::Text => true,
        Token::Sign(sign) => ['.', '[', ']', '|'].contains(sign),
    };
    let over = tokens.iter().position(|token| *token == Token::Name("in")).unwrap_or_default();
    let begins_with_name = matches!(tokens.get(over + 1), Some(Token::Name(_)));
    if over == 0 || !begins_with_name || !tokens[over + 1..].iter().all(plain) {
        return Err("a loop must read `for x in` and the name of a list".to_owned());
    }
    names(tokens)
}

/// Filters and tests are known by name, and nothing else can be called.
fn names(tokens: &[Token<'_>]) -> Result<(), String> {
    for (at, token) in tokens.iter().enumerate() {
        let back = |steps: usize| at.checked_sub(steps).and_then(|at| tokens.get(at));
        let is = |token: Option<&Token<'_>>| token == Some(&Token::Name("is"));
        let filter = back(1) == Some(&Token::Sign('|'));
        let test = is(back(1)) || back(1) == Some(&Token::Name("not")) && is(back(2));
        match token {
            Token::Name(name) if filter && !FILTERS.contains(name) => {
                let known = FILTERS.join(", ");
                return Err(format!("the filter `{name}` is not known; known are {known}"));
            }
            Token::Name(name) if test && *name != "not" && !TESTS.contains(name) => {
                let known = TESTS.join(", ");
                return Err(format!("the test `{name}` is not known; known are {known}"));
            }
            Token::Name(name)
                if !filter
                    && !test
                    && !WORDS.contains(name)
                    && tokens.get(at + 1) == Some(&Token::Sign('(')) =>
            {
                return Err(format!("`{name}` can't be called: there are no functions"));
            }
            Token::Sign(')' | ']') if tokens.get(at + 1) == Some(&Token::Sign('(')) => {
                return Err("nothing can be called: there are no functions".to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}

fn expression(tokens: &[Token<'_>]) -> Result<(), String> {
    names(tokens)?;
    if tokens.contains(&Token::Sign('~')) {
        return Err("`~` is not known; write the parts next to each other".to_owned());
    }
    let small = |token: Option<&Token<'_>>| match token {
        Some(Token::Number(number)) => {
            number.contains('.') || number.parse::<u64>().is_ok_and(|n| n <= FACTOR_MAX)
        }
        _ => false,
    };
    let mut stars = tokens.iter().enumerate().filter(|(_, token)| **token == Token::Sign('*'));
    match (stars.next(), stars.next()) {
        (None, _) => Ok(()),
        (Some((at, _)), None)
            if small(tokens.get(at + 1)) || at > 0 && small(tokens.get(at - 1)) =>
        {
            Ok(())
        }
        _ => Err(format!(
            "`*` can stand once, beside a number with decimals or a whole one up to {FACTOR_MAX}"
        )),
    }
}
