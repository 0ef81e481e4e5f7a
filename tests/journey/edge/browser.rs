//! A person's browser at the edge: it keeps cookies and follows nothing by itself.

use std::time::{Duration, Instant};

use super::Edge;
use super::wire::{ask, status};

const PATIENCE: Duration = Duration::from_secs(30);

/// One browser.
pub(super) struct Browser<'a> {
    edge: &'a Edge,
    pub(super) cookies: Vec<(String, String)>,
}

impl<'a> Browser<'a> {
    /// An empty one.
    pub(super) fn new(edge: &'a Edge) -> Self {
        Self { edge, cookies: Vec::new() }
    }

    /// Sends one request as a navigation; `line` is `METHOD TARGET`.
    pub(super) fn go(&mut self, line: &str, form: Option<&str>) -> String {
        let pairs: Vec<_> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookie = format!("Cookie: {}", pairs.join("; "));
        let length = format!("Content-Length: {}", form.unwrap_or_default().len());
        let mut headers = vec!["Accept: text/html", "Sec-Fetch-Mode: navigate"];
        if !pairs.is_empty() {
            headers.push(&cookie);
        }
        if let Some(form) = form {
            headers.extend(["Content-Type: application/x-www-form-urlencoded", &length, "", form]);
        }
        let answer = ask(&self.edge.url(), line, &headers);
        for line in answer.lines().take_while(|line| !line.is_empty()) {
            if let Some(pair) = line.strip_prefix("set-cookie: ") {
                let (name, rest) = pair.split_once('=').unwrap();
                let value = rest.split(';').next().unwrap().to_owned();
                self.cookies.retain(|(known, _)| known != name);
                if !rest.contains("Max-Age=0") {
                    self.cookies.push((name.to_owned(), value));
                }
            }
        }
        answer
    }

    /// A call to the edge's sale by form; `next` is a form's other fields.
    pub(super) fn post(&mut self, call: &str, form: &str) -> String {
        let line = format!("POST /_stanchion/{}/{call}", self.edge.plan.id);
        self.go(&line, Some(form))
    }

    /// The page of the edge's sale.
    pub(super) fn room(&mut self) -> String {
        self.go(&format!("GET /_stanchion/{}", self.edge.plan.id), None)
    }

    /// Whether it keeps one of our cookies, `ticket` or `pass`.
    pub(super) fn has(&self, kind: &str) -> bool {
        self.value(kind).is_some()
    }

    /// The value of one of our cookies.
    pub(super) fn value(&self, kind: &str) -> Option<&str> {
        let start = format!("stanchion-{kind}-");
        let found = self.cookies.iter().find(|(name, _)| name.starts_with(&start));
        found.map(|(_, value)| value.as_str())
    }

    /// Asks for a page until it is answered otherwise than by the queue.
    pub(super) fn until_moved(&mut self, line: &str) -> String {
        let since = Instant::now();
        loop {
            let answer = self.go(line, None);
            if status(&answer) == 303 {
                return answer;
            }
            assert!(since.elapsed() < PATIENCE, "still in line: {answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
