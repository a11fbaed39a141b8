//! Inputs that are kept: each was a surprise once, or is one somewhere else.
//!
//! `tests/corpus/KIND/*.txt` has an entry a line, `VERDICT TEXT`: one word, one space, and the text
//! as it is. The verdict is `ok` or the code of the refusal. `\u{0}` in a text is that character,
//! `«100 ab»` is `ab` a hundred times. Lines that are empty or begin with `# ` say something to
//! the reader.
//!
//! The properties that are tested begin with these entries and go on with texts made of them.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

/// What proptest runs if nobody says how many cases.
const USUAL: u32 = 256;

/// A kept input.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Where it stands.
    pub at: String,
    /// `ok`, or a code.
    pub verdict: String,
    pub text: String,
}

impl Entry {
    /// That its verdict is another, in words.
    pub fn but(&self, verdict: &str) -> String {
        let start: String = self.text.chars().take(120).collect();
        format!("{} is {}, but {verdict} was said: {start:?}", self.at, self.verdict)
    }
}

/// The entries of a file or a folder, in their order.
pub fn entries(place: &str) -> Vec<Entry> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(place);
    let mut files = match fs::read_dir(&root) {
        Ok(folder) => folder.map(|file| file.unwrap().path()).collect(),
        Err(_) => vec![root.with_extension("txt")],
    };
    files.sort();
    let entries: Vec<_> = files.iter().flat_map(|file| read(file)).collect();
    assert!(entries.len() > 5, "the corpus {place} has {} entries", entries.len());
    entries
}

/// The texts of the entries.
pub fn texts(place: &str) -> Vec<String> {
    entries(place).into_iter().map(|entry| entry.text).collect()
}

fn read(file: &Path) -> Vec<Entry> {
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{name}: {error}"));
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("# "));
    let entries = lines.map(|(number, line)| {
        let (verdict, text) = line.split_once(' ').unwrap_or((line, ""));
        let at = format!("{name}:{}", number + 1);
        Entry { at, verdict: verdict.to_owned(), text: spelled_out(text) }
    });
    entries.collect()
}

fn spelled_out(text: &str) -> String {
    if let Some((before, rest)) = text.split_once('«') {
        let (inner, after) = rest.split_once('»').unwrap();
        let (count, piece) = inner.split_once(' ').unwrap();
        let repeated = spelled_out(piece).repeat(count.parse().unwrap());
        return spelled_out(before) + &repeated + &spelled_out(after);
    }
    let Some((before, rest)) = text.split_once("\\u{") else { return text.to_owned() };
    let (code, after) = rest.split_once('}').unwrap();
    let code = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
    format!("{before}{}{}", code.unwrap(), spelled_out(after))
}

/// So many cases, the same in each run. `PROPTEST_CASES` asks for another number of them, and then
/// for others each time; `PROPTEST_RNG_SEED` for those of that seed. What fails is written to a
/// file below `proptest-regressions`, and tried first from then on.
pub fn cases(cases: u32) -> ProptestConfig {
    let given = ProptestConfig::default();
    if given.cases != USUAL || given.rng_seed != RngSeed::Random {
        return given;
    }
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(20_260_329), ..given }
}

/// A change of a text.
#[derive(Debug, Clone)]
enum Edit {
    Cut(Index, usize),
    Put(Index, String),
    Double(Index, usize),
    Swap(Index, Index),
}

/// Texts that differ from those given, the longest left out, by up to four changes. `pieces` is what is put in.
pub fn mutated(
    texts: Vec<String>,
    pieces: &'static [&'static str],
) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => proptest::sample::select(pieces).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    let edit = prop_oneof![
        2 => (any::<Index>(), 1..6_usize).prop_map(|(at, count)| Edit::Cut(at, count)),
        4 => (any::<Index>(), piece).prop_map(|(at, piece)| Edit::Put(at, piece)),
        1 => (any::<Index>(), 1..12_usize).prop_map(|(at, count)| Edit::Double(at, count)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(one, other)| Edit::Swap(one, other)),
    ];
    let edits = proptest::collection::vec(edit, 0..=4);
    let texts: Vec<_> = texts.into_iter().filter(|text| text.len() < 4096).collect();
    (proptest::sample::select(texts), edits).prop_map(|(text, edits)| {
        let edited = edits.into_iter().fold(text.chars().collect(), edited);
        edited.into_iter().collect()
    })
}

fn edited(mut text: Vec<char>, edit: Edit) -> Vec<char> {
    let room = text.len() + 1;
    match edit {
        Edit::Cut(at, count) => {
            let at = at.index(room);
            text.drain(at..(at + count).min(room - 1));
        }
        Edit::Put(at, piece) => {
            let at = at.index(room);
            text.splice(at..at, piece.chars());
        }
        Edit::Double(at, count) => {
            let at = at.index(room);
            let piece: Vec<_> = text[at..].iter().take(count).copied().collect();
            text.splice(at..at, piece);
        }
        Edit::Swap(one, other) if !text.is_empty() => {
            let (one, other) = (one.index(text.len()), other.index(text.len()));
            text.swap(one, other);
        }
        Edit::Swap(..) => {}
    }
    text
}
