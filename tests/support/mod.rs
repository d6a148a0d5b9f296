//! What tests share. Each test file uses some of it.
#![allow(dead_code)]

pub mod client;
pub mod pair;
