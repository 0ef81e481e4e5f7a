//! The queue's answers to whoever has nothing of his own: most of those who ask when a sale opens.
//! They differ in where they are going, in the join key and in the instant alone, so each is written
//! once for a moment and then filled in.

use hyper::{Response, StatusCode};

use super::pages::{self, KEY_MARK, Kept, NEXT_MARK, PageView};
use super::queue_page;
use super::respond;
use super::sale::SaleGate;
use super::shelf::{Told, kept};
use super::showing::{Showing, sign_in_link, spread};
use super::stencil::{Mark, Stencil, put_number};
use super::waiting;
use crate::domain::queue::Place;
use crate::domain::refusal::Refusal;
use crate::domain::status::rfc3339;
use crate::http::body::Body;
use crate::room::Moment;

/// A page of the queue that somebody asks for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Where he is going.
    pub(super) next: &'a str,
    /// It stands there, and not on the sale's own page.
    pub(super) at_gate: bool,
    /// The request was one to change something.
    pub(super) not_submitted: bool,
    /// What is answered.
    pub(super) status: StatusCode,
}

/// The queue page.
pub(super) fn page(sale: &SaleGate, wanted: Wanted<'_>, login_url: &str) -> Response<Body> {
    let moment = sale.room.moment();
    let fresh = (waiting::fresh_key(), spread());
    let html = html(sale, &moment, wanted, login_url, (&fresh.0, fresh.1));
    let mut response = respond::html(wanted.status, html, respond::Kind::Queue);
    queue_page::come_back(&mut response, moment.poll_after_ms(&Place::none()));
    response
}

fn html(
    sale: &SaleGate,
    moment: &Moment,
    wanted: Wanted<'_>,
    login_url: &str,
    (join_key, spread): (&str, u64),
) -> Result<String, askama::Error> {
    let poll_after_ms = moment.poll_after_ms(&Place::none());
    let own = pages::Own {
        now_ms: moment.now_ms(),
        poll_after_ms,
        spread,
        next: wanted.next,
        join_key,
        login_url: &|| sign_in_link(login_url, sale, wanted.at_gate, wanted.next),
    };
    let is_anybodys = usize::from(wanted.status.is_server_error());
    let make = || {
        let wanted = Wanted { next: NEXT_MARK, ..wanted };
        Kept::of(&view(sale, moment, wanted, login_url, (KEY_MARK, 0)))
    };
    sale.shelf.at(moment, poll_after_ms, |sheet| {
        let place = &sheet.pages[usize::from(wanted.not_submitted)][is_anybodys];
        kept(place, make, |page| page.fill(&own))
    })
}

fn view(
    sale: &SaleGate,
    moment: &Moment,
    wanted: Wanted<'_>,
    login_url: &str,
    (join_key, spread): (&str, u64),
) -> PageView {
    let status = sale.room.status_at(moment, None, None);
    let mut showing = Showing::to_nobody(status, wanted.next, join_key);
    (showing.at_gate, showing.not_submitted) = (wanted.at_gate, wanted.not_submitted);
    showing.spread = spread;
    if wanted.status.is_server_error() {
        showing.be_anybodys();
    }
    showing.view(sale, moment, login_url)
}

/// 429 for scripts.
pub(super) fn told_to_wait(sale: &SaleGate) -> Response<Body> {
    let moment = sale.room.moment();
    let poll_after_ms = moment.poll_after_ms(&Place::none());
    respond::waiting(problem(sale, &moment), poll_after_ms)
}

fn problem(sale: &SaleGate, moment: &Moment) -> String {
    let poll_after_ms = moment.poll_after_ms(&Place::none());
    let time = rfc3339(moment.now_ms());
    let make = || Ok::<_, std::convert::Infallible>(told(&refusal(sale, moment)));
    let fill = |told: &Stencil<Told>| {
        told.fill(|out, hole| match hole {
            Told::Time => out.push_str(&time),
            Told::Poll => put_number(out, poll_after_ms),
        })
    };
    let Ok(text) = sale.shelf.at(moment, poll_after_ms, |sheet| kept(&sheet.problem, make, fill));
    text
}

fn refusal(sale: &SaleGate, moment: &Moment) -> Refusal {
    queue_page::refusal(sale, &sale.room.status_at(moment, None, None))
}

