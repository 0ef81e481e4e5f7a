//! Answers that are framed in all kinds of ways, and connections that end where they may.

use http_body_util::{BodyExt, Collected};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// A service whose connections answer this, one connection after the other, and close; how many
/// requests it has read.
async fn speaks(script: Vec<Vec<&'static str>>) -> (Upstream, Arc<AtomicUsize>) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let asked = Arc::<AtomicUsize>::default();
    let told = Arc::clone(&asked);
    tokio::spawn(async move {
        for answers in script {
            let (mut stream, _) = socket.accept().await.unwrap();
            for answer in answers {
                read_head(&mut stream).await;
                told.fetch_add(1, Ordering::Relaxed);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
        std::future::pending::<()>().await;
    });
    (Upstream::new(&[url], Times::default()).unwrap(), asked)
}

async fn read_head(stream: &mut TcpStream) {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
}

/// The status and the body of the answer to a request without body.
async fn asked(upstream: &Upstream, method: Method) -> Result<(u16, String), UpstreamError> {
    let mut request = Request::new(body::empty());
    *request.method_mut() = method;
    request.headers_mut().insert("host", "shop.test".parse().unwrap());
    let nothing = Progress::default();
    let asking = upstream.send(request, &nothing);
    let answer = tokio::time::timeout(PATIENCE, asking).await.expect("no answer")?;
    let (parts, body) = answer.into_parts();
    let read = tokio::time::timeout(PATIENCE, body.collect()).await.expect("no end");
    let text = read.map_or("broken".into(), Collected::to_bytes);
    Ok((parts.status.as_u16(), String::from_utf8(text.to_vec()).unwrap()))
}

const LENGTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n";
const LAST: &str =
    "HTTP/1.1 404 Nothing Here\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlast";

#[tokio::test]
async fn answers_come_whole_however_they_are_framed_on_one_connection() {
    let unchanged = "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n";
    let early = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo";
    let both = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n3\r\ntwo\r\n0\r\n\r\n";
    let answers = vec![LENGTH, unchanged, LENGTH, early, CHUNKED, both, LENGTH, CHUNKED];
    let (upstream, _) = speaks(vec![answers]).await;
    let get = async || asked(&upstream, Method::GET).await.unwrap();

    assert_eq!(get().await, (200, "one".into()));
    assert_eq!(get().await, (304, String::new()));
    for text in ["one", "two", "two", "two", "one", "two"] {
        assert_eq!(get().await, (200, text.into()));
    }
}

#[tokio::test]
async fn what_ends_its_connection_is_followed_by_another() {
    let cases = [
        (LAST, 404, "last"),
        ("HTTP/1.1 200 OK\nContent-Length: 4\nConnection: close\n\nunix", 200, "unix"),
        ("HTTP/1.1 200 OK\r\n\r\nall", 200, "all"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none more", 200, "one"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\ncut", 200, "broken"),
        (LENGTH, 200, "one"),
    ];
    let (upstream, count) = speaks(cases.map(|(answer, ..)| vec![answer]).to_vec()).await;
    for (answer, status, text) in cases {
        let told = asked(&upstream, Method::GET).await.unwrap();
        assert_eq!(told, (status, text.into()), "{answer}");
    }
    assert_eq!(count.load(Ordering::Relaxed), cases.len());
}

#[tokio::test]
async fn ed_58_a_used_connection_that_dies_unheard_is_tried_again_once_for_what_is_safe() {
    let dies = || vec![LENGTH, ""];
    let (upstream, count) = speaks(vec![dies(), vec![LENGTH], dies(), vec![LENGTH]]).await;
    for _ in 0..2 {
        assert_eq!(asked(&upstream, Method::GET).await.unwrap().1, "one");
    }
    assert_eq!(count.load(Ordering::Relaxed), 3);
    tokio::time::sleep(Duration::from_millis(20)).await;

    assert_eq!(asked(&upstream, Method::GET).await.unwrap().1, "one");
    let error = asked(&upstream, Method::POST).await.unwrap_err();
    assert_eq!(error.proxy_status(), Some("stanchion; error=http_response_incomplete"));
    assert_eq!(count.load(Ordering::Relaxed), 5, "never a second POST");
}

#[tokio::test]
async fn a_head_that_breaks_off_is_told_as_such_and_not_tried_again() {
    let (upstream, count) = speaks(vec![vec![LENGTH, "HTTP/1.1 200 O"], vec![LENGTH]]).await;
    assert_eq!(asked(&upstream, Method::GET).await.unwrap().1, "one");
    let error = asked(&upstream, Method::GET).await.unwrap_err();
    assert_eq!(error.proxy_status(), Some("stanchion; error=http_response_incomplete"));
    assert_eq!(count.load(Ordering::Relaxed), 2);
}
