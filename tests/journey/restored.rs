//! A ledger that was dumped here and restored there, by the program's own docs.

use stanchion::domain::control::ControlChange;
use stanchion::domain::refusal::Problem;
use stanchion::domain::reservation::Status;
use stanchion::store::postgres::{Database, EventCursor, Ledger, Options, Which};

use crate::fixture::Ground;
use crate::fixture::core::{Core, Plan, problem};
use crate::room_ground::{RoomGround, join_all, until, until_open};

const EVERY: &str = "SELECT count(*) FROM outbox";

/// All events that are visible from a place on.
async fn kinds(ledger: &Ledger, mut after: EventCursor, wanted: usize) -> Vec<String> {
    let since = std::time::Instant::now();
    let mut seen = vec![];
    while seen.len() < wanted {
        assert!(since.elapsed().as_secs() < 30, "only {seen:?} of {wanted} events are there");
        let page = ledger.events(after).await.unwrap();
        after = page.next;
        seen.extend(page.events.into_iter().map(|event| event.kind));
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_another_server_come_before_those_of_this_one_and_none_is_skipped() {
    let house = Core::start(&Plan::of("adopted", 10)).await;
    let first = house.held("ann", "k1", 1).await;
    house.held("bob", "k2", 1).await;
    house.orders.release(&Which::Id(first.id)).await.unwrap();
    let events = house.sql(EVERY).await;
    // A server that has counted further; its receiver has had all but the last event.
    house.sql("UPDATE outbox SET txid = (txid::text::bigint + 1000000000)::text::xid8").await;
    house
        .sql(
            "INSERT INTO webhook (url, cursor) SELECT 'http://a/', txid::text || '-' || id \
         FROM outbox ORDER BY txid DESC, id DESC OFFSET 1 LIMIT 1",
        )
        .await;
    assert_eq!(house.ledger.events(EventCursor::default()).await.unwrap().events, []);

    for _ in 0..2 {
        Database::open(&house.ground.database_url, Options::default()).await.unwrap();
    }

    house.held("eve", "k3", 1).await;
    let seen = kinds(&house.ledger, EventCursor::default(), 4).await;
    assert_eq!(seen, ["held", "held", "released", "held"]);
    let client = house.database.client().await.unwrap();
    let cursor: String = client.query_one("SELECT cursor FROM webhook", &[]).await.unwrap().get(0);
    let rest = kinds(&house.ledger, EventCursor::parse(&cursor).unwrap(), 2).await;
    assert_eq!(rest, ["released", "held"]);
    assert_eq!(house.sql(EVERY).await, events + 1);
    house.sound().await;
}

/// Runs one of Postgres' programs; what it printed.
fn postgres(program: &str, words: &[&str]) -> Vec<u8> {
    let out = std::process::Command::new(program).args(words).output().unwrap();
    assert!(out.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_restored_by_the_book_and_sells_on_exactly() {
    let plan = Plan { late_payment: "honour", ..Plan::of("drill", 20).cap(5).shards(3) };
    let before = Core::start(&plan).await;
    before.held("ann", "k1", 5).await;
    let paid_later = before.held("bob", "k2", 2).await;
    let dump = before.ground.folder.join("ledger.sql");
    let (url, file) = (before.ground.database_url.clone(), dump.to_str().unwrap());
    postgres("pg_dump", &["--no-owner", "-f", file, &url]);

    // What the backup does not know: a payment, an order, and the freeze for the restore.
    before.orders.confirm(&Which::Id(paid_later.id), "pay-2").await.unwrap();
    before.held("eve", "k3", 4).await;
    before.orders.freeze(&before.sale.skus[0].sku, true).await.unwrap();
    assert_eq!(before.count().await, Some(9));

    let fresh = Ground::new("drilled");
    let Ground { sale, redis_url, .. } = &before.ground;
    let mut ground = fresh;
    (ground.sale, ground.redis_url) = (sale.clone(), redis_url.clone());
    postgres("psql", &["-q", "-v", "ON_ERROR_STOP=1", "-f", file, &ground.database_url]);
    let freeze = "SELECT sku, freeze_sku(sku, true) FROM sku";
    postgres("psql", &["-q", "-v", "ON_ERROR_STOP=1", "-c", freeze, &ground.database_url]);
    let after = Core::on(ground, redis_url, &plan).await;
    assert_eq!(after.ledger.audit().await.unwrap(), []);
    assert_eq!(problem(after.reserve("kim", "k4", 1).await), Problem::Frozen);

    let sku = after.sale.skus[0].sku.clone();
    let thawed = after.orders.freeze(&sku, false).await.unwrap();
    assert!(!thawed.frozen);
    assert_eq!(after.count().await, Some(13), "the gate is the restored ledger's");
    let by_key = |buyer: &str, key: &str| Which::Key(after.whose(buyer, key));
    let confirmed = after.orders.confirm(&by_key("bob", "k2"), "pay-2").await.unwrap();
    assert_eq!((confirmed.id, confirmed.status), (paid_later.id, Status::Confirmed));
    let lost = after.orders.confirm(&by_key("eve", "k3"), "pay-3").await;
    assert_eq!(problem(lost), Problem::UnknownOrder);

    // The key of the lost order is free, and every unit is there once.
    after.held("eve", "k3", 4).await;
    for (buyer, qty) in [("ida", 5), ("kim", 4)] {
        after.held(buyer, "k", qty).await;
    }
    assert_eq!(problem(after.reserve("late", "k", 1).await), Problem::SoldOut);
    assert_eq!(after.orders.metrics().gate_too_high.get(), 0);
    after.sound().await;
}

async fn forget(ground: &RoomGround, tables: &[&str]) {
    let client = ground.ledger.database().client().await.unwrap();
    for table in tables {
        let sql = format!("DELETE FROM {table} WHERE sale = $1");
        client.execute(&sql, &[&ground.sale.as_str()]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_older_than_the_opening_gets_it_back_from_the_room() {
    let ground = RoomGround::new("olderopen", 1_000, 50.0).await;
    let core = ground.keep().await;
    let room = ground.room().await;
    join_all(&room, "a", 5).await;
    until_open(&room).await;
    core.cancel();
    let database = ground.ledger.database();
    let opening = database.opening(&ground.sale, 1).await.unwrap().unwrap();
    let draw = database.draw(&ground.sale, 1).await.unwrap().unwrap();

    forget(&ground, &["opening", "draw"]).await;
    ground.keep().await;

    let since = std::time::Instant::now();
    while database.opening(&ground.sale, 1).await.unwrap().is_none() {
        assert!(since.elapsed().as_secs() < 30, "the opening never came back");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(database.opening(&ground.sale, 1).await.unwrap(), Some(opening));
    let again = database.draw(&ground.sale, 1).await.unwrap().unwrap();
    assert_eq!(again.commitment, draw.commitment);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_older_than_the_commitment_makes_no_other_draw_until_a_reset() {
    let ground = RoomGround::new("olderdraw", 600_000, 50.0).await;
    let core = ground.keep().await;
    let room = ground.room().await;
    core.cancel();
    let published = room.snapshot().proof(&ground.sale).unwrap().commitment;

    forget(&ground, &["draw"]).await;
    ground.keep().await;
    let database = ground.ledger.database();
    assert!(database.draw(&ground.sale, 1).await.unwrap().is_none(), "another seed was made");
    assert_eq!(room.snapshot().proof(&ground.sale).unwrap().commitment, published);

    let reset = ControlChange { next_run: true, ..ControlChange::default() };
    ground.store().publish("test", &reset).await.unwrap();
    until("the next run is loaded", || {
        let (seen, proof) = (room.snapshot(), room.snapshot().proof(&ground.sale));
        seen.is_live(room.now_ms()) && proof.is_some_and(|proof| proof.run == 2)
    })
    .await;
}
