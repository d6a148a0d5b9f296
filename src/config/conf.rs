//! The line-oriented syntax of `qdrouterd.conf`.
//!
//! A section is `name {`, attributes `key: value` one a line, `}`. Values are bare: quotes belong to them; a
//! backslash escapes, as in JSON. `#` starts a comment anywhere, but the attributes in [`KEEPS_HASH`] have wildcards
//! in their values and keep it. A map is `key: {` … `}`, over several lines or on one.
//!
//! The reader goes on after an error, so that one slip doesn't hide the next.

use super::problem::Report;
use super::section::{Attribute, Raw, Section};

/// Attributes whose value is the first word behind the colon, `#` included.
const KEEPS_HASH: [&str; 3] = ["pattern", "bindingKey", "hostname"];

pub(super) fn parse(text: &str, report: &mut Report) -> Vec<Section> {
    let mut reader = Reader { report, sections: Vec::new(), state: State::Outside };
    for (index, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        reader.line(index + 1, line.trim());
    }
    reader.end();
    reader.sections
}

enum State {
    /// Between sections. The word of a section whose brace isn't there yet may be known.
    Outside,
    /// `name` stood alone on its line (an error, told): the next line may have its brace.
    BraceMissing {
        name: String,
        line: usize,
    },
    Inside(Section),
    /// In a map: braces open, the text so far.
    InMap {
        section: Section,
        attribute: String,
        line: usize,
        open: usize,
        text: String,
    },
}

struct Reader<'r> {
    report: &'r mut Report,
    sections: Vec<Section>,
    state: State,
}

