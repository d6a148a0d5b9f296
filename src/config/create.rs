//! One entity at run time, checked as a file's section is.

use super::build;
use super::problem::{Report, Unsupported};
use super::section::{Attribute, Raw, Section};
use super::types::{AddressConfig, FlowConfig, ListenerConfig, LogConfig};
use super::{across, check};

/// What can be made, or changed, while the router runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Created {
    Listener(ListenerConfig),
    Address(AddressConfig),
    /// What is to be changed of its module.
    Log(LogConfig),
}

/// Checks the attributes of an entity of this type, short name or long. `router`: what an address that doesn't say has.
///
/// # Errors
/// All that is wrong, in one line; what this version doesn't serve is wrong too.
pub fn create(
    entity: &str,
    attributes: impl IntoIterator<Item = (String, Raw)>,
    router: &FlowConfig,
) -> Result<Created, String> {
    let attributes = attributes.into_iter().map(|(name, value)| Attribute { name, line: 0, value }).collect();
    let section = Section { name: entity.to_string(), line: 0, attributes };
    let mut report = Report::new("", Unsupported::Allowed);
    let created = check::check(&section, &mut report).and_then(|checked| {
        across::check(std::slice::from_ref(&checked), &mut report);
        match checked.entity.name {
            "listener" => build::listener(&checked, &mut report).map(Created::Listener),
            "address" => build::address(&checked, router, &mut report).map(Created::Address),
            "log" => build::log(&checked, &mut report).map(Created::Log),
            _ => None,
        }
    });
    match (report.complaints(), created) {
        (complaints, _) if !complaints.is_empty() => Err(complaints.join("; ")),
        (_, Some(created)) => Ok(created),
        (_, None) => Err(format!("{entity}: can't be created")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AddressMatch, FlowControl, LogLevels};
    use crate::log::Levels;

    fn made(entity: &str, attributes: &[(&str, &str)]) -> Result<Created, String> {
        let router = FlowConfig { flow_control: FlowControl::Capacity, credit_slack_percent: 7 };
        let attributes = attributes.iter().map(|(name, value)| (name.to_string(), Raw::Text(value.to_string())));
        create(entity, attributes, &router)
    }

    #[test]
    fn what_a_file_may_have_a_request_may_have() {
        let address = made("org.apache.qpid.dispatch.router.config.address", &[("prefix", "a"), ("priority", "3")]);
        let Ok(Created::Address(address)) = address else { panic!("{address:?}") };
        assert_eq!((address.matches, address.priority), (AddressMatch::Prefix("a".to_string()), Some(3)));
        assert_eq!(address.flow.credit_slack_percent, 7);
        let listener = made("listener", &[("port", "0"), ("idle-timeout-seconds", "5")]);
        let Ok(Created::Listener(listener)) = listener else { panic!("{listener:?}") };
        assert_eq!(listener.idle_timeout_seconds, 5);
        let log = made("log", &[("module", "SERVER"), ("enable", "none")]);
        let Ok(Created::Log(log)) = log else { panic!("{log:?}") };
        assert_eq!((log.enable, log.output), (Some(LogLevels::Levels(Levels::NONE)), None));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (entity, attributes, error) in [
            ("listener", &[("prot", "1"), ("host", "a")][..], "unknown attribute 'prot'; did you mean 'port'?"),
            ("listener", &[("requireSsl", "yes")], "requireSsl: yes: not served by this version (TLS)"),
            (
                "listener",
                &[("port", "77777"), ("role", "edge")],
                "role='standalone' not allowed to connect to or accept",
            ),
            ("connector", &[("name", "c")], "connector 'c': not served by this version"),
            ("address", &[], "either a 'prefix' or a 'pattern' attribute must be provided"),
            ("router", &[], "router: can't be created"),
            ("nothing", &[], "unknown section 'nothing'"),
        ] {
            let found = made(entity, attributes).unwrap_err();
            assert!(found.starts_with(error) && !found.contains('\n'), "{found}");
        }
    }
}