/// The body with holes for what passes by itself.
fn told(refusal: &Refusal) -> Stencil<Told> {
    let body = refusal.to_json();
    let text = body.to_string();
    let poll = body["poll_after_ms"].to_string();
    let mark = |after, word, hole| Mark { after, word, hole };
    let marks = [
        mark("\"server_time\":\"", body["server_time"].as_str().unwrap_or_default(), Told::Time),
        mark("\"poll_after_ms\":", &poll, Told::Poll),
        mark("\"retry_after_ms\":", &poll, Told::Poll),
    ];
    Stencil::cut(&text, &marks)
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use super::*;
    use crate::clock::{ManualClock, RoomClock};
    use crate::config::settings::Sale;
    use crate::domain::sale::Phase;
    use crate::gateway::core_client::CoreClient;
    use crate::gateway::renewal::Holds;
    use crate::room::keys::Keys;
    use crate::room::{Room, RoomOptions};
    use crate::store::redis;

    const LOBBY_MS: u64 = 1_803_902_400_000;
    const OPENS_MS: u64 = LOBBY_MS + 90_500;
    const CLOSES_MS: u64 = LOBBY_MS + 7_200_000;
    const KEY: &str = "00112233445566778899aabbccddeeff";

    /// The room of a sale, on stores that do not answer.
    pub(in crate::gateway) struct Alone {
        pub(in crate::gateway) settings: Sale,
        pub(in crate::gateway) room: Arc<Room>,
        pub(in crate::gateway) keys: Arc<Keys>,
        pub(in crate::gateway) clock: RoomClock,
        /// What the clock shows.
        pub(in crate::gateway) hand: Arc<ManualClock>,
    }

    /// One, with more lines of settings.
    pub(in crate::gateway) fn alone(more: &str) -> Alone {
        let settings: Sale = toml::from_str(&format!(
            "id = \"drop\"\npaths = [\"/checkout/**\"]\nrate = \"10/s\"\n\
             lobby_opens = \"2027-03-01T12:00:00Z\"\nopens = \"2027-03-01T12:01:30.5Z\"\n\
             closes = \"2027-03-01T14:00:00Z\"\nsku = [{{ sku = \"A\", units = 5 }}]\n{more}"
        ))
        .unwrap();
        let options = RoomOptions {
            sale: settings.id.clone(),
            control: settings.control("test"),
            token_ttl_ms: 1_000,
            places_per_ip: 0,
            max_places: 0,
            joins_waiting_max: 1,
            units_per_buyer: 0,
            stock_aware: false,
        };
        let folder = tempfile::tempdir().unwrap();
        let keys = Arc::new(Keys::generate(folder.path()).unwrap());
        let hand = Arc::new(ManualClock::at(LOBBY_MS));
        let clock = RoomClock::new(Arc::clone(&hand) as Arc<_>);
        let store = redis::connect("redis://127.0.0.1:1").unwrap();
        let room = Room::new(store, Arc::clone(&keys), clock.clone(), options);
        Alone { settings, room, keys, clock, hand }
    }

    /// A sale whose stores do not answer, and its clock.
    fn sale(more: &str) -> (SaleGate, Arc<ManualClock>) {
        let Alone { settings, room, hand, .. } = alone(more);
        let core = CoreClient::new("http://127.0.0.1:1", &"key".into()).unwrap();
        let holds = Arc::new(Holds::new(Arc::new(core)));
        (SaleGate::new(settings, room, holds).unwrap(), hand)
    }

    /// All ways in which a page can be wanted.
    fn wishes() -> impl Iterator<Item = Wanted<'static>> {
        let of = |(not_submitted, status, at_gate)| {
            let nexts = ["/checkout/a", "/checkout/b?x=<1>&y='2'"];
            nexts.map(|next| Wanted { next, at_gate, not_submitted, status })
        };
        [
            (false, StatusCode::OK, true),
            (false, StatusCode::OK, false),
            (false, StatusCode::SERVICE_UNAVAILABLE, true),
            (true, StatusCode::TOO_MANY_REQUESTS, true),
        ]
        .into_iter()
        .flat_map(of)
    }

    #[tokio::test]
    async fn whatever_the_phase_a_kept_answer_is_byte_for_byte_the_one_written_for_its_reader() {
        let mut phases = HashSet::new();
        for more in ["", "require_account = true"] {
            let (sale, clock) = sale(more);
            let around = [LOBBY_MS, OPENS_MS, CLOSES_MS].map(|at| [at - 1_250, at - 3, at, at + 7]);
            let late = [LOBBY_MS + 61_203, LOBBY_MS + 61_209, OPENS_MS - 20_000];
            for now_ms in around.into_iter().flatten().chain(late) {
                clock.set(now_ms);
                let moment = sale.room.moment();
                phases.insert(format!("{:?}", moment.phase()));
                for wanted in wishes() {
                    let login = "https://id.test/in?x=1";
                    let kept = html(&sale, &moment, wanted, login, (KEY, 5)).unwrap();
                    let alone = view(&sale, &moment, wanted, login, (KEY, 5));
                    assert_eq!(kept, pages::render(&alone).unwrap());
                    let keys = kept.matches(KEY).count();
                    let is_anybodys = wanted.status.is_server_error();
                    assert_eq!(
                        keys,
                        usize::from(!alone.join_key.is_empty() && kept.contains("/join\""))
                    );
                    assert!(!is_anybodys || keys == 0);
                }
                assert_eq!(problem(&sale, &moment), refusal(&sale, &moment).to_json().to_string());
            }
        }
        let all = [Phase::Upcoming, Phase::Lobby, Phase::Drawing, Phase::Closed];
        assert_eq!(phases, all.map(|phase| format!("{phase:?}")).into());
    }

    #[tokio::test]
    async fn a_page_is_written_once_for_all_who_come_within_a_second_of_the_clock() {
        let (sale, clock) = sale("");
        let is_kept = |sale: &SaleGate| {
            let moment = sale.room.moment();
            let poll_after_ms = moment.poll_after_ms(&Place::none());
            sale.shelf.at(&moment, poll_after_ms, |sheet| sheet.pages[0][0].get().is_some())
        };
        clock.set(OPENS_MS + 10);
        assert!(!is_kept(&sale));
        for wanted in wishes() {
            page(&sale, wanted, "/login");
        }
        for ms in [10, 11, 400] {
            clock.set(OPENS_MS + ms);
            assert!(is_kept(&sale), "{ms}");
        }
        clock.set(OPENS_MS + 501);
        assert!(!is_kept(&sale), "another second");
    }

    #[test]
    fn the_headers_say_whose_answer_it_is_and_when_to_come_back() {
        let response = respond::waiting("{}".to_owned(), 1_001);
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        for (name, value) in [
            ("content-type", "application/problem+json"),
            ("stanchion-answer", "queue"),
            ("cache-control", "private, no-store"),
            ("retry-after", "2"),
        ] {
            assert_eq!(response.headers()[name], value);
        }
    }
}
