//! Requests of both kinds in any order and in any pieces, on one connection.

use std::fmt::Write as _;
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::http::body;
use crate::http::bounds::Bounds;
use crate::http::guard::Sizes;
use crate::http::guests::Guest;
use crate::http::life::Life;
use crate::http::listener::Options;
use crate::http::stall::Lingering;

mod calls;

/// Answers exactly `GET /quick/N`, whatever fields follow, and begins to answer `POST /call/N`.
#[derive(Default)]
struct Numbers {
    /// Calls wait for it, if there is one.
    word: Option<Arc<Semaphore>>,
}

impl Quick for Numbers {
    fn answer(&self, request: &[u8], _: &Peer, out: &mut Vec<u8>) -> bool {
        let text = std::str::from_utf8(request).unwrap();
        let number = text.strip_prefix("GET /quick/").and_then(|rest| rest.split_once(' '));
        let is_one = text.find("\r\n\r\n").is_some_and(|at| at + 4 == text.len());
        let Some((number, _)) = number.filter(|_| is_one) else { return false };
        let body = format!("quick {number}");
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        out.extend_from_slice(head.as_bytes());
        true
    }

    fn begin(self: Arc<Self>, request: &[u8], _: &Peer) -> Option<Answering> {
        let request = whole::read(request, &Sizes::default())?;
        let number = request.uri().path().strip_prefix("/call/")?.to_owned();
        Some(Either::Right(Box::pin(async move {
            match &self.word {
                Some(word) => drop(word.acquire().await),
                None => tokio::task::yield_now().await,
            }
            let body = body::collect(request.into_body(), 4096, Duration::from_secs(5)).await;
            let told = format!("call {number} {}", body.unwrap().len());
            let mut response = Response::new(body::full(told));
            if number == "last" {
                let close = hyper::header::HeaderValue::from_static("close");
                response.headers_mut().insert(hyper::header::CONNECTION, close);
            }
            response
        })))
    }
}

/// Serves one connection; what is not quick is told what reached hyper.
async fn serve(stream: tokio::io::DuplexStream) {
    serve_by(Numbers::default(), stream, CancellationToken::new(), Bounds::default()).await;
}

async fn serve_by(
    numbers: Numbers,
    stream: tokio::io::DuplexStream,
    stop: CancellationToken,
    bounds: Bounds,
) {
    let guest = Arc::new(Guest::uncounted());
    let address = ([127, 0, 0, 1], 1).into();
    let peer = Peer { address, tls: false, presented: None, guest };
    let options = Options { quick: Some(Arc::new(numbers)), bounds, ..Options::default() };
    let life = Life::new(peer, Lingering::new(), stop, Arc::new(options));
    life.http1(stream, |request, _| async move {
        let (parts, incoming) = request.into_parts();
        let read = body::collect(incoming, 4096, Duration::from_secs(5)).await.unwrap();
        let told = format!("{} {} {}", parts.method, parts.uri.path(), read.len());
        hyper::Response::new(body::full(told))
    })
    .await;
}

/// A request as it is sent, and what its answer says.
#[derive(Debug, Clone)]
enum Sent {
    Quick,
    Get,
    /// A field of it reads like a quick one.
    Lure,
    /// Its lines end without a carriage return.
    Bare,
    Head,
    /// Its body reads like a quick one.
    Post,
    /// The same, answered later without hyper.
    Call,
    Chunked,
}

const LURE: &str = "GET /quick/9 HTTP/1.1\r\nHost: a\r\n\r\n";

