//! Encoding of answers: values one behind another.

use crate::wire::encode::{self, Compound};
use crate::wire::value::{code, Value};

/// Encoded bytes, growing.
#[derive(Default)]
pub struct Out {
    bytes: Vec<u8>,
}

/// A list or map whose elements are being written.
pub struct Open {
    compound: Compound,
    pub count: u32,
}

impl Out {
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn null(&mut self) {
        encode::null(&mut self.bytes);
    }

    pub fn boolean(&mut self, value: bool) {
        encode::boolean(&mut self.bytes, value);
    }

    pub fn uint(&mut self, value: u32) {
        encode::uint(&mut self.bytes, value);
    }

    pub fn ulong(&mut self, value: u64) {
        encode::ulong(&mut self.bytes, value);
    }

    pub fn int(&mut self, value: i32) {
        encode::int(&mut self.bytes, value);
    }

    pub fn long(&mut self, value: i64) {
        encode::long(&mut self.bytes, value);
    }

    pub fn text(&mut self, text: &str) {
        encode::string(&mut self.bytes, text);
    }

    pub fn double(&mut self, value: f64) {
        self.value(&Value::Double(value));
    }

    /// A value, or null where there is none.
    pub fn or_null<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Out, T)) {
        match value {
            Some(value) => put(self, value),
            None => self.null(),
        }
    }

    pub fn value(&mut self, value: &Value<'_>) {
        encode::value(&mut self.bytes, value);
    }

    /// One whole encoded value.
    pub fn raw(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
    }

    pub fn descriptor(&mut self, code: u64) {
        encode::descriptor(&mut self.bytes, code);
    }

    pub fn begin(&mut self) -> Open {
        Open { compound: encode::begin(&mut self.bytes), count: 0 }
    }

    pub fn end_list(&mut self, open: Open) {
        encode::finish(&mut self.bytes, open.compound, code::LIST8, open.count);
    }

    /// `count` of the open one counts keys and values.
    pub fn end_map(&mut self, open: Open) {
        encode::finish(&mut self.bytes, open.compound, code::MAP8, open.count);
    }

    pub fn list<T>(&mut self, elements: impl IntoIterator<Item = T>, mut put: impl FnMut(&mut Out, T)) {
        let mut open = self.begin();
        for element in elements {
            put(self, element);
            open.count += 1;
        }
        self.end_list(open);
    }

    pub fn map<K: AsRef<str>, T>(&mut self, pairs: impl IntoIterator<Item = (K, T)>, mut put: impl FnMut(&mut Out, T)) {
        let mut open = self.begin();
        for (key, value) in pairs {
            self.text(key.as_ref());
            put(self, value);
            open.count += 2;
        }
        self.end_map(open);
    }

    pub fn json(&mut self, value: &serde_json::Value) {
        use serde_json::Value as Json;
        match value {
            Json::Null => self.null(),
            Json::Bool(value) => self.boolean(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => self.long(value),
                (None, Some(value)) => self.ulong(value),
                (None, None) => self.double(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => self.text(text),
            Json::Array(elements) => self.list(elements, |out, element| out.json(element)),
            Json::Object(pairs) => self.map(pairs, |out, value| out.json(value)),
        }
    }
}
