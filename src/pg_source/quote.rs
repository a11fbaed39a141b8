//! Writing names and texts into SQL so that they stay names and texts.

use crate::error::{Error, Result};

/// PostgreSQL cuts longer names, in bytes, and would then mean something else.
const NAME_MAX: usize = 63;

/// A name in double quotes.
pub fn name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a literal that reads the same whether `standard_conforming_strings` is on or off.
pub fn text(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!(" E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// Refuses, with `INVALID` on `option`, what can't be a name in PostgreSQL.
pub fn checked(option: &'static str, name: &str) -> Result<String> {
    if name.is_empty() || name.len() > NAME_MAX || name.contains('\0') {
        let reason = format!(
            "{option} must hold names of 1 to {NAME_MAX} bytes, which {name:?} is not; a name in \
             double quotes may hold any sign"
        );
        return Err(Error::invalid(option, reason));
    }
    Ok(name.to_owned())
}

/// The names of a list. A name in double quotes may hold the separator, and `""` for a quote.
/// Refused with `INVALID` on `option`: an empty or overlong name, a quote that does not end.
pub fn names(option: &'static str, list: &str, separator: char) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = list;
    loop {
        let (name, after) = first(option, rest, separator)?;
        names.push(checked(option, &name)?);
        match after {
            Some(after) => rest = after,
            None => return Ok(names),
        }
    }
}

/// The first name of a list, and what follows its separator.
fn first<'a>(
    option: &'static str,
    list: &'a str,
    separator: char,
) -> Result<(String, Option<&'a str>)> {
    let Some(quoted) = list.strip_prefix('"') else {
        return Ok(match list.split_once(separator) {
            Some((name, after)) => (name.to_owned(), Some(after)),
            None => (list.to_owned(), None),
        });
    };
    let wrong = || {
        let reason = format!("{option}: a name in double quotes must end with one, in {list:?}");
        Error::invalid(option, reason)
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let (part, after) = rest.split_once('"').ok_or_else(wrong)?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None if after.is_empty() => return Ok((name, None)),
            None => return Ok((name, Some(after.strip_prefix(separator).ok_or_else(wrong)?))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_keep_their_quotes_and_backslashes() {
        assert_eq!(name(r#"a"b; DROP"#), r#""a""b; DROP""#);
        assert_eq!(text("it's"), "'it''s'");
        assert_eq!(text(r"a\'b"), r" E'a\\''b'");
    }

    #[test]
    fn a_list_is_split_outside_of_double_quotes() {
        let split = |list| names("--table", list, '.').unwrap();
        assert_eq!(split("public.Users"), ["public", "Users"]);
        assert_eq!(split(r#""a.b"."c""d""#), ["a.b", r#"c"d"#]);
        assert_eq!(split("one"), ["one"]);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "x".repeat(64);
        for list in ["", "a.", ".a", r#""a"#, r#""a"b.c"#, long.as_str()] {
            let error = names("--table", list, '.').unwrap_err();
            assert_eq!(error.field(), Some("--table"), "{list}");
        }
    }
}
