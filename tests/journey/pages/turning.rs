//! How a page that is open follows the sale: countdowns, numbers, other pages.

use std::sync::Mutex;

use super::*;

/// Tells at the end what an expression says then.
fn telling(name: &str, what: &str) -> String {
    format!("setTimeout(() => fetch(`/told/{name}?${{encodeURIComponent({what})}}`), 9000);")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_counts_to_the_new_opening_when_it_is_put_off() {
    let opens_ms = now_ms() + 60_000;
    let later_ms = opens_ms + 540_000;
    let stage = Stage::show(&["/lobby/", "/upcoming/"], 20_000, move |line, _| {
        let (sale, what) = sale_of(line);
        let (state, place) = match sale {
            "lobby" => (PageState::Lobby, PlaceState::Entered),
            _ => (PageState::Upcoming, PlaceState::None),
        };
        let before = telling(sale, "document.querySelector('time').dateTime");
        let page = |opens_ms| {
            html(page(sale, state, &before, |view| {
                view.place = Place { state: place, ..Place::none() };
                view.opens_ms = Some(opens_ms);
            }))
        };
        match what {
            "" => page(opens_ms),
            "room" => page(later_ms),
            "status" => {
                let named = if sale == "lobby" { "entered" } else { "none" };
                status(named, &json!({ "phase": sale, "opens_at": rfc3339(later_ms) }))
            }
            _ => nothing(),
        }
    })
    .await;
    for sale in ["lobby", "upcoming"] {
        let told = stage.told(sale).pop().unwrap().replace("%3A", ":");
        let told: jiff::Timestamp = told.parse().unwrap();
        assert_eq!(told.as_millisecond(), i64::try_from(later_ms).unwrap(), "{sale}");
        let asked = stage.times(&format!("GET /_stanchion/{sale}?next=%2F{sale}%2F"));
        assert_eq!(asked, 1, "{sale}: and then no more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_05_whoever_is_called_sees_the_countdown_to_the_slot_as_it_is_booked_and_moves() {
    let booked_ms = now_ms() + 40_000;
    let before = telling("slot", "document.querySelector('[data-count]').dataset.count");
    let stage = Stage::show(&["/slot/"], 20_000, move |line, times| match sale_of(line) {
        (sale, "") => html(page(sale, PageState::Called, &before, |_| ())),
        (sale, "room") => html(page(sale, PageState::Booked, "", |view| {
            let (_, slot) = line.split_once("&slot=").unwrap();
            view.admitted_ms = Some(slot.parse().unwrap());
        })),
        (_, "status") => status("called", &json!({})),
        (_, "claim") => {
            let slot_ms = booked_ms + if times > 0 { 25_000 } else { 0 };
            let told =
                json!({ "admitted_at": rfc3339(slot_ms), "retry_after_ms": slot_ms - now_ms() });
            (StatusCode::ACCEPTED, JSON, told.to_string()).into_response()
        }
        _ => nothing(),
    })
    .await;
    assert_eq!(stage.told("slot"), [(booked_ms + 25_000).to_string()]);
    let asked = stage.times(&format!("GET /_stanchion/slot?next=%2Fslot%2F&slot={booked_ms}"));
    assert_eq!(asked, 1, "a slot that moves is the same page");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_are_told_of_a_change_at_once_do_not_all_ask_for_the_next_page_at_once() {
    let before = "const quick = fetch;
        let told;
        fetch = async (...all) => {
            if (String(all[0]).includes('?next=')) quick(`/told/spread?${Date.now() - told}`);
            const answer = await quick(...all);
            told = Date.now();
            return answer;
        };";
    let frames: Vec<_> = (0..12).map(|number| format!("/spread/?{number}")).collect();
    let frames: Vec<_> = frames.iter().map(String::as_str).collect();
    let stage = Stage::show(&frames, 10_000, move |line, _| match sale_of(line) {
        (sale, "") => html(page(sale, PageState::Waiting, before, |_| ())),
        (sale, "room") => html(page(sale, PageState::Paused, "", |_| ())),
        (_, "status") => status("waiting", &json!({ "paused": true })),
        _ => nothing(),
    })
    .await;
    let waits: Vec<u32> = stage.told("spread").iter().map(|ms| ms.parse().unwrap()).collect();
    let (first, last) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert_eq!(waits.len(), 12);
    assert!(last - first > 200 && *last < 1_500, "{waits:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_while_a_page_is_fetched_is_acted_upon_then() {
    let stage = Stage::show(&["/stream/"], 10_000, |line, _| match sale_of(line) {
        (sale, "") => html(page(sale, PageState::Waiting, "", |_| ())),
        (sale, "room") => html(page(sale, PageState::Paused, "", |_| ())),
        (_, "events") => {
            let told = |more: &str| {
                format!(
                    "data: {{\"phase\":\"open\",\"poll_after_ms\":30000{more},\"sold_out\":false}}\n\n"
                )
            };
            let frames = told(",\"paused\":true,\"place\":{\"state\":\"waiting\"}")
                + &told(",\"paused\":false,\"place\":{\"state\":\"called\"}")
                + "retry: 60000\n\n";
            ([("content-type", "text/event-stream")], frames).into_response()
        }
        (_, "claim") => (StatusCode::ACCEPTED, JSON, "{}").into_response(),
        _ => nothing(),
    })
    .await;
    assert_eq!(stage.times("POST /_stanchion/stream/claim"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_ahead_never_rises_while_the_place_is_the_same() {
    let told = "document.querySelector('[data-live=ahead]').textContent";
    let stage =
        Stage::show(&["/behind/", "/other/"], 20_000, move |line, times| match sale_of(line) {
            (sale, "") => html(page(sale, PageState::Waiting, &telling(sale, told), |_| ())),
            (sale, "status") => {
                let ahead = [7, 5, 8][times.min(2)];
                let position = if sale == "other" && times > 1 { 20 } else { 9 };
                let place = json!({ "state": "waiting", "ahead": ahead, "position": position });
                status("waiting", &json!({ "run": 1, "place": place }))
            }
            _ => nothing(),
        })
        .await;
    assert_eq!(stage.told("behind"), ["5"], "one node lags");
    assert_eq!(stage.told("other"), ["8"], "another number is another line");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_ends_the_countdown_to_a_slot() {
    let asked = Mutex::new(0);
    let slot_ms = now_ms() + 60_000;
    let stage = Stage::show(&["/halted/"], 20_000, move |line, _| match sale_of(line) {
        (sale, "") => html(page(
            sale,
            PageState::Booked,
            &telling("halted", "document.getElementById('room').dataset.state"),
            |view| view.admitted_ms = Some(slot_ms),
        )),
        (sale, "room") => {
            let is_paused = *asked.lock().unwrap() > 2;
            let state = if is_paused { PageState::Paused } else { PageState::Booked };
            html(page(sale, state, "", |view| view.admitted_ms = Some(slot_ms)))
        }
        (_, "status") => {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            status("called", &json!({ "paused": *asked > 2 }))
        }
        (_, "claim") => {
            let told = json!({ "admitted_at": rfc3339(slot_ms), "retry_after_ms": 60_000 });
            (StatusCode::ACCEPTED, JSON, told.to_string()).into_response()
        }
        _ => nothing(),
    })
    .await;
    assert_eq!(stage.told("halted"), ["paused"]);
}
