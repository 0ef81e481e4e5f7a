//! People with JavaScript off buy at the sample shop: forms, redirects and `Refresh` alone.

use std::time::Duration;

use serde_json::Value;
use stanchion::lab::rig::{ConfigFile, Installation};

use crate::fixture::browser::Browser;
use crate::fixture::{Ground, client, executable, open_shop, quiet_shop};

/// A sale of two units with the sample shop behind a gateway.
struct Street {
    installation: Installation,
    sale: String,
    sku: String,
}

impl Street {
    async fn open(topic: &str) -> Self {
        let ground = Ground::new(topic);
        let plan = ground.sale_opening_in(2_500, 2);
        let sku = plan.skus[0].0.clone();
        let config = ConfigFile::new(quiet_shop(), &[plan]).unwrap();
        let urls = (ground.database_url.clone(), ground.redis_url.clone());
        let mut installation =
            Installation::start_cores(executable(), &ground.folder, urls, 1, config).unwrap();
        let shop = open_shop(&installation, &ground.sale).await;
        installation.set("shop.origins", vec![shop.clone()]).unwrap();
        installation.set("account.source", "forward_auth").unwrap();
        installation.set("account.forward_auth.url", format!("{shop}/whoami")).unwrap();
        installation.add_gateways(1).unwrap();
        Self { installation, sale: ground.sale, sku }
    }

    fn browser(&self) -> Browser {
        Browser::new(&client(), &self.installation.gateways[0].url("public").unwrap())
    }

    /// All reservations of the sale.
    async fn reservations(&self) -> Vec<Value> {
        let url = self.installation.cores[0].url("core").unwrap();
        let url = format!("{url}/v1/reservations?sale={}", self.sale);
        let authorization = format!("Bearer {}", self.installation.secrets.core_key);
        let answer = client().get(&url, &[("authorization", &authorization)]).await.unwrap();
        answer.json::<Value>().unwrap()["reservations"].as_array().unwrap().clone()
    }

    /// Queues for the checkout and buys one unit there.
    async fn buy(&self, browser: &mut Browser) {
        browser.visit("/checkout").await;
        browser.submit("/join", &[]).await;
        // A gateway that has just come up may not have the room yet, and says so.
        while browser.status == 503 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            browser.visit("/checkout").await;
            browser.submit("/join", &[]).await;
        }
        while !browser.has_form("/reservations") {
            browser.refresh().await;
        }
        assert_eq!(browser.at, "/checkout");
        browser.submit("/reservations", &[("sku", &self.sku), ("qty", "1")]).await;
        assert_eq!(browser.at, "/checkout/pay");
        assert!(browser.page.contains("Held for you until"), "{}", browser.page);
        browser.submit("/checkout/pay", &[]).await;
        assert_eq!((browser.at.as_str(), browser.status), ("/checkout/thanks", 200));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_queues_and_buys_without_a_script() {
    let street = Street::open("noscript").await;
    let mut browser = street.browser();

    street.buy(&mut browser).await;

    let reservations = street.reservations().await;
    assert_eq!(reservations.len(), 1);
    assert_eq!(reservations[0]["status"], "confirmed");
    browser.visit("/").await;
    assert!(browser.page.contains("<b>1</b><span>free</span>"), "{}", browser.page);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_in_shopper_buys_as_the_account_that_the_shop_vouches_for() {
    let street = Street::open("account").await;
    let mut browser = street.browser();
    browser.visit("/login?user=ada").await;
    assert!(browser.page.contains("Hello, ada"));

    street.buy(&mut browser).await;

    let reservations = street.reservations().await;
    assert_eq!(reservations.len(), 1);
    assert_eq!(
        (&reservations[0]["buyer"], &reservations[0]["status"]),
        (&"ada".into(), &"confirmed".into())
    );
}
