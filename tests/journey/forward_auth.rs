//! The shop is asked who is signed in: not too often, not too long, and never instead of a place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::future::join_all;
use serde_json::{Value, json};
use stanchion::lab::rig::{ConfigFile, Installation, Layout};

use crate::fixture::issuer::{Device, claims};
use crate::fixture::{Ground, client};

const ANSWERS: u32 = 0;
const FAILS: u32 = 1;
const HANGS: u32 = 2;
/// As frameworks are: it knows its host, https, and a session by its browser.
const STRICT: u32 = 3;
/// There is no such page.
const LOST: u32 = 4;

/// A shop that counts the questions and can be told to stop answering. `user=NAME` is signed in.
#[derive(Default)]
struct Whoami {
    questions: AtomicU64,
    mood: AtomicU32,
}

impl Whoami {
    async fn open() -> (Arc<Self>, String) {
        let shop = Arc::<Self>::default();
        let router = Router::new().route("/whoami", get(whoami)).fallback(get(async || "shop"));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = router.with_state(Arc::clone(&shop));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (shop, url)
    }

    fn asked(&self) -> u64 {
        self.questions.load(Ordering::Relaxed)
    }

    fn turns(&self, mood: u32) {
        self.mood.store(mood, Ordering::Relaxed);
    }
}

