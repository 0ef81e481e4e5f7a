//! What our pages do by themselves in a real browser, whatever they are answered.

mod joining;
mod turning;

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use serde_json::{Value, json};
use stanchion::clock::{Clock, SystemClock};
use stanchion::domain::queue::{Place, PlaceState};
use stanchion::domain::status::rfc3339;
use stanchion::gateway::assets;
use stanchion::gateway::pages::{PageState, PageView, render};

use crate::fixture::stage::Stage;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

fn now_ms() -> u64 {
    SystemClock.now_ms()
}

/// A page at `/{sale}/`, as `changed`; a script of the test's comes first.
fn page(sale: &str, state: PageState, before: &str, changed: impl Fn(&mut PageView)) -> String {
    let mut view = PageView::new(state, now_ms());
    view.sale = Some(sale.to_owned());
    view.next = format!("/{sale}/");
    "key".clone_into(&mut view.join_key);
    view.poll_after_ms = 1_000;
    let waiting = Place { ahead: Some(9), position: Some(9), ..Place::none() };
    view.place = Place { state: PlaceState::Waiting, ..waiting };
    changed(&mut view);
    render(&view).unwrap().replacen("<head>", &format!("<head><script>{before}</script>"), 1)
}

fn html(page: String) -> Response {
    Html(page).into_response()
}

fn refused(status: u16, retry_after: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    (status, [("retry-after", retry_after)], "<h1>busy</h1>").into_response()
}

fn nothing() -> Response {
    StatusCode::NOT_FOUND.into_response()
}

fn status(state: &str, more: &Value) -> Response {
    let mut status = json!({
        "phase": "open", "paused": false, "sold_out": false, "poll_after_ms": 1_000,
        "place": { "state": state, "ahead": 7, "position": 9 },
    });
    for (name, value) in more.as_object().unwrap() {
        status[name] = value.clone();
    }
    (JSON, status.to_string()).into_response()
}

/// Goes away and comes back all the time, on a network that does the same.
const RESTLESS: &str = "setInterval(() => {
    document.dispatchEvent(new Event('visibilitychange'));
    dispatchEvent(new Event('online'));
}, 200);";
/// Is not looked at.
const HIDDEN: &str = "fetch('/slow');
    Object.defineProperty(document, 'hidden', { get: () => true });";
/// Is loaded ahead.
const AHEAD: &str = "fetch('/slow');
    Object.defineProperty(document, 'hidden', { get: () => true });
    Object.defineProperty(document, 'prerendering', { get: () => true });";

#[tokio::test(flavor = "multi_thread")]
async fn a_page_never_asks_in_a_loop_whatever_it_is_told_about_when_to_come_back() {
    let date = "Wed, 21 Oct 2099 07:28:00 GMT";
    let told = [
        ("seconds", "30", 1),
        ("date", date, 1),
        ("far", "99999999999999", 1),
        ("restless", "30", 1),
        ("past", "Wed, 21 Oct 2015 07:28:00 GMT", 6),
        ("word", "soon", 6),
        ("minus", "-5", 6),
        ("none", "", 6),
    ];
    let polls = [
        ("poll-word", json!("soon"), 3),
        ("poll-far", json!(1e13), 1),
        ("poll-none", json!(null), 12),
    ];
    let mut frames: Vec<String> = vec![];
    for (sale, ..) in told {
        frames.extend([format!("/{sale}/"), format!("/shop-{sale}/")]);
    }
    frames.extend(polls.iter().map(|(sale, ..)| format!("/{sale}/")));
    let paths: Vec<&str> = frames.iter().map(String::as_str).collect();
    let answers = polls.clone();

    let stage = Stage::show(&paths, 10_000, move |line, _| {
        let (sale, what) = sale_of(line);
        let restless = if sale.ends_with("restless") { RESTLESS } else { "" };
        let bare = sale.strip_prefix("shop-").unwrap_or(sale);
        match what {
            "" if bare == sale => html(page(sale, PageState::Waiting, restless, |_| ())),
            "" => html(format!(
                "<script>{restless}</script><p data-stanchion-stock=\"{sale}\" data-every=\"2\"></p>
                <script src=\"/_stanchion/stock.js\"></script>"
            )),
            "status" | "stock" => {
                if let Some((_, retry_after, _)) = told.iter().find(|(name, ..)| *name == bare) {
                    return refused(503, retry_after);
                }
                let (_, poll, _) = answers.iter().find(|(name, ..)| *name == sale).unwrap();
                status("waiting", &json!({ "poll_after_ms": poll }))
            }
            _ => nothing(),
        }
    })
    .await;

    let counts = told.iter().map(|(sale, _, most)| (*sale, *most));
    for (sale, most) in counts.chain(polls.iter().map(|(sale, _, most)| (*sale, *most))) {
        let asked = stage.times(&format!("GET /_stanchion/{sale}/status"));
        assert!((1..=most).contains(&asked), "{sale}: asked {asked} times");
    }
    for (sale, _, most) in told {
        let asked = stage.times(&format!("GET /_stanchion/shop-{sale}/stock"));
        assert!((1..=most).contains(&asked), "shop-{sale}: asked {asked} times");
    }
}

