//! Connections that have asked once and wait: what they take of a server's memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use crate::yard::{Certificate, pss_kib};

/// Clients are at so many addresses.
const ADDRESSES: usize = 100;
/// Opened before those that count, so that what is made once is there.
const BEFORE: usize = 100;
/// For what is freed a little later.
const SETTLE: Duration = Duration::from_millis(500);

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Who is asked, and with which cookie.
pub(crate) struct Asked<'a> {
    pub(crate) address: SocketAddr,
    /// What it shows if it speaks TLS.
    pub(crate) secured: Option<&'a Certificate>,
    pub(crate) cookie: &'a str,
    pub(crate) pid: u32,
}

/// KiB for each of `count` connections after one request each.
pub(crate) async fn idle_kib(asked: Asked<'_>, count: usize) -> Result<f64> {
    let Asked { address, secured, cookie, pid } = asked;
    let secured = secured.map(connector).transpose()?;
    let warm = open(address, secured.as_ref(), cookie, BEFORE).await?;
    tokio::time::sleep(SETTLE).await;
    let before = pss_kib(pid)?;
    let open = open(address, secured.as_ref(), cookie, count).await?;
    tokio::time::sleep(SETTLE).await;
    let after = pss_kib(pid)?;
    drop((warm, open));
    let grown = u32::try_from(after.saturating_sub(before))?;
    Ok(f64::from(grown) / f64::from(u32::try_from(count)?))
}

fn connector(certificate: &Certificate) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&certificate.cert)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn open(
    address: SocketAddr,
    secured: Option<&TlsConnector>,
    cookie: &str,
    count: usize,
) -> Result<Vec<Box<dyn Stream>>> {
    let mut open: Vec<Box<dyn Stream>> = Vec::with_capacity(count);
    for number in 0..count {
        let stream = connect(address, number).await?;
        let mut stream: Box<dyn Stream> = match secured {
            Some(connector) => {
                let name = ServerName::try_from("localhost")?;
                Box::new(connector.connect(name, stream).await?)
            }
            None => Box::new(stream),
        };
        ask(&mut stream, cookie).await?;
        open.push(stream);
    }
    Ok(open)
}

async fn connect(address: SocketAddr, number: usize) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let host = u8::try_from(number % ADDRESSES)? + 1;
    socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 1, host), 0)))?;
    Ok(socket.connect(address).await?)
}

async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), cookie: &str) -> Result<()> {
    let head = "GET /checkout/1k HTTP/1.1\r\nhost: localhost\r\ncookie: ";
    stream.write_all(format!("{head}{cookie}\r\n\r\n").as_bytes()).await?;
    let mut buffer = vec![0; 16 * 1024];
    let count = stream.read(&mut buffer).await?;
    ensure!(buffer[..count].starts_with(b"HTTP/1.1 200"), "an odd answer");
    Ok(())
}
