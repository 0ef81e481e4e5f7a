//! Certificates made for a test, and a client that says which name it asks for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Files of a certificate and its key, and what they hold.
pub(crate) struct Made {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) der: CertificateDer<'static>,
}

/// Makes a self-signed certificate for these names, in `folder` under `name`; files that are there
/// already are replaced.
pub(crate) fn make(folder: &Path, name: &str, hosts: &[&str]) -> Made {
    make_until(folder, name, hosts, 2040)
}

/// The same, good until the spring of a year.
pub(crate) fn make_until(folder: &Path, name: &str, hosts: &[&str], year: i32) -> Made {
    let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut wanted = rcgen::CertificateParams::new(hosts).unwrap();
    wanted.not_after = rcgen::date_time_ymd(year, 3, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = wanted.self_signed(&key).unwrap();
    let (cert_file, key_file) =
        (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    std::fs::write(&cert_file, made.pem()).unwrap();
    Made { cert: cert_file, key: key_file, der: made.der().clone() }
}

/// The value of `public.certificates`.
pub(crate) fn pairs(made: &[&Made]) -> Vec<toml::Value> {
    let pair = |made: &&Made| {
        let mut pair = toml::Table::new();
        pair.insert("cert_file".into(), made.cert.to_str().unwrap().into());
        pair.insert("key_file".into(), made.key.to_str().unwrap().into());
        toml::Value::Table(pair)
    };
    made.iter().map(pair).collect()
}

/// Trusts these and nobody else.
pub(crate) fn client(trusted: &[&Made]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for made in trusted {
        roots.add(made.der.clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Asks for `name` over an open connection.
pub(crate) async fn shake(
    stream: TcpStream,
    client: &ClientConfig,
    name: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(client.clone())).connect(name, stream).await
}

/// The same from the start; `addr` is `http(s)://ADDR` of a listener.
pub(crate) async fn connect(
    addr: &str,
    client: &ClientConfig,
    name: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let addr = addr.split("://").last().unwrap();
    shake(TcpStream::connect(addr).await?, client, name).await
}

/// The certificate that was shown.
pub(crate) fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

/// One request on an open connection, which stays open; the head of its answer.
pub(crate) async fn request<S>(stream: &mut S, line: &str, host: &str, headers: &[&str]) -> String
where
    S: AsyncReadExt + AsyncWriteExt + Unpin,
{
    let headers: String = headers.iter().flat_map(|line| [*line, "\r\n"]).collect();
    let bytes = format!("{line} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = vec![];
    while !answer.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => answer.push(byte),
            Err(_) => break,
        }
    }
    let head = String::from_utf8(answer).unwrap();
    let length = super::origin::header(&head, "content-length");
    let length = length.map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    head
}
