//! Address rules: which attributes an address has, by prefix or pattern.
//!
//! Owns: the tree of the rules' tokens, and the search in it. Used when an address comes to be, never a message.
//!
//! Tokens are split on `.` or `/`; separators at the begin are ignored. `*` stands for one token, `#` for any
//! number, none included. At each level the exact token is tried first, then `*`, then `#`, depth first with
//! backtracking; the first rule that is reached wins.

use crate::routing::settings::{AddressAttributes, AddressMatch, AddressRule};
use slab::Slab;
use std::collections::{HashMap, HashSet};

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

/// Deepest rule, and the most tokens of an address that the search looks at: its work is bounded by the rules'
/// depth and this.
const TOKENS_MAX: usize = 128;

#[derive(Clone, Debug, Default)]
struct Node {
    exact: HashMap<Box<str>, u32>,
    /// Node behind `*`.
    star: Option<u32>,
    /// Node behind `#`.
    hash: Option<u32>,
    /// The rule that ends here.
    rule: Option<u32>,
}

impl Node {
    fn next(&self, token: &str) -> Option<usize> {
        let next = match token {
            "*" => self.star,
            "#" => self.hash,
            _ => self.exact.get(token).copied(),
        };
        next.map(|next| next as usize)
    }

    fn forget(&mut self, token: &str) {
        match token {
            "*" => self.star = None,
            "#" => self.hash = None,
            _ => drop(self.exact.remove(token)),
        }
    }

    fn is_unused(&self) -> bool {
        self.rule.is_none() && self.star.is_none() && self.hash.is_none() && self.exact.is_empty()
    }
}

/// The rules as a tree of tokens.
#[derive(Clone, Debug)]
pub struct AddressRules {
    nodes: Slab<Node>,
    rules: Slab<AddressRule>,
}

/// The first node of every tree.
const ROOT: usize = 0;

impl Default for AddressRules {
    fn default() -> Self {
        let mut nodes = Slab::new();
        nodes.insert(Node::default());
        AddressRules { nodes, rules: Slab::new() }
    }
}

fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.trim_start_matches(['.', '/']).split(['.', '/'])
}

/// A rule's tokens in normal form: `#.*` is `*.#`, `#.#` is `#`.
fn normal_form(matches: &AddressMatch) -> Result<Vec<&str>, String> {
    let (text, is_prefix) = match matches {
        AddressMatch::Prefix(text) => (text.strip_suffix(['.', '/']).unwrap_or(text), true),
        AddressMatch::Pattern(text) => (text.strip_suffix(['.', '/']).unwrap_or(text), false),
    };
    if text.trim_start_matches(['.', '/']).is_empty() {
        return Err(String::from("an address rule needs a prefix or pattern that isn't empty"));
    }
    let mut list: Vec<&str> = tokens(text).collect();
    if is_prefix {
        list.push("#");
    }
    if list.len() > TOKENS_MAX {
        return Err(format!("an address rule has at most {TOKENS_MAX} tokens"));
    }
    // In each run of wildcards the stars come first and at most one hash stays.
    let mut normal: Vec<&str> = Vec::with_capacity(list.len());
    let mut hash = false;
    for token in list {
        match token {
            "#" => hash = true,
            "*" => normal.push("*"),
            _ => {
                if std::mem::take(&mut hash) {
                    normal.push("#");
                }
                normal.push(token);
            }
        }
    }
    if hash {
        normal.push("#");
    }
    Ok(normal)
}

impl AddressRules {
    /// Builds the tree; two rules for the same addresses, or a rule that is empty, are refused.
    pub fn new(rules: Vec<AddressRule>) -> Result<AddressRules, RuleError> {
        let mut tree = AddressRules::default();
        for (number, rule) in rules.into_iter().enumerate() {
            tree.insert(rule).map_err(|reason| RuleError { rule: number, reason })?;
        }
        Ok(tree)
    }

    fn child(&mut self, at: usize, token: &str) -> usize {
        let fresh = self.nodes.vacant_key() as u32;
        let node = &mut self.nodes[at];
        let next = match token {
            "*" => *node.star.get_or_insert(fresh),
            "#" => *node.hash.get_or_insert(fresh),
            _ => *node.exact.entry(token.into()).or_insert(fresh),
        };
        if next == fresh {
            self.nodes.insert(Node::default());
        }
        next as usize
    }

