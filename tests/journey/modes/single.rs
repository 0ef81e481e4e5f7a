//! A single Redis, emptied in mid-sale and among the orders.

use futures_util::future::{join, join_all};
use stanchion::servers::PrivateRedis;
use stanchion::store::redis::connect;

use super::House;
use crate::fixture::Ground;
use crate::fixture::shopper::Shopper;

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_goes_on_when_its_redis_is_emptied() {
    let redis = PrivateRedis::start().unwrap();
    let ground = Ground::new("single");
    let house = House::start(&ground, "single", "", &redis.url());

    house.journey(|| redis.restart().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flushes_among_the_orders_sell_every_unit_once() {
    let redis = PrivateRedis::start().unwrap();
    let ground = Ground::new("flushes");
    let house = House::start(&ground, "single", "", &redis.url());
    let store = connect(&redis.url()).unwrap();
    let crowd = house.crowd(0..60).await;
    let buyers = join_all(crowd.into_iter().map(Shopper::admitted)).await;

    let orders = join_all(buyers.iter().map(|buyer| house.try_to_buy(buyer, "mine")));
    let flushes = async {
        for _ in 0..5 {
            store.command::<()>(&redis::cmd("FLUSHALL")).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let (sold, ()) = join(orders, flushes).await;

    assert_eq!(sold.into_iter().filter(|sold| *sold).count(), 40);
    house.sold(40).await;
}
