//! (placeholder)
mod listen;
mod log;