/// Which sale's page, or which of its calls, a request asks for.
fn sale_of(line: &str) -> (&str, &str) {
    let path = line.split([' ', '?']).nth(1).unwrap();
    match path.strip_prefix("/_stanchion/") {
        Some(call) => call.split_once('/').unwrap_or((call, "room")),
        None => path[1..].split_once('/').unwrap_or_default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_somebody_else_teaches_nothing_and_the_next_good_one_counts() {
    // Later answers take longer, so the first would stay the best witness of the time.
    let before = "const quick = fetch;
        let slow = 0;
        fetch = async (...all) => {
            await new Promise((done) => setTimeout(done, slow));
            slow = 400;
            return quick(...all);
        };
        setTimeout(() => quick(`/told/portal?${document.querySelector('[data-live=ahead]').textContent}`
            + `-${document.getElementById('notice').hidden}`), 9000);";
    let stage = Stage::show(&["/portal/"], 10_000, move |line, times| match sale_of(line) {
        (sale, "") => html(page(sale, PageState::Waiting, before, |_| ())),
        (_, "status") if times == 0 => html("<h1>Sign in to the network</h1>".to_owned()),
        (_, "status") => status("waiting", &json!({ "server_time": rfc3339(now_ms()) })),
        _ => nothing(),
    })
    .await;
    assert_eq!(stage.told("portal"), ["7-true"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_passes_goes_on_by_itself_once_it_is_looked_at() {
    let frames = ["/problem/", "/lasting/", "/unseen/", "/nobodys/"];
    let stage = Stage::show(&frames, 10_000, |line, _| {
        let (sale, "") = sale_of(line) else { return nothing() };
        let before = if sale == "unseen" { HIDDEN } else { "" };
        let state = if sale == "nobodys" { PageState::ShopUnavailable } else { PageState::Problem };
        html(page(sale, state, before, |view| {
            view.next = format!("/{sale}/on?a=1");
            view.retry_after_ms = (sale != "lasting").then_some(2_400);
            view.sale = view.sale.take().filter(|sale| sale != "nobodys");
        }))
    })
    .await;
    let gone_on = |sale| stage.times(&format!("GET /{sale}/on?a=1"));
    assert_eq!((gone_on("problem"), gone_on("nobodys")), (1, 1));
    assert_eq!((gone_on("lasting"), gone_on("unseen")), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_script_does_not_run_reloads_and_one_whose_script_runs_does_not() {
    let frames = ["/lost/", "/old/", "/fine/"];
    let stage = Stage::show(&frames, 25_000, |line, _| match sale_of(line) {
        (sale, "") => {
            let script = match sale {
                "lost" => "/gone.js",
                "old" => "/old/broken.js",
                _ => assets::url("queue.js").unwrap(),
            };
            let page = page(sale, PageState::Waiting, "", |_| ());
            html(page.replace(assets::url("queue.js").unwrap(), script))
        }
        (_, "broken.js") => ([("content-type", "text/javascript")], "const a = ;").into_response(),
        (_, "status") => status("waiting", &json!({})),
        _ => nothing(),
    })
    .await;
    let loaded = |sale| stage.times(&format!("GET /{sale}/"));
    assert_eq!((loaded("lost"), loaded("old"), loaded("fine")), (2, 2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_called_comes_to_the_very_place_of_the_page_that_was_asked_for() {
    let frames =
        ["/called/?a=1#pay/now", "/missed/?a=1#pay/now", "/_stanchion/room?next=/room/#pay"];
    let landed =
        "<script>fetch(`/told${location.pathname}?${encodeURIComponent(location.hash)}`)</script>";
    let stage = Stage::show(&frames, 10_000, move |line, times| match sale_of(line) {
        ("room", "room") => html(page("room", PageState::Waiting, "", |_| ())),
        (sale, "") if times == 0 && sale != "room" => {
            html(page(sale, PageState::Waiting, "", |view| view.next = format!("/{sale}/?a=1")))
        }
        (_, "") => html(landed.to_owned()),
        ("missed", "status") => status("called", &json!({})),
        (_, "status") => status("admitted", &json!({})),
        (_, "claim") => {
            (StatusCode::CONFLICT, JSON, json!({ "code": "missed" }).to_string()).into_response()
        }
        _ => nothing(),
    })
    .await;
    assert_eq!(stage.told("called/"), ["%23pay%2Fnow"]);
    assert_eq!(stage.told("missed/"), ["%23pay%2Fnow"]);
    assert_eq!(stage.told("room/"), ["%23pay"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tab_in_the_background_joins_and_a_page_loaded_ahead_does_not() {
    let stage = Stage::show(&["/background/", "/ahead/"], 10_000, |line, _| match sale_of(line) {
        (sale, "") => {
            let before = if sale == "ahead" { AHEAD } else { HIDDEN };
            html(page(sale, PageState::Lobby, before, |view| view.place = Place::none()))
        }
        (_, "join") => status("entered", &json!({ "phase": "lobby" })),
        _ => nothing(),
    })
    .await;
    let joined = |sale| stage.times(&format!("POST /_stanchion/{sale}/join"));
    assert_eq!((joined("background"), joined("ahead")), (1, 0));
    assert_eq!(stage.times("GET /_stanchion/background/status"), 0, "nobody looks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_was_bought_or_given_back_is_not_counted_down_to_gone() {
    let frames = ["/confirmed/", "/released/", "/expired/", "/absent/"];
    let stage = Stage::show(&frames, 10_000, |line, times| match sale_of(line) {
        (sale, "") => html(format!(
            "<script>document.addEventListener('stanchion:hold',
                ({{ detail }}) => fetch(`/told/{sale}?${{detail.state}}`));</script>
            <p data-stanchion-hold=\"{sale}\" hidden><b data-left></b></p>
            <script src=\"/_stanchion/hold.js\"></script>"
        )),
        (sale, "reservations") => {
            let word = if times == 0 { "held" } else { sale };
            let hold =
                json!({ "id": "1", "status": word, "expires_at": rfc3339(now_ms() + 4_000) });
            let all: Vec<_> = Some(hold).filter(|_| word != "absent").into_iter().collect();
            (JSON, json!({ "reservations": all }).to_string()).into_response()
        }
        _ => nothing(),
    })
    .await;
    for sale in ["confirmed", "released"] {
        assert_eq!(stage.told(sale), ["soon", "none"], "{sale}");
    }
    for sale in ["expired", "absent"] {
        assert_eq!(stage.told(sale), ["soon", "gone"], "{sale}");
    }
}