impl Reader<'_> {
    fn line(&mut self, number: usize, line: &str) {
        self.state = match std::mem::replace(&mut self.state, State::Outside) {
            State::Outside => self.outside(number, line),
            State::BraceMissing { name, line: begun } => {
                if uncommented(line).is_empty() {
                    State::BraceMissing { name, line: begun }
                } else if uncommented(line) == "{" {
                    State::Inside(Section { name, line: begun, attributes: Vec::new() })
                } else {
                    self.outside(number, line)
                }
            }
            State::Inside(section) => self.inside(number, line, section),
            State::InMap { section, attribute, line: begun, open, text } => {
                self.in_map(line, section, attribute, begun, open, text)
            }
        };
    }

    fn end(&mut self) {
        match std::mem::replace(&mut self.state, State::Outside) {
            State::Outside | State::BraceMissing { .. } => {}
            State::Inside(section) => self.unclosed(section),
            State::InMap { section, attribute, line, .. } => {
                self.report
                    .error(line, format!("{}: the map '{attribute}' isn't closed: a '}}' is missing", section.name));
                self.sections.push(section);
            }
        }
    }

    fn unclosed(&mut self, section: Section) {
        self.report.error(section.line, format!("{}: the section isn't closed: a '}}' is missing", section.name));
        self.sections.push(section);
    }

    fn outside(&mut self, number: usize, line: &str) -> State {
        let line = uncommented(line);
        if line.is_empty() {
            return State::Outside;
        }
        if line == "}" {
            self.report.error(number, "'}' without a section that it could close");
            return State::Outside;
        }
        if let Some(name) = section_begin(line) {
            return State::Inside(Section { name: name.to_string(), line: number, attributes: Vec::new() });
        }
        if is_word(line) {
            self.report
                .error(number, format!("expected '{line} {{': the opening brace is last on the section's own line"));
            return State::BraceMissing { name: line.to_string(), line: number };
        }
        match line.split_once('{') {
            Some((name, rest)) if is_word(name.trim_end()) => {
                let name = name.trim_end();
                self.report.error(
                    number,
                    format!("{name}: the opening brace is last on its line, each attribute and '}}' have a line of their own"),
                );
                if rest.contains('}') {
                    return State::Outside;
                }
                State::Inside(Section { name: name.to_string(), line: number, attributes: Vec::new() })
            }
            _ if line.contains(':') => {
                self.report.error(number, format!("'{line}' stands outside of any section"));
                State::Outside
            }
            _ => {
                self.report.error(number, format!("expected 'section {{', found '{line}'"));
                State::Outside
            }
        }
    }

    fn inside(&mut self, number: usize, line: &str, mut section: Section) -> State {
        let bare = uncommented(line);
        if bare.is_empty() {
            return State::Inside(section);
        }
        if bare == "}" {
            self.sections.push(section);
            return State::Outside;
        }
        let Some((name, value)) = line.split_once(':').map(|(name, value)| (name.trim_end(), value.trim())) else {
            return self.not_an_attribute(number, bare, section);
        };
        if !is_word(name) {
            return self.not_an_attribute(number, bare, section);
        }
        if value.starts_with('{') {
            let state =
                State::InMap { section, attribute: name.to_string(), line: number, open: 0, text: String::new() };
            self.state = state;
            // The rest of this line is the map's first.
            self.line(number, value);
            return std::mem::replace(&mut self.state, State::Outside);
        }
        let value = self.value(number, &section.name, name, value);
        if value.is_empty() {
            self.report.error(number, format!("{}: attribute '{name}' has no value", section.name));
        } else {
            section.attributes.push(Attribute { name: name.to_string(), line: number, value: Raw::Text(value) });
        }
        State::Inside(section)
    }

    /// A line in a section that isn't `key: value`.
    fn not_an_attribute(&mut self, number: usize, line: &str, section: Section) -> State {
        if let Some(name) = section_begin(line) {
            // Sections don't nest: the one before was never closed.
            self.unclosed(section);
            return State::Inside(Section { name: name.to_string(), line: number, attributes: Vec::new() });
        }
        self.report.error(number, format!("{}: expected 'attribute: value', found '{line}'", section.name));
        match line.strip_suffix('}') {
            Some(before) if !before.contains('{') => {
                self.sections.push(section);
                State::Outside
            }
            _ => State::Inside(section),
        }
    }

    /// What of the text behind the colon is the value; says so where a cut looks like an accident.
    fn value(&mut self, number: usize, section: &str, name: &str, text: &str) -> String {
        if KEEPS_HASH.iter().any(|keeps| super::schema::is_same_name(keeps, name)) {
            let (value, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            let rest = uncommented(rest);
            if !rest.is_empty() {
                let text = format!("{section}: the value of '{name}' is one word, '{value}'; '{rest}' is left out");
                self.report.warning(number, text);
            }
            return self.unescaped(number, section, name, value);
        }
        let value = uncommented(text);
        if value.len() < text.len() {
            let is_glued =
                text.split_once('#').is_some_and(|(before, _)| before.ends_with(|c: char| !c.is_whitespace()));
            if is_glued || name.to_ascii_lowercase().contains("password") {
                self.report.warning(
                    number,
                    format!("{section}: '#' starts a comment, so the value of '{name}' ends in front of it"),
                );
            }
        }
        let is_quoted = |quote: char| value.len() >= 2 && value.starts_with(quote) && value.ends_with(quote);
        if is_quoted('"') || is_quoted('\'') {
            self.report.warning(number, format!("{section}: the quotes around the value of '{name}' are part of it"));
        }
        self.unescaped(number, section, name, value)
    }

    /// The value with its backslashes read as JSON reads them, since `qdrouterd` does.
    fn unescaped(&mut self, number: usize, section: &str, name: &str, value: &str) -> String {
        if !value.contains('\\') {
            return value.to_string();
        }
        match serde_json::from_str(&format!("\"{value}\"")) {
            Ok(value) => value,
            Err(_) => {
                let text = format!("{section}: {name}: a backslash begins an escape, as in JSON: write '\\\\' for one");
                self.report.error(number, text);
                value.to_string()
            }
        }
    }

    fn in_map(
        &mut self,
        line: &str,
        mut section: Section,
        attribute: String,
        begun: usize,
        mut open: usize,
        mut text: String,
    ) -> State {
        if line.starts_with('#') {
            return State::InMap { section, attribute, line: begun, open, text };
        }
        let (mut in_string, mut escaped) = (false, false);
        for (at, c) in line.char_indices() {
            text.push(c);
            match c {
                _ if escaped => escaped = false,
                '\\' if in_string => escaped = true,
                '"' => in_string = !in_string,
                '{' if !in_string => open += 1,
                '}' if !in_string => {
                    open -= 1;
                    if open == 0 {
                        let rest = uncommented(&line[at + 1..]).to_string();
                        if !rest.is_empty() {
                            self.report
                                .error(begun, format!("{}: '{rest}' behind the map '{attribute}'", section.name));
                        }
                        section.attributes.push(Attribute { name: attribute, line: begun, value: Raw::Map(text) });
                        return State::Inside(section);
                    }
                }
                _ => {}
            }
        }
        text.push('\n');
        State::InMap { section, attribute, line: begun, open, text }
    }
}

/// What stands in front of a comment.
fn uncommented(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

/// The name, where the line is `name {`.
fn section_begin(line: &str) -> Option<&str> {
    let name = line.strip_suffix('{')?.trim_end();
    is_word(name).then_some(name)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
}
