//! Prometheus' text form (version 0.0.4): families with HELP and TYPE, each sample on its line.
//!
//! No crate: those that write it choose the names' endings themselves, and these names are `qdrouterd`'s.

use std::fmt::{self, Write};

/// What this form is called in a response.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
    /// Of a name that says counter and a value that isn't one.
    Untyped,
}

/// Text that is being written.
#[derive(Default)]
pub struct Text(String);

/// A label's name and value.
pub type Label<'a> = (&'a str, &'a str);

impl Text {
    /// Begins a family: all samples of that name follow it. The name and the help are this program's own words.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
            Kind::Untyped => "untyped",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A sample. Label values may be anything.
    pub fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl fmt::Display) {
        self.0.push_str(name);
        let mut before = '{';
        for (label, value) in labels {
            let _ = write!(self.0, "{before}{label}=\"");
            self.escaped(value);
            self.0.push('"');
            before = ',';
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// A family of one sample.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn escaped(&mut self, value: &str) {
        for c in value.chars() {
            match c {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                c => self.0.push(c),
            }
        }
    }

    pub fn finish(self) -> String {
        self.0
    }
}

/// How long a label's value is in the text.
pub fn escaped_bytes(value: &str) -> usize {
    value.len() + value.bytes().filter(|byte| matches!(byte, b'\\' | b'"' | b'\n')).count()
}

/// Nanoseconds as Prometheus has times: seconds.
pub struct Seconds(pub u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0 as f64 / 1e9).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_and_its_samples() {
        let mut text = Text::default();
        text.single("a_total", Kind::Counter, "How many.", 7u64);
        text.family("b_seconds", Kind::Gauge, "How long.");
        text.sample("b_seconds", &[("address", "x\"y\\z\nw"), ("unit", "ä")], Seconds(1_500_000));
        assert_eq!(
            text.finish(),
            "# HELP a_total How many.\n# TYPE a_total counter\na_total 7\n\
             # HELP b_seconds How long.\n# TYPE b_seconds gauge\n\
             b_seconds{address=\"x\\\"y\\\\z\\nw\",unit=\"ä\"} 0.0015\n"
        );
    }
}
