//! SASL as the side that connects: which of the server's mechanisms is taken, and what it is told.

/// Whom we say we are. Its `Debug` shows no password.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Login {
    /// The mechanisms that may be taken, in any order; None: whichever the credentials do for.
    pub mechanisms: Option<Vec<String>>,
    pub user: Option<String>,
    pub password: Option<String>,
}

/// What to tell the server first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoginStep {
    pub mechanism: &'static str,
    pub initial_response: Vec<u8>,
}

/// Why none of the server's mechanisms does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoginError {
    pub offered: Vec<String>,
    pub has_password: bool,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let password = self.password.as_ref().map(|_| "…");
        let mut debug = f.debug_struct("Login");
        debug.field("mechanisms", &self.mechanisms).field("user", &self.user).field("password", &password).finish()
    }
}

impl std::fmt::Display for LoginError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let offered = self.offered.join(" ");
        let ours = if self.has_password { "PLAIN" } else { "ANONYMOUS (no password was given)" };
        write!(f, "no SASL mechanism in common: the peer offers {offered}, we can do {ours}")
    }
}

impl std::error::Error for LoginError {}

impl Login {
    /// Nobody in particular.
    pub fn anonymous() -> Login {
        Login { mechanisms: Some(vec!["ANONYMOUS".to_owned()]), ..Login::default() }
    }

    /// Chooses: EXTERNAL where only that was asked for, PLAIN (RFC 4616) with credentials, else ANONYMOUS (RFC 4505).
    pub fn begin(&self, offered: &[String]) -> Result<LoginStep, LoginError> {
        let may = |mechanism: &str| {
            let wanted = self.mechanisms.as_ref();
            let wanted = wanted.is_none_or(|names| names.iter().any(|name| name.eq_ignore_ascii_case(mechanism)));
            wanted && offered.iter().any(|name| name == mechanism)
        };
        let by_name = self.mechanisms.is_some();
        let user = self.user.as_deref().unwrap_or_default();
        if let (true, Some(password)) = (may("PLAIN"), &self.password) {
            let initial_response = ["", user, password].join("\0").into_bytes();
            return Ok(LoginStep { mechanism: "PLAIN", initial_response });
        }
        if by_name && may("EXTERNAL") {
            return Ok(LoginStep { mechanism: "EXTERNAL", initial_response: user.as_bytes().to_vec() });
        }
        // A user with a password means to be that user: letting it in as nobody would surprise it.
        if may("ANONYMOUS") && (by_name || self.password.is_none()) {
            return Ok(LoginStep { mechanism: "ANONYMOUS", initial_response: b"ringway".to_vec() });
        }
        Err(LoginError { offered: offered.to_vec(), has_password: self.password.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn user() -> Login {
        Login { mechanisms: None, user: Some("ann".to_owned()), password: Some("s3cret".to_owned()) }
    }

    #[test]
    fn credentials_take_plain() {
        let step = user().begin(&offered(&["ANONYMOUS", "PLAIN"])).unwrap();
        assert_eq!((step.mechanism, &step.initial_response[..]), ("PLAIN", &b"\0ann\0s3cret"[..]));
        let error = user().begin(&offered(&["ANONYMOUS"])).unwrap_err();
        assert!(error.to_string().contains("the peer offers ANONYMOUS"), "{error}");
    }

    #[test]
    fn without_credentials_it_is_anonymous() {
        assert_eq!(Login::default().begin(&offered(&["PLAIN", "ANONYMOUS"])).unwrap().mechanism, "ANONYMOUS");
        assert!(Login::default().begin(&offered(&["PLAIN"])).is_err());
        assert_eq!(Login::anonymous().begin(&offered(&["ANONYMOUS"])).unwrap().mechanism, "ANONYMOUS");
    }

    #[test]
    fn what_was_asked_for_binds() {
        let external = Login { mechanisms: Some(offered(&["external"])), ..user() };
        assert_eq!(external.begin(&offered(&["PLAIN", "EXTERNAL"])).unwrap().mechanism, "EXTERNAL");
        assert!(external.begin(&offered(&["PLAIN"])).is_err());
        let anonymous = Login { mechanisms: Some(offered(&["ANONYMOUS"])), ..user() };
        assert_eq!(anonymous.begin(&offered(&["PLAIN", "ANONYMOUS"])).unwrap().mechanism, "ANONYMOUS");
    }

    #[test]
    fn a_password_is_not_shown() {
        assert!(!format!("{:?}", user()).contains("s3cret"));
    }
}
