//! A draw that anybody can check: by the command, on the page in a real browser, with a receipt.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hex::encode;
use serde_json::{Value, json};
use stanchion::domain::beacon;
use stanchion::domain::draw::{ALGORITHM, Proof, commitment, key};
use stanchion::domain::id::SaleId;
use stanchion::gateway::assets;
use stanchion::lab::client::Client;
use stanchion::lab::rig::{ConfigFile, Layout};

use crate::beacon::round_1000;
use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, chromium, client, executable, quiet_shop};

const SEED: [u8; 32] = [9; 32];

/// A draw of a hundred, with round 1000 of the beacon or with none.
fn honest(round: u64) -> Proof {
    let sale = SaleId::parse("spring-drop").unwrap();
    let signature = (round > 0).then(|| round_1000().verified().unwrap());
    Proof {
        run: 1,
        algorithm: ALGORITHM.into(),
        commitment: encode(commitment(&sale, 1, round, &SEED)),
        round,
        signature: signature.map(encode).unwrap_or_default(),
        beacon: signature.map(|it| encode(beacon::randomness(&it))).unwrap_or_default(),
        n: Some(100),
        opened_at: Some("2027-03-01T12:00:00Z".into()),
        seed: Some(encode(SEED)),
        key: Some(encode(key(&sale, &SEED, 100, signature.as_ref()))),
        sale,
    }
}

/// A signature that drand never made, and everything after it recomputed.
fn forged() -> Proof {
    let mut proof = honest(1000);
    let mut signature = beacon::parse(&proof.signature).unwrap();
    signature[5] ^= 1;
    proof.signature = encode(signature);
    proof.beacon = encode(beacon::randomness(&signature));
    proof.key = Some(encode(key(&proof.sale, &SEED, 100, Some(&signature))));
    proof
}

/// Each kind of tampering, and the step that must fail.
fn tampered() -> Vec<(&'static str, Proof, &'static str)> {
    let (plain, mixed) = (honest(0), honest(1000));
    let other = "ab".repeat(32);
    let committed_to = |round| encode(commitment(&plain.sale, 1, round, &SEED));
    vec![
        ("algorithm", Proof { algorithm: "sorted".into(), ..plain.clone() }, "algorithm"),
        ("seed", Proof { seed: Some(other.clone()), ..plain.clone() }, "commitment"),
        ("commitment", Proof { commitment: other.clone(), ..plain.clone() }, "commitment"),
        ("run", Proof { run: 2, ..plain.clone() }, "commitment"),
        ("sale", Proof { sale: SaleId::parse("autumn").unwrap(), ..plain.clone() }, "commitment"),
        ("round", Proof { round: 999, ..mixed.clone() }, "commitment"),
        ("n", Proof { n: Some(101), ..plain.clone() }, "key"),
        ("key", Proof { key: Some(other.clone()), ..plain.clone() }, "key"),
        ("no round", Proof { round: 0, commitment: committed_to(0), ..mixed.clone() }, "round"),
        ("beacon", Proof { beacon: other, ..mixed.clone() }, "beacon"),
        ("signature cut", Proof { signature: "b4".into(), ..mixed }, "signature"),
        ("key of no beacon", Proof { key: plain.key, ..honest(1000) }, "key"),
    ]
}

fn verify(folder: &Path, proof: &str, more: &[&str]) -> (i32, String) {
    let file = folder.join("proof.json");
    std::fs::write(&file, proof).unwrap();
    let out =
        Command::new(executable()).args(["draw", "verify"]).arg(&file).args(more).output().unwrap();
    let said = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (out.status.code().unwrap(), said)
}

#[test]
fn wr_14_the_command_names_the_step_that_each_kind_of_tampering_fails_at() {
    let folder = tempfile::tempdir().unwrap();
    let run = |proof: &Proof, more: &[&str]| {
        verify(folder.path(), &serde_json::to_string(proof).unwrap(), more)
    };
    for proof in [honest(0), honest(1000)] {
        let place = proof.verify().unwrap().position(17).unwrap();
        let (code, said) = run(&proof, &["--entry", "17"]);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(&format!("entry 17 has position {place}")), "{said}");
        let (code, said) = run(&proof, &["--entry", "100"]);
        assert!(code == 1 && said.contains("entry 100 took no part"), "{said}");
    }
    let mut kinds = tampered();
    kinds.push(("signature", forged(), "signature"));
    kinds.push(("too early", Proof { seed: None, ..honest(0) }, "seed"));
    for (kind, proof, step) in kinds {
        let (code, said) = run(&proof, &[]);
        assert_eq!(code, 1, "{kind}: {said}");
        assert!(said.contains(&format!("{step}: ")), "{kind} must fail at {step}: {said}");
    }
    let (code, said) = verify(folder.path(), "{}", &[]);
    assert!(code == 1 && said.contains("is not a draw's proof"), "{said}");
}

