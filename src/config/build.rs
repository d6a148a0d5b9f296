//! Sections to checked structs.

use super::problem::Report;
use super::section::Section;
use super::types::*;

pub(super) fn build(_sections: &[Section], _report: &mut Report) -> Config {
    Config { router: RouterConfig::default(), listeners: vec![], addresses: vec![], logs: vec![], warnings: vec![] }
}
