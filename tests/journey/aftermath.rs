//! What comes after a sale: events are delivered, names are forgotten, and a database that could
//! lose either is refused.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use stanchion::domain::reservation::Status;
use stanchion::reservations::webhook::{Signer, Webhook, WebhookMetrics};
use stanchion::store::postgres::{Database, EventCursor, Options, Which};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::fixture::core::{Core, Plan};
use crate::fixture::{Ground, now_ms};

const PATIENCE: Duration = Duration::from_mins(1);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[derive(Default)]
struct Mailbox {
    /// Id and body of what was received, in order.
    received: Vec<(String, Value)>,
    tries: usize,
}

type Shared = Arc<Mutex<Mailbox>>;

/// Refuses every third delivery, and whatever is not signed as it should be.
async fn receive(State(mailbox): State<Shared>, headers: HeaderMap, body: String) -> StatusCode {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let (id, at) = (header("webhook-id"), header("webhook-timestamp"));
    let signed = Signer::new(&SECRET.into()).sign(&id, at.parse().unwrap(), &body);
    let age = now_ms().abs_diff(at.parse::<u64>().unwrap() * 1000);
    if signed != Some(header("webhook-signature")) || age > 60_000 {
        return StatusCode::UNAUTHORIZED;
    }
    let mut mailbox = mailbox.lock().unwrap();
    mailbox.tries += 1;
    if mailbox.tries.is_multiple_of(3) {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    mailbox.received.push((id, serde_json::from_str(&body).unwrap()));
    StatusCode::NO_CONTENT
}

async fn receiver() -> (String, Shared) {
    let mailbox = Shared::default();
    let router = Router::new().route("/events", post(receive)).with_state(Arc::clone(&mailbox));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, mailbox)
}

fn webhook(house: &Core, url: &str) -> Webhook {
    let signer = Signer::new(&SECRET.into());
    Webhook::new(house.ledger.clone(), url, signer, WebhookMetrics::default()).unwrap()
}

