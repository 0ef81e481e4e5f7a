//! A shop of several addresses, some or all of them down: requests go where somebody answers, and
//! while nobody does, nobody is called.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use stanchion::lab::rig::{Client, ConfigFile, Layout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, client};

const ONE: Layout = Layout { gateways: 1, cores: 1 };
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// A shop that answers every request with its name and closes.
struct Stub {
    addr: SocketAddr,
    name: &'static str,
    serving: JoinHandle<()>,
}

impl Stub {
    async fn open(name: &'static str, addr: &str) -> Self {
        let listener = TcpListener::bind(addr).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let mut head = [0; 4096];
                    if stream.read(&mut head).await.unwrap_or(0) > 0 {
                        let length = name.len();
                        let answer = format!(
                            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{name}"
                        );
                        let _sent = stream.write_all(answer.as_bytes()).await;
                    }
                });
            }
        });
        Self { addr, name, serving }
    }

    fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    async fn close(self) -> (&'static str, String) {
        self.serving.abort();
        let _aborted = self.serving.await;
        (self.name, self.addr.to_string())
    }
}

async fn until<F: Future<Output = bool>>(what: &str, wanted: impl Fn() -> F) {
    let since = Instant::now();
    while !wanted().await {
        assert!(since.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(POLL).await;
    }
}

/// Who answers a page that is free.
async fn answered(client: &Client, gateway: &str) -> (u16, String) {
    let answer = client.get(&format!("{gateway}/about"), &[]).await.unwrap();
    (answer.status.as_u16(), answer.text())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_down_is_passed_over_and_comes_back() {
    let ground = Ground::new("origins");
    let plan = ground.sale_opening_in(600_000, 50);
    let (a, b) = (Stub::open("a", "127.0.0.1:0").await, Stub::open("b", "127.0.0.1:0").await);
    let mut config = ConfigFile::new(&a.url(), std::slice::from_ref(&plan)).unwrap();
    config.set("shop.origins", vec![a.url(), b.url()]).unwrap();
    let house = ground.install(ONE, config);
    let (client, gateway) = (client(), house.gateways[0].url("public").unwrap());
    let names = async || {
        let mut names = vec![];
        for _ in 0..10 {
            let (status, name) = answered(&client, &gateway).await;
            assert_eq!(status, 200, "{name}");
            names.push(name);
        }
        (names.contains(&"a".to_owned()), names.contains(&"b".to_owned()))
    };
    assert_eq!(names().await, (true, true), "both take part");

    let (name, addr) = a.close().await;
    for _ in 0..3 {
        assert_eq!(names().await, (false, true), "nobody notices");
    }

    let _a = Stub::open(name, &addr).await;
    until("both again", async || names().await == (true, true)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_shop_is_down_nobody_is_called_or_admitted_and_every_place_is_kept() {
    let ground = Ground::new("shopdown");
    let plan = ground.sale_opening_in(3_000, 500);
    let shop = Stub::open("shop", "127.0.0.1:0").await;
    let mut config = ConfigFile::new(&shop.url(), std::slice::from_ref(&plan)).unwrap();
    config.set("sale.0.rate", "2/s").unwrap();
    config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
    let house = ground.install(ONE, config);
    let (client, gateway) = (client(), house.gateways[0].url("public").unwrap());
    until("the shop", async || answered(&client, &gateway).await.0 == 200).await;
    let crowd = Shopper::crowd(&client, std::slice::from_ref(&gateway), &plan.id, 100).await;
    let status = async || -> Value { crowd[0].status().await };
    let waiting = async || {
        let mut ahead = vec![];
        for shopper in &crowd {
            ahead.push(shopper.status().await["place"]["ahead"].as_u64());
        }
        ahead
    };
    until("the draw", async || status().await["phase"] == "open").await;

    let (name, addr) = shop.close().await;

    until("the pause", async || status().await["paused"] == true).await;
    let (before, mut late) = (waiting().await, crowd.clone());
    let page = answered(&client, &gateway).await;
    assert_eq!(page.0, 502, "{}", page.1);
    for shopper in late.iter_mut().take(30) {
        let answer = shopper.claim().await;
        assert!([202, 409].contains(&answer.status.as_u16()), "{}", answer.text());
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(waiting().await, before, "the line moved");
    assert_eq!(status().await["paused"], true);

    let _shop = Stub::open(name, &addr).await;
    until("the line", async || status().await["paused"] == false).await;
    let foremost = crowd.into_iter().zip(before).min_by_key(|(_, ahead)| ahead.unwrap_or(0));
    foremost.unwrap().0.admitted().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_never_saw_the_shop_calls_nobody_until_it_is_there() {
    let ground = Ground::new("shoplate");
    let plan = ground.sale_opening_in(2_000, 500);
    let (name, addr) = Stub::open("shop", "127.0.0.1:0").await.close().await;
    let url = format!("http://{addr}");
    let house = ground.install(ONE, ConfigFile::new(&url, std::slice::from_ref(&plan)).unwrap());
    let (client, gateway) = (client(), house.gateways[0].url("public").unwrap());
    let crowd = Shopper::crowd(&client, std::slice::from_ref(&gateway), &plan.id, 5).await;
    let status = async || -> Value { crowd[0].status().await };

    until("the draw", async || status().await["phase"] == "open").await;
    for _ in 0..10 {
        for shopper in &crowd {
            assert_eq!(shopper.status().await["place"]["state"], "waiting");
        }
        assert_eq!(status().await["paused"], true);
        tokio::time::sleep(POLL).await;
    }

    let _shop = Stub::open(name, &addr).await;
    until("somebody is called", async || status().await["place"]["state"] != "waiting").await;
}
