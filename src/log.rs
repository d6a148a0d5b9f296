//! Words of the log: modules and levels, as `qdrouterd` names them, since tools match its lines.

use std::fmt;

/// The part of the router that a log line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Module {
    Router,
    RouterCore,
    RouterHello,
    RouterLs,
    RouterMa,
    Message,
    Server,
    Agent,
    AuthService,
    Container,
    Error,
    Policy,
    Http,
    ConnMgr,
    Python,
    /// Frames in readable form, at level trace.
    Protocol,
    /// No part of the router: what a module's settings are where it has none of its own.
    Default,
}

/// Severity of a log line, from the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    Trace,
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
}

/// A set of levels: bit n is the level of that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels(pub u8);

impl Module {
    /// All modules, in the order of their numbers.
    pub const ALL: [(Module, &'static str); 17] = [
        (Module::Router, "ROUTER"),
        (Module::RouterCore, "ROUTER_CORE"),
        (Module::RouterHello, "ROUTER_HELLO"),
        (Module::RouterLs, "ROUTER_LS"),
        (Module::RouterMa, "ROUTER_MA"),
        (Module::Message, "MESSAGE"),
        (Module::Server, "SERVER"),
        (Module::Agent, "AGENT"),
        (Module::AuthService, "AUTHSERVICE"),
        (Module::Container, "CONTAINER"),
        (Module::Error, "ERROR"),
        (Module::Policy, "POLICY"),
        (Module::Http, "HTTP"),
        (Module::ConnMgr, "CONN_MGR"),
        (Module::Python, "PYTHON"),
        (Module::Protocol, "PROTOCOL"),
        (Module::Default, "DEFAULT"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Case doesn't matter.
    pub fn parse(name: &str) -> Option<Module> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(module, _)| *module)
    }
}

impl Level {
    /// All levels, in the order of their numbers.
    pub const ALL: [(Level, &'static str); 7] = [
        (Level::Trace, "trace"),
        (Level::Debug, "debug"),
        (Level::Info, "info"),
        (Level::Notice, "notice"),
        (Level::Warning, "warning"),
        (Level::Error, "error"),
        (Level::Critical, "critical"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Case doesn't matter.
    pub fn parse(name: &str) -> Option<Level> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(level, _)| *level)
    }
}

impl Levels {
    pub const NONE: Levels = Levels(0);

    /// `level` and everything worse.
    pub const fn from(level: Level) -> Levels {
        Levels(0x7f & (0x7fu8 << level as u8))
    }

    pub const fn only(level: Level) -> Levels {
        Levels(1 << level as u8)
    }

    #[inline]
    pub const fn contains(self, level: Level) -> bool {
        self.0 & (1 << level as u8) != 0
    }

    pub const fn with(self, more: Levels) -> Levels {
        Levels(self.0 | more.0)
    }
}

/// As `enable` lists them.
impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, name)) = Level::ALL.iter().find(|(level, _)| Levels::from(*level) == *self) {
            return write!(f, "{name}+");
        }
        let mut names = Level::ALL.iter().filter(|(level, _)| self.contains(*level)).map(|(_, name)| *name);
        f.write_str(names.next().unwrap_or("none"))?;
        names.try_for_each(|name| write!(f, ",{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_agree() {
        for (number, (module, name)) in Module::ALL.iter().enumerate() {
            assert_eq!(*module as usize, number);
            assert_eq!(Module::parse(name), Some(*module));
        }
        for (number, (level, name)) in Level::ALL.iter().enumerate() {
            assert_eq!(*level as usize, number);
            assert_eq!(Level::parse(name), Some(*level));
        }
    }

    #[test]
    fn sets_of_levels() {
        let levels = Levels::from(Level::Warning);
        assert!(!levels.contains(Level::Notice));
        assert!(levels.contains(Level::Warning) && levels.contains(Level::Critical));
        assert_eq!(levels.with(Levels::only(Level::Trace)).0, 0b111_0001);
        assert_eq!(levels.to_string(), "warning+");
        assert_eq!(Levels::from(Level::Critical).to_string(), "critical+");
        assert_eq!(Levels::only(Level::Debug).with(Levels::only(Level::Info)).to_string(), "debug,info");
        assert_eq!(Levels::NONE.to_string(), "none");
    }
}
