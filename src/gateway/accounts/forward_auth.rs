//! Forward-auth: the shop is asked with the visitor's own cookies who is signed in.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper::header::{self, HeaderName};
use hyper::{HeaderMap, Request, StatusCode, Uri};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::askers::{Asker, Askers};
use super::{AccountsError, Vouched};
use crate::config::settings;
use crate::domain::id::AccountId;
use crate::domain::limits::Quota;
use crate::gateway::answers::{Answers, Known};
use crate::gateway::cookies;
use crate::gateway::headers::{WRITTEN_BYTES, Writer, clean, introduce, put};
use crate::http::body;
use crate::http::client_ip::Client;
use crate::http::host::is_name;
use crate::http::paced::Progress;
use crate::http::upstream::{Times, Upstream};

/// Answers remembered in each of two halves.
const REMEMBERED_MAX: usize = 20_000;
/// Questions to the shop at once; more wait.
const ASKING_MAX: usize = 256;
/// Of the answer's body, which nobody reads.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// For the whole answer.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// For the answer and the wait for a seat.
const PATIENCE: Duration = Duration::from_secs(4);
/// "Nobody" is kept no longer: whoever signs in with the same cookie comes back at once.
const NOBODY_KEPT_MAX: Duration = Duration::from_secs(5);
/// How long it is kept that there was no answer.
const UNKNOWN_KEPT: Duration = Duration::from_secs(1);
/// After so many failures in a row the shop is not asked for a moment.
const FAILURES_MAX: u32 = 5;

/// Asks, and remembers for a while.
pub(in crate::gateway) struct ForwardAuth {
    upstream: Upstream,
    uri: Uri,
    /// Its name, if it has one; else it is asked by the name that the visitor asked for.
    host: Option<String>,
    header: HeaderName,
    remember: Duration,
    asking: Semaphore,
    known: Answers<Question, Vouched>,
    askers: Askers,
    failing: Mutex<Failing>,
}

/// Cookies are compared by their hash, so that none is kept.
type Question = [u8; 32];

/// Failures in a row, and until when nobody is asked because of them.
#[derive(Default)]
struct Failing {
    in_a_row: u32,
    until: Option<Instant>,
}

impl ForwardAuth {
    /// Nobody has been asked yet; `quota` is for questions in vain, by address.
    pub(super) fn new(
        settings: &settings::ForwardAuth,
        quota: Quota,
    ) -> Result<Self, AccountsError> {
        let url: Uri = settings.url.parse().map_err(|_| AccountsError::Url)?;
        let (Some(authority), Some(path)) = (url.authority(), url.path_and_query()) else {
            return Err(AccountsError::Url);
        };
        let scheme = url.scheme_str().unwrap_or_default();
        let times = Times { response: ANSWER_MAX, ..Times::default() };
        let upstream = Upstream::new(&[format!("{scheme}://{authority}")], times)
            .map_err(|_| AccountsError::Url)?;
        Ok(Self {
            upstream,
            uri: Uri::from(path.clone()),
            host: is_name(authority.host()).then(|| authority.to_string()),
            header: settings.header.parse().map_err(|_| AccountsError::Header)?,
            remember: settings.cache.duration(),
            asking: Semaphore::new(ASKING_MAX),
            known: Answers::new(REMEMBERED_MAX),
            askers: Askers::new(quota),
            failing: Mutex::default(),
        })
    }

    /// From now on an address may ask this much in vain.
    pub(super) fn allow(&self, quota: Quota) {
        self.askers.allow(quota);
    }

    /// Who is signed in, by the cookies of a request.
    pub(super) async fn ask(
        &self,
        headers: &HeaderMap,
        client: &Client,
        authority: &str,
    ) -> Vouched {
        let mut evidence = HeaderMap::new();
        for value in headers.get_all(header::COOKIE) {
            evidence.append(header::COOKIE, value.clone());
        }
        // Ours say nothing to the shop, and change where the shop's do not.
        cookies::hide(&mut evidence);
        if evidence.is_empty() {
            return Vouched::Nobody;
        }
        let question = question(&evidence);
        let asker = self.askers.of(client.ip);
        match self.known.known(&question) {
            Known::Answer(answer) => return answer,
            Known::Asking => {}
            Known::Nothing => {
                if let Some(wait) = self.askers.wait(&asker) {
                    return Vouched::TooMany(wait);
                }
            }
        }
        let asker = &asker;
        let whole = async move || {
            self.surround(&mut evidence, headers, client, authority);
            self.ask_seated(evidence, asker).await
        };
        let answer = self.known.get(question, whole);
        tokio::time::timeout(PATIENCE, answer).await.unwrap_or(Vouched::Unknown)
    }