/// A page of the script by itself: every vector, and its judgement of each proof.
fn page_of_vectors(proofs: &BTreeMap<String, Proof>) -> String {
    let vectors = include_str!("../data/shuffle-vectors.json");
    let proofs = serde_json::to_string(proofs).unwrap();
    let script = assets::named("draw.js").unwrap().bytes;
    let script = std::str::from_utf8(&script).unwrap();
    format!(
        "<!doctype html><p id=out>nothing</p><script>{script}</script><script>
        const {{ position, check, sha256 }} = stanchionDraw;
        let right = 0;
        const wrong = [];
        for (const {{ rounds, seed, count, shuffled = [], sample = {{}} }} of ({vectors}).vectors) {{
          const all = shuffled.map((to, entry) => [entry, to]);
          for (const [entry, to] of [...all, ...Object.entries(sample)]) {{
            if (position(Number(entry), count, seed, rounds) === to) right++;
            else wrong.push([count, entry]);
          }}
        }}
        const judged = {{}};
        for (const [name, proof] of Object.entries({proofs})) judged[name] = check(proof);
        const long = sha256('a'.repeat(1000));
        document.getElementById('out').textContent = JSON.stringify({{ right, wrong, judged, long }});
        </script>"
    )
}

#[tokio::test]
async fn wr_14_the_browser_draws_as_the_vectors_say_and_finds_what_the_command_finds() {
    let folder = tempfile::tempdir().unwrap();
    let mut proofs: BTreeMap<_, _> =
        tampered().into_iter().map(|(kind, proof, _)| (kind.to_owned(), proof)).collect();
    proofs.insert("honest".into(), honest(0));
    proofs.insert("mixed".into(), honest(1000));
    proofs.insert("forged".into(), forged());
    let before = Proof { n: None, seed: None, key: None, opened_at: None, ..honest(0) };
    proofs.insert("before".into(), before);
    let file = folder.path().join("vectors.html");
    std::fs::write(&file, page_of_vectors(&proofs)).unwrap();

    let page = chromium::document(folder.path(), &format!("file://{}", file.display())).await;

    let (_, out) = page.split_once("id=\"out\">").unwrap_or_else(|| panic!("{page}"));
    let found: Value = serde_json::from_str(out.split("</p>").next().unwrap()).expect(out);
    assert_eq!(found["wrong"], json!([]));
    assert!(found["right"].as_u64().unwrap() > 1_000, "{found}");
    let hashed = "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3";
    assert_eq!(found["long"], hashed, "SHA-256 of a thousand letters");

    let steps = ["algorithm", "commitment", "round", "signature", "beacon", "key"];
    let judged = |name: &str| steps.map(|step| found["judged"][name][step].as_str().unwrap());
    for (kind, _, step) in tampered() {
        let first = judged(kind).iter().position(|verdict| *verdict == "failed");
        assert_eq!(first.map(|at| steps[at]), Some(step), "{kind}: {:?}", judged(kind));
    }
    let (yes, none, later) = ("passed", "none", "later");
    assert_eq!(judged("honest"), [yes, yes, yes, none, none, yes]);
    assert_eq!(judged("mixed"), [yes, yes, yes, "unknown", yes, yes]);
    assert_eq!(judged("before"), [yes, later, yes, none, none, later]);
    // What a browser cannot see, it says it has not checked.
    assert_eq!(judged("forged"), judged("mixed"));
}

/// Stands between the browser and the gateway, as one shopper; may tell another proof.
struct Between {
    client: Client,
    gateway: String,
    ticket: String,
    proof: Option<String>,
}