async fn whoami(State(shop): State<Arc<Whoami>>, headers: HeaderMap) -> Response {
    shop.questions.fetch_add(1, Ordering::Relaxed);
    assert!(!headers.contains_key("authorization"), "that is the shop's own");
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match shop.mood.load(Ordering::Relaxed) {
        STRICT if text("host").is_none() || text("host") != text("x-forwarded-host") => {
            return StatusCode::BAD_REQUEST.into_response();
        }
        STRICT if text("x-forwarded-proto") != Some("https") => {
            return StatusCode::MOVED_PERMANENTLY.into_response();
        }
        STRICT if text("user-agent") != Some("Browser/1") => {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        LOST => return StatusCode::NOT_FOUND.into_response(),
        FAILS => return StatusCode::BAD_GATEWAY.into_response(),
        HANGS => std::future::pending::<()>().await,
        _ => {}
    }
    let cookie = headers.get("cookie").and_then(|line| line.to_str().ok()).unwrap_or_default();
    match cookie.split("; ").find_map(|pair| pair.strip_prefix("user=")) {
        Some(user) => [("x-account-id", user.to_owned())].into_response(),
        None => StatusCode::UNAUTHORIZED.into_response(),
    }
}

struct House {
    installation: Installation,
    shop: Arc<Whoami>,
    sale: String,
}

impl House {
    async fn start(topic: &str, turn: impl FnOnce(&mut ConfigFile)) -> Self {
        let ground = Ground::new(topic);
        let (shop, url) = Whoami::open().await;
        let plan = ground.sale_opening_in(0, 10);
        let mut config = ConfigFile::new(&url, &[plan]).unwrap();
        config.set("account.source", "forward_auth").unwrap();
        config.set("account.forward_auth.url", format!("{url}/whoami")).unwrap();
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        for limit in ["per_account", "per_admission", "poll"] {
            config.set(&format!("limits.{limit}.rate"), "10000/s").unwrap();
            config.set(&format!("limits.{limit}.burst"), 10_000).unwrap();
        }
        turn(&mut config);
        let installation = ground.install(Layout { gateways: 1, cores: 1 }, config);
        Self { installation, shop, sale: ground.sale }
    }

    fn device(&self, session: &str, address: &str) -> Device {
        let url = self.installation.gateways[0].url("public").unwrap();
        let mut device = Device::new(&client(), &url, &self.sale);
        (device.session, device.address) = (session.to_owned(), address.to_owned());
        device
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_cookie_is_one_question_however_many_requests_bring_it() {
    let house = House::start("onequestion", |_| {}).await;
    house.device("", "10.0.0.1").join("warm").await;
    let ann = house.device("user=ann; theme=dark", "10.0.0.2");

    let joins = (0..20).map(|i| {
        let mut ann = ann.clone();
        async move { ann.join(&format!("k-{i}")).await["position"].clone() }
    });
    let places = join_all(joins).await;

    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    assert_eq!(house.shop.asked(), 1);
    // Our own cookies say nothing to the shop.
    let mut with_ours = ann.clone();
    with_ours.session.push_str("; stanchion-ticket-x=1");
    with_ours.join("k").await;
    assert_eq!(house.shop.asked(), 1);
    // Without a cookie nobody is asked.
    house.device("", "10.0.0.3").join("nobody").await;
    assert_eq!(house.shop.asked(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_cookie_on_each_request_is_not_paid_for_by_the_shop() {
    let house = House::start("newcookies", |config| {
        config.set("limits.per_ip.rate", "1/min").unwrap();
        config.set("limits.per_ip.burst", 8).unwrap();
    })
    .await;
    house.device("user=warm", "10.0.0.1").join("warm").await;
    let asked = house.shop.asked();

    let guesses = (0..200).map(|i| {
        let device = house.device(&format!("guess={i}"), "10.0.0.2");
        async move { device.get("/checkout").await }
    });
    let answers = join_all(guesses).await;

    // The burst, and those under way while it was used up.
    assert!(house.shop.asked() - asked <= 8 + 32, "{} questions", house.shop.asked() - asked);
    let refused = answers
        .iter()
        .filter(|answer| answer.json::<Value>().is_ok_and(|body| body["code"] == "rate-limited"));
    assert!(refused.count() >= 150);
    assert!(answers.iter().all(|answer| answer.status == 429));
    // Who is signed in elsewhere is not harmed, nor who has a place, wherever.
    let mut neighbour = house.device("user=bob", "10.0.0.3");
    neighbour.join("bob").await;
    "10.0.0.2".clone_into(&mut neighbour.address);
    "user=bob; new=1".clone_into(&mut neighbour.session);
    assert_eq!(neighbour.try_join("bob").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_signed_in_behind_one_address_are_all_asked_about() {
    let house = House::start("officefloor", |config| {
        config.set("limits.per_ip.rate", "1/min").unwrap();
        config.set("limits.per_ip.burst", 2).unwrap();
    })
    .await;
    house.device("user=warm", "10.0.0.1").join("warm").await;
    let joins = (0..300).map(|i| {
        let mut device = house.device(&format!("user=u{i}"), "10.0.0.2");
        async move { device.join("k").await }
    });
    assert_eq!(join_all(joins).await.len(), 300, "an account's own questions cost nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_sign_in_is_away_new_places_wait_and_known_ones_go_on() {
    let house = House::start("signinaway", |config| {
        config.set("sale.0.require_account", true).unwrap();
        config.set("account.forward_auth.cache", "1s").unwrap();
    })
    .await;
    let mut ann = house.device("user=ann", "10.0.0.1");
    ann.join("ann").await;
    let since = Instant::now();
    let admission = loop {
        let claimed = ann.post("claim", &[], &json!({})).await;
        if claimed.status == 200 {
            break claimed.json::<Value>().unwrap()["admission"].as_str().unwrap().to_owned();
        }
        assert!(since.elapsed() < Duration::from_secs(30), "{}", claimed.text());
        tokio::time::sleep(Duration::from_millis(100)).await;
    };

    for mood in [FAILS, HANGS] {
        house.shop.turns(mood);
        // A cookie that nobody has been asked about yet, for a shopper known by the ticket alone.
        ann.session = format!("user=ann; mood={mood}");
        ann.admission.clear();
        let again = ann.try_join("another key").await;
        assert_eq!(again.status, 200, "a known ticket goes on: {}", again.text());
        let body: Value = again.json().unwrap();
        assert_eq!(claims(body["ticket"].as_str().unwrap())["acct"], "ann");
        ann.admission.clone_from(&admission);
        let passed = ann.get("/checkout").await;
        assert_eq!((passed.status.as_u16(), passed.text().as_str()), (200, "shop"));

        let newcomer = house.device(&format!("user=new{mood}"), "10.0.0.4");
        let refused = newcomer.try_join("new").await;
        assert_eq!(refused.status, 503, "{}", refused.text());
        let body: Value = refused.json().unwrap();
        assert_eq!(body["code"], "account-unavailable");
        assert!(refused.headers.contains_key("retry-after"));
    }
    house.shop.turns(ANSWERS);
    let mut newcomer = house.device("user=later", "10.0.0.4");
    newcomer.join("later").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_of_an_account_counts_for_nobody_else() {
    let house = House::start("whose", |_| {}).await;
    let mut ann = house.device("user=ann", "10.0.0.1");
    ann.join("ann").await;

    let mut signed_out = ann.clone();
    "theme=dark".clone_into(&mut signed_out.session);
    let refused = signed_out.try_join("ann").await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.json::<Value>().unwrap()["code"], "sign-in-required");
    assert!(!refused.headers.contains_key("set-cookie"), "the cookie is kept");

    let mut bob = ann.clone();
    "user=bob".clone_into(&mut bob.session);
    bob.join("bob").await;
    let (hers, his) = (claims(&ann.ticket), claims(&bob.ticket));
    assert_ne!(hers["sub"], his["sub"], "a place of his own");
    assert_eq!((&hers["acct"], &his["acct"]), (&json!("ann"), &json!("bob")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_is_asked_as_the_visitor_asks_and_a_fault_of_the_question_is_no_word_about_him() {
    let house = House::start("asvisitor", |config| {
        config.set("sale.0.require_account", true).unwrap();
    })
    .await;
    house.device("user=warm", "10.0.0.1").join("warm").await;
    let join = async |user: &str, agent: &str| {
        let device = house.device(&format!("user={user}"), "10.0.0.2");
        let headers =
            [("idempotency-key", user), ("user-agent", agent), ("x-forwarded-proto", "https")];
        device.post("join", &headers, &json!({})).await.status.as_u16()
    };
    house.shop.turns(STRICT);
    assert_eq!(join("ann", "Browser/1").await, 201);
    assert_eq!(join("bob", "Other/1").await, 401, "nobody is signed in with that browser");
    house.shop.turns(LOST);
    assert_eq!(join("cyd", "Browser/1").await, 503, "a page that is not there says nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_sign_in_is_away_a_page_for_accounts_alone_says_so_and_asks_again_by_itself() {
    let house = House::start("signinaway", |config| {
        config.set("sale.0.require_account", true).unwrap();
    })
    .await;
    house.device("user=warm", "10.0.0.1").join("warm").await;
    let page = async |user: &str, path: &str| {
        let ann = house.device(&format!("user={user}"), "10.0.0.2");
        let person = [("accept", "text/html"), ("sec-fetch-mode", "navigate")];
        let headers = [ann.identity(), person.to_vec()].concat();
        let answer = ann.client.get(&format!("{}{path}", ann.gateway), &headers).await.unwrap();
        (answer.status.as_u16(), answer.text())
    };
    let own = format!("/_stanchion/{}", house.sale);
    for (round, path) in ["/checkout", &own].into_iter().enumerate() {
        house.shop.turns(FAILS);
        let (status, away) = page(&format!("ann{round}"), path).await;
        assert!(status == 503 && away.contains("Sign-in is not answering"), "{path}: {away}");
        assert!(away.contains("http-equiv=\"refresh\""), "{path}: {away}");
        assert!(!away.contains("Sign in to join"), "{path}: {away}");

        house.shop.turns(ANSWERS);
        let (_, nobody) = page("", path).await;
        assert!(nobody.contains("Sign in to join"), "{path}: {nobody}");
    }
}
