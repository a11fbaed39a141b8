//! A look at a document before it is parsed: how many tokens it has, how deep its brackets nest, and
//! whether an input object has a field twice. The parser recurses over brackets, so their depth must
//! be bounded before it runs; and it keeps the last of two fields of one name, where the
//! specification (October 2021, 5.6.3) refuses both.

use std::collections::HashSet;

/// What was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scan {
    /// Names, numbers, strings and punctuators.
    pub tokens: usize,
    /// The deepest nesting of `{`, `[` and `(`.
    pub nesting: usize,
    /// The first field that an input object has twice.
    pub twice: Option<String>,
}

/// Brackets that are open.
#[derive(Default)]
struct Open<'a> {
    /// Of those that hold values, an object's brackets with the names of its fields.
    levels: Vec<(u8, HashSet<&'a [u8]>)>,
    /// How many of them are `(`: within these, `{` opens an input object.
    round: usize,
}

impl<'a> Open<'a> {
    fn opened(&mut self, bracket: u8) {
        self.round += usize::from(bracket == b'(');
        self.levels.push((bracket, HashSet::new()));
    }

    fn closed(&mut self) {
        if let Some((bracket, _)) = self.levels.pop() {
            self.round -= usize::from(bracket == b'(');
        }
    }

    /// Whether `name`, which a colon follows, is a field that this input object has already.
    fn has_already(&mut self, name: &'a [u8]) -> bool {
        match self.levels.last_mut() {
            Some((b'{', names)) if self.round > 0 => !names.insert(name),
            _ => false,
        }
    }
}

/// Counts in one pass. Whatever is no GraphQL is counted somehow; the parser refuses it later.
pub(super) fn scan(document: &str) -> Scan {
    let bytes = document.as_bytes();
    let (mut scan, mut open) = (Scan { tokens: 0, nesting: 0, twice: None }, Open::default());
    let mut at = past_ignored(bytes, 0);
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b'"' => at + string(&bytes[at..]),
            b'{' | b'[' | b'(' => {
                open.opened(*byte);
                scan.nesting = scan.nesting.max(open.levels.len());
                at + 1
            }
            b'}' | b']' | b')' => {
                open.closed();
                at + 1
            }
            b'.' => at + run(&bytes[at..], |byte| byte == b'.'),
            byte if is_word(*byte) => at + run(&bytes[at..], is_word),
            _ => at + 1,
        };
        scan.tokens += 1;
        let next = past_ignored(bytes, end);
        if is_word(*byte)
            && bytes.get(next) == Some(&b':')
            && open.has_already(&bytes[at..end])
            && scan.twice.is_none()
        {
            scan.twice = Some(String::from_utf8_lossy(&bytes[at..end]).into_owned());
        }
        at = next;
    }
    scan
}

/// Where the next token begins: what stands between tokens means nothing.
fn past_ignored(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b',' | 0xEF | 0xBB | 0xBF => at += 1,
            b'#' => at += run(&bytes[at..], |byte| !matches!(byte, b'\n' | b'\r')),
            _ => break,
        }
    }
    at
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+')
}

fn run(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !belongs(*byte)).unwrap_or(bytes.len())
}

/// The length of the string or block string that `bytes` begins with.
fn string(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\"\"\"") {
        let mut at = 3;
        while at < bytes.len() {
            if bytes[at..].starts_with(b"\\\"\"\"") {
                at += 4;
            } else if bytes[at..].starts_with(b"\"\"\"") {
                return at + 3;
            } else {
                at += 1;
            }
        }
        return bytes.len();
    }
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            b'\n' | b'\r' => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_as_graphql_counts_them() {
        let document = "query Q($a: [Int!] = [1, -2.5e3]) { b: c(d: $a) ...F @skip(if: true) }";
        // query Q ( $ a : [ Int ! ] = [ 1 -2 . 5e3 ] ) { b : c ( d : $ a ) ... F @ skip ( … ) }
        assert_eq!(scan(document), Scan { tokens: 38, nesting: 2, twice: None });
    }

    #[test]
    fn a_field_that_an_input_object_has_twice_is_found_and_nothing_else() {
        for (document, twice) in [
            ("{ f(a: {b: 1, b: 2}) }", Some("b")),
            ("{ f(a: {b: 1 # b: 3\n b \n : 2}) }", Some("b")),
            ("{ f(a: [{b: 1}, {c: {d: 1, d: 1}}]) }", Some("d")),
            ("query($a: A = {b: 1, b: 1}) { f }", Some("b")),
            ("{ f @d(a: {b: 1, b: 1}) }", Some("b")),
            ("{ f(a: {b: 1, c: {b: 1}, d: [{b: 1}, {b: 2}]}) }", None),
            ("{ f(a: {b: c, c: b, d: \"b: 1, b: 2\"}) }", None),
            ("{ f(a: {b: $b, c: b}) g: f(a: {b: 1}) }", None),
            ("{ a: f a: f ... on A { a: f a: f } }", None),
            ("{ f(a: 1, a: 2) }", None),
        ] {
            assert_eq!(scan(document).twice.as_deref(), twice, "{document}");
        }
    }

    #[test]
    fn brackets_in_strings_and_comments_do_not_nest() {
        assert_eq!(scan("# {{{{\n{a(b: \"{{{\\\"{{{\")}").nesting, 2);
        assert_eq!(scan("{a(b: \"\"\"{{ \\\"\"\" {{\"\"\")}").nesting, 2);
        assert_eq!(scan("\"unterminated {{{{").nesting, 0);
        assert_eq!(scan("\"\"\"unterminated {{{{").nesting, 0);
        assert_eq!(scan("\"ends with a backslash\\").tokens, 1);
    }
}