    /// One more rule; refused where it is empty, or one for the same addresses is there.
    pub fn insert(&mut self, rule: AddressRule) -> Result<(), String> {
        let tokens = normal_form(&rule.matches)?;
        let at = tokens.iter().fold(ROOT, |at, token| self.child(at, token));
        if self.nodes[at].rule.is_some() {
            let (AddressMatch::Prefix(text) | AddressMatch::Pattern(text)) = &rule.matches;
            return Err(format!("'{text}' matches the same addresses as an earlier address rule"));
        }
        self.nodes[at].rule = Some(self.rules.insert(rule) as u32);
        Ok(())
    }

    /// Takes out the rule for these addresses. Addresses that are there already keep what it gave them.
    pub fn remove(&mut self, matches: &AddressMatch) -> Option<AddressRule> {
        let tokens = normal_form(matches).ok()?;
        let mut way = vec![ROOT];
        for token in &tokens {
            way.push(self.nodes[*way.last()?].next(token)?);
        }
        let rule = self.nodes[*way.last()?].rule.take()?;
        // Nodes that lead nowhere any more go with it.
        for (parent, token) in way.iter().zip(&tokens).rev() {
            let Some(child) = self.nodes[*parent].next(token).filter(|child| self.nodes[*child].is_unused()) else {
                break;
            };
            self.nodes.remove(child);
            self.nodes[*parent].forget(token);
        }
        Some(self.rules.remove(rule as usize))
    }

    pub fn rules(&self) -> impl Iterator<Item = &AddressRule> {
        self.rules.iter().map(|(_, rule)| rule)
    }

