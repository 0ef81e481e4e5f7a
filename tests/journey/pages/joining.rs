//! Which pages join by themselves, with which key, and what they do about a place that is gone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

/// The browser's time stands still while a page waits for its turn among tabs.
const PATIENT: &str = "const request = navigator.locks.request.bind(navigator.locks);
    navigator.locks.request = (...all) => {
        fetch('/slow');
        return request(...all);
    };";
/// Tells each join's key.
const KEYS: &str = "const quick = fetch;
    fetch = (what, init) => {
        const key = init?.headers?.['Idempotency-Key'];
        if (key !== undefined) quick(`/told/keys-${location.pathname.split('/')[1]}?${key}`);
        return quick(what, init);
    };";
/// Keeps the key of a place.
const KEPT: &str =
    "localStorage.setItem(`stanchion key ${location.pathname.split('/')[1]}`, 'kept');";
/// Tells at the end what the notice says and whether the way back by a code is open.
const NOTICE: &str = "setTimeout(() => fetch(`/told/notice-${location.pathname.split('/')[1]}?`
    + encodeURIComponent(document.getElementById('notice').textContent)
    + `&${document.querySelector('details')?.open}`), 9000);";

fn joined(code: u16) -> Response {
    let mut response = status("entered", &json!({ "phase": "lobby" }));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

/// A page with a place or with none.
fn placed(sale: &str, page_state: PageState, before: &str, state: PlaceState) -> Response {
    html(page(sale, page_state, &format!("{PATIENT}{before}"), |view| {
        view.place = Place { state, ..Place::none() };
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_joins_by_himself_on_every_page_that_offers_a_first_place() {
    let pages = [
        ("lobby", PageState::Lobby, "lobby", json!({})),
        ("drawing", PageState::Drawing, "drawing", json!({})),
        ("opened", PageState::Open, "open", json!({})),
        ("paused", PageState::Paused, "open", json!({ "paused": true })),
        ("held", PageState::AllHeld, "open", json!({ "sold_out": true, "stock": { "held": 1 } })),
        ("missed", PageState::Missed, "open", json!({})),
        ("cookies", PageState::Cookies, "open", json!({})),
    ];
    let frames: Vec<_> = pages.iter().map(|(sale, ..)| format!("/{sale}/")).collect();
    let frames: Vec<_> = frames.iter().map(String::as_str).collect();
    let known = pages.clone();
    let stage = Stage::show(&frames, 10_000, move |line, _| {
        let (sale, what) = sale_of(line);
        let Some((_, state, phase, more)) = known.iter().find(|(name, ..)| *name == sale) else {
            return nothing();
        };
        match what {
            "" | "room" => placed(sale, *state, "", PlaceState::None),
            "status" => {
                let mut more = more.clone();
                more["phase"] = json!(phase);
                status(if sale == "missed" { "missed" } else { "none" }, &more)
            }
            "join" => joined(201),
            _ => nothing(),
        }
    })
    .await;
    for (sale, ..) in pages {
        let joins = stage.times(&format!("POST /_stanchion/{sale}/join"));
        let wanted = usize::from(!["missed", "cookies"].contains(&sale));
        assert_eq!(joins, wanted, "{sale}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_29_two_tabs_of_a_fresh_browser_that_change_hands_all_the_time_join_with_one_key() {
    let before = format!("{PATIENT}{KEYS}{RESTLESS}");
    let stage =
        Stage::show(&["/tabs/?1", "/tabs/?2"], 10_000, move |line, _| match sale_of(line) {
            (sale, "") => html(page(sale, PageState::Lobby, &before, |view| {
                view.place = Place::none();
                view.join_key = format!("key-of{}", line.replace(['/', ' ', '?'], "-"));
            })),
            (sale, "room") => placed(sale, PageState::Lobby, "", PlaceState::Entered),
            (_, "status") => {
                status("entered", &json!({ "phase": "lobby", "poll_after_ms": 3_000 }))
            }
            (_, "join") => joined(201),
            _ => nothing(),
        })
        .await;
    let keys = stage.told("keys-tabs");
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    let asked = stage.times("GET /_stanchion/tabs/status");
    assert!(asked <= 10, "asked {asked} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_without_a_key_makes_one_and_tries_again_with_the_same() {
    let stage = Stage::show(&["/keyless/"], 10_000, |line, times| match sale_of(line) {
        (sale, "") => html(page(sale, PageState::Lobby, &format!("{PATIENT}{KEYS}"), |view| {
            view.place = Place::none();
            view.join_key.clear();
        })),
        (sale, "room") => placed(sale, PageState::Lobby, "", PlaceState::Entered),
        (_, "status") => status("none", &json!({ "phase": "lobby" })),
        (_, "join") if times == 0 => refused(503, "1"),
        (_, "join") => joined(201),
        _ => nothing(),
    })
    .await;
    let keys = stage.told("keys-keyless");
    assert!(keys.len() > 1 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert!(keys[0].len() > 20, "nobody else makes it: {keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_takes_every_open_page_along_into_the_new_draw_and_says_so() {
    let again = AtomicBool::new(false);
    let stage = Stage::show(&["/reset/"], 10_000, move |line, times| {
        let state = || {
            let is_in = again.load(Ordering::Relaxed);
            if is_in { PlaceState::Entered } else { PlaceState::None }
        };
        match sale_of(line) {
            (sale, "") => placed(sale, PageState::Lobby, NOTICE, PlaceState::Entered),
            (sale, "room") => placed(sale, PageState::Lobby, "", state()),
            (_, "status") if times == 0 => {
                status("entered", &json!({ "phase": "lobby", "run": 1 }))
            }
            (_, "status") => {
                let named = if state() == PlaceState::None { "none" } else { "entered" };
                status(named, &json!({ "phase": "lobby", "run": 2 }))
            }
            (_, "join") => {
                again.store(true, Ordering::Relaxed);
                joined(201)
            }
            _ => nothing(),
        }
    })
    .await;
    assert_eq!(stage.times("POST /_stanchion/reset/join"), 1);
    let told = stage.told("notice-reset");
    assert!(told[0].contains("begins%20anew") && told[0].ends_with("false"), "{told:?}");
}

/// Is not looked at in its first seconds.
const OPENED_LATER: &str = "fetch('/slow');
    let isHidden = true;
    Object.defineProperty(document, 'hidden', { get: () => isHidden });
    setTimeout(() => {
        isHidden = false;
        document.dispatchEvent(new Event('visibilitychange'));
    }, 3000);";

#[tokio::test(flavor = "multi_thread")]
async fn a_tab_in_the_background_that_first_sees_a_reset_says_so_as_well() {
    let sales = [const { (AtomicUsize::new(0), AtomicBool::new(false)) }; 2];
    let stage = Stage::show(&["/kept/", "/fresh/"], 12_000, move |line, _| {
        let (sale, what) = sale_of(line);
        // The one comes with a place, the other takes it unseen; both are of the draw before.
        let is_kept = sale == "kept";
        let (joins, is_reset) = &sales[usize::from(is_kept)];
        let (joined_before, again) = (joins.load(Ordering::Relaxed), 2 - usize::from(is_kept));
        let is_in = joined_before + usize::from(!is_reset.load(Ordering::Relaxed)) == again;
        let (state, named) =
            if is_in { (PlaceState::Entered, "entered") } else { (PlaceState::None, "none") };
        match what {
            "" | "room" => {
                let before = format!("{PATIENT}{OPENED_LATER}{NOTICE}");
                html(page(sale, PageState::Lobby, &before, |view| {
                    view.place = Place { state, ..Place::none() };
                    view.run = if joined_before == again { 2 } else { 1 };
                }))
            }
            "status" if !is_reset.swap(true, Ordering::Relaxed) => {
                status("none", &json!({ "phase": "lobby", "run": 2 }))
            }
            "status" => status(named, &json!({ "phase": "lobby", "run": 2 })),
            "join" => {
                joins.fetch_add(1, Ordering::Relaxed);
                joined(201)
            }
            _ => nothing(),
        }
    })
    .await;
    for (sale, joins) in [("kept", 1), ("fresh", 2)] {
        assert_eq!(stage.times(&format!("POST /_stanchion/{sale}/join")), joins, "{sale}");
        let told = stage.told(&format!("notice-{sale}"));
        assert!(told[0].contains("begins%20anew"), "{sale}: {told:?}");
    }
}

/// A page that joins and whose cookie is gone after two answers; its next join is answered so.
async fn lose_cookies(sale: &'static str, before: String, code: u16) -> Stage {
    let joins = AtomicUsize::new(0);
    Stage::show(&[&format!("/{sale}/")], 10_000, move |line, times| {
        let joined_before = joins.load(Ordering::Relaxed);
        match sale_of(line) {
            (sale, "") => placed(sale, PageState::Open, &before, PlaceState::None),
            (sale, "room") if joined_before == 0 || joined_before == 1 && times > 0 => {
                placed(sale, PageState::Open, "", PlaceState::None)
            }
            (sale, "room") => placed(sale, PageState::Waiting, "", PlaceState::Waiting),
            (_, "status") => {
                let is_lost = joined_before == 1 && times > 1;
                status(if is_lost { "none" } else { "waiting" }, &json!({}))
            }
            (_, "join") => {
                joined(if joins.fetch_add(1, Ordering::Relaxed) == 0 { 201 } else { code })
            }
            _ => nothing(),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_30_a_page_whose_cookie_is_gone_comes_back_to_its_place_by_its_key() {
    let stage = lose_cookies("lost", format!("{KEYS}{KEPT}{NOTICE}"), 200).await;
    assert_eq!(stage.told("keys-lost"), ["kept", "kept"]);
    assert_eq!(stage.told("notice-lost"), ["&false"], "nothing has happened");
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_30_whoever_comes_as_new_in_place_of_a_place_is_told_and_offered_the_way_back() {
    let stage = lose_cookies("stranger", NOTICE.to_owned(), 201).await;
    let told = stage.told("notice-stranger");
    assert!(told[0].contains("new%20visitor") && told[0].ends_with("true"), "{told:?}");
    assert_eq!(stage.times("POST /_stanchion/stranger/join"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_button_joins_with_the_key_of_the_place_unless_that_was_missed_or_left() {
    let press = "document.addEventListener('submit', (event) => {
            event.preventDefault();
            setTimeout(() => fetch(`/told/pressed${location.pathname}?${event.target.join_key.value}`));
        });
        setTimeout(() => document.querySelector('form').requestSubmit(), 3000);";
    let before = format!("{KEPT}{press}");
    let stage = Stage::show(&["/cookies/", "/missed/", "/left/"], 10_000, move |line, _| {
        let (sale, "" | "room") = sale_of(line) else { return nothing() };
        match sale {
            "missed" => placed(sale, PageState::Missed, &before, PlaceState::Missed),
            "left" => placed(sale, PageState::Left, &before, PlaceState::Left),
            _ => placed(sale, PageState::Cookies, &before, PlaceState::None),
        }
    })
    .await;
    let pressed = |sale| stage.told(&format!("pressed/{sale}/"));
    assert_eq!((pressed("cookies"), pressed("missed")), (vec!["kept".into()], vec!["key".into()]));
    assert_eq!(pressed("left"), ["key"]);
}
