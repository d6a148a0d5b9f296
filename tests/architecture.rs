//! The rooms' walls: what ARCHITECTURE.md says of who may use whom, and of what pure rooms do without.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Rooms that may have clocks, sockets, files and threads.
const IMPURE: [&str; 7] = ["mesh", "telemetry", "shard", "load", "control", "cli", "sim"];
/// A file longer than this is two things.
const FILE_LINES_MAX: usize = 900;

/// What a pure room does without.
const FORBIDDEN_IN_PURE: [&str; 15] = [
    "Instant::now",
    "SystemTime",
    "Utc::now",
    "Local::now",
    "std::thread",
    "thread::spawn",
    "Mutex",
    "RwLock",
    "std::net",
    "std::fs",
    "std::env::",
    "getrandom",
    "rand::",
    "libc::",
    "tokio",
];

/// What peer input must not be able to reach.
const PANICS: [&str; 6] = [".unwrap()", "panic!(", "todo!(", "unimplemented!(", "unreachable!(", "dbg!("];
const FACES_PEERS: [&str; 10] =
    ["wire", "engine", "security", "client", "routing", "dispatch", "payload", "management", "mesh", "memory"];

struct Source {
    path: PathBuf,
    room: String,
    /// Without comments, strings and tests.
    code: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(under: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// `tests.rs`, `x_tests.rs`, or in a directory `tests`.
fn is_test(path: &Path) -> bool {
    path.iter().any(|part| part == "tests")
        || path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"))
}

fn sources() -> Vec<Source> {
    let source = |path: PathBuf| {
        let inside = path.strip_prefix(root().join("src")).unwrap();
        let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        (!is_test(&path) && room != "lib" && room != "main").then(|| Source { room, code: code(&text), path })
    };
    files(&root().join("src")).into_iter().filter_map(source).collect()
}

/// A file's code: no comments, no string literals, nothing from its tests on (they stand at the end).
fn code(text: &str) -> String {
    let begins = |form: &str| text.find(&format!("#[cfg(test)]\n{form}mod tests"));
    let end = ["", "pub(super) "].into_iter().filter_map(begins).min().unwrap_or(text.len());
    let text = &text[..end];
    let mut code = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '/' if rest.peek() == Some(&'/') => {
                rest.by_ref().find(|c| *c == '\n');
                code.push('\n');
            }
            '"' => {
                code.push_str("\"\"");
                while let Some(c) = rest.next() {
                    match c {
                        '\\' => drop(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            // A quote in quotes is no string's begin.
            '\'' => {
                code.push(c);
                let ahead: String = rest.clone().take(3).collect();
                let skip = match ahead.as_str() {
                    literal if literal.starts_with("\\") => 3,
                    literal if literal.chars().nth(1) == Some('\'') => 2,
                    _ => 0,
                };
                rest.by_ref().take(skip).for_each(drop);
            }
            _ => code.push(c),
        }
    }
    code
}

/// Room to rooms that it may use, as ARCHITECTURE.md has them.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = text.split("## The rooms").nth(1).unwrap().split("\n## ").next().unwrap();
    let names = |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_string).collect() };
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        (names(cells[1]).into_iter().next().unwrap(), names(cells[3]))
    })
    .collect()
}

/// Identifiers that follow `crate::` or `ringway::`, also in a list in braces.
fn crate_paths(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => drop(found.insert(identifier(rest))),
            Some(list) => found.extend(list_heads(list)),
        }
    }
    found
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first identifier of each entry of a list in braces, to its end.
fn list_heads(list: &str) -> Vec<String> {
    let (mut depth, mut heads, mut entry) = (1, Vec::new(), String::new());
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && c == ',') {
            heads.push(identifier(entry.trim()));
            entry.clear();
        } else {
            entry.push(c);
        }
        if depth == 0 {
            break;
        }
    }
    heads.retain(|head| !head.is_empty());
    heads
}

