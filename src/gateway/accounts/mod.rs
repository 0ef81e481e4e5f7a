//! Who vouches for an account: the shop, asked with the visitor's own cookies (forward-auth), or
//! its signature on a token in one of them.

mod askers;
mod forward_auth;
mod jwt;

use std::time::Duration;

use hyper::HeaderMap;
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::config::settings::AccountSource;
use crate::domain::id::AccountId;
use crate::http::client_ip::Client;
use forward_auth::ForwardAuth;
use jwt::SignedCookie;

/// What the shop says about a visitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Vouched {
    /// Accounts are not asked for in this installation, or not by this request.
    NotAsked,
    /// Nobody is signed in.
    Nobody,
    /// This one is.
    For(AccountId),
    /// The shop does not answer.
    Unknown,
    /// The visitor's address makes us ask too much; nobody was asked, for so long.
    TooMany(Duration),
}

/// Why accounts cannot be asked for; the text names the key.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// The source has no settings.
    #[error("account.source: needs the table of that name below [account]")]
    Missing,
    /// Not an address.
    #[error("account.forward_auth.url: must be http://HOST[:PORT]/PATH")]
    Url,
    /// Not a header's name.
    #[error("account.forward_auth.header: must be the name of a header, like \"x-account-id\"")]
    Header,
    /// The keys of `jwt`.
    #[error("account.jwt.jwks_file: {0}")]
    Keys(#[from] jwt::KeysFault),
}

/// The one source of accounts.
pub(super) enum Accounts {
    /// None.
    Nobody,
    /// The shop is asked.
    Asked(Box<ForwardAuth>),
    /// The shop has signed.
    Signed(SignedCookie),
}

impl Accounts {
    /// The source of the settings.
    pub(super) fn new(settings: &Settings) -> Result<Self, AccountsError> {
        let account = &settings.account;
        Ok(match account.source {
            AccountSource::None => Self::Nobody,
            AccountSource::ForwardAuth => {
                let asked = account.forward_auth.as_ref().ok_or(AccountsError::Missing)?;
                Self::Asked(Box::new(ForwardAuth::new(asked, settings.limits.per_ip.into())?))
            }
            AccountSource::Jwt => {
                let signed = account.jwt.as_ref().ok_or(AccountsError::Missing)?;
                Self::Signed(SignedCookie::new(signed)?)
            }
        })
    }

    /// Who is signed in on a request to `authority`, at `now_ms` of the room's clock.
    pub(super) async fn ask(
        &self,
        headers: &HeaderMap,
        client: &Client,
        authority: &str,
        now_ms: u64,
    ) -> Vouched {
        match self {
            Self::Nobody => Vouched::NotAsked,
            Self::Asked(shop) => Box::pin(shop.ask(headers, client, authority)).await,
            Self::Signed(cookie) => cookie.read(headers, now_ms),
        }
    }

    /// Takes over what may change while the node runs.
    pub(super) fn reload(&self, settings: &Settings) {
        if let Self::Asked(shop) = self {
            shop.allow(settings.limits.per_ip.into());
        }
    }

    /// Follows the file of the keys, if there is one, until cancelled.
    pub(super) async fn follow(&self, ending: CancellationToken) {
        match self {
            Self::Nobody | Self::Asked(_) => ending.cancelled().await,
            Self::Signed(cookie) => {
                ending.run_until_cancelled(cookie.follow()).await;
            }
        }
    }
}