async fn relay(State(between): State<Arc<Between>>, request: Request) -> Response {
    let target = request.uri().path();
    if let Some(proof) = between.proof.as_ref().filter(|_| target.ends_with("/draw")) {
        return ([("content-type", "application/json")], proof.clone()).into_response();
    }
    let accept = request.headers().get("accept").map_or("*/*", |accept| accept.to_str().unwrap());
    let headers = [("stanchion-ticket", between.ticket.as_str()), ("accept", accept)];
    let url = format!("{}{target}", between.gateway);
    let answer = between.client.get(&url, &headers).await.unwrap();
    let mut response = answer.body.into_response();
    *response.status_mut() = answer.status;
    for name in ["content-type", "content-security-policy", "x-content-type-options"] {
        if let Some(value) = answer.headers.get(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

async fn between(shopper: &Shopper, client: &Client, proof: Option<String>) -> String {
    let between = Between {
        client: client.clone(),
        gateway: shopper.gateway.clone(),
        ticket: shopper.ticket.clone(),
        proof,
    };
    let router = Router::new().fallback(relay).with_state(Arc::new(between));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_18_a_shopper_checks_the_draw_in_the_browser_by_the_receipt() {
    let ground = Ground::new("drawcheck");
    let plan = ground.sale_opening_in(2_500, 10);
    let mut config = ConfigFile::new(quiet_shop(), std::slice::from_ref(&plan)).unwrap();
    config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
    config.set("limits.poll.rate", "1000/s").unwrap();
    config.set("limits.poll.burst", 1_000).unwrap();
    let installation = ground.install(Layout { gateways: 1, cores: 1 }, config);
    let gateway = installation.gateways[0].url("public").unwrap();
    let client = client();
    let base = format!("/_stanchion/{}", plan.id);
    let crowd = Shopper::crowd(&client, std::slice::from_ref(&gateway), &plan.id, 30).await;
    let shopper = &crowd[17];
    let get = async |path: &str, shopper: &Shopper| {
        client.get(&format!("{gateway}{base}{path}"), &shopper.identity()).await.unwrap()
    };
    let kept = get("/receipt", shopper).await;
    assert_eq!(kept.status, 200, "{}", kept.text());
    assert!(kept.header("content-disposition").contains(&format!("{}-receipt.txt", plan.id)));
    let kept = kept.text();

    let status = loop {
        let status = shopper.status().await;
        if status["phase"] == "open" && status["place"]["position"].is_u64() {
            break status;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let proof: Proof = get("/draw", shopper).await.json().unwrap();
    let entry = status["place"]["entry"].as_u64().unwrap();
    let position = proof.verify().unwrap().position(entry);
    assert_eq!(position, status["place"]["position"].as_u64());
    let number = format!("Your number: {}\n", entry + 1);
    assert!(kept.contains(&number) && kept.contains(&proof.commitment), "{kept}");

    let late = Shopper::join(&client, &gateway, &plan.id, 99).await;
    let none = get("/receipt", &late).await;
    assert!(none.status == 404 && none.text().contains("join before the opening"));
    let by_hand = get("/draw/check", shopper).await.text();
    assert!(by_hand.contains(&format!("draw verify proof.json --entry {entry}")), "{by_hand}");
    assert!(!get("/draw/check", &late).await.text().contains("--entry"));

    let url = between(shopper, &client, None).await;
    let page = chromium::document(&ground.folder, &format!("{url}{base}/draw/check")).await;
    assert!(page.contains("data-verdict=\"passed\""), "{page}");
    for step in ["algorithm", "commitment", "round", "key", "place"] {
        assert!(page.contains(&format!("data-step=\"{step}\" class=\"passed\"")), "{step}: {page}");
    }
    let place = format!("place {} of 30 in the draw", position.unwrap() + 1);
    assert!(page.contains(&place), "{place}: {page}");
    let step = page.split("data-step=\"receipt\" class=\"ask\"").nth(1).expect(&page);
    assert!(kept.contains(", run 1\n") && step.contains("<code>run 1</code>"), "{page}");

    // Another order than the one that the line goes by.
    let seed = [1; 32];
    let other = Proof {
        commitment: encode(commitment(&proof.sale, 1, 0, &seed)),
        key: Some(encode(key(&proof.sale, &seed, 30, None))),
        seed: Some(encode(seed)),
        ..proof
    };
    let is_another = other.verify().unwrap().position(entry) != position;
    let url = between(shopper, &client, Some(serde_json::to_string(&other).unwrap())).await;
    let page = chromium::document(&ground.folder, &format!("{url}{base}/draw/check")).await;
    assert!(page.contains("data-step=\"key\" class=\"passed\""), "it holds by itself: {page}");
    let told = if is_another { "failed" } else { "passed" };
    assert!(page.contains(&format!("data-step=\"place\" class=\"{told}\"")), "{page}");
    assert!(page.contains(&format!("data-verdict=\"{told}\"")), "{page}");
}
