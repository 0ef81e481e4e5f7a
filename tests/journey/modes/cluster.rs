//! A cluster, and the death of the primary that has the sale.

use stanchion::servers::PrivateCluster;

use super::House;
use crate::fixture::Ground;

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_goes_on_when_its_primary_in_a_cluster_dies() {
    let redis = PrivateCluster::start().unwrap();
    let ground = Ground::new("cluster");
    let house = House::start(&ground, "cluster", "", &redis.urls());
    let room = format!("stanchion:{{{}}}:room", house.sale);
    let before = redis.primary_of(&room).unwrap();

    house.journey(|| redis.fail_over(&room).unwrap()).await;

    assert_ne!(redis.primary_of(&room).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sales_live_wherever_their_slots_are() {
    use stanchion::config::settings::RedisMode;
    use stanchion::domain::id::SaleId;
    use stanchion::store::redis::connect_as;
    use stanchion::store::redis::room::RoomStore;

    let redis = PrivateCluster::start().unwrap();
    let store = connect_as(RedisMode::Cluster, &redis.urls(), "").unwrap();
    let mut ports = std::collections::HashSet::new();
    for name in ["spring-drop", "autumn-drop", "winter-drop", "a", "b", "c"] {
        let sale = SaleId::parse(name).unwrap();
        let room = RoomStore::new(store.clone(), &sale);
        assert!(room.look().await.unwrap().1.is_none());
        assert!(room.begin_restore(7).await.unwrap().is_some());
        ports.insert(redis.primary_of(&format!("stanchion:{{{name}}}:room")).unwrap());
    }
    assert!(ports.len() > 1, "six sales in one of three places");
}
