//! Who vouches for an account: the shop, asked with the visitor's own cookies (forward-auth).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper::header::{self, HeaderName};
use hyper::{HeaderMap, Request, StatusCode, Uri};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::cookies;
use super::headers::put;
use crate::config::settings::ForwardAuth;
use crate::domain::id::AccountId;
use crate::http::body;
use crate::http::paced::Progress;
use crate::http::upstream::{Times, Upstream};

/// Answers remembered in each of two halves.
const REMEMBERED_MAX: usize = 20_000;
/// Questions to the shop at once; more are answered "unknown".
const ASKING_MAX: usize = 256;
/// Of the answer's body, which nobody reads.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// For the whole answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What the shop says about a visitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Vouched {
    /// Accounts are not asked for in this installation.
    NotAsked,
    /// Nobody is signed in.
    Nobody,
    /// This one is.
    For(AccountId),
    /// The shop does not answer.
    Unknown,
}

/// Why accounts cannot be asked for; the text names the key.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// Not an address.
    #[error("account.forward_auth.url: must be http://HOST[:PORT]/PATH")]
    Url,
    /// Not a header's name.
    #[error("account.forward_auth.header: must be the name of a header, like \"x-account-id\"")]
    Header,
}

/// Asks, and remembers for a while.
pub(super) struct Accounts {
    source: Option<Source>,
}

struct Source {
    upstream: Upstream,
    uri: Uri,
    host: String,
    header: HeaderName,
    remember: Duration,
    asking: Semaphore,
    known: Mutex<Halves>,
}

type Question = [u8; 32];
type Known = HashMap<Question, (Vouched, Instant)>;

/// When the young half is full it becomes the old one, and the old one is forgotten.
#[derive(Default)]
struct Halves {
    young: Known,
    old: Known,
}

impl Accounts {
    /// Nobody is asked if there is no source.
    pub(super) fn new(settings: Option<&ForwardAuth>) -> Result<Self, AccountsError> {
        let Some(settings) = settings else { return Ok(Self { source: None }) };
        let url: Uri = settings.url.parse().map_err(|_| AccountsError::Url)?;
        let (Some(authority), Some(path)) = (url.authority(), url.path_and_query()) else {
            return Err(AccountsError::Url);
        };
        let scheme = url.scheme_str().unwrap_or_default();
        let times = Times { response: ANSWER_MAX, ..Times::default() };
        let upstream = Upstream::new(&[format!("{scheme}://{authority}")], times)
            .map_err(|_| AccountsError::Url)?;
        let source = Source {
            upstream,
            uri: Uri::from(path.clone()),
            host: authority.to_string(),
            header: settings.header.parse().map_err(|_| AccountsError::Header)?,
            remember: settings.cache.duration(),
            asking: Semaphore::new(ASKING_MAX),
            known: Mutex::default(),
        };
        Ok(Self { source: Some(source) })
    }

    /// Who is signed in on this request.
    pub(super) async fn ask(&self, headers: &HeaderMap) -> Vouched {
        match &self.source {
            None => Vouched::NotAsked,
            Some(source) => source.ask(headers).await,
        }
    }
}

impl Source {
    async fn ask(&self, headers: &HeaderMap) -> Vouched {
        let mut evidence = HeaderMap::new();
        for name in [header::COOKIE, header::AUTHORIZATION] {
            for value in headers.get_all(&name) {
                evidence.append(name.clone(), value.clone());
            }
        }
        // Ours say nothing to the shop, and change where the shop's do not.
        cookies::hide(&mut evidence);
        if evidence.is_empty() {
            return Vouched::Nobody;
        }
        let question = question(&evidence);
        if let Some(answer) = self.remembered(&question) {
            return answer;
        }
        let Ok(_seat) = self.asking.try_acquire() else { return Vouched::Unknown };
        let asking = tokio::time::timeout(ANSWER_MAX, self.ask_shop(evidence));
        let answer = asking.await.unwrap_or(Vouched::Unknown);
        if answer != Vouched::Unknown {
            self.remember(question, answer.clone());
        }
        answer
    }

    async fn ask_shop(&self, evidence: HeaderMap) -> Vouched {
        let mut request = Request::new(body::empty());
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = evidence;
        put(request.headers_mut(), header::HOST, &self.host);
        let answer = match self.upstream.send(request, &Progress::default()).await {
            Ok(answer) => answer.response,
            Err(error) => {
                tracing::warn!(%error, "the account source does not answer");
                return Vouched::Unknown;
            }
        };
        let status = answer.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            tracing::warn!(%status, "the account source fails");
            return Vouched::Unknown;
        }
        let (parts, incoming) = answer.into_parts();
        // Read to its end, so that the connection can be used again; what it says is in the head.
        drop(body::collect(incoming, ANSWER_BYTES_MAX, ANSWER_MAX).await);
        if !status.is_success() {
            return Vouched::Nobody;
        }
        let named = parts.headers.get(&self.header).and_then(|name| name.to_str().ok());
        let account = named.and_then(|name| AccountId::parse(name).ok());
        account.map_or(Vouched::Nobody, Vouched::For)
    }

    fn remembered(&self, question: &Question) -> Option<Vouched> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, until) = known.young.get(question).or_else(|| known.old.get(question))?;
        (Instant::now() < *until).then(|| answer.clone())
    }

    fn remember(&self, question: Question, answer: Vouched) {
        let until = Instant::now() + self.remember;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.young.len() >= REMEMBERED_MAX {
            known.old = std::mem::take(&mut known.young);
        }
        known.young.insert(question, (answer, until));
    }
}

/// Evidence is compared by its hash, so that no cookie is kept.
fn question(evidence: &HeaderMap) -> Question {
    let mut hash = Sha256::new();
    for (name, value) in evidence {
        hash.update(name.as_str());
        hash.update([0]);
        hash.update(value.as_bytes());
        hash.update([0]);
    }
    hash.finalize().into()
}
