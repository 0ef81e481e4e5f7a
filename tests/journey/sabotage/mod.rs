//! Each promise that the crowd's report checks is broken on purpose: the report must say so, and
//! say nothing else.

mod places;
mod scene;
mod steering;

use stanchion::lab::report::Report;

use scene::Scene;

/// Exactly these promises are broken, and the report is not good.
#[track_caller]
fn broken(report: &Report, names: &[&str]) {
    let found: Vec<_> = report
        .promises
        .iter()
        .filter(|(_, verdict)| verdict.holds == Some(false))
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(found, names, "{:#?}", report.promises);
    assert_eq!(report.is_good(), names.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_sale_keeps_every_promise_until_a_row_is_added_by_sql() {
    let scene = Scene::set("rowadded", 15, |_, _| ()).await;
    let seen = scene.crowd().await;
    let report = scene.report(&seen).await;
    broken(&report, &[]);
    assert_eq!((report.confirmed, report.oversold), (15, Some(0)));

    scene
        .sql(&format!(
            "WITH extra AS (
                INSERT INTO reservation
                    (id, sale, buyer, order_key, body_hash, status, expires_at, created_at)
                VALUES (gen_random_uuid(), '{}', 'nobody', 'k', '', 'confirmed', now(), now())
                RETURNING id)
             INSERT INTO reservation_line (reservation, sku, shard, qty)
             SELECT id, '{}', 0, 1 FROM extra",
            scene.sale, scene.sku
        ))
        .await;

    broken(&scene.report(&seen).await, &["never-oversell", "no-unit-lost"]);
    assert_eq!(scene.exit_code_of_a_small_crowd().await, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_sold_twice_breaks_one_click_one_order_alone() {
    let scene = Scene::set("soldtwice", 500, |_, _| ()).await;
    let seen = scene.crowd().await;
    broken(&scene.report(&seen).await, &[]);

    scene
        .sql(
            "ALTER TABLE reservation DROP CONSTRAINT reservation_sale_buyer_order_key_key;
             WITH paid AS (SELECT * FROM reservation WHERE status = 'confirmed' LIMIT 1),
             again AS (
                INSERT INTO reservation
                    (id, sale, buyer, order_key, body_hash, status, expires_at, created_at)
                SELECT gen_random_uuid(), sale, buyer, order_key, body_hash, status, expires_at,
                    created_at FROM paid
                RETURNING id),
             line AS (
                INSERT INTO reservation_line (reservation, sku, shard, qty)
                SELECT again.id, l.sku, l.shard, l.qty
                FROM again, paid JOIN reservation_line l ON l.reservation = paid.id
                RETURNING reservation, sku, shard, qty),
             moved AS (
                INSERT INTO movement (at, kind, sku, shard, qty, reservation)
                SELECT clock_timestamp(), kind, sku, shard, qty, reservation
                FROM line, unnest(ARRAY['hold', 'confirm']) kind),
             counted AS (
                INSERT INTO sold (sku, backend, units) SELECT sku, 0, qty FROM line
                ON CONFLICT (sku, backend) DO UPDATE SET units = sold.units + excluded.units)
             UPDATE stock s SET available = available - line.qty, version = version + 1
             FROM line WHERE s.sku = line.sku AND s.shard = line.shard",
        )
        .await;

    broken(&scene.report(&seen).await, &["one-click-one-order"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_swapped_positions_break_fair_draw_alone() {
    let scene = Scene::set("swapped", 15, |_, _| ()).await;
    let mut seen = scene.crowd().await;
    let drawn: Vec<usize> = (0..seen.shoppers.len())
        .filter(|&i| seen.shoppers[i].entry.is_some() && !seen.shoppers[i].positions.is_empty())
        .take(2)
        .collect();
    let first = seen.shoppers[drawn[0]].positions.clone();
    seen.shoppers[drawn[0]].positions = seen.shoppers[drawn[1]].positions.clone();
    seen.shoppers[drawn[1]].positions = first;

    broken(&scene.report(&seen).await, &["fair-draw"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn admissions_past_the_meter_break_exact_rate_alone() {
    // Else nobody is called once all units are spoken for, and the meter has nobody to admit.
    let scene = Scene::set("pastmeter", 15, |installation, _| {
        installation.set("sale.0.stock_aware", false).unwrap();
    })
    .await;

    // Lets the meter run at ten times the rate that is set.
    let too_fast = "local next = redis.call('HGET', KEYS[1], 'next')
        if next and tonumber(next) > 0 then
            local now = redis.call('TIME')
            local at = now[1] * 1000 + now[2] / 1000
            redis.call('HSET', KEYS[1], 'anchors', next .. ',' .. string.format('%.3f', at) .. ',600')
        end";
    let seen = scene.crowd_under(&[scene.key("meter")], too_fast, 300).await;

    broken(&scene.report(&seen).await, &["exact-rate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ungated_path_breaks_only_the_admitted_alone() {
    let scene = Scene::set("ungated", 15, |installation, _| {
        installation.set("sale.0.paths", vec!["/checkout/pay"]).unwrap();
    })
    .await;
    let seen = scene.crowd().await;

    broken(&scene.report(&seen).await, &["only-the-admitted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_says_try_to_everybody_breaks_ledger_shielded_alone() {
    let scene = Scene::set("opengate", 5, |installation, _| {
        // Many more come to the gate than there are units.
        installation.set("sale.0.stock_aware", false).unwrap();
    })
    .await;

    let wide_open = "if redis.call('HEXISTS', KEYS[1], 'count') == 1 then
            redis.call('HSET', KEYS[1], 'count', 100000)
            redis.call('HDEL', KEYS[1], 'flag')
        end";
    let key = scene.key(&format!("stock:{}", scene.sku));
    let seen = scene.crowd_under(&[key], wide_open, 10).await;

    broken(&scene.report(&seen).await, &["ledger-shielded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_false_sold_out_breaks_honest_page_alone() {
    let scene = Scene::set("falsenews", 500, |_, _| ()).await;

    let emptied = "local told = redis.call('GET', KEYS[1])
        if told then
            redis.call('SET', KEYS[1], (told:gsub('\"available\":%d+', '\"available\":0')))
        end";
    let seen = scene.crowd_under(&[scene.key("figures")], emptied, 10).await;

    broken(&scene.report(&seen).await, &["honest-page"]);
}
