//! The operators' page and what stands behind it: the light, the nodes, the forms, staff passes.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use stanchion::lab::rig::{Answer, Client, ConfigFile, Installation, Layout};

use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, client, executable, quiet_shop};

const PATIENCE: Duration = Duration::from_secs(30);

struct House {
    installation: Installation,
    client: Client,
    sale: String,
}

impl House {
    fn start(topic: &str, opens_in_ms: u64, layout: Layout) -> Self {
        let ground = Ground::new(topic);
        let mut plan = ground.sale_opening_in(opens_in_ms, 10);
        plan.rate = "20/s".into();
        let mut config = ConfigFile::new(quiet_shop(), std::slice::from_ref(&plan)).unwrap();
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        // Those let in here order nothing.
        config.set("sale.0.stock_aware", false).unwrap();
        let installation = ground.install(layout, config);
        Self { installation, client: client(), sale: plan.id }
    }

    /// The first gateway's ops listener.
    fn ops(&self) -> String {
        self.installation.gateways[0].url("ops").unwrap()
    }

    async fn page(&self, path: &str) -> String {
        let answer = self.client.get(&format!("{}{path}", self.ops()), &[]).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }

    /// Waits until a page says this.
    async fn until(&self, url: &str, said: &str) -> String {
        let since = Instant::now();
        loop {
            let text = match self.client.get(url, &[]).await {
                Ok(answer) => answer.text(),
                Err(error) => error.to_string(),
            };
            if text.contains(said) {
                return text;
            }
            assert!(since.elapsed() < PATIENCE, "never said {said:?}: {text}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn send(&self, path: &str, headers: &[(&str, &str)], form: &[(&str, &str)]) -> Answer {
        self.client.post_form(&format!("{}{path}", self.ops()), headers, form).await.unwrap()
    }

    async fn api(&self, method: http::Method, path: &str, key: &str, body: Value) -> Answer {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let url = format!("{}{path}", self.ops());
        let request = stanchion::lab::rig::request(method, &url, &headers, body.to_string().into());
        self.client.send(request.unwrap()).await.unwrap()
    }
}

const SAME: (&str, &str) = ("sec-fetch-site", "same-origin");

#[tokio::test]
async fn the_page_is_read_without_a_key_and_changes_nothing_without_one() {
    let house = House::start("opspage", 600_000, Layout { gateways: 2, cores: 1 });
    let answer = house.client.get(&house.ops(), &[]).await.unwrap();
    let policy = answer.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert_eq!(answer.header("cache-control"), "private, no-store");
    let page = answer.text();
    assert!(page.contains("Lobby is open") && page.contains(&house.sale), "{page}");
    assert!(page.contains("<noscript><meta http-equiv=\"refresh\""), "{page}");

    let pause = [("action", "pause")];
    let act = format!("/act/{}", house.sale);
    assert_eq!(house.send(&act, &[SAME], &pause).await.status, 401);
    let wrong = house.send("/session", &[SAME], &[("key", "guess")]).await;
    assert!(wrong.status == 401 && wrong.header("set-cookie").is_empty(), "{}", wrong.text());

    let key = house.installation.secrets.ops_key.clone();
    let foreign = [("sec-fetch-site", "cross-site")];
    assert_eq!(house.send("/session", &foreign, &[("key", &key)]).await.status, 403);
    let begun = house.send("/session", &[SAME], &[("key", &key)]).await;
    assert_eq!(begun.status, 303);
    let cookie = begun.header("set-cookie").split(';').next().unwrap().to_owned();
    assert!(!cookie.contains(&key) && begun.header("set-cookie").contains("SameSite=Strict"));

    let with = [SAME, ("cookie", cookie.as_str())];
    let foreign = [("sec-fetch-site", "cross-site"), ("cookie", cookie.as_str())];
    assert_eq!(house.send(&act, &foreign, &pause).await.status, 403);
    assert_eq!(house.send(&act, &with, &[("action", "stop")]).await.status, 400, "be sure");
    let wrong = house.send(&act, &with, &[("action", "rate"), ("rate", "fast")]).await;
    assert!(wrong.status == 400 && wrong.text().contains("rate:"), "{}", wrong.text());
    for form in [
        &pause[..],
        &[("action", "rate"), ("rate", "7/s")],
        &[("action", "delay"), ("minutes", "5")],
        &[("action", "resume")],
        &[("action", "stop"), ("sure", "yes")],
    ] {
        let done = house.send(&act, &with, form).await;
        assert_eq!(done.status, 303, "{form:?}: {}", done.text());
        let said = house.page(done.header("location")).await;
        assert!(said.contains("class=\"done\""), "{form:?}");
        if form == &pause[..] {
            let shown = house.client.get(&format!("{}/change", house.ops()), &with).await.unwrap();
            assert!(shown.text().contains("value=\"resume\""), "what was done is seen at once");
        }
    }
    let ops = house.ops();
    house.until(&ops, "Paused before the opening").await;
    house.until(&ops, "7/s set").await;
    // The audit trail names the page.
    let page = house.until(&ops, "<b>stop</b>").await;
    assert!(page.contains("page@"), "{page}");
}

#[tokio::test]
async fn the_page_follows_by_itself_and_tells_of_all_nodes_and_their_keys() {
    let house = House::start("opsnodes", 600_000, Layout { gateways: 2, cores: 1 });
    let core = house.installation.cores[0].url("ops").unwrap();
    for url in [house.ops(), core] {
        let page = house.until(&url, "<td>core</td>").await;
        house.until(&url, "<td>gateway</td>").await;
        assert!(!page.contains("class=\"bad\">differ"), "{page}");
        house.until(&format!("{url}/metrics"), "stanchion_nodes 3").await;
        house.until(&format!("{url}/metrics"), "stanchion_nodes_key_sets 1").await;
    }

    let addr = house.ops().trim_start_matches("http://").to_owned();
    let said = tokio::task::spawn_blocking(move || {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /live HTTP/1.1\r\nHost: ops\r\n\r\n").unwrap();
        let (mut said, mut piece) = (String::new(), [0; 4096]);
        while said.matches("data: <section class=\"sale").count() < 2 {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "the stream ended: {said}");
            said.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
        said
    });
    assert!(said.await.unwrap().contains("text/event-stream"));

    // One that ends by intent is forgotten at once, long before one that is silent.
    let mut house = house;
    house.installation.gateways[1].stop().unwrap();
    house.until(&format!("{}/metrics", house.ops()), "stanchion_nodes 2\n").await;

    // A node of another installation is named.
    let folder = house.installation.folder().join("keys");
    std::fs::write(folder.join("place.key"), "ab".repeat(32)).unwrap();
    house.installation.replace_gateway(1).unwrap();
    let ops = house.ops();
    house.until(&ops, "of another installation").await;
}

#[tokio::test]
async fn wr_76_a_line_whose_gateways_stand_still_is_an_alarm_on_the_core() {
    let house = House::start("stuck", 1_500, Layout { gateways: 1, cores: 1 });
    let gateway = house.installation.gateways[0].url("public").unwrap();
    let shoppers = Shopper::crowd(&house.client, &[gateway], &house.sale, 40).await;
    house.installation.gateways[0].signal(Signal::SIGSTOP).unwrap();
    let metrics = format!("{}/metrics", house.installation.cores[0].url("ops").unwrap());
    let stuck = format!("stanchion_line_stuck{{sale=\"{}\"}}", house.sale);

    house.until(&metrics, &format!("{stuck} 1")).await;
    let page = house.until(&house.installation.cores[0].url("ops").unwrap(), ">Stuck<").await;
    assert!(page.contains("class=\"sale red\""), "{page}");
    let state = |state: &str, light: &str, value: u8| {
        let sale = &house.sale;
        let labels = format!("{{sale=\"{sale}\",state=\"{state}\",light=\"{light}\"}}");
        format!("stanchion_line_state{labels} {value}")
    };
    house.until(&metrics, &state("stuck", "red", 1)).await;

    house.installation.gateways[0].signal(Signal::SIGCONT).unwrap();
    let admitted = futures_util::future::join_all(shoppers.into_iter().map(Shopper::admitted));
    assert_eq!(admitted.await.len(), 40);
    house.until(&metrics, &format!("{stuck} 0")).await;
    house.until(&metrics, &state("stuck", "red", 0)).await;
    house.until(&metrics, &state("nobody-waits", "green", 1)).await;
}

#[tokio::test]
async fn alarms_and_dashboard_in_deploy_ask_for_what_the_nodes_tell_and_a_refused_file_is_one() {
    let house = House::start("alarms", 600_000, Layout { gateways: 1, cores: 1 });
    let core = house.installation.cores[0].url("ops").unwrap();
    let on_core = house.until(&format!("{core}/metrics"), "stanchion_nodes 2").await;
    let on_gateway =
        house.until(&format!("{}/metrics", house.ops()), "stanchion_line_state{").await;
    let dashboard = include_str!("../../deploy/grafana.json");
    let shown: Value = serde_json::from_str(dashboard).unwrap();
    assert!(shown["panels"].as_array().unwrap().len() > 12);
    let rules = [include_str!("../../deploy/alerts.yaml"), dashboard].join("\n");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let asked = rules.split(|c: char| !is_name(c)).filter(|word| word.starts_with("stanchion_"));
    let asked: std::collections::BTreeSet<_> = asked.collect();
    assert!(asked.len() > 30, "{asked:?}");
    for name in asked {
        let is_told = [&on_core, &on_gateway].iter().any(|text| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
            lines.any(|line| {
                let told = line.split(' ').next().unwrap();
                told == name
                    || ["_total", "_bucket"].iter().any(|end| name.strip_suffix(end) == Some(told))
            })
        });
        // Only a node that ends TLS tells of certificates.
        assert!(is_told || name.starts_with("stanchion_certificate_"), "nobody tells {name}");
    }

    let refused = "stanchion_nodes_settings_refused";
    assert!(on_core.contains(&format!("{refused} 0")), "{on_core}");
    let file = house.installation.config_file("gateway", 0);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}\nnonsense = 1\n")).unwrap();
    house.until(&format!("{core}/metrics"), &format!("{refused} 1")).await;
    house.until(&core, "file refused").await;
    std::fs::write(&file, text).unwrap();
    house.until(&format!("{core}/metrics"), &format!("{refused} 0")).await;
}

