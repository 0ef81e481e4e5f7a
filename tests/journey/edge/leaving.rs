//! Leaving the line, and coming back by a code, as pages and scripts do.

use serde_json::{Value, json};

use super::browser::Browser;
use super::origin::header;
use super::wire::{ask, status};
use super::{Edge, lobby};
use crate::fixture::Ground;

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn call(edge: &Edge, call: &str, headers: &[&str], said: &Value) -> String {
    let text = said.to_string();
    let length = format!("Content-Length: {}", text.len());
    let mut all = headers.to_vec();
    all.extend(["Content-Type: application/json", &length, "", &text]);
    ask(&edge.url(), &format!("POST /_stanchion/{}/{call}", edge.plan.id), &all)
}

#[test]
fn wr_34_who_leaves_is_told_so_and_joins_again_behind() {
    let edge = lobby();
    let mut browser = Browser::new(&edge);
    browser.post("join", "join_key=leaver&next=/checkout/l");
    let page = browser.go("GET /checkout/l", None);
    assert!(page.contains("<summary>Leave the line</summary>"), "it asks first: {page}");

    let left = browser.post("leave", "next=/checkout/l");

    assert_eq!(status(&left), 303, "{left}");
    let room = header(&left, "location").unwrap().to_owned();
    assert!(room.starts_with("/_stanchion/") && room.ends_with("next=%2Fcheckout%2Fl"), "{room}");
    let told = browser.go(&format!("GET {room}"), None);
    assert!(told.contains("You have left the line") && !told.contains("data-join"), "{told}");
    assert!(browser.go("GET /checkout/l", None).contains("You have left the line"));
    let before = browser.value("ticket").unwrap().to_owned();
    let joined = browser.post("join", "join_key=leaver&next=/checkout/l");
    assert_eq!(status(&joined), 303, "{joined}");
    assert_ne!(browser.value("ticket"), Some(before.as_str()), "another place, with any key");
    assert!(browser.go("GET /checkout/l", None).contains("You are in the draw"));
}

#[test]
fn a_script_leaves_and_joins_again_and_a_foreign_page_cannot_make_it() {
    let edge = lobby();
    let joined = call(&edge, "join", &["Idempotency-Key: script-leaves"], &json!({}));
    let first = body(&joined);
    let ticket = format!("Stanchion-Ticket: {}", first["ticket"].as_str().unwrap());

    let foreign = call(&edge, "leave", &[&ticket, "Sec-Fetch-Site: cross-site"], &json!({}));
    assert_eq!(status(&foreign), 403, "{foreign}");
    for _ in 0..2 {
        let left = call(&edge, "leave", &[&ticket], &json!({}));
        assert_eq!(status(&left), 200, "{left}");
        assert_eq!(body(&left)["place"]["state"], "left");
    }
    let status_line = format!("GET /_stanchion/{}/status", edge.plan.id);
    assert_eq!(body(&ask(&edge.url(), &status_line, &[&ticket]))["place"]["state"], "left");
    let again = call(&edge, "join", &["Idempotency-Key: script-leaves"], &json!({}));
    assert_eq!(status(&again), 201, "{again}");
    assert!(body(&again)["place"]["entry"].as_u64() > first["place"]["entry"].as_u64());
    assert_eq!(status(&call(&edge, "leave", &[], &json!({}))), 403, "there is nothing to leave");
    assert_eq!(status(&call(&edge, "leave", &[&ticket], &json!({"x": 1}))), 400);
}

#[test]
fn a_recovery_code_gives_the_place_back_on_another_device() {
    let ground = Ground::new("recover");
    let plan = ground.sale_opening_in(3_600_000, 10);
    let edge = Edge::on(&ground, plan, 1, |config, _| super::no_limits(config));
    edge.await_lobby();
    let joined = body(&call(&edge, "join", &["Idempotency-Key: phone"], &json!({})));
    let code = joined["recovery"].as_str().unwrap();
    assert_eq!(code.len(), 16, "{joined}");
    let mut phone = Browser::new(&edge);
    phone.cookies.push((
        format!("stanchion-ticket-{}", edge.plan.id),
        joined["ticket"].as_str().unwrap().to_owned(),
    ));
    let grouped = phone.room().split("class=\"code\">").nth(1).unwrap()[..19].to_owned();
    assert_eq!(grouped.replace('-', ""), code, "the page shows it");

    let mut laptop = Browser::new(&edge);
    assert!(laptop.room().contains("/recover\""), "the page asks for it");
    let back = laptop.post("recover", &format!("code={}&next=/checkout/r", grouped.to_lowercase()));
    assert_eq!(status(&back), 303, "{back}");
    assert!(laptop.room().contains("You are in the draw"));
    let by_script = call(&edge, "recover", &[], &json!({"code": code}));
    assert_eq!(status(&by_script), 200, "{by_script}");
    assert_eq!(body(&by_script)["place"], joined["place"]);
    let sub = |token: &str| {
        use base64::Engine;
        let payload = token.split('.').nth(1).unwrap();
        let raw = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).unwrap();
        serde_json::from_slice::<Value>(&raw).unwrap()["sub"].clone()
    };
    let found = body(&by_script);
    assert_eq!(sub(found["ticket"].as_str().unwrap()), sub(joined["ticket"].as_str().unwrap()));

    for said in [json!({"code": "0000-0000-0000-0000"}), json!({"code": ""}), json!({})] {
        let wrong = call(&edge, "recover", &[], &said);
        assert_eq!(status(&wrong), 400, "{wrong}");
        assert_eq!(body(&wrong)["code"], "bad-request");
    }
    let sixth = call(&edge, "recover", &[], &json!({"code": code}));
    assert_eq!(status(&sixth), 429, "five tries a minute, right or wrong: {sixth}");
    assert!(body(&sixth)["retry_after_ms"].as_u64().unwrap() > 1_000);
    assert!(header(&sixth, "retry-after").is_some());
}

#[test]
fn the_code_of_a_place_that_is_over_leads_to_no_new_one_and_takes_no_better_one_away() {
    let edge = lobby();
    let given = body(&call(&edge, "join", &["Idempotency-Key: gives-up"], &json!({})));
    let ticket = format!("Stanchion-Ticket: {}", given["ticket"].as_str().unwrap());
    assert_eq!(status(&call(&edge, "leave", &[&ticket], &json!({}))), 200);
    let code = given["recovery"].as_str().unwrap();
    let mut browser = Browser::new(&edge);
    browser.post("join", "join_key=better&next=/checkout/r");
    let better = browser.value("ticket").unwrap().to_owned();

    let page = browser.post("recover", &format!("code={code}&next=/checkout/r"));
    let told = call(&edge, "recover", &[], &json!({"code": code}));

    assert!(status(&page) == 409 && page.contains("place of this code was given up"), "{page}");
    let way_on = format!("href=\"/_stanchion/{}\">To the waiting room", edge.plan.id);
    assert!(page.contains(&way_on) && !page.contains("turn has passed"), "{page}");
    assert!(!page.contains("set-cookie"), "{page}");
    assert_eq!(browser.value("ticket"), Some(better.as_str()));
    assert!(status(&told) == 409 && !told.contains("set-cookie"), "{told}");
    assert_eq!(body(&told)["code"], "missed");
    assert_eq!(body(&told)["state"], "left");
}
