//! Decoding allocates nothing, whatever the bytes are. A program of its own for its allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;

#[allow(dead_code)]
#[path = "../fuzz/checks/wire.rs"]
mod checks;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

fn decodes_without_allocating(bytes: &[u8]) {
    let allocations = allocations_of(|| {
        checks::decode_all(bytes);
    });
    assert_eq!(allocations, 0, "{bytes:02x?}");
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations_of(|| drop(std::hint::black_box(vec![1u8]))), 1);
}

#[test]
fn golden_bytes_and_their_truncations() {
    let texts = [include_str!("golden/proton_session.txt"), include_str!("golden/proton_types.txt")];
    let mut seen = 0;
    for word in texts.iter().flat_map(|text| text.lines()).flat_map(|line| line.split(' ')) {
        if word.len() % 2 != 0 || !word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            continue;
        }
        let bytes: Vec<u8> =
            (0..word.len()).step_by(2).map(|at| u8::from_str_radix(&word[at..at + 2], 16).unwrap()).collect();
        let body = if word.starts_with("0000") { &bytes[8..] } else { &bytes };
        (0..=body.len()).for_each(|end| decodes_without_allocating(&body[..end]));
        seen += 1;
    }
    assert!(seen > 80, "{seen}");
}

#[test]
fn the_fuzzers_corpus() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/wire")).unwrap() {
        decodes_without_allocating(&std::fs::read(entry.unwrap().path()).unwrap());
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        decodes_without_allocating(&bytes);
    }

    /// Bytes that begin like a performative and go on with constructors.
    #[test]
    fn bytes_like_a_performative(
        descriptor in 0x10u8..0x79,
        count in 0u8..15,
        bytes in proptest::collection::vec(prop_oneof![
            prop::sample::select(&[0u8, 0x40, 0x41, 0x42, 0x43, 0x45, 0x50, 0x52, 0x53, 0x70, 0xa0, 0xa1, 0xa3, 0xb3,
                0xc0, 0xc1, 0xd0, 0xd1, 0xe0, 0xf0][..]),
            0u8..12,
        ], 0..120),
    ) {
        let mut body = vec![0x00, 0x53, descriptor, 0xc0, bytes.len() as u8 + 1, count];
        body.extend_from_slice(&bytes);
        decodes_without_allocating(&body);
        checks::check(&body);
    }
}