#[tokio::test]
async fn staff_passes_are_made_listed_and_revoked_by_api_and_command_and_written_down() {
    let house = House::start("opspasses", 600_000, Layout { gateways: 1, cores: 1 });
    let key = house.installation.secrets.ops_key.clone();
    let wanted = json!({"sale": house.sale, "uses": 2, "expires": "2h"});
    let post = http::Method::POST;
    assert_eq!(house.api(post.clone(), "/v1/passes", "wrong", wanted.clone()).await.status, 401);
    let wrong = [
        (json!({"sale": house.sale, "uses": 0, "expires": "2h"}), "uses"),
        (json!({"sale": house.sale, "uses": 2, "expires": "soon"}), "expires"),
        (json!({"sale": house.sale, "uses": 2, "expires": "2001-01-01T00:00:00Z"}), "expires"),
        (json!({"sale": house.sale, "uses": 2}), "expires"),
    ];
    for (body, field) in wrong {
        let answer = house.api(post.clone(), "/v1/passes", &key, body).await;
        let said: Value = answer.json().unwrap();
        assert_eq!((answer.status.as_u16(), &said["field"]), (400, &json!(field)), "{said}");
    }
    let unknown = json!({"sale": "other", "uses": 2, "expires": "2h"});
    assert_eq!(house.api(post.clone(), "/v1/passes", &key, unknown).await.status, 404);
    let made = house.api(post, "/v1/passes", &key, wanted).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made: Value = made.json().unwrap();

    let pass = made["pass"].as_str().unwrap();
    let gateway = house.installation.gateways[0].url("public").unwrap();
    let claim = format!("{gateway}/_stanchion/{}/claim", house.sale);
    let redeem = async || {
        let headers = [("stanchion-pass", pass)];
        house.client.post_json(&claim, &headers, &json!({})).await.unwrap()
    };
    assert_eq!(redeem().await.status, 200);

    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(executable());
        command.args(args).args(["--ops", &house.ops()]);
        let out = command.env("STANCHION_OPS_KEY", &key).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let listed: Value = serde_json::from_str(&run(&["pass", "list", "--json"])).unwrap();
    assert_eq!(listed["passes"][0]["id"], made["id"]);
    assert!(listed["passes"][0].get("pass").is_none(), "it is told once");
    let new = ["pass", "new", "--sale", &house.sale, "--uses", "5", "--expires", "2h"];
    assert!(run(&new).lines().next().unwrap().starts_with("eyJ"));
    run(&["pass", "revoke", made["id"].as_str().unwrap()]);
    let listed = run(&["pass", "list"]);
    assert!(listed.contains("revoked") && listed.contains("1 of 2"), "{listed}");
    let refused: Value = redeem().await.json().unwrap();
    assert_eq!(refused["reason"], "revoked");

    let trail = house.api(http::Method::GET, "/v1/audit-trail", &key, json!({})).await.text();
    for action in ["pass-new", "pass-use", "pass-revoke"] {
        assert!(trail.contains(action), "{action}: {trail}");
    }
    assert!(!trail.contains(pass), "no pass in the trail");
}
