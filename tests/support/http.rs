//! A small HTTP client that shows what came, and a strict reader of Prometheus' text form.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the HTTP port accepts");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
    stream
}

/// One request on a connection of its own. `line`: method and target.
pub fn request(port: u16, line: &str, headers: &str) -> Answer {
    let mut stream = connect(port);
    write!(stream, "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n").expect("it is taken");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer and an end");
    parse(&bytes, line.starts_with("HEAD"))
}

pub fn get(port: u16, path: &str) -> Answer {
    request(port, &format!("GET {path}"), "")
}

fn parse(bytes: &[u8], is_head: bool) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head that ends");
    let head = std::str::from_utf8(&bytes[..end]).expect("the head is text");
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").expect("a header");
        (name.to_ascii_lowercase(), value.to_string())
    };
    let headers: BTreeMap<String, String> = lines.map(header).collect();
    let mut body = bytes[end + 4..].to_vec();
    if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        body = unchunked(&body);
    } else if let (false, Some(length)) = (is_head, headers.get("content-length")) {
        assert_eq!(length.parse::<usize>().ok(), Some(body.len()), "content-length");
    }
    Answer { status: status.expect("a status"), headers, body }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n").expect("a chunk's size");
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).expect("hexadecimal");
        bytes = &bytes[end + 2..];
        if size == 0 {
            return all;
        }
        all.extend_from_slice(&bytes[..size]);
        bytes = &bytes[size + 2..];
    }
}

/// Families by name, as a strict reader of the text form (version 0.0.4) finds them.
pub struct Metrics {
    pub kinds: BTreeMap<String, String>,
    /// By the sample's name and labels, as `name{label="value",…}`, labels in order, values as they are.
    pub samples: BTreeMap<String, f64>,
}

impl Metrics {
    pub fn value(&self, sample: &str) -> f64 {
        *self.samples.get(sample).unwrap_or_else(|| panic!("no sample {sample}"))
    }

    /// Fails where anything isn't as the form has it.
    pub fn parse(text: &str) -> Metrics {
        assert!(text.ends_with('\n') && !text.contains('\r'), "lines end with a line feed, the last one too");
        let mut metrics = Metrics { kinds: BTreeMap::new(), samples: BTreeMap::new() };
        let mut helped = BTreeSet::new();
        let mut family = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a name and a help");
                assert!(is_name(name) && !help.trim().is_empty(), "{line}");
                assert!(helped.insert(name.to_string()), "{name}: two helps");
                family = name.to_string();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and a type");
                assert_eq!(name, family, "a type stands behind its help");
                assert!(["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind), "{line}");
                assert!(metrics.kinds.insert(name.to_string(), kind.to_string()).is_none(), "{name}: two types");
                lint(name, kind);
            } else {
                metrics.sample(line, &family);
            }
        }
        metrics.check_histograms();
        metrics
    }

    fn sample(&mut self, line: &str, family: &str) {
        let name_end = line.find(['{', ' ']).expect("a value");
        let name = &line[..name_end];
        let kind = self.kinds.get(family).unwrap_or_else(|| panic!("{line}: of no family"));
        let endings: &[&str] = match kind.as_str() {
            "histogram" => &["_bucket", "_sum", "_count"],
            "summary" => &["", "_sum", "_count"],
            _ => &[""],
        };
        assert!(endings.iter().any(|ending| name == format!("{family}{ending}")), "{line}: in the family {family}");
        let (labels, rest) = labels(&line[name_end..]);
        let value: f64 = rest.strip_prefix(' ').and_then(|value| value.parse().ok()).expect("a number");
        assert!(kind != "counter" || value >= 0.0, "{line}");
        let key = if labels.is_empty() {
            name.to_string()
        } else {
            let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
            format!("{name}{{{}}}", labels.join(","))
        };
        assert!(self.samples.insert(key, value).is_none(), "{line}: twice");
    }

    fn check_histograms(&self) {
        for name in self.kinds.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name) {
            let buckets: Vec<(f64, f64)> = (self.samples.iter())
                .filter_map(|(sample, value)| {
                    let bound = sample.strip_prefix(&format!("{name}_bucket{{le=\""))?.strip_suffix("\"}")?;
                    Some((if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() }, *value))
                })
                .collect();
            let mut sorted = buckets.clone();
            sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
            assert!(sorted.windows(2).all(|two| two[0].1 <= two[1].1), "{name}: {sorted:?} grow");
            let last = sorted.last().expect("buckets");
            assert_eq!(*last, (f64::INFINITY, self.value(&format!("{name}_count"))), "{name}");
        }
    }
}

/// What `promtool check metrics` complains about.
fn lint(name: &str, kind: &str) {
    assert!(is_name(name), "{name}");
    assert!(kind != "counter" || name.ends_with("_total"), "{name}: a counter ends in _total");
    assert!(kind == "counter" || kind == "untyped" || !name.ends_with("_total"), "{name}: only counters end in _total");
    let reserved = ["_count", "_sum", "_bucket"];
    assert!(!reserved.iter().any(|ending| name.ends_with(ending)), "{name}: a reserved ending");
    assert!(!name.contains(':') && name == name.to_ascii_lowercase(), "{name}: lower case without colons");
    assert!(!name.contains(kind) || kind == "untyped", "{name}: the type is in the name");
    let units = ["s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "m", "h", "d"];
    assert!(!name.split('_').any(|part| units.contains(&part)), "{name}: an abbreviated unit");
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'))
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// The labels in braces, if there are any, with their values unescaped; and what is behind them.
fn labels(text: &str) -> (Vec<(String, String)>, &str) {
    let Some(mut rest) = text.strip_prefix('{') else { return (Vec::new(), text) };
    let mut labels: Vec<(String, String)> = Vec::new();
    loop {
        let (name, behind) = rest.split_once("=\"").expect("a label");
        assert!(is_name(name) && !name.contains(':') && labels.iter().all(|(other, _)| other != name), "{text}");
        let (mut value, mut chars) = (String::new(), behind.char_indices());
        let end = loop {
            match chars.next().expect("a value that ends") {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match chars.next().expect("an escape").1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    c => panic!("\\{c} is no escape"),
                }),
                (_, c) => value.push(c),
            }
        };
        labels.push((name.to_string(), value));
        rest = &behind[end..];
        match rest.as_bytes().first() {
            Some(b',') => rest = &rest[1..],
            Some(b'}') => return (labels, &rest[1..]),
            _ => panic!("{text}"),
        }
    }
}
