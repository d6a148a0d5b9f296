//! (placeholder)
use super::problem::Report;
use super::section::Section;
pub(super) fn parse(_text: &str, _report: &mut Report) -> Vec<Section> {
    Vec::new()
}
