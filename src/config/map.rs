//! Maps in a configuration: JSON with comment lines and spare commas, or the file's own syntax once more.
//!
//! `openProperties` and a vhost's `groups` are written as JSON; older files have groups as `name: {` … `}` with
//! attributes `key: value` in them. Both come to a JSON map.

use serde_json::Value;

pub type Map = serde_json::Map<String, Value>;

/// Maps in maps, at most.
const DEPTH_MAX: usize = 8;

/// Reads a map. `text` begins with its opening brace.
pub(super) fn parse(text: &str) -> Result<Map, String> {
    let json = match serde_json::from_str(&without_spare_commas(text)) {
        Ok(Value::Object(map)) => return Ok(map),
        Ok(_) => return Err("expected a map".to_string()),
        Err(error) => error,
    };
    let mut lines =
        text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).skip_while(|l| *l == "{");
    // Keys in quotes are JSON's: what is wrong is what a reader of JSON says.
    if text.contains('"') {
        return Err(format!("not JSON: {json}"));
    }
    plain(&mut lines, DEPTH_MAX)
}

/// Lines `key: value` and `key: {` up to the closing brace.
fn plain<'t>(lines: &mut impl Iterator<Item = &'t str>, depth: usize) -> Result<Map, String> {
    let mut map = Map::new();
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        if line == "}" {
            return Ok(map);
        }
        let Some((key, value)) = line.split_once(':') else {
            return Err(format!("expected 'attribute: value' or JSON, found '{line}'"));
        };
        let value = match value.trim() {
            "{" if depth == 0 => return Err("maps are nested too deep".to_string()),
            "{" => Value::Object(plain(lines, depth - 1)?),
            text => Value::String(text.to_string()),
        };
        if map.insert(key.trim().to_string(), value).is_some() {
            return Err(format!("'{}' is given twice", key.trim()));
        }
    }
    Err("a '}' is missing".to_string())
}

/// The text without commas that stand in front of a closing bracket.
fn without_spare_commas(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut comma = None;
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '}' | ']' if !in_string => {
                if let Some(at) = comma.take() {
                    out.remove(at);
                }
            }
            _ => {}
        }
        if c == ',' && !in_string {
            comma = Some(out.len());
        } else if !c.is_whitespace() {
            comma = None;
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_with_spare_commas() {
        let map = parse("{\n \"a\": [1, \",}\", ],\n \"b\": {\"c\": true,\n },\n}").unwrap();
        assert_eq!(Value::Object(map).to_string(), r#"{"a":[1,",}"],"b":{"c":true}}"#);
        assert!(parse("{ \"a\": }").unwrap_err().starts_with("not JSON: "));
        assert!(parse("[1]").is_err());
    }

    #[test]
    fn the_files_own_syntax() {
        let map = parse("{\n admin: {\n  users: a, b # c\n\n  sources: *\n }\n $default: {\n }\n}").unwrap();
        let text = r#"{"admin":{"users":"a, b","sources":"*"},"$default":{}}"#;
        assert_eq!(map, parse(text).unwrap());
        assert!(parse("{\n a\n}").is_err());
        assert!(parse("{\n a: 1\n a: 2\n}").unwrap_err().contains("given twice"));
        assert!(parse(&"{\na: ".repeat(20)).unwrap_err().contains("too deep"));
    }
}
