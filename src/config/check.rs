//! A section against the schema: attributes known, given once, of their kinds, required ones there, served.

use super::problem::Report;
use super::schema::{self, Attribute, Entity, Served};
use super::section::Section;
use super::types::Configured;
use super::value::{self, Value};

/// A section whose attributes are known and have values of their kinds.
pub(super) struct Checked {
    pub entity: &'static Entity,
    pub line: usize,
    /// What is given, by the schema's name, with its line.
    values: Vec<Given>,
    /// Attributes that stand there with a value that can't be read: told already.
    pub is_broken: bool,
    /// A listener that has to stay closed: what it promises isn't served.
    pub is_closed: bool,
}

struct Given {
    name: &'static str,
    line: usize,
    value: Value,
    /// Not served, and so as if it weren't given.
    is_unserved: bool,
}

/// Checks a section by the schema. None: no such entity here.
pub(super) fn check(section: &Section, report: &mut Report) -> Option<Checked> {
    let entity = match schema::entity(&section.name) {
        Ok(entity) => entity,
        Err(text) => {
            report.error(section.line, text);
            return None;
        }
    };
    let mut checked = Checked::absent(entity);
    checked.line = section.line;
    if !entity.attributes.is_empty() {
        for given in &section.attributes {
            checked.take(given, report);
        }
        checked.required(report);
    }
    checked.entity_served(report);
    Some(checked)
}

impl Checked {
    /// A section that isn't there: all defaults.
    pub fn absent(entity: &'static Entity) -> Checked {
        Checked { entity, line: 0, values: Vec::new(), is_broken: false, is_closed: false }
    }

    fn take(&mut self, given: &super::section::Attribute, report: &mut Report) {
        let attribute = match schema::attribute_of(self.entity, &given.name) {
            Ok(attribute) => attribute,
            Err(text) => return self.broken(given.line, text, report),
        };
        let value = match value::parse(attribute, &given.value) {
            Ok(None) => return,
            Ok(Some(value)) => value,
            Err(text) => return self.broken(given.line, text, report),
        };
        if let Some(before) = self.values.iter().find(|before| before.name == attribute.name) {
            let text = format!("'{}' is given twice, first in line {}", attribute.name, before.line);
            return report.error(given.line, format!("{}: {text}", self.entity.name));
        }
        let is_unserved = self.entity.unserved.is_none() && !value::is_served(attribute, &value);
        if is_unserved {
            self.attribute_unserved(attribute, given.line, &value, report);
        } else if let Served::WithoutEffect(why) = attribute.served {
            if !value::is_default(attribute, &value) {
                let text = format!("{}: {} has no effect: {why}", self.entity.name, attribute.name);
                report.warning(given.line, text);
            }
        }
        self.values.push(Given { name: attribute.name, line: given.line, value, is_unserved });
    }

    fn broken(&mut self, line: usize, text: String, report: &mut Report) {
        report.error(line, format!("{}: {text}", self.entity.name));
        self.is_broken = true;
    }

    fn attribute_unserved(&mut self, attribute: &Attribute, line: usize, value: &Value, report: &mut Report) {
        let value = match value {
            Value::Boolean(true) => ": yes",
            Value::Boolean(false) => ": no",
            Value::Choice(word) => &format!(": {word}"),
            Value::Integer(number) => &format!(": {number}"),
            _ => "",
        };
        if let Served::DefaultOnly(unserved) = &attribute.served {
            self.is_closed |= unserved.closes;
            report.unserved(line, &format!("{}: {}{value}", self.entity.name, attribute.name), unserved);
        }
    }

    fn required(&mut self, report: &mut Report) {
        let is_given = |attribute: &Attribute| self.values.iter().any(|given| given.name == attribute.name);
        let missing: Vec<_> = self.entity.attributes.iter().filter(|a| a.is_required && !is_given(a)).collect();
        if self.is_broken {
            // Perhaps it is there and misspelt.
            return;
        }
        for attribute in missing {
            report.error(self.line, format!("{}: '{}' is needed", self.entity.name, attribute.name));
            self.is_broken = true;
        }
    }

    /// Whether the entity as a whole is served; one that says nothing but defaults needs no serving.
    fn entity_served(&self, report: &mut Report) {
        let Some(unserved) = &self.entity.unserved else { return };
        let is_default = |given: &Given| {
            let attribute = self.entity.attributes.iter().find(|attribute| attribute.name == given.name);
            attribute.is_none_or(|attribute| value::is_default(attribute, &given.value))
        };
        if self.entity.is_single && !self.is_broken && self.values.iter().all(is_default) {
            return;
        }
        // What its writer knows it by.
        let telling = ["name", "prefix", "pattern", "address", "hostname", "exchangeName", "host"];
        let what = match telling.iter().find_map(|name| self.stated_text(name)) {
            Some(name) => format!("{} '{name}'", self.entity.name),
            None => self.entity.name.to_string(),
        };
        report.unserved(self.line, &what, unserved);
    }

    /// All that the file says, for whoever shows it.
    pub fn configured(&self) -> Configured {
        let values = self.values.iter().map(|given| (given.name, given.value.clone())).collect();
        Configured { entity: self.entity.name, line: self.line, values }
    }

    /// What the file says, served or not.
    pub fn stated(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|given| given.name == name).map(|given| &given.value)
    }

    /// A text that the file states, served or not, that isn't empty.
    pub fn stated_text(&self, name: &str) -> Option<&str> {
        match self.stated(name) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    pub fn stated_choice(&self, name: &str) -> Option<&'static str> {
        match self.stated(name) {
            Some(Value::Choice(word)) => Some(word),
            _ => None,
        }
    }

    pub fn name(&self) -> Option<&str> {
        self.stated_text("name")
    }

    /// What the file says and this version serves.
    pub fn given(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|given| given.name == name && !given.is_unserved).map(|given| &given.value)
    }

    /// The line of an attribute, or the section's own.
    pub fn line(&self, name: &str) -> usize {
        self.values.iter().find(|given| given.name == name).map_or(self.line, |given| given.line)
    }

    /// The value given, else the schema's default.
    pub fn value(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.given(name) {
            return Some(value.clone());
        }
        let attribute = self.entity.attribute(name);
        debug_assert!(attribute.is_some(), "{name} is not in the schema");
        attribute
            .and_then(|attribute| Some((attribute, attribute.default?)))
            .and_then(|(attribute, default)| value::parse_text(attribute, default).ok())
    }

    pub fn text(&self, name: &str) -> Option<String> {
        match self.value(name) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    pub fn boolean(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Boolean(true)))
    }

    pub fn choice(&self, name: &str) -> Option<&'static str> {
        match self.value(name) {
            Some(Value::Choice(word)) => Some(word),
            _ => None,
        }
    }

    pub fn integer(&self, name: &str) -> Option<u64> {
        match self.value(name) {
            Some(Value::Integer(number)) => Some(number),
            _ => None,
        }
    }

    /// An integer that has a default and whose bounds fit.
    pub fn number(&self, name: &str) -> u32 {
        self.integer(name).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
    }

    pub fn list(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Some(Value::List(items)) => items,
            _ => Vec::new(),
        }
    }

    /// What went wrong, with the section's name in front.
    pub fn error(&self, attribute: &str, text: impl AsRef<str>, report: &mut Report) {
        report.error(self.line(attribute), format!("{}: {}", self.entity.name, text.as_ref()));
    }

    pub fn warning(&self, attribute: &str, text: impl AsRef<str>, report: &mut Report) {
        report.warning(self.line(attribute), format!("{}: {}", self.entity.name, text.as_ref()));
    }
}