async fn until<F: Future<Output = bool>>(what: &str, wanted: impl Fn() -> F) {
    let since = Instant::now();
    while !wanted().await {
        assert!(since.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_delivered_signed_in_order_and_by_one_core_at_a_time() {
    let house = Core::start(&Plan::of("hooks", 50)).await;
    for n in 0..6 {
        let held = house.held("ann", &format!("k{n}"), 1).await;
        house.orders.confirm(&Which::Id(held.id), &format!("pay-{n}")).await.unwrap();
    }
    let (url, mailbox) = receiver().await;
    let stop = CancellationToken::new();
    for _ in 0..2 {
        tokio::spawn(webhook(&house, &url).run(stop.clone()));
    }
    let events = house.ledger.events(EventCursor::default()).await.unwrap().events;
    let wanted: Vec<_> = events.iter().map(|event| format!("evt_{}", event.id)).collect();
    assert_eq!(wanted.len(), 12);

    let ids = || -> Vec<String> {
        let mailbox = mailbox.lock().unwrap();
        mailbox.received.iter().map(|(id, _)| id.clone()).collect()
    };
    until("all events", async || ids().len() >= wanted.len()).await;
    assert_eq!(ids(), wanted, "in order, and none twice while nothing fails after the receipt");
    let last = mailbox.lock().unwrap().received[11].1.clone();
    assert_eq!(
        (&last["type"], &last["data"]["payment_ref"]),
        (&"confirmed".into(), &"pay-5".into())
    );

    // What comes later follows; what was received is not sent again.
    house.held("bob", "late", 1).await;
    until("the late one", async || ids().len() > wanted.len()).await;
    let unique: BTreeSet<_> = ids().into_iter().collect();
    assert_eq!(unique.len(), 13);
    stop.cancel();
}

/// A receiver that thinks for a while before it takes what it gets; what it got, in order.
async fn slow_receiver(thinks: Duration) -> (String, Arc<Mutex<Vec<String>>>) {
    let got = Arc::new(Mutex::new(Vec::new()));
    let mailbox = Arc::clone(&got);
    let take = move |headers: HeaderMap| async move {
        let id = headers["webhook-id"].to_str().unwrap().to_owned();
        mailbox.lock().unwrap().push(id);
        tokio::time::sleep(thinks).await;
        StatusCode::NO_CONTENT
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/slow", listener.local_addr().unwrap());
    let router = Router::new().route("/slow", post(take));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, got)
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_74_confirms_do_not_wait_for_a_slow_receiver_and_no_transaction_does() {
    const THINKS: Duration = Duration::from_secs(5);
    let house = Core::start(&Plan::of("slowhook", 50)).await;
    house.held("ann", "first", 1).await;
    let (url, got) = slow_receiver(THINKS).await;
    let stop = CancellationToken::new();
    let delivering = tokio::spawn(webhook(&house, &url).run(stop.clone()));
    until("a delivery is under way", async || !got.lock().unwrap().is_empty()).await;

    let began = Instant::now();
    for n in 0..20 {
        let held = house.held("ann", &format!("k{n}"), 1).await;
        house.orders.confirm(&Which::Id(held.id), &format!("p{n}")).await.unwrap();
        let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                    AND state LIKE 'idle in transaction%'";
        assert_eq!(house.sql(open).await, 0, "a transaction waits for something outside");
    }
    assert!(began.elapsed() < THINKS, "twenty confirms took {:?}", began.elapsed());
    assert_eq!(got.lock().unwrap().len(), 1, "the first delivery has not been answered yet");
    stop.cancel();
    delivering.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_80_events_are_delivered_at_least_once_and_none_is_skipped() {
    let house = Core::start(&Plan::of("gaps", 50)).await;
    // An older transaction writes its event first and commits it last.
    let mut client = house.database.client().await.unwrap();
    let slow = client.transaction().await.unwrap();
    slow.execute("INSERT INTO outbox (at, type) VALUES (now(), 'slow')", &[]).await.unwrap();
    let held = house.held("ann", "k1", 1).await;
    house.orders.confirm(&Which::Id(held.id), "p1").await.unwrap();
    let (url, got) = slow_receiver(Duration::from_millis(700)).await;
    let stop = CancellationToken::new();
    for _ in 0..2 {
        tokio::spawn(webhook(&house, &url).run(stop.clone()));
    }
    until("the receiver is known", async || house.sql("SELECT count(*) FROM webhook").await == 1)
        .await;
    assert!(got.lock().unwrap().is_empty(), "an event went before one that may still come");
    slow.commit().await.unwrap();

    // The first deliverer's lease runs out while the receiver thinks: the other one goes on.
    until("a delivery is under way", async || !got.lock().unwrap().is_empty()).await;
    house.sql("UPDATE webhook SET leased_until = now() - interval '1 s'").await;
    until("everything is delivered", async || {
        let all = house.sql("SELECT count(*) FROM outbox").await;
        let told = "SELECT count(*) FROM outbox o, webhook w WHERE (o.txid::text, o.id::text) = \
                    (split_part(w.cursor, '-', 1), split_part(w.cursor, '-', 2)) \
                    AND o.id = (SELECT id FROM outbox ORDER BY txid DESC, id DESC LIMIT 1)";
        all == 3 && house.sql(told).await == 1
    })
    .await;
    stop.cancel();

    let events = house.ledger.events(EventCursor::default()).await.unwrap().events;
    let wanted: Vec<_> = events.iter().map(|event| format!("evt_{}", event.id)).collect();
    assert_eq!(
        events.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(),
        ["slow", "held", "confirmed"]
    );
    let mut got = got.lock().unwrap().clone();
    assert!(got.len() >= 3, "{got:?}");
    got.dedup();
    // Said twice at most where the lease was lost, and never out of order.
    let first_seen: Vec<_> = wanted.iter().map(|id| got.iter().position(|g| g == id)).collect();
    assert!(first_seen.iter().all(Option::is_some) && first_seen.is_sorted(), "{got:?} {wanted:?}");
    assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_retention_nothing_names_a_buyer_and_every_total_is_as_before() {
    let house = Core::start(&Plan::of("forget", 50)).await;
    let paid = house.held("ann@shop.example", "ann-key", 2).await;
    house.orders.confirm(&Which::Id(paid.id), "pay-1").await.unwrap();
    let late = house.held("ann@shop.example", "ann-late", 1).await;
    house.lapse().await;
    house.orders.sweep().await.unwrap();
    let refused = house.orders.confirm(&Which::Id(late.id), "pay-2").await;
    assert!(refused.is_err());
    let open = house.held("bob@shop.example", "bob-key", 3).await;
    let place = format!(
        "INSERT INTO place (sale, run, account, number, joined_at_ms) \
         VALUES ('{}', 1, 'ann@shop.example', 'e1', 1)",
        house.sale_id()
    );
    house.sql(&place).await;
    let before = house.stock().await;

    house.database.keep_names(&house.sale_id(), 1_000).await.unwrap();
    assert_eq!(house.database.forgettable().await.unwrap(), [], "the sale is on");
    let mut over = house.sale.control("test");
    (over.version, over.closes_ms) = (2, now_ms() - 2_000);
    house.database.merge_control(&house.sale_id(), &over).await.unwrap();
    assert_eq!(house.database.forgettable().await.unwrap(), [house.sale_id()]);
    let sale = house.sale_id();
    let (one, other) =
        tokio::join!(house.database.forget_names(&sale), house.database.forget_names(&sale));
    assert_eq!(one.unwrap() + other.unwrap(), 2, "each of the decided ones once");
    // A pass that lost a race for a row is taken up by the next.
    house.database.forget_names(&house.sale_id()).await.unwrap();

    for (table, like) in [("reservation", "%ann%"), ("outbox", "%ann%"), ("place", "%")] {
        let sql = format!("SELECT count(*) FROM {table} t WHERE t::text LIKE '{like}'");
        assert_eq!(house.sql(&sql).await, 0, "{table}");
    }
    assert_eq!(house.stock().await, before);
    let owed = "SELECT count(*) FROM outbox WHERE type = 'refund_due'";
    let owed_before = house.sql(owed).await;
    house.orders.confirm(&Which::Id(paid.id), "pay-1").await.unwrap();
    assert!(house.orders.confirm(&Which::Id(late.id), "pay-2").await.is_err());
    assert_eq!(house.sql(owed).await, owed_before, "a notice sent again is no second payment");
    let view = house.ledger.view(open.id).await.unwrap().unwrap();
    assert_eq!(view.reservation.status, Status::Held, "a live hold is still somebody's");
    house.sound().await;
    house.orders.release(&Which::Id(open.id)).await.unwrap();
    assert_eq!(house.database.forget_names(&house.sale_id()).await.unwrap(), 1);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_hosts_need_a_synchronous_standby_or_the_word_of_who_accepts_the_loss() {
    let ground = Ground::new("hosts");
    let (head, rest) = ground.database_url.split_once('@').unwrap();
    let (host, name) = rest.split_once('/').unwrap();
    let several = format!("{head}@{host},{host}/{name}");

    let refused = Database::open(&several, Options::default()).await.err().unwrap();
    assert!(refused.to_string().contains("synchronous_standby_names"), "{refused}");
    assert!(refused.to_string().contains("core.accept_lost_commits"), "{refused}");

    let options = Options { accept_lost_commits: true, ..Options::default() };
    Database::open(&several, options).await.unwrap().ping().await.unwrap();
}
