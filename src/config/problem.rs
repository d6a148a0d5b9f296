//! What is wrong with a configuration, each with its line.

use super::schema::Unserved;
use std::fmt;

/// One thing that is wrong, or looks wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    /// From 1; 0: the file as a whole.
    pub line: usize,
    pub text: String,
}

impl Problem {
    /// The text without the section's name in front.
    pub fn what(&self) -> &str {
        match self.text.split_once(": ") {
            Some((section, what)) if super::schema::find(section).is_some() => what,
            _ => &self.text,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.file, self.text)
        } else {
            write!(f, "{}:{}: {}", self.file, self.line, self.text)
        }
    }
}

/// Everything that is wrong with a configuration; at least one problem. Its display is a line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

impl ConfigError {
    /// The first bad line.
    pub fn line(&self) -> usize {
        self.problems.first().map_or(0, |problem| problem.line)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// What becomes of a configuration that asks for what this version doesn't serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsupported {
    /// Each such thing is an error.
    Refused,
    /// It goes without them, and lists them.
    Allowed,
}

/// Collects problems while a file is read.
pub(super) struct Report {
    file: String,
    allowed: Unsupported,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
    unsupported: Vec<Problem>,
}

impl Report {
    pub fn new(file: &str, allowed: Unsupported) -> Report {
        Report { file: file.to_string(), allowed, errors: Vec::new(), warnings: Vec::new(), unsupported: Vec::new() }
    }

    /// What this version doesn't serve: `what` is its name in the file.
    pub fn unserved(&mut self, line: usize, what: &str, unserved: &Unserved) {
        let Unserved { feature, instead, .. } = unserved;
        let text = format!("{what}: not served by this version ({feature})");
        match self.allowed {
            Unsupported::Refused => {
                let advice = "take it out, or start with --allow-unsupported";
                self.error(line, format!("{text}: {advice}, then {instead}"));
            }
            Unsupported::Allowed => {
                let text = format!("{text}: {instead}");
                self.unsupported.push(Problem { file: self.file.clone(), line, text });
            }
        }
    }

    pub fn error(&mut self, line: usize, text: impl Into<String>) {
        self.errors.push(Problem { file: self.file.clone(), line, text: text.into() });
    }

    pub fn warning(&mut self, line: usize, text: impl Into<String>) {
        self.warnings.push(Problem { file: self.file.clone(), line, text: text.into() });
    }

    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// All that is wrong or not served, without places.
    pub fn complaints(self) -> Vec<String> {
        self.errors.into_iter().chain(self.unsupported).map(|problem| problem.what().to_string()).collect()
    }

    /// The configuration if nothing is wrong with it, else all that is wrong, by line.
    pub fn finish(mut self, mut config: super::Config) -> Result<super::Config, ConfigError> {
        self.warnings.sort_by_key(|problem| problem.line);
        self.unsupported.sort_by_key(|problem| problem.line);
        if self.errors.is_empty() {
            config.warnings = self.warnings;
            config.unsupported = self.unsupported;
            return Ok(config);
        }
        self.errors.sort_by_key(|problem| problem.line);
        Err(ConfigError { problems: self.errors, warnings: self.warnings })
    }
}

/// The one of `known` that `word` was probably meant to be: at most a third of it differs.
pub(super) fn closest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let lower = word.to_ascii_lowercase();
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|candidate| (distance(&lower, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= allowed || is_abbreviation(&lower, candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn is_abbreviation(word: &str, candidate: &str) -> bool {
    word.len() >= 3 && candidate.to_ascii_lowercase().starts_with(word)
}

/// Edits between two words (Levenshtein), a swap of neighbours counted as one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut best = (previous[j] + usize::from(from != to)).min(previous[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut previous, row);
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let known = ["host", "port", "maxFrameSize", "idleTimeoutSeconds"];
        assert_eq!(closest("prot", known), Some("port"));
        assert_eq!(closest("MaxFrameSise", known), Some("maxFrameSize"));
        assert_eq!(closest("idleTimeout", known), Some("idleTimeoutSeconds"));
        assert_eq!(closest("colour", known), None);
    }
}
