//! Services that speak HTTP/2: who leaves, who is dialled by many at once, who is mute.

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);
/// Before the frames of a client.
const PREFACE_BYTES: usize = 24;
const HEADERS: u8 = 1;
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

fn post() -> Request<Body> {
    let mut request = Request::new(body::empty());
    *request.method_mut() = Method::POST;
    request.headers_mut().insert("host", "shop.test".parse().unwrap());
    request
}

fn speaking_http2(url: String, times: Times) -> Upstream {
    Upstream::new(&[url], times).unwrap().over_http2()
}

async fn send(upstream: &Upstream) -> Result<StatusCode, UpstreamError> {
    let nothing = Progress::default();
    let sent = upstream.send_shared(upstream.shared().unwrap(), post(), &nothing);
    sent.await.map(|(response, _)| response.status())
}

/// Waits for a request, and says that it goes and takes nothing after stream `last`.
async fn go_away(mut stream: TcpStream, last: u8) {
    stream.write_all(&SETTINGS).await.unwrap();
    stream.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; usize::try_from(length).unwrap()]).await.unwrap();
        if head[3] == HEADERS {
            break;
        }
    }
    let away = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, last, 0, 0, 0, 0];
    stream.write_all(&away).await.unwrap();
    stream.shutdown().await.unwrap();
}

/// Answers every request, counted, once it is awake.
async fn serve(stream: TcpStream, mut awake: watch::Receiver<bool>, served: Arc<AtomicUsize>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        // Asleep, it does not even look at pings.
        awake.wait_for(|awake| *awake).await.unwrap();
        served.fetch_add(1, Ordering::Relaxed);
        drop(respond.send_response(Response::new(()), true));
    }
}

/// A service whose first connection goes away so, and the requests that later ones answered.
async fn leaving(last: u8) -> (String, Arc<AtomicUsize>) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let served = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&served);
    tokio::spawn(async move {
        go_away(socket.accept().await.unwrap().0, last).await;
        let (_wake, awake) = watch::channel(true);
        while let Ok((stream, _)) = socket.accept().await {
            tokio::spawn(serve(stream, awake.clone(), Arc::clone(&counted)));
        }
    });
    (url, served)
}

#[tokio::test]
async fn over_http_2_what_came_after_the_last_stream_of_one_who_goes_is_sent_to_the_next() {
    let (url, served) = leaving(0).await;

    let answer = send(&speaking_http2(url, Times::default())).await;

    assert_eq!(answer.unwrap(), StatusCode::OK, "it was not looked at: even a POST may go on");
    assert_eq!(served.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn over_http_2_what_one_who_goes_has_taken_is_not_sent_again() {
    let (url, served) = leaving(1).await;

    let answer = send(&speaking_http2(url, Times::default())).await;

    assert_eq!(answer.unwrap_err().status(), StatusCode::BAD_GATEWAY);
    assert_eq!(served.load(Ordering::Relaxed), 0, "a POST that may have been acted on");
}

/// A service that is mute until it is woken; how many connections it has had.
async fn mute() -> (String, watch::Sender<bool>, Arc<AtomicUsize>) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let (wake, awake) = watch::channel(false);
    let connections = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = socket.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve(stream, awake.clone(), Arc::default()));
        }
    });
    (url, wake, connections)
}

#[tokio::test]
async fn over_http_2_many_who_come_at_once_make_one_connection() {
    let (url, wake, connections) = mute().await;
    wake.send(true).unwrap();
    let upstream = speaking_http2(url, Times::default());

    let answers = join_all((0..50).map(|_| send(&upstream))).await;

    assert!(answers.into_iter().all(|answer| answer.unwrap() == StatusCode::OK));
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn over_http_2_who_is_mute_is_down_until_it_answers_a_probe() {
    let (url, wake, _) = mute().await;
    let times = Times { response: Duration::from_millis(50), ..Times::default() };
    let upstream = speaking_http2(url, times);
    let becomes = async |is_down: bool| {
        let since = std::time::Instant::now();
        while upstream.is_down() != is_down {
            assert!(since.elapsed() < PATIENCE, "it never becomes {is_down} that it is down");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let told = async {
        for _ in 0..3 {
            assert!(matches!(send(&upstream).await, Err(UpstreamError::ResponseTimeout)));
        }
        assert!(!upstream.is_down(), "three in a moment are no outage");
        becomes(true).await;
        wake.send(true).unwrap();
        becomes(false).await;
    };

    tokio::select! {
        () = upstream.watch() => unreachable!("it watches for ever"),
        () = told => {}
    }
}