/// Names that a chain of `super::` leads to.
fn super_paths(code: &str) -> BTreeSet<String> {
    code.match_indices("super::").map(|(at, found)| identifier(&code[at + found.len()..])).collect()
}

fn report(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn the_table_has_every_room_and_no_other() {
    let library = code(&std::fs::read_to_string(root().join("src/lib.rs")).unwrap());
    let modules: BTreeSet<String> = library.split("pub mod ").skip(1).map(identifier).collect();
    assert_eq!(table().into_keys().collect::<BTreeSet<_>>(), modules);
}

#[test]
fn rooms_use_only_what_the_table_allows() {
    let table = table();
    let mut findings = Vec::new();
    for source in sources() {
        let allowed = &table[&source.room];
        let is_ok = |used: &String| *used == source.room || allowed.contains(used) || !table.contains_key(used);
        for used in crate_paths(&source.code).iter().filter(|used| !is_ok(used)) {
            findings.push(format!("{}: {} may not use {used}", source.path.display(), source.room));
        }
        // A way around: up to the crate's root by `super`.
        let own = root().join("src").join(&source.room);
        let is_own = |used: &str| own.join(used).exists() || own.join(format!("{used}.rs")).exists();
        for used in super_paths(&source.code).iter().filter(|used| !is_ok(used) && !is_own(used)) {
            findings.push(format!("{}: {} may not use {used}", source.path.display(), source.room));
        }
    }
    report(findings);
}

#[test]
fn pure_rooms_have_no_clock_socket_thread_lock_or_random() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| !IMPURE.contains(&source.room.as_str())) {
        for word in FORBIDDEN_IN_PURE.iter().filter(|word| source.code.contains(**word)) {
            findings.push(format!("{}: {word} in a pure room", source.path.display()));
        }
    }
    report(findings);
}

#[test]
fn each_ring_has_its_room() {
    let mut findings = Vec::new();
    for source in sources() {
        for (word, room) in [("tokio_uring", "control"), ("tokio::", "control"), ("io_uring::", "shard")] {
            // `tokio_uring::` ends like `io_uring::`, too.
            let code = if room == "shard" { source.code.replace("tokio_uring::", "") } else { source.code.clone() };
            if source.room != room && code.contains(word) {
                findings.push(format!("{}: {word} outside of {room}", source.path.display()));
            }
        }
    }
    report(findings);
}

#[test]
fn no_panic_is_written_where_peers_reach() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| FACES_PEERS.contains(&source.room.as_str())) {
        for word in PANICS.iter().filter(|word| source.code.contains(**word)) {
            findings.push(format!("{}: {word}", source.path.display()));
        }
    }
    report(findings);
}

#[test]
fn a_file_is_one_thing() {
    let mut findings = Vec::new();
    for path in files(&root().join("src")).into_iter().chain(files(&root().join("tests"))) {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        if lines > FILE_LINES_MAX && !path.components().any(|part| part.as_os_str() == "node_modules") {
            findings.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}", path.display()));
        }
    }
    report(findings);
}

#[test]
fn every_file_says_at_its_head_what_it_is() {
    let mut findings = Vec::new();
    for path in files(&root().join("src")).iter().filter(|path| !is_test(path)) {
        let text = std::fs::read_to_string(path).unwrap();
        if !text.starts_with("//! ") {
            findings.push(format!("{}: no //! at its head", path.display()));
        }
    }
    report(findings);
}

#[test]
fn the_scanner_sees_what_it_should() {
    let text =
        "use crate::{ids::{A, B}, limits};\n// crate::shard\nlet a = \"crate::wire\"; let q = '\"'; crate::time::X\n\
                #[cfg(test)]\nmod tests { use crate::cli; }";
    let found: Vec<String> = crate_paths(&code(text)).into_iter().collect();
    assert_eq!(found, ["ids", "limits", "time"]);
    assert_eq!(super_paths("use super::super::engine::X;").into_iter().collect::<Vec<_>>(), ["engine", "super"]);
}
