//! Places of accounts, lost on purpose.

use super::broken;
use super::scene::Scene;

/// A sale whose shop vouches for accounts.
async fn with_accounts(topic: &str, units: u64) -> Scene {
    Scene::set(topic, units, |installation, shop| {
        installation.set("account.source", "forward_auth").unwrap();
        installation.set("account.forward_auth.url", format!("{shop}/whoami")).unwrap();
        installation.set("account.forward_auth.header", "x-account-id").unwrap();
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_keep_their_places_over_devices_and_lost_cookies() {
    let scene = with_accounts("accounts", 30).await;
    let seen = scene.crowd().await;
    let report = scene.report(&seen).await;

    broken(&report, &[]);
    for name in ["place-kept", "one-place-per-account"] {
        assert_eq!(report.promises[name].holds, Some(true), "{:#?}", report.promises);
    }
    assert!(report.places_kept["lost cookies"] > 0 && report.accounts.two_devices > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_that_are_mixed_up_break_place_kept_and_one_place_per_account() {
    let scene = with_accounts("mixedup", 30).await;

    // Whoever asks for the place of an account is given this one.
    let mixed = "for _, account in ipairs(redis.call('HKEYS', KEYS[1])) do
            redis.call('HSET', KEYS[1], account, 'l90001')
        end";
    let seen = scene.crowd_under(&[scene.key("accounts")], mixed, 5).await;
    let report = scene.report(&seen).await;

    for name in ["place-kept", "one-place-per-account"] {
        assert_eq!(report.promises[name].holds, Some(false), "{:#?}", report.promises);
    }
    assert!(!report.is_good());
}
