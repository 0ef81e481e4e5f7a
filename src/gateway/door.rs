//! The way in and out of every request: its head checked, a poll answered at once, all else as soon
//! as those who have to be asked have answered.

use std::sync::Arc;

use futures_util::future::{Either, ready};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response};

use super::asked::Asked;
use super::pipeline::{Way, is_about, is_read, next_after_refusal};
use super::reader::reader;
use super::route::{Call, Own, Route};
use super::{Gateway, broken, own, respond};
use crate::domain::path::Canonical;
use crate::domain::refusal::{Problem, Refusal};
use crate::http::body::{Body, Drained};
use crate::http::client_ip::Client;
use crate::http::guard;
use crate::http::listener::Peer;
use crate::http::quick::Answering;
use crate::http::received::Received;

/// What the last step needs to know of a request.
struct Outside {
    method: Method,
    origin: Option<HeaderValue>,
    https: bool,
}

impl Gateway {
    /// Answers one request; whatever goes wrong is an answer too, a fault of ours as well. What need not wait is answered
    /// at once, and the rest is boxed: a connection has no room for it while it is idle.
    pub fn handle(self: &Arc<Self>, request: Request<Received>, peer: Peer) -> Answering {
        let method = request.method().clone();
        let origin = request.headers().get(header::ORIGIN).cloned();
        let client = Client::find(peer.address, peer.tls, request.headers(), &self.trusted);
        let outside = Outside { method, origin, https: client.https };
        let done = |response| Either::Left(ready(self.finish(response, &outside)));
        if request.uri().path() == own::HEALTH_PATH && is_read(&outside.method) {
            return done(own::health(!self.draining.is_cancelled()));
        }
        let mut asked = match self.checked(request, client, peer) {
            Ok(asked) => asked,
            Err(response) => return done(response),
        };
        if let Some(answer) = broken::caught_at_once(|| self.at_once(&mut asked)) {
            return done(self.told(&mut asked, answer));
        }
        let gateway = Arc::clone(self);
        Either::Right(Box::pin(async move {
            let unanswered = gateway.gone.unless_answered();
            let answer = broken::caught(gateway.answer(&mut asked)).await;
            let mut response = gateway.told(&mut asked, answer);
            if asked.drop_body().await == Drained::Cut && asked.is_http1() {
                respond::close(&mut response);
            }
            let response = gateway.finish(response, &outside);
            unanswered.answered();
            response
        }))
    }

    /// The last step, of every answer.
    fn finish(&self, mut response: Response<Body>, outside: &Outside) -> Response<Body> {
        self.https.mark(&mut response, outside.https);
        respond::share(&mut response, outside.origin.as_ref(), &self.cors_origins);
        respond::finish(&mut response, &outside.method);
        self.counted.count(&response);
        response
    }

    /// Step 1: the head, before anything believes it.
    #[expect(clippy::result_large_err, reason = "an answer on its way out, not carried further")]
    fn checked(
        &self,
        mut request: Request<Received>,
        client: Client,
        peer: Peer,
    ) -> Result<Box<Asked>, Response<Body>> {
        let head = match guard::check(&request, &self.sizes) {
            Ok(head) => head,
            Err(fault) => return Err(self.faulty(&request, fault)),
        };
        guard::as_http1(&mut request, &head);
        match Canonical::parse(request.uri().path()) {
            Ok(path) => Ok(Box::new(Asked::new(request, head, (client, peer), path))),
            Err(fault) => {
                let refusal = Refusal::bad_request("path", fault);
                Err(self.refused(&refusal, reader(request.headers()), None, "/"))
            }
        }
    }

    /// A poll waits for nothing: not for its body, not for a store, not for another core.
    fn at_once(&self, asked: &mut Asked) -> Option<Result<Response<Body>, Refusal>> {
        if !asked.path.as_str().ends_with("/status") || asked.has_body() {
            return None;
        }
        let now_ms = self.now_ms();
        match self.way(asked, now_ms) {
            Ok(Way::To(Route::Own(Own::Sale(sale, Call::Status)))) => {
                Some(self.polled(asked, sale, now_ms))
            }
            Ok(_) | Err(_) => None,
        }
    }

    /// The answer to a request, a refusal in its own form.
    fn told(&self, asked: &mut Asked, answer: Result<Response<Body>, Refusal>) -> Response<Body> {
        let mut response = match answer {
            Ok(response) => response,
            Err(refusal) => {
                let sale = self.sales.iter().find(|sale| is_about(asked, sale));
                let next = next_after_refusal(asked, sale);
                let mut response = self.refused(&refusal, asked.reader(), sale, &next);
                if refusal.problem == Problem::InternalError && asked.is_http1() {
                    respond::close(&mut response);
                }
                response
            }
        };
        if asked.opens_by_mistake(&response) {
            let refusal = Refusal::bad_request("path", "is no WebSocket");
            response = self.refused(&refusal, asked.reader(), None, "/");
        }
        if let Some(standing) = asked.standing {
            standing.tell(response.headers_mut());
        }
        if let Some(failure) = asked.failure.take() {
            response.headers_mut().insert(respond::PROXY_STATUS, failure);
        }
        tracing::debug!(
            method = %asked.parts.method,
            path = asked.path.as_str(),
            status = response.status().as_u16(),
            "answered"
        );
        response
    }
}
