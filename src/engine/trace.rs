//! The frame trace: lines of what goes over the wire, for people who argue over frames. Off, it costs a branch.

use crate::wire::frame::{self, HEADER_BYTES};
use crate::wire::trace;
use std::collections::VecDeque;

/// Lines that wait to be read; more are dropped, and counted.
const LINES_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Trace {
    pub lines: VecDeque<String>,
    pub dropped: u64,
}

impl Trace {
    fn line(&mut self, mark: &str, channel: u16, body: &[u8], payload_bytes: usize) {
        if self.lines.len() >= LINES_MAX {
            self.dropped += 1;
            return;
        }
        let mut line = String::with_capacity(128);
        trace::frame(&mut line, mark, channel, body, payload_bytes);
        self.lines.push_back(line);
    }
}

/// A frame from the peer; `rest_bytes` follow `body`.
#[cold]
pub(super) fn input(trace: &mut Option<Box<Trace>>, channel: u16, body: &[u8], rest_bytes: usize) {
    if let Some(trace) = trace {
        trace.line("<-", channel, body, rest_bytes);
    }
}

/// Frames that we wrote. The last one's payload may lie beside the written bytes.
#[cold]
pub(super) fn output(trace: &mut Option<Box<Trace>>, mut written: &[u8]) {
    let Some(trace) = trace else { return };
    while let Some(header) = written.first_chunk::<HEADER_BYTES>().and_then(|bytes| frame::parse_header(bytes).ok()) {
        let size = header.size as usize;
        let here = size.min(written.len());
        let body = written.get(header.body_start()..here).unwrap_or_default();
        trace.line("->", header.channel, body, size - here);
        written = &written[here..];
    }
}
