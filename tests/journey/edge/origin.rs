//! A shop that writes down every byte of every request head, and answers as its path says.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How much `/down` sends, in bytes.
pub(crate) const DOWN_BYTES: usize = 200 * 1024 * 1024;
const PIECE: usize = 64 * 1024;
/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(30);

/// The shop, on a port of its own.
pub(crate) struct Origin {
    addr: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    heads: Mutex<Vec<String>>,
    /// Targets of requests whose body was read to its end.
    finished: Mutex<Vec<String>>,
    /// `/down`s that were cut off.
    stalled: AtomicUsize,
    uploaded: AtomicU64,
    connections: AtomicU64,
    /// `/down` waits for it after its first piece.
    released: (Mutex<bool>, Condvar),
    /// `/slow`, `/silent` and sockets count here whose connection was closed.
    gone: (Mutex<usize>, Condvar),
    /// How many events `/sse` may have sent.
    told: (Mutex<usize>, Condvar),
}

impl Origin {
    /// Starts it; its threads end with the process.
    pub(crate) fn start() -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into())
    }

    /// The same at an address of one's choice.
    pub(crate) fn start_at(addr: SocketAddr) -> Self {
        let socket = TcpListener::bind(addr).unwrap();
        let (addr, state) = (socket.local_addr().unwrap(), Arc::<State>::default());
        let kept = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in socket.incoming().map_while(Result::ok) {
                state.connections.fetch_add(1, Ordering::Relaxed);
                let state = Arc::clone(&state);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { addr, state: kept }
    }

    /// `http://ADDR`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The heads that contain a word, as they came.
    pub(crate) fn heads(&self, word: &str) -> Vec<String> {
        let heads = self.state.heads.lock().unwrap();
        heads.iter().filter(|head| head.contains(word)).cloned().collect()
    }

    /// Bytes of uploads read so far.
    pub(crate) fn uploaded(&self) -> u64 {
        self.state.uploaded.load(Ordering::Relaxed)
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Requests to a target whose body came to its end.
    pub(crate) fn finished(&self, word: &str) -> usize {
        let finished = self.state.finished.lock().unwrap();
        finished.iter().filter(|target| target.contains(word)).count()
    }

    /// Downloads that were cut off.
    pub(crate) fn stalled(&self) -> usize {
        self.state.stalled.load(Ordering::Relaxed)
    }

    /// Lets `/down` go on.
    pub(crate) fn release(&self) {
        set(&self.state.released);
    }

    /// Waits until so many connections of `/slow`, `/silent` and sockets were closed.
    pub(crate) fn await_gone(&self, count: usize) {
        assert!(wait_for(&self.state.gone, count), "the shop still works for nobody");
    }

    /// Lets `/sse` send one more event.
    pub(crate) fn tell(&self) {
        add(&self.state.told);
    }

    /// Waits until a head with this word has come.
    pub(crate) fn await_head(&self, word: &str) {
        let since = Instant::now();
        while self.heads(word).is_empty() {
            assert!(since.elapsed() < PATIENCE, "{word} never reached the shop");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn add((count, changed): &(Mutex<usize>, Condvar)) {
    *count.lock().unwrap() += 1;
    changed.notify_all();
}

fn wait_for((count, changed): &(Mutex<usize>, Condvar), wanted: usize) -> bool {
    let count = count.lock().unwrap();
    *changed.wait_timeout_while(count, PATIENCE, |count| *count < wanted).unwrap().0 >= wanted
}

fn set((flag, changed): &(Mutex<bool>, Condvar)) {
    *flag.lock().unwrap() = true;
    changed.notify_all();
}

fn wait((flag, changed): &(Mutex<bool>, Condvar)) -> bool {
    let flag = flag.lock().unwrap();
    *changed.wait_timeout_while(flag, PATIENCE, |set| !*set).unwrap().0
}

/// One connection: request after request, until one side has had enough.
fn serve(stream: TcpStream, state: &State) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(head) = read_head(&mut reader) {
        state.heads.lock().unwrap().push(head.clone());
        if answer(&head, &mut reader, &mut writer, state).is_none() {
            return;
        }
    }
}

fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let before = head.len();
        reader.read_until(b'\n', &mut head).ok()?;
        if head.len() == before {
            return None;
        }
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// The value of a header in a recorded head.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

/// Nothing = the connection is done.
fn answer(
    head: &str,
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    state: &State,
) -> Option<()> {
    let path = head.split(' ').nth(1)?.split('?').next()?.to_owned();
    let mut say = |text: &str| writer.write_all(text.as_bytes()).ok();
    if path.starts_with("/early") {
        return say("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
    }
    let body = read_body(head, reader, state)?;
    state.finished.lock().unwrap().push(path.clone());
    // What a test wants to be said, a bar for each line's end.
    if let Some(wanted) = header(head, "x-say") {
        return say(&wanted.replace('|', "\r\n"));
    }
    match path.as_str() {
        "/hop" => say(
            "HTTP/1.1 200 OK\r\nConnection: X-Shop-Hop\r\nX-Shop-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
             Proxy-Authenticate: x\r\nStanchion-Answer: queue\r\nX-Kept: 1\r\nSet-Cookie: a=1\r\n\
             Set-Cookie: b=2\r\nSet-Cookie: c=3\r\nContent-Length: 2\r\n\r\nok",
        ),
        "/down" => down(writer, state).or_else(|| {
            state.stalled.fetch_add(1, Ordering::Relaxed);
            None
        }),
        "/up" => say(&with_length(&body.to_string())),
        "/cut/length" => {
            say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")?;
            None
        }
        "/cut/chunks" => {
            say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")?;
            None
        }
        "/trailers" => {
            say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
             2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n")
        }
        "/fat" => say(&with_headers(
            &"Set-Cookie: a=1234567890123456789012345678901234567890\r\n".repeat(150),
        )),
        "/fatter" => say(&with_headers(&format!("X-Fat: {}\r\n", "a".repeat(2 * 1024 * 1024)))),
        "/whoami" => {
            let user = header(head, "cookie").and_then(|cookie| cookie.split("user=").nth(1));
            let user = user.and_then(|rest| rest.split(';').next());
            say(&with_headers(
                &user.map(|user| format!("X-Account-Id: {user}\r\n")).unwrap_or_default(),
            ))
        }
        "/moved" | "/checkout/moved" => {
            let to = head.split(' ').nth(1)?.split_once("to=")?.1;
            say(&format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"))
        }
        "/provider" => {
            let to = head.split(' ').nth(1)?.split_once("to=")?.1;
            let page = format!("<meta http-equiv=\"refresh\" content=\"0;url={to}\">");
            let length = page.len();
            say(&format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{page}"
            ))
        }
        "/hints" => say(&format!(
            "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n{}",
            with_length("ok")
        )),
        "/continued" => say(&format!("HTTP/1.1 100 Continue\r\n\r\n{}", with_length("ok"))),
        _ => lasting(head, &path, reader, writer, state),
    }
}

/// Answers that take their time, or end their connection.
fn lasting(
    head: &str,
    path: &str,
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    state: &State,
) -> Option<()> {
    let mut say = |text: &str| writer.write_all(text.as_bytes()).ok();
    match path {
        "/ws" | "/checkout/ws" => {
            say(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Accept: x\r\n\r\n",
            )?;
            let mut said = [0; 5];
            reader.read_exact(&mut said).ok()?;
            writer.write_all(&said).ok()?;
            None
        }
        "/socket" | "/checkout/socket" => {
            let accept = accept(header(head, "sec-websocket-key")?);
            say(&format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Protocol: chat\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\n"
            ))?;
            std::io::copy(reader, writer).ok()?;
            add(&state.gone);
            None
        }
        "/once" => {
            say(&with_length("once"))?;
            None
        }
        "/dies" => None,
        "/slow" => {
            wait_until_gone(reader, state);
            None
        }
        "/silent" => {
            say(STREAM)?;
            wait_until_gone(reader, state);
            None
        }
        "/sse" => {
            say(STREAM)?;
            for number in 0.. {
                let event = format!("data: {number:02}\n\n");
                if !wait_for(&state.told, number + 1) {
                    break;
                }
                say(&format!("{:x}\r\n{event}\r\n", event.len()))?;
            }
            None
        }
        "/garbage" => {
            say("GARBAGE\r\n\r\n")?;
            None
        }
        _ => say(&with_length("ok")),
    }
}

/// What RFC 6455 wants to be said to a key.
fn accept(key: &str) -> String {
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
    use base64::Engine;
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(hash)
}

/// The head of an event stream.
const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

fn wait_until_gone(reader: &mut impl BufRead, state: &State) {
    // Closed or reset, the client has gone.
    if !reader.read(&mut [0]).is_ok_and(|count| count > 0) {
        add(&state.gone);
    }
}

fn with_length(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())
}

fn with_headers(lines: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nok")
}

/// A first piece at once, the rest when released.
fn down(writer: &mut impl Write, state: &State) -> Option<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {DOWN_BYTES}\r\n\r\n");
    writer.write_all(head.as_bytes()).ok()?;
    let piece = vec![b'd'; PIECE];
    writer.write_all(&piece).ok()?;
    if !wait(&state.released) {
        return None;
    }
    for _ in 1..DOWN_BYTES / PIECE {
        writer.write_all(&piece).ok()?;
    }
    Some(())
}

/// Reads and counts the body.
fn read_body(head: &str, reader: &mut impl BufRead, state: &State) -> Option<u64> {
    if header(head, "transfer-encoding").is_some() {
        return read_chunks(reader);
    }
    let length: u64 = header(head, "content-length").map_or(Some(0), |v| v.parse().ok())?;
    let mut buffer = vec![0; PIECE];
    let mut left = length;
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let count = reader.read(&mut buffer[..wanted]).ok().filter(|count| *count > 0)?;
        left -= count as u64;
        state.uploaded.fetch_add(count as u64, Ordering::Relaxed);
    }
    Some(length)
}

fn read_chunks(reader: &mut impl BufRead) -> Option<u64> {
    let mut total = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let size = u64::from_str_radix(line.trim(), 16).ok()?;
        let mut piece = vec![0; usize::try_from(size).ok()? + 2];
        if size == 0 {
            // Trailers, if any, end with an empty line.
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line).ok()?;
            }
            return Some(total);
        }
        reader.read_exact(&mut piece).ok()?;
        total += size;
    }
}
