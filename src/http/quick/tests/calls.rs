//! Calls that are under way when something else happens on their connection.

use super::*;

/// A connection whose calls wait for a word.
struct Waiting {
    far: tokio::io::DuplexStream,
    word: Arc<Semaphore>,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Waiting {
    /// With a call under way.
    async fn begun(call: &str) -> Self {
        Self::bounded(call, Bounds::default()).await
    }

    async fn bounded(call: &str, bounds: Bounds) -> Self {
        let (near, mut far) = tokio::io::duplex(4096);
        let (word, stop) = (Arc::new(Semaphore::new(0)), CancellationToken::new());
        let numbers = Numbers { word: Some(Arc::clone(&word)) };
        let serving = tokio::spawn(serve_by(numbers, near, stop.clone(), bounds));
        let call = format!("POST /call/{call} HTTP/1.1\r\nHost: a\r\n\r\n");
        far.write_all(call.as_bytes()).await.unwrap();
        while Arc::strong_count(&word) < 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        Self { far, word, stop, serving }
    }

    /// The bodies of all that comes until the end.
    async fn rest(self) -> Vec<String> {
        bodies(&self.text().await)
    }

    /// All that comes until the end.
    async fn text(mut self) -> String {
        let mut text = String::new();
        let read = self.far.read_to_string(&mut text);
        tokio::time::timeout(Duration::from_secs(20), read).await.unwrap().unwrap();
        drop(self.far);
        self.serving.await.unwrap();
        text
    }
}

#[tokio::test]
async fn what_is_sent_while_a_call_is_answered_comes_after_it() {
    let mut waiting = Waiting::begun("1").await;
    let more = [Sent::Quick.request(2), Sent::Call.request(3), Sent::Get.request(4)].concat();
    waiting.far.write_all(more.as_bytes()).await.unwrap();
    let last = "GET /5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    waiting.far.write_all(last.as_bytes()).await.unwrap();
    waiting.word.add_permits(9);
    let told: Vec<_> = waiting.rest().await.into_iter().map(by_whomever).collect();
    let third = format!("call 3 {}", LURE.len());
    assert_eq!(told, ["call 1 0", "quick 2", third.as_str(), "GET /4 0", "GET /5 0"]);
}

#[tokio::test]
async fn nobody_goes_on_with_a_call_whose_client_has_gone() {
    let Waiting { far, word, serving, .. } = Waiting::begun("1").await;
    drop(far);
    tokio::time::timeout(Duration::from_secs(20), serving).await.unwrap().unwrap();
    assert_eq!(Arc::strong_count(&word), 1);
}

#[tokio::test]
async fn a_call_that_is_under_way_when_the_doors_close_is_answered() {
    let waiting = Waiting::begun("1").await;
    waiting.stop.cancel();
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    waiting.word.add_permits(1);
    let text = waiting.text().await;
    assert!(text.contains("connection: close\r\n"), "no balancer may send more: {text}");
    assert_eq!(bodies(&text), ["call 1 0"]);
}

#[tokio::test]
async fn a_call_may_take_longer_than_a_connection_may_be_idle() {
    let head = Duration::from_millis(20);
    let mut waiting = Waiting::bounded("1", Bounds { head, ..Bounds::default() }).await;
    // That time passes is what is asked about.
    tokio::time::sleep(8 * head).await;
    let begun = tokio::time::Instant::now();
    waiting.word.add_permits(1);
    let mut answer = [0; 512];
    let length = waiting.far.read(&mut answer).await.unwrap();
    assert!(answer[..length].ends_with(b"call 1 0"), "{length}");
    assert_eq!(waiting.rest().await, Vec::<String>::new());
    assert!(begun.elapsed() >= head, "and is idle from its answer on");
}

#[tokio::test]
async fn an_answer_that_says_that_it_is_the_last_one_is() {
    let mut waiting = Waiting::begun("last").await;
    waiting.far.write_all(Sent::Quick.request(2).as_bytes()).await.unwrap();
    waiting.word.add_permits(9);
    assert_eq!(waiting.rest().await, ["call last 0"]);
}
