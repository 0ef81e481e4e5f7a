//! Past the line: staff passes, counted and revocable, and a bypass for everybody.

use std::io::Write;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use stanchion::domain::id::SaleId;
use stanchion::domain::pass::Pass;
use stanchion::lab::rig::{Answer, request};
use stanchion::room::keys::Keys;
use uuid::Uuid;

use super::origin::header;
use super::wire::{ask, connect, status};
use super::{Edge, no_limits};
use crate::fixture::{Ground, client, now_ms};

const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway, a core and the recording shop; the lobby is open, the draw is far.
fn edge(topic: &str) -> Edge {
    let ground = Ground::new(topic);
    let plan = ground.sale_opening_in(600_000, 10);
    let edge = Edge::on(&ground, plan, 1, |config, _| no_limits(config));
    edge.await_lobby();
    edge
}

impl Edge {
    /// A call to the core with the operators' key.
    async fn core(&self, method: Method, path: &str, body: Value) -> Answer {
        let url = format!("{}{path}", self.installation.cores[0].url("core").unwrap());
        let bearer = format!("Bearer {}", self.installation.secrets.ops_key);
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        client()
            .send(request(method, &url, &headers, body.to_string().into()).unwrap())
            .await
            .unwrap()
    }

    /// A pass, and its number at the core.
    async fn pass(&self, uses: u32, lasts_ms: u64) -> (String, Uuid) {
        let expires_at_ms = now_ms() + lasts_ms;
        let body = json!({"sale": self.plan.id, "uses": uses, "expires_at_ms": expires_at_ms});
        let made = self.core(Method::POST, "/v1/passes", body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let id = Uuid::parse_str(made.json::<Value>().unwrap()["id"].as_str().unwrap()).unwrap();
        (self.signed(&self.plan.id, id, expires_at_ms), id)
    }

    fn signed(&self, sale: &str, id: Uuid, expires_at_ms: u64) -> String {
        let keys = Keys::load(&self.installation.folder().join("keys")).unwrap();
        let sale = SaleId::parse(sale).unwrap();
        keys.mint_pass(&Pass { sale, id, exp: expires_at_ms / 1000 })
    }

    async fn try_pass(&self, pass: &str, key: &str) -> Answer {
        let url = format!("{}/_stanchion/{}/claim", self.url(), self.plan.id);
        let headers = [("idempotency-key", key)];
        client().post_json(&url, &headers, &json!({ "pass": pass })).await.unwrap()
    }

    /// Redeems; comes back as long as nobody can be let in.
    async fn redeem(&self, pass: &str, key: &str) -> Answer {
        let since = Instant::now();
        loop {
            let answer = self.try_pass(pass, key).await;
            if answer.status != 503 {
                return answer;
            }
            assert!(since.elapsed() < PATIENCE, "{}", answer.text());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Redeems, and is refused for this reason.
    async fn refused(&self, pass: &str, reason: &str) {
        let answer = self.redeem(pass, "refused").await;
        let body: Value = answer.json().unwrap();
        assert_eq!((answer.status.as_u16(), &body["reason"]), (403, &json!(reason)), "{body}");
        assert!(body["detail"].as_str().unwrap().contains("pass"), "{body}");
    }

    async fn flush_redis(&self) {
        let redis = redis::Client::open(self.installation.redis_url.as_str()).unwrap();
        let mut connection = redis.get_multiplexed_async_connection().await.unwrap();
        let () = redis::cmd("FLUSHDB").query_async(&mut connection).await.unwrap();
    }

    /// Changes the control record at the core; the gateway follows within a second.
    pub(super) async fn control(&self, fields: &[(&str, Value)]) {
        let path = format!("/v1/control/{}", self.plan.id);
        let mut record: Value = self.core(Method::GET, &path, json!({})).await.json().unwrap();
        for (name, value) in fields {
            record[name] = value.clone();
        }
        record["version"] = json!(record["version"].as_u64().unwrap() + 1);
        let put = self.core(Method::PUT, &path, record).await;
        assert_eq!(put.status, 200, "{}", put.text());
    }
}

pub(super) fn claims(admission: &str) -> Value {
    use base64::Engine;
    let payload = admission.split('.').nth(1).unwrap();
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn wr_78_of_500_uses_at_once_of_a_pass_for_300_exactly_300_are_let_in() {
    let edge = edge("passes");
    let (pass, id) = edge.pass(300, 3_600_000).await;
    let keys: Vec<String> = (0..500).map(|n| format!("use-{n}")).collect();

    let answers = join_all(keys.iter().map(|key| edge.redeem(&pass, key))).await;

    let mut subjects = std::collections::HashSet::new();
    for answer in answers {
        let body: Value = answer.json().unwrap();
        if answer.status == 200 {
            let admission = claims(body["admission"].as_str().unwrap());
            assert_eq!(admission["via"], "pass");
            assert!(admission.get("pos").is_none() && admission.get("slot").is_none());
            subjects.insert(admission["sub"].as_str().unwrap().to_owned());
        } else {
            assert_eq!(body["reason"], "used-up", "{body}");
        }
    }
    assert_eq!(subjects.len(), 300);
    let list: Value = edge.core(Method::GET, "/v1/passes", json!({})).await.json().unwrap();
    assert_eq!(list["passes"][0]["id"], id.to_string());
    assert_eq!(list["passes"][0]["used"], 300);

    // Counted among the open admissions, too.
    let gateway = &edge.installation.gateways[0];
    let metrics = format!("{}/metrics", gateway.url("ops").unwrap());
    let counted = format!("stanchion_room_open_admissions{{sale=\"{}\"}} 300", edge.plan.id);
    let since = Instant::now();
    while !client().get(&metrics, &[]).await.unwrap().text().contains(&counted) {
        assert!(since.elapsed() < PATIENCE, "not counted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn wr_78_expired_revoked_forged_foreign_and_used_up_passes_are_refused_by_name() {
    let edge = edge("badpasses");
    let (pass, id) = edge.pass(1, 3_600_000).await;
    edge.refused(&format!("{pass}x"), "unknown").await;
    edge.refused("garbage", "unknown").await;
    edge.refused(&edge.signed("other", id, now_ms() + 9_000), "unknown").await;
    edge.refused(&edge.signed(&edge.plan.id, Uuid::nil(), now_ms() + 9_000), "unknown").await;
    edge.refused(&edge.signed(&edge.plan.id, id, now_ms() - 5_000), "expired").await;

    // The same key is the same use; after that a copy is worth nothing.
    let first = edge.redeem(&pass, "mine").await;
    let again = edge.redeem(&pass, "mine").await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (200, 200), "{}", again.text());
    let subject = |answer: &Answer| {
        claims(answer.json::<Value>().unwrap()["admission"].as_str().unwrap())["sub"].clone()
    };
    assert_eq!(subject(&first), subject(&again));
    edge.refused(&pass, "used-up").await;

    // No loss of Redis gives a use back.
    edge.flush_redis().await;
    edge.refused(&pass, "used-up").await;

    let (revoked, id) = edge.pass(5, 3_600_000).await;
    assert_eq!(edge.redeem(&revoked, "before").await.status, 200);
    let gone = edge.core(Method::DELETE, &format!("/v1/passes/{id}"), json!({})).await;
    assert_eq!(gone.status, 200, "{}", gone.text());
    edge.refused(&revoked, "revoked").await;
}

#[tokio::test]
async fn staff_type_a_pass_into_a_page_and_it_is_never_in_a_url() {
    let edge = edge("passpage");
    let (pass, _) = edge.pass(1, 3_600_000).await;
    let page = ask(&edge.url(), "GET /_stanchion/pass?next=/checkout/staff", &[]);
    assert!(status(&page) == 200 && page.contains("method=\"post\""), "{page}");
    assert!(page.contains("name=\"next\" value=\"/checkout/staff\""), "{page}");

    let form = format!("pass={pass}&next=/checkout/staff&key=k");
    let length = format!("Content-Length: {}", form.len());
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let sent = ask(&edge.url(), "POST /_stanchion/pass", &[kind, &length, "", &form]);

    assert_eq!(status(&sent), 303, "{sent}");
    assert_eq!(header(&sent, "location"), Some("/checkout/staff"));
    let cookie = header(&sent, "set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let arrived = ask(&edge.url(), "GET /checkout/staff", &[&format!("Cookie: {cookie}")]);
    assert!(status(&arrived) == 200 && arrived.ends_with("ok"), "{arrived}");
    let head = edge.shop.heads("/checkout/staff").remove(0);
    assert!(header(&head, "stanchion-visitor").is_some(), "{head}");
    assert_eq!(header(&head, "stanchion-position"), None);

    // Who is in already uses nothing up.
    let again = [kind, &length, &format!("Cookie: {cookie}"), "", &form.replace("key=k", "key=l")];
    assert_eq!(status(&ask(&edge.url(), "POST /_stanchion/pass", &again)), 303);
    let foreign = [kind, &length, "Sec-Fetch-Site: cross-site", "", &form];
    assert_eq!(status(&ask(&edge.url(), "POST /_stanchion/pass", &foreign)), 403);
}

#[tokio::test]
async fn an_admission_by_pass_buys_at_the_core_and_a_stop_voids_it() {
    let edge = edge("passbuys");
    let (pass, _) = edge.pass(9, 3_600_000).await;
    let url = format!("{}/_stanchion/{}", edge.url(), edge.plan.id);
    let admission = edge.redeem(&pass, "a").await.json::<Value>().unwrap()["admission"].clone();
    let order = async |key: &str| {
        let headers =
            [("stanchion-admission", admission.as_str().unwrap()), ("idempotency-key", key)];
        let body = json!({"lines": [{"sku": edge.plan.skus[0].0, "qty": 1}]});
        client().post_json(&format!("{url}/reservations"), &headers, &body).await.unwrap()
    };
    assert_eq!(order("one").await.status, 201);

    edge.control(&[("epoch", json!(2)), ("paused", json!(true))]).await;

    let since = Instant::now();
    while order("one").await.status != 403 {
        assert!(since.elapsed() < PATIENCE, "still admitted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let since = Instant::now();
    let answer = loop {
        let answer = edge.try_pass(&pass, "b").await;
        if answer.status == 503 {
            break answer;
        }
        assert!(since.elapsed() < PATIENCE, "still let in");
    };
    assert_eq!(answer.json::<Value>().unwrap()["code"], "paused");
}

#[tokio::test]
async fn a_bypass_lets_everybody_to_the_shop_until_it_ends_and_never_past_the_stock() {
    let edge = edge("bypass");
    let person = ["Accept: text/html", "Sec-Fetch-Mode: navigate"];
    assert_ne!(status(&ask(&edge.url(), "GET /checkout/by", &person)), 303);
    let script = ask(&edge.url(), "GET /checkout/script", &["Sec-Fetch-Mode: cors"]);
    assert_eq!(status(&script), 429);

    edge.control(&[("bypass_until_ms", json!(now_ms() + 600_000))]).await;

    let since = Instant::now();
    let moved = loop {
        let answer = ask(&edge.url(), "GET /checkout/by", &person);
        if status(&answer) == 303 {
            break answer;
        }
        assert!(since.elapsed() < PATIENCE, "{answer}");
    };
    assert_eq!(header(&moved, "location"), Some("/checkout/by"));
    let cookie = header(&moved, "set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(claims(cookie.split_once('=').unwrap().1)["via"], "bypass");
    let arrived = ask(&edge.url(), "GET /checkout/by", &[&format!("Cookie: {cookie}")]);
    assert!(arrived.ends_with("ok"), "{arrived}");
    let script = ask(&edge.url(), "GET /checkout/script", &["Sec-Fetch-Mode: cors"]);
    assert!(script.ends_with("ok") && script.contains("private, no-store"), "{script}");
    let posted = ask(&edge.url(), "POST /checkout/post", &["Content-Length: 0"]);
    assert!(posted.ends_with("ok"), "{posted}");

    // 15 strangers claim and want two each of 10 units: five get them.
    let url = format!("{}/_stanchion/{}", edge.url(), edge.plan.id);
    let orders = join_all((0..15).map(async |_| {
        let claimed = client().post_json(&format!("{url}/claim"), &[], &json!({})).await.unwrap();
        let admission = claimed.json::<Value>().unwrap()["admission"].clone();
        let headers =
            [("stanchion-admission", admission.as_str().unwrap()), ("idempotency-key", "k")];
        let body = json!({"lines": [{"sku": edge.plan.skus[0].0, "qty": 2}]});
        client().post_json(&format!("{url}/reservations"), &headers, &body).await.unwrap().status
    }))
    .await;
    assert_eq!(orders.iter().filter(|status| **status == 201).count(), 5, "{orders:?}");

    edge.control(&[("bypass_until_ms", json!(0))]).await;
    let since = Instant::now();
    while status(&ask(&edge.url(), "GET /checkout/by", &person)) == 303 {
        assert!(since.elapsed() < PATIENCE, "the bypass did not end");
    }
    let stays = ask(&edge.url(), "GET /checkout/by", &[&format!("Cookie: {cookie}")]);
    assert!(stays.ends_with("ok"), "who was let in stays in: {stays}");
}

#[tokio::test]
async fn strangers_who_are_let_past_the_line_share_the_places_of_their_address() {
    let ground = Ground::new("bypassed");
    let plan = ground.sale_opening_in(600_000, 10);
    let edge = Edge::on(&ground, plan, 1, |config, _| {
        no_limits(config);
        config.set("limits.max_requests_per_ip", 2).unwrap();
    });
    edge.await_lobby();
    edge.control(&[("bypass_until_ms", json!(now_ms() + 600_000))]).await;
    let script = || ask(&edge.url(), "GET /checkout/script", &["Sec-Fetch-Mode: cors"]);
    let since = Instant::now();
    while !script().ends_with("ok") {
        assert!(since.elapsed() < PATIENCE, "no bypass");
    }

    let mut uploading = vec![];
    let refused = loop {
        let mut stream = connect(&edge.url());
        let head = "POST /checkout/up HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        uploading.push(stream);
        let answer = script();
        if status(&answer) == 429 {
            break answer;
        }
        assert!(since.elapsed() < PATIENCE, "there is room for any number");
    };
    assert!(refused.contains("of your network are under way"), "{refused}");

    drop(uploading);
    while !script().ends_with("ok") {
        assert!(since.elapsed() < PATIENCE, "what has ended has made no room");
    }
}
