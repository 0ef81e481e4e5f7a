//! Who vouches for accounts.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::span::Span;

/// Who vouches for accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountSource {
    /// Nobody: a buyer is a place in line.
    #[default]
    None,
    /// The shop, asked with the visitor's cookies.
    ForwardAuth,
    /// A signed token in a cookie of the shop's.
    Jwt,
}

/// `[account]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Account {
    /// Who vouches. Restart-only.
    pub source: AccountSource,
    /// Where "sign in" goes. Restart-only.
    pub login_url: String,
    /// For `source = "forward_auth"`.
    pub forward_auth: Option<ForwardAuth>,
    /// For `source = "jwt"`.
    pub jwt: Option<Jwt>,
}

/// `account.jwt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// The cookie that carries the token. Restart-only.
    pub cookie: String,
    /// The public keys that it is verified with, a JSON Web Key Set. Restart-only.
    pub jwks_file: PathBuf,
    /// The claim that names the account. Restart-only.
    #[serde(default = "default_account_claim")]
    pub claim: String,
}

/// `account.forward_auth`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardAuth {
    /// Asked with the visitor's cookies, ours taken out; 200 and the header = signed in.
    /// Restart-only.
    pub url: String,
    /// The answer's header that names the account. Restart-only.
    #[serde(default = "default_account_header")]
    pub header: String,
    /// How long an answer is remembered. Restart-only.
    #[serde(default = "default_account_cache")]
    pub cache: Span,
}

fn default_account_header() -> String {
    "x-account-id".to_owned()
}

fn default_account_claim() -> String {
    "sub".to_owned()
}

const fn default_account_cache() -> Span {
    Span::seconds(60)
}
