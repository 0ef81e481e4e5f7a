//! Controls, obeyed and overruled.

use stanchion::lab::rig::Installation;

use super::broken;
use super::scene::Scene;

/// One gateway more, so that there are several nodes to follow.
fn with_another_gateway(installation: &mut Installation, _shop: &str) {
    installation.add_gateways(1).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_steered_sale_follows_within_a_second_and_keeps_every_promise() {
    let scene = Scene::set("steered", 100, with_another_gateway).await;
    let seen = scene.steered_crowd().await;
    let report = scene.report(&seen).await;

    broken(&report, &[]);
    let verdict = &report.promises["stop-in-a-second"];
    assert_eq!(verdict.holds, Some(true), "{:#?}", report.promises);
    let steps: Vec<_> = report.steering.iter().map(|step| step.act.as_str()).collect();
    assert_eq!(steps, ["rate 15/s", "pause", "resume", "stop", "resume", "rate 60/s"]);
    let stop = &report.steering[3].late_ms;
    for node in ["gateway 1: the checkout", "gateway 2: the epoch", "core: reservations"] {
        assert!(stop.contains_key(node), "{stop:?}");
    }
    assert!(report.places_kept.contains_key("stop"), "{:?}", report.places_kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_that_is_overruled_breaks_stop_in_a_second_alone() {
    let scene = Scene::set("overruled", 60, with_another_gateway).await;

    let overruled = "if redis.call('HEXISTS', KEYS[1], 'rate') == 1 then
            redis.call('HSET', KEYS[1], 'rate', '60')
        end";
    let seen = scene.under(scene.steered_crowd(), &[scene.key("control")], overruled, 5).await;

    broken(&scene.report(&seen).await, &["stop-in-a-second"]);
}
