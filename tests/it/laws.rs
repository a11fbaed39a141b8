//! What the house rules say of the sources, checked against the sources.

mod imports;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files of the repository that are under version control or about to be.
fn tracked() -> Vec<PathBuf> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    let mut files: Vec<_> = match list.status.success() {
        true => String::from_utf8(list.stdout).unwrap().lines().map(PathBuf::from).collect(),
        // Sources that were unpacked without their history.
        false => ["src", "migration", "tests"].iter().flat_map(|folder| below(folder)).collect(),
    };
    files.retain(|file| root().join(file).is_file());
    assert!(files.len() > 50, "only {} files found", files.len());
    files
}

fn below(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

fn is_rust(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "rs")
}

/// Files of the program, tests left out.
fn sources() -> Vec<(PathBuf, String)> {
    let files = tracked().into_iter().filter(|file| is_rust(file) && file.starts_with("src"));
    let all: Vec<_> = files
        .map(|file| {
            let text = fs::read_to_string(root().join(&file)).unwrap();
            (file, text)
        })
        .collect();
    let tests: BTreeSet<_> = all.iter().flat_map(|(file, text)| test_modules(file, text)).collect();
    let of_tests = |file: &Path| tests.iter().any(|test| file.starts_with(test));
    let sources: Vec<_> = all
        .into_iter()
        .filter(|(file, _)| !of_tests(&file.with_extension("")))
        .map(|(file, text)| (file, without_tests(&text)))
        .collect();
    assert!(sources.len() > 50, "only {} sources found", sources.len());
    sources
}

/// The modules in files of their own that a file declares for tests only, without `.rs`.
fn test_modules(file: &Path, text: &str) -> Vec<PathBuf> {
    let folder = match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") => file.parent().unwrap().to_owned(),
        _ => file.with_extension(""),
    };
    let mut modules = Vec::new();
    for (at, attribute) in text.match_indices("#[cfg(test)]\n") {
        let rest = &text[at + attribute.len()..];
        let path = rest.strip_prefix("#[path = \"").and_then(|rest| rest.split('"').next());
        if let Some(path) = path {
            modules.push(file.parent().unwrap().join(path).with_extension(""));
            continue;
        }
        let line = rest.lines().next().unwrap_or_default().trim_end_matches(';');
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["mod", name, ..] | [_, "mod", name, ..] => modules.push(folder.join(name)),
            _ => {}
        }
    }
    modules
}

/// The text up to its module of tests, which stands last.
fn without_tests(text: &str) -> String {
    let cut = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..cut].to_owned()
}

/// The lines that are code.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.starts_with("//"))
}

/// Where SQL is written, each with its reason.
const SQL: &[(&str, &str)] = &[
    ("src/store", "our own database"),
    ("src/pg_source", "another database, whose schema is not ours"),
];

#[test]
fn sql_is_written_in_its_places_alone() {
    let writes = ["sqlx::", "Statement::from", "execute_unprepared(", "Expr::cust"];
    let mut found = Vec::new();
    for (file, text) in sources() {
        if SQL.iter().any(|(under, _)| file.starts_with(under)) {
            continue;
        }
        for line in code(&text).filter(|line| writes.iter().any(|write| line.contains(write))) {
            found.push(format!("{}: {line}", file.display()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn migrations_know_nothing_of_the_program() {
    for file in below("migration/src") {
        let text = fs::read_to_string(root().join(&file)).unwrap();
        let name = concat!("trigger", "_manager::");
        assert!(!text.contains(name) && !text.contains("entity::"), "{}", file.display());
    }
}

#[test]
fn nothing_unwraps_outside_tests() {
    let mut found = Vec::new();
    for (file, text) in sources() {
        for line in code(&text).filter(|line| line.contains(".unwrap()")) {
            found.push(format!("{}: {line}", file.display()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Files that may be long, each with its reason.
const LONG: &[(&str, usize, &str)] = &[("src/store/people.rs", 500, "four small nouns")];

const LONGEST: usize = 400;

#[test]
fn files_are_short() {
    let mut long = Vec::new();
    for file in tracked().into_iter().filter(|file| is_rust(file)) {
        let lines = fs::read_to_string(root().join(&file)).unwrap().lines().count();
        let exception = LONG.iter().find(|(name, ..)| Path::new(name) == file);
        if lines > exception.map_or(LONGEST, |(_, most, _)| *most) {
            long.push(format!("{} has {lines} lines", file.display()));
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn one_toolchain_is_pinned_everywhere() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let after = |text: String, start: &str| {
        let line = text.lines().find(|line| line.starts_with(start));
        let line = line.unwrap_or_else(|| panic!("no line starts with {start}")).to_owned();
        line[start.len()..].trim_matches([' ', '=', '"']).to_owned()
    };
    let pinned = after(read("rust-toolchain.toml"), "channel");
    assert_eq!(after(read("Dockerfile"), "ARG RUST_VERSION"), pinned);
    let least = after(read("Cargo.toml"), "rust-version");
    assert!(pinned.starts_with(&least), "{pinned} is not {least}");
}

/// Words that have no place in the repository, in two halves so that they do not stand here.
const BANNED: &[(&str, &str)] = &[
    ("../sha", "red"),
    ("/work", "/"),
    ("/ro", "ot/"),
    ("/home", "/"),
    ("static.crates", ".io"),
    ("index.crates", ".io"),
    ("registry.npm", "js.org"),
    ("pypi", ".org"),
    ("proxy.golang", ".org"),
    ("deb.debian", ".org"),
    ("TODO", ":"),
    ("FIX", "ME"),
];

#[test]
fn no_file_names_places_that_are_no_ones_but_the_writers() {
    let banned: Vec<_> = BANNED.iter().map(|(one, other)| format!("{one}{other}")).collect();
    let mut found = Vec::new();
    for file in tracked() {
        let name = file.to_string_lossy().into_owned();
        // Lock files name where packages come from; bundles were written elsewhere.
        if name.ends_with(".lock") || name.ends_with("package-lock.json") || name.contains("dist/")
        {
            continue;
        }
        let Ok(text) = fs::read_to_string(root().join(&file)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for word in banned.iter().filter(|word| line.contains(*word)) {
                found.push(format!("{name}:{}: {word}", number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
