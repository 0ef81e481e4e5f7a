//! Secrets: only from environment variables, never in the file, never printed.

use secrecy::SecretString;

/// A secret that is needed and not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: the environment variable {variable} is {how}; {cure}")]
pub struct MissingSecret {
    key: &'static str,
    variable: String,
    how: &'static str,
    cure: &'static str,
}

/// The value of the variable that the settings' `key` names.
pub fn secret(
    key: &'static str,
    variable: &str,
    cure: &'static str,
) -> Result<SecretString, MissingSecret> {
    #[expect(clippy::disallowed_methods, reason = "this is the one place for it")]
    let value = std::env::var(variable);
    let missing = |how| MissingSecret { key, variable: variable.to_owned(), how, cure };
    match value {
        Ok(value) if value.trim().is_empty() => Err(missing("empty")),
        Ok(value) => Ok(value.trim().into()),
        Err(std::env::VarError::NotPresent) => Err(missing("not set")),
        Err(std::env::VarError::NotUnicode(_)) => Err(missing("not text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_secret_is_named_with_its_key_and_cure() {
        let missing = secret("redis.urls_env", "STANCHION_NOT_SET", "set it to redis://…");
        let said = missing.err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(
            said,
            "redis.urls_env: the environment variable STANCHION_NOT_SET is not set; set it to redis://…"
        );
    }
}
