//! The `ringway` program.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    take_small_pages();
    ringway::cli::run()
}

/// A huge page is cleared in one page fault, for which a shard would stop for milliseconds
/// ([ADR 0014](../docs/adr/0014-small-pages.md)). Where the kernel can't leave them out, all goes on with them.
fn take_small_pages() {
    let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, on, unused, unused, unused) };
}
