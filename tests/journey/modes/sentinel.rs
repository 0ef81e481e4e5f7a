//! A primary named by Sentinels, and its failover in mid-sale.

use stanchion::servers::PrivateSentinel;

use super::House;
use crate::fixture::Ground;

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_goes_on_when_sentinels_make_the_replica_the_primary() {
    let redis = PrivateSentinel::start().unwrap();
    let ground = Ground::new("sentinel");
    let master = PrivateSentinel::MASTER;
    let house = House::start(&ground, "sentinel", master, &redis.urls().unwrap());
    let before = redis.primary_port().unwrap();

    house.journey(|| redis.fail_over().unwrap()).await;

    assert_ne!(redis.primary_port().unwrap(), before);
}
