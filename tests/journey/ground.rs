//! The ground that other journeys stand on.

use stanchion::lab::rig::{ConfigFile, Layout};

use crate::fixture::{Ground, client, quiet_shop};

#[tokio::test]
async fn two_gateways_and_two_cores_come_up_on_one_redis_and_one_postgres() {
    let ground = Ground::new("ground");
    let sale = ground.sale_opening_in(3_600_000, 10);
    let config = ConfigFile::new(quiet_shop(), &[sale]).unwrap();
    let mut all = ground.install(Layout { gateways: 2, cores: 2 }, config);

    for node in all.gateways.iter().chain(&all.cores) {
        let url = format!("{}/livez", node.url("ops").unwrap());
        assert_eq!(client().get(&url, &[]).await.unwrap().status, 200);
    }
    let before = all.gateways[0].url("public").unwrap();
    all.replace_gateway(0).unwrap();
    assert_eq!(all.gateways[0].url("public").unwrap(), before);
}
