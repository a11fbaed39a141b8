//! Who imports whom, and which libraries who knows.

use std::collections::BTreeSet;
use std::path::Path;

use super::{code, sources, test_modules};

/// The module of a source file: its first folder below `src`, or its name.
fn module(file: &Path) -> String {
    let part = file.components().nth(1).unwrap().as_os_str().to_string_lossy().into_owned();
    part.trim_end_matches(".rs").to_owned()
}

/// What a module may import of ours, and which libraries it must not know.
struct Law {
    module: &'static str,
    may: &'static [&'static str],
    not: &'static [&'static str],
}

const INSIDE: &[&str] = &["domain", "error", "clock"];
const WEB: [&str; 3] = ["axum", "async_graphql", "reqwest"];

/// Modules that stand in no law put the others together: `main`, `lib`, `cli` and their like.
const LAWS: &[Law] = &[
    Law { module: "domain", may: INSIDE, not: PURE },
    Law { module: "error", may: INSIDE, not: PURE },
    Law { module: "clock", may: INSIDE, not: PURE },
    Law { module: "checkpoint", may: INSIDE, not: PURE },
    Law { module: "config", may: &["domain", "error", "config"], not: PURE },
    Law {
        module: "secrets",
        may: &["domain", "error", "clock", "config", "secrets"],
        not: &["sea_orm", "axum", "async_graphql", "reqwest"],
    },
    Law { module: "telemetry", may: &["domain", "error", "config", "telemetry"], not: PURE },
    Law {
        module: "store",
        may: &["domain", "error", "clock", "config", "checkpoint", "store"],
        not: &WEB,
    },
    Law {
        module: "egress",
        may: &["domain", "error", "config", "checkpoint", "egress"],
        not: &["sea_orm", "axum", "async_graphql"],
    },
    Law {
        module: "line",
        may: &["domain", "error", "config", "egress", "secrets", "line"],
        not: &["sea_orm", "axum", "async_graphql", "reqwest"],
    },
    Law { module: "actions", may: &["domain", "error", "clock", "actions"], not: PURE },
    Law { module: "sources", may: &["domain", "error", "clock", "sources"], not: PURE },
    Law {
        module: "rules",
        may: &["domain", "error", "clock", "actions", "sources", "rules"],
        not: PURE,
    },
    Law {
        module: "pg_source",
        may: &["domain", "error", "clock", "config", "telemetry", "pg_source"],
        not: &WEB,
    },
    Law {
        module: "app",
        may: &[
            "domain",
            "error",
            "clock",
            "config",
            "secrets",
            "telemetry",
            "store",
            "egress",
            "line",
            "actions",
            "sources",
            "rules",
            "app",
        ],
        not: &WEB,
    },
    Law {
        module: "executor",
        may: &[
            "domain",
            "error",
            "clock",
            "config",
            "secrets",
            "telemetry",
            "store",
            "egress",
            "line",
            "actions",
            "sources",
            "rules",
            "app",
            "executor",
        ],
        not: &["sea_orm", "axum", "async_graphql", "reqwest"],
    },
    Law {
        module: "api",
        may: &["domain", "error", "clock", "config", "secrets", "telemetry", "app", "api"],
        not: &["sea_orm", "reqwest"],
    },
];

const PURE: &[&str] = &["sea_orm", "axum", "async_graphql", "reqwest", "tokio"];

/// What stands against the laws and may, each with its reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("src/app", "sea_orm", "use cases pass transactions and pools on as `impl ConnectionTrait`"),
    ("src/line/stand_in", "axum", "it is a server, for tests and the demo"),
];

/// The modules of ours that code names from the root of the crate, `crate::store::trigger` as
/// `store`: one by one, or in a group over any number of lines.
fn named(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let names = rest.strip_prefix('{').map_or_else(|| vec![rest], members);
        for name in names {
            let name = name.trim();
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            found.insert(name[..end].to_owned());
        }
    }
    found.remove("");
    found
}

/// The members of a group, of which its end and what follows it are the rest of the text. Groups
/// within it stay whole.
fn members(rest: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut members) = (0, 0, Vec::new());
    for (at, sign) in rest.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' if depth == 0 => {
                members.push(&rest[begin..at]);
                return members;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&rest[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    members
}

/// How many modules lie between a file and the root of the crate: so many `super::` reach it.
fn depth(file: &Path) -> usize {
    let parts = file.components().count() - 1;
    let is_folder = file.file_stem().is_some_and(|stem| stem == "mod");
    if is_folder { parts - 1 } else { parts }
}

/// The code with `super::super::` as `crate::` wherever it reaches the root of the crate. A module
/// within the file lies deeper: there it reaches less far than is taken here.
fn from_root(file: &Path, code: &str) -> String {
    code.replace(&"super::".repeat(depth(file)), "crate::")
}

#[test]
fn modules_import_only_what_lies_below_them() {
    let mut broken = Vec::new();
    for (file, text) in sources() {
        let module = module(&file);
        let Some(law) = LAWS.iter().find(|law| law.module == module) else { continue };
        let whole = code(&text).collect::<Vec<_>>().join("\n");
        for other in named(&from_root(&file, &whole)) {
            let known = LAWS.iter().any(|law| law.module == other);
            if known && !law.may.contains(&other.as_str()) {
                broken.push(format!("{} imports {other}", file.display()));
            }
        }
        for line in code(&text) {
            for library in law.not {
                if line.contains(&format!("{library}::")) && !excepted(&file, library) {
                    broken.push(format!("{} knows {library}: {line}", file.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

fn excepted(file: &Path, what: &str) -> bool {
    EXCEPTIONS.iter().any(|(under, library, _)| file.starts_with(under) && *library == what)
}

#[test]
fn a_broken_import_would_be_seen() {
    let group = named("use crate::{store::Store, app::App};");
    assert_eq!(group.into_iter().collect::<Vec<_>>(), ["app", "store"]);
    let lines = "use crate::{\ndomain::{id, page},\napp::App,\n};";
    assert_eq!(named(lines).into_iter().collect::<Vec<_>>(), ["app", "domain"]);
    for (file, line) in [
        ("src/domain.rs", "use super::app::App;"),
        ("src/domain/mod.rs", "use super::{app::App};"),
        ("src/domain/cron/fire.rs", "use super::super::super::app::App;"),
    ] {
        let found = named(&from_root(Path::new(file), line));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["app"], "{file}");
    }
    let beside = from_root(Path::new("src/domain/cron/fire.rs"), "use super::super::page::Page;");
    assert!(named(&beside).is_empty(), "{beside}");
    assert!(named("let x = crate::store::trigger::find(db)").contains("store"));
    assert!(named("pub(crate) fn f()").is_empty());
    let tests =
        test_modules(Path::new("src/a/b.rs"), "#[cfg(test)]\nmod c;\n#[cfg(test)]\nmod d {");
    assert_eq!(tests, [Path::new("src/a/b/c"), Path::new("src/a/b/d")]);
    assert_eq!(test_modules(Path::new("src/a/mod.rs"), "#[cfg(test)]\npub(super) mod c;").len(), 1);
    assert_eq!(code("// use crate::store;\n//! crate::app\nx").collect::<Vec<_>>(), ["x"]);
}
