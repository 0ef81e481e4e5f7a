//! Asks a node's ops listener, as an orchestrator would.

use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Request, Uri, header::HOST};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

const ANSWER_MAX: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What the node said.
#[derive(Debug)]
pub struct Answer {
    /// Whether the status was 200.
    pub good: bool,
    /// The body.
    pub text: String,
}

/// GET of an `http://` URL; an answer that takes more than two seconds is an error.
pub async fn ask(url: &Uri) -> anyhow::Result<Answer> {
    ensure!(url.scheme_str() == Some("http"), "{url}: must be http://HOST:PORT/readyz");
    let answer = tokio::time::timeout(ANSWER_MAX, exchange(url)).await;
    answer.with_context(|| format!("{url} did not answer in time"))?.context(url.to_string())
}

async fn exchange(url: &Uri) -> anyhow::Result<Answer> {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let stream = TcpStream::connect((host, url.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let request = Request::get(path).header(HOST, authority).body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let good = response.status() == http::StatusCode::OK;
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("the answer broke off: {error}"))?;
        Ok(Answer { good, text: String::from_utf8_lossy(&body.to_bytes()).into_owned() })
    };
    tokio::select! {
        answer = answer => answer,
        // Drives the socket; it ends first only if the node hung up.
        ended = connection => {
            ended?;
            anyhow::bail!("the node hung up")
        }
    }
}
