#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    println!("ringway {}", env!("CARGO_PKG_VERSION"));
}
