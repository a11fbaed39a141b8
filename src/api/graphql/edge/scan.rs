//! A look at a document before it is parsed: how many tokens it has, and how deep its brackets
//! nest. The parser recurses over brackets, so their depth must be bounded before it runs.

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scan {
    /// Names, numbers, strings and punctuators.
    pub tokens: usize,
    /// The deepest nesting of `{`, `[` and `(`.
    pub nesting: usize,
}

/// Counts in one pass. Whatever is no GraphQL is counted somehow; the parser refuses it later.
pub(super) fn scan(document: &str) -> Scan {
    let bytes = document.as_bytes();
    let (mut tokens, mut nesting, mut open) = (0, 0, 0_usize);
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b',' | 0xEF | 0xBB | 0xBF => {
                at += 1;
                continue;
            }
            b'#' => {
                at += run(&bytes[at..], |byte| !matches!(byte, b'\n' | b'\r'));
                continue;
            }
            b'"' => at += string(&bytes[at..]),
            b'{' | b'[' | b'(' => {
                open += 1;
                nesting = nesting.max(open);
                at += 1;
            }
            b'}' | b']' | b')' => {
                open = open.saturating_sub(1);
                at += 1;
            }
            b'.' => at += run(&bytes[at..], |byte| byte == b'.'),
            byte if is_word(*byte) => at += run(&bytes[at..], is_word),
            _ => at += 1,
        }
        tokens += 1;
    }
    Scan { tokens, nesting }
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
        assert_eq!(scan(document), Scan { tokens: 38, nesting: 2 });
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
