//! One answer off a kept-alive socket.

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Reads one answer with a length to its end: its status, and where in the buffer its body begins.
pub(crate) async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<(u16, usize)> {
    buffer.clear();
    loop {
        ensure!(stream.read_buf(buffer).await? > 0, "the server closed a connection");
        let Some(head) = buffer.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let text = std::str::from_utf8(&buffer[..head])?;
        let status = text.get(9..12).context("no status line")?.parse()?;
        let mut headers = text.split("\r\n").filter_map(|line| line.split_once(':'));
        let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let (_, length) = length.with_context(|| format!("an answer without a length: {text}"))?;
        let whole = head + 4 + length.trim().parse::<usize>()?;
        while buffer.len() < whole {
            ensure!(stream.read_buf(buffer).await? > 0, "the server closed a connection");
        }
        return Ok((status, head + 4));
    }
}