    pub fn len(&self) -> usize {
        self.rules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The attributes of the rule that matches best. `address` is in normal form.
    pub fn find(&self, address: &str) -> Option<&AddressAttributes> {
        self.find_rule(address).map(|rule| &rule.attributes)
    }

    /// The rule that matches best.
    pub fn find_rule(&self, address: &str) -> Option<&AddressRule> {
        if self.rules.is_empty() {
            return None;
        }
        // One more than the deepest rule has, so that a longer address isn't taken for one that ends there.
        let list: Vec<&str> = tokens(address).take(TOKENS_MAX + 1).collect();
        let rule = self.search(ROOT as u32, &list, 0, &mut HashSet::new())?;
        self.rules.get(rule as usize)
    }

    /// `failed`: places behind a `#` that were tried in vain. Each is tried once, so the work is bounded by the
    /// tree's size and the square of the tokens, whatever the pattern. The depth is bounded by the tokens' number.
    fn search(&self, at: u32, list: &[&str], used: usize, failed: &mut HashSet<(u32, usize)>) -> Option<u32> {
        let node = &self.nodes[at as usize];
        let Some(token) = list.get(used) else {
            return node.rule.or_else(|| node.hash.and_then(|next| self.search(next, list, used, failed)));
        };
        let exact = node.exact.get(*token).and_then(|next| self.search(*next, list, used + 1, failed));
        if exact.is_some() {
            return exact;
        }
        let star = node.star.and_then(|next| self.search(next, list, used + 1, failed));
        if star.is_some() {
            return star;
        }
        let next = node.hash?;
        for from in used..=list.len() {
            if failed.contains(&(next, from)) {
                continue;
            }
            let found = self.search(next, list, from, failed);
            if found.is_some() {
                return found;
            }
            failed.insert((next, from));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::settings::Treatment;

    fn pattern(text: &str, priority: u8) -> AddressRule {
        let attributes = AddressAttributes { priority: Some(priority), ..AddressAttributes::default() };
        AddressRule { matches: AddressMatch::Pattern(text.into()), attributes }
    }

    fn prefix(text: &str, priority: u8) -> AddressRule {
        AddressRule { matches: AddressMatch::Prefix(text.into()), ..pattern("", priority) }
    }

    fn find(rules: &AddressRules, address: &str) -> Option<u8> {
        rules.find(address).and_then(|attributes| attributes.priority)
    }

    #[test]
    fn exact_goes_before_star_before_hash() {
        let rules = AddressRules::new(vec![
            pattern("a.b.c", 1),
            pattern("a.*.c", 2),
            pattern("a.#", 3),
            pattern("#", 4),
            pattern("a.b.#.z", 5),
        ])
        .unwrap();
        assert_eq!(find(&rules, "a/b/c"), Some(1));
        assert_eq!(find(&rules, "a.x.c"), Some(2));
        assert_eq!(find(&rules, "a"), Some(3));
        assert_eq!(find(&rules, "a.b"), Some(3));
        assert_eq!(find(&rules, "a.b.c.z"), Some(5));
        assert_eq!(find(&rules, "a.b.z"), Some(5));
        assert_eq!(find(&rules, "b"), Some(4));
        assert_eq!(find(&rules, "/a.b.c"), Some(1));
    }

    #[test]
    fn a_prefix_matches_itself_and_what_is_below() {
        let rules = AddressRules::new(vec![prefix("a/b/", 1), prefix("a.*", 2)]).unwrap();
        assert_eq!(find(&rules, "a/b"), Some(1));
        assert_eq!(find(&rules, "a.b.c.d"), Some(1));
        assert_eq!(find(&rules, "a/bc"), Some(2));
        assert_eq!(find(&rules, "ab"), None);
        assert_eq!(find(&rules, "a"), None);
        assert_eq!(find(&rules, ""), None);
    }

    #[test]
    fn the_search_backtracks() {
        let rules = AddressRules::new(vec![pattern("a.b.x", 1), pattern("a.*.y", 2), pattern("#.y.#", 3)]).unwrap();
        assert_eq!(find(&rules, "a.b.y"), Some(2));
        assert_eq!(find(&rules, "q.y.q"), Some(3));
        assert_eq!(find(&rules, "a.b.z"), None);
    }

    #[test]
    fn duplicates_are_refused_in_normal_form() {
        for (first, second) in [("#.*", "*.#"), ("#.#", "#"), ("a.#.*.#.*", "a/*/*/#"), ("a.b", "/a/b")] {
            let error = AddressRules::new(vec![pattern(first, 1), pattern(second, 2)]).unwrap_err();
            assert_eq!(error.rule, 1, "{first} {second}");
        }
        assert!(AddressRules::new(vec![prefix("a", 1), pattern("a.#", 2)]).is_err());
        assert!(AddressRules::new(vec![pattern("", 1)]).is_err());
        assert!(AddressRules::new(vec![prefix("/", 1)]).is_err());
    }

    #[test]
    fn rules_come_and_go() {
        let mut rules = AddressRules::new(vec![prefix("a/b", 1), pattern("#", 2)]).unwrap();
        let nodes = rules.nodes.len();
        for round in 0..3 {
            for name in ["a.*.c", "a.b.#.z", "x", "a.#.*"] {
                rules.insert(pattern(name, 3)).unwrap();
                assert!(rules.insert(pattern(name, 4)).is_err(), "{name} in round {round}");
            }
            assert_eq!(find(&rules, "x"), Some(3));
            for name in ["x", "a.b.#.z", "a.*.#", "a.*.c"] {
                assert_eq!(rules.remove(&pattern(name, 0).matches).and_then(|rule| rule.attributes.priority), Some(3));
                assert!(rules.remove(&pattern(name, 0).matches).is_none(), "{name} in round {round}");
            }
            assert_eq!((rules.len(), rules.nodes.len()), (2, nodes));
        }
        assert_eq!(rules.remove(&prefix("a/b/", 0).matches).and_then(|rule| rule.attributes.priority), Some(1));
        assert_eq!(find(&rules, "a.b"), Some(2));
        assert!(rules.remove(&pattern("", 0).matches).is_none());
    }

    #[test]
    fn hostile_patterns_cost_little() {
        let many = vec!["#.a"; 40].join(".");
        let rules = AddressRules::new(vec![pattern(&many, 1)]).unwrap();
        let address = vec!["a"; 39].join(".") + ".b";
        assert_eq!(find(&rules, &address), None);
        let address = vec!["a"; 1000].join(".");
        let _ = find(&rules, &address);
    }

    #[test]
    fn attributes_come_through() {
        let attributes = AddressAttributes { treatment: Some(Treatment::Multicast), ..AddressAttributes::default() };
        let rule = AddressRule { matches: AddressMatch::Prefix("m".into()), attributes: attributes.clone() };
        let rules = AddressRules::new(vec![rule]).unwrap();
        assert_eq!(rules.find("m.1"), Some(&attributes));
    }
}
