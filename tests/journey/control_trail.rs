//! Who may steer a sale, and what is written down about it.

use http::Method;
use serde_json::{Value, json};

use crate::control_ground::{Steered, done, refused};
use crate::fixture::Ground;

fn announced(topic: &str) -> (Ground, Steered) {
    let ground = Ground::new(topic);
    let plan = ground.sale_opening_in(600_000, 50);
    let steered = Steered::start(&ground, &plan);
    (ground, steered)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_operators_key_steers_and_a_bad_command_names_field_and_cure() {
    let (_ground, steered) = announced("opskey");
    let ops = steered.house.gateways[0].url("ops").unwrap();
    let core_key = format!("Bearer {}", steered.house.secrets.core_key);
    let pause = format!("/v1/sales/{}/pause", steered.sale);
    for path in ["/v1/sales", "/v1/audit-trail"] {
        let answer = steered.call(&ops, Method::GET, path, &[], Value::Null).await;
        assert_eq!(refused(&answer, 401)["status"], 401);
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    for headers in [&[][..], &[("authorization", core_key.as_str())]] {
        let answer = steered.call(&ops, Method::POST, &pause, headers, Value::Null).await;
        let detail = refused(&answer, 401)["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with("Authorization:"), "{detail}");
    }

    let bad = [
        ("rate", json!({"rate": "fast"}), "rate"),
        ("rate", json!({"rate": "5/s", "burst": 0}), "burst"),
        ("rate", json!({"rate": "5/s", "brust": 1}), "brust"),
        ("rate", json!([]), "body"),
        ("times", json!({"open": "2027-03-01T12:00:00Z"}), "open"),
    ];
    for (what, body, field) in bad {
        assert_eq!(refused(&steered.put(what, body).await, 400)["field"], field);
    }
    refused(&steered.try_act("bypass", json!({"for": "25h"})).await, 400);
    refused(&steered.try_act("pause", json!({"for": "1h"})).await, 400);
    refused(&steered.try_act("explode", json!({})).await, 404);
    let nobody = "/v1/sales/nobody/pause";
    let node = &steered.house.gateways[0];
    let answer = steered.ops(node, Method::POST, nobody, Value::Null).await;
    assert_eq!(refused(&answer, 404)["code"], "unknown-sale");
    assert_eq!(steered.seen_by(node).await["control"]["version"], 1, "nothing changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_is_in_the_audit_trail_with_who_when_and_what_on_every_node() {
    let (_ground, steered) = announced("trail");
    steered.act("pause", json!({})).await;
    steered.act("resume", json!({})).await;
    done(&steered.put("rate", json!({"rate": "7/s"})).await);
    steered.act("stop", json!({})).await;
    steered.act("bypass", json!({"for": "10m"})).await;
    let bearer = format!("Bearer {}", steered.house.secrets.ops_key);
    let core = steered.house.cores[0].url("core").unwrap();
    let restock = json!({"delta": 5, "op_key": "more"});
    let headers = [("authorization", bearer.as_str()), ("stanchion-author", "ann")];
    for _ in 0..2 {
        let path = format!("/v1/stock/{}/restock", steered.sku);
        done(&steered.call(&core, Method::POST, &path, &headers, restock.clone()).await);
    }

    for node in steered.house.gateways.iter().chain(&steered.house.cores) {
        let trail = steered.trail(node, 7).await;
        let mut actions: Vec<_> =
            trail.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
        actions.sort_unstable();
        let expected = ["bypass", "create", "pause", "rate", "restock", "resume", "stop"];
        assert_eq!(actions, expected, "{trail:#?}");
        let of = |action: &str| trail.iter().find(|entry| entry["action"] == action).unwrap();
        assert_eq!(of("rate")["changes"]["rate"], json!({"from": "100/s", "to": "7/s"}));
        assert_eq!(of("stop")["changes"]["epoch"], json!({"from": 1, "to": 2}));
        assert_eq!(of("stop")["sale"], json!(steered.sale));
        assert!(of("pause")["author"].as_str().unwrap().starts_with("ops@"));
        assert_eq!(of("restock")["author"], "ann");
        assert_eq!(of("restock")["changes"]["delta"], 5);
        let ids: Vec<_> = trail.iter().map(|entry| entry["id"].as_i64().unwrap()).collect();
        assert!(ids.is_sorted());
        let at: jiff::Timestamp = of("stop")["at"].as_str().unwrap().parse().unwrap();
        assert!(at.as_millisecond().unsigned_abs().abs_diff(crate::fixture::now_ms()) < 60_000);

        let after = format!("/v1/audit-trail?after={}", ids[5]);
        let rest = done(&steered.ops(node, Method::GET, &after, Value::Null).await);
        assert_eq!(rest["entries"][0]["id"], json!(ids[6]));
        assert_eq!(rest["next"], Value::Null);
        let bad = steered.ops(node, Method::GET, "/v1/audit-trail?before=1", Value::Null).await;
        refused(&bad, 400);
    }
}
