//! One request from its head to its response, in named steps:
//! check → identify → route → limit → own | forward | wait → respond. `door` has the first and the last.

use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::accounts::Vouched;
use super::asked::Asked;
use super::auth::Original;
use super::checkout::{self, Change};
use super::crowd::Whose;
use super::forward::{DOTS, Permit};
use super::identify::{self, Visitor};
use super::reader::{Reader, reader};
use super::respond::{self, Place};
use super::route::{self, Call, Own, Route};
use super::sale::SaleGate;
use super::{
    Gateway, auth, bypass, draw, https, leaving, limiter, own, queue_page, renewal, tie, waiting,
};
use crate::domain::limits::{AddressKey, Deed, Subject};
use crate::domain::refusal::{Problem, Refusal};
use crate::http::body::Body;
use crate::http::guard::{self, HeadFault};
use crate::http::received::Received;

impl Gateway {
    /// Step 2 and 3: whom it is for, and where it goes.
    pub(super) fn way(&self, asked: &Asked, now_ms: u64) -> Result<Way<'_>, Refusal> {
        if !self.hostnames.contains(&asked.head.host) {
            let detail = format!("'{}' is not served here; see public.hostnames", asked.head.host);
            return Err(Refusal::bad_request("Host", detail).status(421));
        }
        https::check_name(asked, self.trusted.contains(asked.peer.address.ip()))?;
        // A proxy that asks about a visitor is no visitor.
        let is_question = auth::is_question(asked.path.as_str());
        if let Some(response) = self.https.redirect(asked).filter(|_| !is_question) {
            return Ok(Way::Done(response));
        }
        let route = route::decide(asked, &self.sales, now_ms)?;
        Ok(match self.first_name.elsewhere(asked, &route) {
            Some(response) => Way::Done(response),
            None => Way::To(route),
        })
    }

    /// Steps 2 to 5. What most requests are not is boxed: a future has room for the largest of its
    /// branches.
    pub(super) async fn answer(&self, asked: &mut Asked) -> Result<Response<Body>, Refusal> {
        let now_ms = self.now_ms();
        let route = match self.way(asked, now_ms)? {
            Way::Done(response) => return Ok(response),
            Way::To(route) => route,
        };
        match route {
            Route::Shop(free) => {
                let find = || self.remembered(asked, now_ms);
                let place = self.crowd.enter_free(asked.client.ip, find)?;
                self.shop.forward_in(asked, &Permit::Free(free), place).await
            }
            Route::Gated(sale) => self.gated(asked, sale, now_ms).await,
            Route::Own(own) => Box::pin(self.owned(asked, own, now_ms)).await,
        }
    }

    /// What is asked of us.
    async fn owned(
        &self,
        asked: &mut Asked,
        own: Own<'_>,
        now_ms: u64,
    ) -> Result<Response<Body>, Refusal> {
        match own {
            Own::Jwks => Ok(own::jwks(&self.keys.jwks())),
            Own::Asset(name) => own::asset(asked, &name),
            Own::Script(name) => own::script(asked, name),
            Own::Auth => self.asked_by_proxy(asked, now_ms).await,
            Own::Problem(name) => own::problem(asked.reader(), &name, now_ms),
            Own::Preflight => Ok(own::preflight()),
            Own::PassPage => Ok(Self::pass_page(asked)),
            Own::Redeem => {
                self.refuse_foreign(asked)?;
                self.count(asked, "", Subject::Address(AddressKey::of(asked.client.ip)))?;
                self.redeem_any(asked).await
            }
            Own::Sale(sale, call) => self.called(asked, sale, call, now_ms).await,
        }
    }

    /// A protected path: on to the shop with a pass, else the queue.
    async fn gated(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        now_ms: u64,
    ) -> Result<Response<Body>, Refusal> {
        let mut visitor = self.visitor(asked, sale, now_ms).await?;
        sale.renew(&mut visitor).await;
        let Some(pass) = &visitor.pass else {
            return Box::pin(self.waiting(asked, sale, visitor)).await;
        };
        if asked.path.had_dots() {
            return Err(Refusal::bad_request("path", DOTS));
        }
        self.limit_admitted(asked, sale, &visitor, pass)?;
        let permit = Permit::of(&visitor, pass, &sale.room);
        let mut response = self.shop.forward(asked, &permit).await?;
        renewal::hand_out(&mut response, asked, sale, &visitor);
        Ok(response)
    }

    /// A protected path without a pass.
    async fn waiting(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        mut visitor: Visitor,
    ) -> Result<Response<Body>, Refusal> {
        self.limit(asked, sale, &visitor, Deed::Look, visitor.holder())?;
        if let Some(done) = self.past_the_line(asked, sale, &visitor).await {
            return done;
        }
        let tied = tie::at_sign_in(asked, sale, &mut visitor).await;
        let page = queue_page::at_gate(asked, sale, &visitor, &self.login_url).await?;
        Ok(tie::hand_out(page, asked, sale, tied))
    }

    /// A call to one of our own endpoints.
    async fn called(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        call: Call,
        now_ms: u64,
    ) -> Result<Response<Body>, Refusal> {
        self.refuse_foreign(asked)?;
        match call {
            Call::Back => Ok(respond::see_other(&sale.queue_url())),
            Call::Draw => draw::proof(sale),
            Call::Stock => waiting::stock(sale),
            Call::Status => self.polled(asked, sale, now_ms),
            Call::Events => {
                let visitor = self.looking(asked, sale, now_ms)?;
                let place = self.crowd.enter(Whose::stream(visitor.holder(), asked.client.ip))?;
                self.streams.open(sale, &visitor, place)
            }
            Call::DrawCheck => {
                let visitor = self.looking(asked, sale, now_ms)?;
                Ok(draw::check(asked, sale, &visitor))
            }
            Call::Receipt => {
                let visitor = self.looking(asked, sale, now_ms)?;
                draw::receipt(asked, sale, &visitor)
            }
            Call::Page => {
                let mut visitor = self.reading(asked, sale, now_ms).await?;
                let tied = tie::at_sign_in(asked, sale, &mut visitor).await;
                let page = queue_page::show(asked, sale, &visitor, &self.login_url)?;
                Ok(tie::hand_out(page, asked, sale, tied))
            }
            Call::Recover => {
                let visitor = self.visitor(asked, sale, now_ms).await?;
                let address = AddressKey::of(asked.client.ip);
                self.count(asked, sale.id().as_str(), Subject::Recovery(address))?;
                leaving::recover(asked, sale, &visitor).await
            }
            Call::Join => {
                let visitor = self.acting(asked, sale, now_ms).await?;
                waiting::join(asked, sale, &visitor, &self.login_url).await
            }
            Call::Leave => {
                let visitor = self.acting(asked, sale, now_ms).await?;
                leaving::leave(asked, sale, &visitor).await
            }
            Call::Claim => {
                let visitor = self.acting(asked, sale, now_ms).await?;
                self.claim(asked, sale, &visitor).await
            }
            Call::Orders | Call::Reserve | Call::Release(_) | Call::Extend(_) => {
                let visitor = self.visitor(asked, sale, now_ms).await?;
                match &visitor.pass {
                    Some(pass) => self.limit_admitted(asked, sale, &visitor, pass)?,
                    None => self.limit(asked, sale, &visitor, Deed::Act, visitor.holder())?,
                }
                self.ordered(asked, sale, call, visitor).await
            }
        }
    }

    /// The visitor of a call that only shows something, counted. It must not become the shop's
    /// load; whose place it is, a claim will ask.
    fn looking(&self, asked: &mut Asked, sale: &SaleGate, now_ms: u64) -> Result<Visitor, Refusal> {
        let visitor = identify::visitor(asked, sale, &self.keys, now_ms, Vouched::NotAsked)?;
        self.limit(asked, sale, &visitor, Deed::Look, visitor.holder())?;
        Ok(visitor)
    }

    /// The visitor of a page, counted. Scripts of open pages fetch the next all at once when something
    /// changes, be it because the shop can take no more: whoever has a place need not be asked about.
    async fn reading(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        now_ms: u64,
    ) -> Result<Visitor, Refusal> {
        let unasked = || identify::visitor(asked, sale, &self.keys, now_ms, Vouched::NotAsked);
        let visitor = match asked.reader() {
            Reader::Script if unasked()?.ticket.is_some() => unasked()?,
            Reader::Script | Reader::Person => self.visitor(asked, sale, now_ms).await?,
        };
        self.limit(asked, sale, &visitor, Deed::Look, visitor.holder())?;
        Ok(visitor)
    }

    /// The visitor of a call that changes a place, counted.
    async fn acting(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        now_ms: u64,
    ) -> Result<Visitor, Refusal> {
        let visitor = self.visitor(asked, sale, now_ms).await?;
        self.limit(asked, sale, &visitor, Deed::Act, visitor.holder())?;
        Ok(visitor)
    }

    /// Polls must not become the shop's load; whose place it is, a claim will ask.
    pub(super) fn polled(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        now_ms: u64,
    ) -> Result<Response<Body>, Refusal> {
        let visitor = identify::visitor(asked, sale, &self.keys, now_ms, Vouched::NotAsked)?;
        if visitor.holder().is_some() {
            self.limit(asked, sale, &visitor, Deed::Look, visitor.holder())?;
        }
        Ok(waiting::status(sale, &visitor))
    }

    /// No page of another site acts for its visitor.
    fn refuse_foreign(&self, asked: &Asked) -> Result<(), Refusal> {
        if asked.method() == Method::POST && asked.is_foreign(&self.cors_origins.load()) {
            let detail = "this was sent by a page of another site; do it from a page of this one";
            return Err(Refusal::new(Problem::NotAdmitted, detail));
        }
        Ok(())
    }

    /// The admitted shopper's side of the core.
    async fn ordered(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        call: Call,
        mut visitor: Visitor,
    ) -> Result<Response<Body>, Refusal> {
        sale.renew(&mut visitor).await;
        let change = match call {
            Call::Release(id) => Some((id, Change::Release)),
            Call::Extend(id) => Some((id, Change::Extend)),
            _ => None,
        };
        let answer = match (call, change) {
            (_, Some(change)) => {
                checkout::change(&self.core, asked, sale, &mut visitor, change).await
            }
            (Call::Reserve, None) => checkout::reserve(&self.core, asked, sale, &mut visitor).await,
            (_, None) => checkout::own_orders(&self.core, sale, &visitor).await,
        };
        let mut answer = answer?;
        renewal::hand_out(&mut answer, asked, sale, &visitor);
        Ok(answer)
    }

    /// Forward-auth: may the request that a proxy asks about pass?
    async fn asked_by_proxy(
        &self,
        asked: &mut Asked,
        now_ms: u64,
    ) -> Result<Response<Body>, Refusal> {
        let original = Original::read(asked, &self.trusted, &self.hostnames)?;
        let Some(sale) = original.gate(&self.sales, now_ms, asked) else {
            original.check_path()?;
            return Ok(auth::let_through());
        };
        let mut visitor = self.visitor(asked, sale, now_ms).await?;
        sale.renew(&mut visitor).await;
        if visitor.pass.is_none() {
            self.limit(asked, sale, &visitor, Deed::Look, visitor.holder())?;
            if sale.room.is_bypassed() {
                visitor.take_over(bypass::bypass(sale, &visitor).await);
            }
        }
        if visitor.pass.is_some() {
            original.check_path()?;
        }
        let mut answer = original.answer(asked, sale, &visitor, now_ms);
        renewal::hand_out(&mut answer, asked, sale, &visitor);
        Ok(answer)
    }

    pub(super) async fn visitor(
        &self,
        asked: &Asked,
        sale: &SaleGate,
        now_ms: u64,
    ) -> Result<Visitor, Refusal> {
        let (client, host) = (&asked.client, &asked.head.authority);
        let account = self.accounts.ask(asked.headers(), client, host, now_ms).await;
        let visitor = identify::visitor(asked, sale, &self.keys, now_ms, account)?;
        match visitor.account {
            // Whoever has a place or a pass goes on with it.
            Vouched::TooMany(wait) if visitor.is_unknown() => Err(limiter::too_many_cookies(wait)),
            _ => Ok(visitor),
        }
    }

    pub(super) fn refused(
        &self,
        refusal: &Refusal,
        reader: Reader,
        sale: Option<&SaleGate>,
        next: &str,
    ) -> Response<Body> {
        if refusal.http_status() >= 500 {
            tracing::info!(
                problem = refusal.problem.name(),
                detail = refusal.detail,
                "unavailable"
            );
        }
        let place = Place {
            sale: sale.map(|sale| sale.id().as_str()),
            next,
            login_url: &self.login_url,
            now_ms: self.now_ms(),
        };
        let mut response = match refusal.problem {
            Problem::SignInRequired => {
                let link = respond::sign_in_link(&self.login_url, next);
                respond::refusal(&refusal.clone().with("login_url", link), reader, &place)
            }
            _ => respond::refusal(refusal, reader, &place),
        };
        if refusal.problem == Problem::Waiting {
            let queue = HeaderValue::from_static("queue");
            response.headers_mut().insert(respond::STANCHION_ANSWER, queue);
        }
        response
    }

    /// A head that is not to be believed ends its connection.
    pub(super) fn faulty(&self, request: &Request<Received>, fault: HeadFault) -> Response<Body> {
        let mut response = if fault == HeadFault::ServerItself {
            respond::bare(StatusCode::NO_CONTENT)
        } else {
            let status = fault.status().as_u16();
            let refusal = Refusal::new(Problem::BadRequest, fault.to_string()).status(status);
            self.refused(&refusal, reader(request.headers()), None, "/")
        };
        if matches!(fault, HeadFault::Method | HeadFault::ServerItself) {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(guard::ALLOW));
        }
        if request.version() != hyper::Version::HTTP_2 && fault != HeadFault::ServerItself {
            respond::close(&mut response);
        }
        response
    }
}

/// What the second step found.
pub(super) enum Way<'a> {
    /// Nothing more to ask.
    Done(Response<Body>),
    /// Somebody to answer.
    To(Route<'a>),
}

pub(super) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The sale whose page a refusal is shown on.
pub(super) fn is_about(asked: &Asked, sale: &SaleGate) -> bool {
    let own = sale.queue_url();
    let path = asked.path.as_str();
    let is_own =
        path.strip_prefix(own.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('/'));
    is_own || sale.protects(&asked.path)
}

/// Where "try again" leads: a page that can be asked for again.
pub(super) fn next_after_refusal(asked: &Asked, sale: Option<&SaleGate>) -> String {
    match sale {
        _ if is_read(asked.method()) => asked.target().to_owned(),
        Some(sale) => sale.way_in(),
        None => "/".to_owned(),
    }
}