impl Sent {
    fn request(&self, number: usize) -> String {
        let length = LURE.len();
        match self {
            Self::Quick => format!("GET /quick/{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
            Self::Get => format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
            Self::Lure => {
                format!("GET /{number} HTTP/1.1\r\nx: GET /quick/9 HTTP/1.1\r\nHost: a\r\n\r\n")
            }
            Self::Bare => format!("GET /{number} HTTP/1.1\nHost: a\n\n"),
            Self::Head => format!("HEAD /{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
            Self::Post => format!(
                "POST /{number} HTTP/1.1\r\nHost: a\r\ncontent-length: {length}\r\n\r\n{LURE}"
            ),
            Self::Call => format!(
                "POST /call/{number} HTTP/1.1\r\nHost: a\r\ncontent-length: {length}\r\n\r\n{LURE}"
            ),
            Self::Chunked => format!(
                "POST /{number} HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n\
                 {length:x}\r\n{LURE}\r\n0\r\n\r\n"
            ),
        }
    }

    fn answer(&self, number: usize) -> String {
        match self {
            Self::Quick => format!("quick {number}"),
            Self::Get | Self::Lure | Self::Bare => format!("GET /{number} 0"),
            Self::Head => String::new(),
            Self::Call => format!("call {number} {}", LURE.len()),
            Self::Post | Self::Chunked => format!("POST /{number} {}", LURE.len()),
        }
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        4 => Just(Sent::Quick),
        3 => Just(Sent::Call),
        2 => Just(Sent::Get),
        1 => Just(Sent::Lure),
        1 => Just(Sent::Bare),
        1 => Just(Sent::Head),
        1 => Just(Sent::Post),
        1 => Just(Sent::Chunked),
    ]
}

/// The bodies of the answers to `requests`, sent in pieces that end where `cuts` say.
async fn answers(requests: &[Sent], cuts: &[usize], pause: bool) -> Vec<String> {
    let mut bytes = String::new();
    for (number, request) in requests.iter().enumerate() {
        bytes.push_str(&request.request(number));
    }
    bytes.push_str("GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let (near, far) = tokio::io::duplex(64 * 1024);
    let serving = tokio::spawn(serve(near));
    let (mut reading, mut writing) = tokio::io::split(far);
    let sending = async {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % bytes.len()).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        let mut from = 0;
        for to in ends {
            writing.write_all(&bytes.as_bytes()[from..to]).await.unwrap();
            from = to;
            // So that it is read before the next piece is there, or is not.
            for _ in 0..if pause { 8 } else { 0 } {
                tokio::task::yield_now().await;
            }
        }
    };
    let mut text = String::new();
    let (read, ()) = tokio::join!(reading.read_to_string(&mut text), sending);
    read.unwrap();
    drop((reading, writing));
    serving.await.unwrap();
    bodies(&text)
}

fn bodies(mut text: &str) -> Vec<String> {
    let mut bodies = vec![];
    while let Some((head, rest)) = text.split_once("\r\n\r\n") {
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        // An answer to HEAD tells a length and has no body: the next head begins there.
        let length = if rest.starts_with("HTTP/1.1 ") { 0 } else { length };
        bodies.push(rest[..length].to_owned());
        text = &rest[length..];
    }
    assert_eq!(text, "");
    bodies
}

/// One that was not alone in its piece is answered by hyper.
fn by_whomever(told: String) -> String {
    if let Some(number) = told.strip_prefix("GET /quick/") {
        format!("quick {}", number.trim_end_matches(" 0"))
    } else if let Some(call) = told.strip_prefix("POST /call/") {
        format!("call {call}")
    } else {
        told
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn requests_in_any_pieces_are_answered_each_once_and_in_their_order(
        requests in prop::collection::vec(sent(), 0..8),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        at_ends in any::<bool>(),
        pause in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut wanted: Vec<_> =
            requests.iter().enumerate().map(|(number, request)| request.answer(number)).collect();
        wanted.push("GET /last 0".to_owned());
        let mut cuts = cuts;
        if at_ends {
            let mut end = 0;
            for (number, request) in requests.iter().enumerate() {
                end += request.request(number).len();
                cuts.push(end);
            }
        }
        let told = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(20), answers(&requests, &cuts, pause)).await
        });
        let told: Vec<_> = told.unwrap().into_iter().map(by_whomever).collect();
        prop_assert_eq!(told, wanted);
    }
}

#[tokio::test]
async fn a_quick_request_after_one_of_hypers_without_a_body_is_quick_again() {
    let (near, mut far) = tokio::io::duplex(4096);
    let serving = tokio::spawn(serve(near));
    let mut all = String::new();
    for round in 0..3 {
        for request in [Sent::Quick, Sent::Get, Sent::Call, Sent::Quick, Sent::Post] {
            far.write_all(request.request(round).as_bytes()).await.unwrap();
            let mut answer = [0; 512];
            let length = far.read(&mut answer).await.unwrap();
            let (_, told) =
                std::str::from_utf8(&answer[..length]).unwrap().rsplit_once('\n').unwrap();
            let by_hyper = told.starts_with("GET") || told.starts_with("POST");
            write!(all, "{} ", if by_hyper { "hyper" } else { "quick" }).unwrap();
        }
    }
    let first = "quick hyper quick quick hyper ";
    let then = "hyper hyper hyper hyper hyper ";
    assert_eq!(all, [first, then, then].concat(), "after a body nobody knows where hyper is");
    drop(far);
    serving.await.unwrap();
}

#[tokio::test]
async fn an_answer_that_its_reader_takes_slowly_comes_whole_and_before_the_next() {
    let (near, mut far) = tokio::io::duplex(48);
    let serving = tokio::spawn(serve(near));
    let (mut reading, mut writing) = tokio::io::split(&mut far);
    let ask = async {
        for number in 0..20 {
            writing.write_all(Sent::Quick.request(number).as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        writing.shutdown().await.unwrap();
    };
    let mut text = String::new();
    let (read, ()) = tokio::join!(reading.read_to_string(&mut text), ask);
    read.unwrap();
    serving.await.unwrap();

    let told = bodies(&text);
    assert_eq!(told.len(), 20);
    for (number, told) in told.iter().enumerate() {
        // Sent in two pieces, it is for hyper.
        let by_hyper = format!("GET /quick/{number} 0");
        assert!(*told == format!("quick {number}") || *told == by_hyper, "{told}");
    }
}

/// Asks in turn, each a request and its answer; what is left of the connection.
async fn ask(far: &mut tokio::io::DuplexStream, requests: &[Sent]) {
    for request in requests {
        far.write_all(request.request(1).as_bytes()).await.unwrap();
        let mut answer = [0; 512];
        assert!(far.read(&mut answer).await.unwrap() > 0);
    }
}

#[tokio::test]
async fn whoever_asks_nothing_more_is_let_go_in_time_and_at_once_when_the_doors_close() {
    for requests in [
        &[Sent::Quick][..],
        &[Sent::Get],
        &[Sent::Get, Sent::Quick],
        &[Sent::Get, Sent::Quick, Sent::Get],
    ] {
        for closes in [false, true] {
            let (near, mut far) = tokio::io::duplex(4096);
            let stop = CancellationToken::new();
            let head = Duration::from_millis(if closes { 600_000 } else { 50 });
            let bounds = Bounds { head, ..Bounds::default() };
            let serving = tokio::spawn(serve_by(Numbers::default(), near, stop.clone(), bounds));
            ask(&mut far, requests).await;
            if closes {
                stop.cancel();
            }
            let end = tokio::time::timeout(Duration::from_secs(20), far.read(&mut [0; 8])).await;
            assert_eq!(end.unwrap().unwrap(), 0, "{requests:?}, {closes}");
            drop(far);
            serving.await.unwrap();
        }
    }
}
