//! Runs every file of the fuzzers' corpora, seeds and findings, through the same checks as the fuzzers.

#[path = "../fuzz/checks/wire.rs"]
mod wire;

#[path = "../fuzz/checks/engine.rs"]
mod engine;

#[path = "../fuzz/checks/router.rs"]
mod router;

/// Every file of a target's corpus.
fn corpus(target: &str, check: impl Fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for file in files {
        // Said before, so that a crash names its file.
        println!("{}", file.display());
        check(&std::fs::read(&file).unwrap());
    }
}

#[test]
fn wire_corpus() {
    corpus("wire", wire::check);
}

#[test]
fn engine_corpus() {
    corpus("engine", engine::check);
}

#[test]
fn router_corpus() {
    corpus("router", router::check);
}
