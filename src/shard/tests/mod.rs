//! The turn against real sockets on loopback, with an echo in the place of engines and router.

mod echo;
mod polling;
mod several;
mod sockets;