    /// What else the shop hears with a request of the visitor's own: it may refuse another host, send
    /// what came by http to https, or know a session only with its browser.
    fn surround(
        &self,
        evidence: &mut HeaderMap,
        headers: &HeaderMap,
        client: &Client,
        authority: &str,
    ) {
        for name in [header::USER_AGENT, header::ACCEPT_LANGUAGE] {
            if let Some(value) = headers.get(&name) {
                evidence.insert(name, value.clone());
            }
        }
        clean(evidence);
        introduce(&mut Writer::on(evidence, WRITTEN_BYTES), client, authority);
        put(evidence, header::HOST, self.host.as_deref().unwrap_or(authority));
    }

    /// The answer, and how long it is kept.
    async fn ask_seated(&self, evidence: HeaderMap, asker: &Asker) -> (Vouched, Duration) {
        if self.is_failing() {
            return (Vouched::Unknown, Duration::ZERO);
        }
        let (Ok(_own), Ok(_seat)) = (asker.seats.acquire().await, self.asking.acquire().await)
        else {
            return (Vouched::Unknown, Duration::ZERO);
        };
        // Others of this address may have asked in vain meanwhile, or found out that nobody answers.
        if let Some(wait) = self.askers.wait(asker) {
            return (Vouched::TooMany(wait), Duration::ZERO);
        }
        if self.is_failing() {
            return (Vouched::Unknown, Duration::ZERO);
        }
        let asking = tokio::time::timeout(ANSWER_MAX, self.ask_shop(evidence));
        let answer = asking.await.unwrap_or(Vouched::Unknown);
        self.note(&answer);
        let keep = match &answer {
            Vouched::For(_) => self.remember,
            Vouched::Nobody => {
                self.askers.was_in_vain(asker);
                self.remember.min(NOBODY_KEPT_MAX)
            }
            Vouched::Unknown => UNKNOWN_KEPT,
            Vouched::NotAsked | Vouched::TooMany(_) => Duration::ZERO,
        };
        (answer, keep)
    }

    async fn ask_shop(&self, evidence: HeaderMap) -> Vouched {
        let mut request = Request::new(body::empty());
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = evidence;
        let answer = match self.upstream.send(request, &Progress::default()).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(%error, "the account source does not answer");
                return Vouched::Unknown;
            }
        };
        let status = answer.status();
        if !is_answer(status) {
            tracing::warn!(%status, "the account source does not say who is signed in");
            return Vouched::Unknown;
        }
        let (parts, incoming) = answer.into_parts();
        // Read to its end, so that the connection can be used again; what it says is in the head.
        drop(body::collect(incoming, ANSWER_BYTES_MAX, ANSWER_MAX).await);
        if !status.is_success() {
            return Vouched::Nobody;
        }
        let named = parts.headers.get(&self.header);
        let named = named.and_then(|name| std::str::from_utf8(name.as_bytes()).ok());
        let account = named.and_then(|name| AccountId::parse(name).ok());
        account.map_or(Vouched::Nobody, Vouched::For)
    }

    fn is_failing(&self) -> bool {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.until.is_some_and(|until| Instant::now() < until)
    }

    fn note(&self, answer: &Vouched) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if *answer != Vouched::Unknown {
            *failing = Failing::default();
            return;
        }
        failing.in_a_row = failing.in_a_row.saturating_add(1);
        if failing.in_a_row >= FAILURES_MAX {
            failing.until = Some(Instant::now() + UNKNOWN_KEPT);
        }
    }
}

/// Whether a status says who is signed in, or that nobody is: a refusal, or the way to where one
/// signs in. Anything else is a fault of the question, and no word about the visitor.
fn is_answer(status: StatusCode) -> bool {
    status.is_success()
        || matches!(
            status,
            StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
        )
}

fn question(evidence: &HeaderMap) -> Question {
    let mut hash = Sha256::new();
    for value in evidence.values() {
        hash.update(value.as_bytes());
        hash.update([0]);
    }
    hash.finalize().into()
}
