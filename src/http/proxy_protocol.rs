//! The PROXY protocol, versions 1 and 2: a load balancer says whose connection it hands on.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest line of version 1, its end included.
const LINE_BYTES_MAX: usize = 107;
/// Longest version 2 header after its fixed part; what follows the addresses is read and dropped.
const REST_BYTES_MAX: usize = 4 * 1024;

/// What every version 2 header begins with; nothing of another protocol does.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const WORD: &[u8] = b"PROXY ";
/// The field about TLS, and the bit that the client speaks it.
const SSL: u8 = 0x20;
const CLIENT_SSL: u8 = 0x01;

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Announced {
    /// The balancer speaks for itself, as in its health checks, or does not know for whom.
    Itself,
    /// The connection is of this client.
    Client {
        /// Where it comes from.
        address: SocketAddr,
        /// Whether it speaks TLS to the balancer, which takes it off: told in version 2 alone.
        tls: bool,
    },
}

/// Why a connection is closed before anything of it is believed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HeaderFault {
    /// The first bytes are something else.
    #[error("no PROXY header")]
    Missing,
    /// Longer than any honest one.
    #[error("a PROXY header of {0} bytes")]
    TooLong(usize),
    /// Begins like one and is none.
    #[error("a malformed PROXY header: {0}")]
    Malformed(&'static str),
    /// It took too long.
    #[error("the PROXY header did not come in time")]
    Slow,
    /// The connection broke.
    #[error("no PROXY header: {0}")]
    Broken(#[from] io::Error),
}

/// Reads one header and not a byte beyond it, within `time_max`.
pub(super) async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    time_max: Duration,
) -> Result<Announced, HeaderFault> {
    let header = read_any(stream);
    tokio::time::timeout(time_max, header).await.unwrap_or(Err(HeaderFault::Slow))
}

async fn read_any<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Announced, HeaderFault> {
    // No header of either version is shorter than this.
    let mut start = [0; SIGNATURE.len()];
    stream.read_exact(&mut start).await?;
    if start == SIGNATURE {
        read_binary(stream).await
    } else if start.starts_with(WORD) {
        read_line(stream, &start).await
    } else {
        Err(HeaderFault::Missing)
    }
}

/// Version 1: a line of text, read byte by byte, for what follows it belongs to others.
async fn read_line<S: AsyncRead + Unpin>(
    stream: &mut S,
    start: &[u8],
) -> Result<Announced, HeaderFault> {
    let mut line = start.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() == LINE_BYTES_MAX {
            return Err(HeaderFault::TooLong(line.len()));
        }
        line.push(stream.read_u8().await?);
    }
    line.truncate(line.len() - 2);
    parse_line(&line)
}

fn parse_line(line: &[u8]) -> Result<Announced, HeaderFault> {
    let malformed = HeaderFault::Malformed;
    let text = std::str::from_utf8(line).map_err(|_| malformed("not ASCII"))?;
    let words: Vec<&str> = text.split(' ').collect();
    let (family, source, target, source_port, target_port) = match words.as_slice() {
        // Whatever else an UNKNOWN line says is to be ignored.
        ["PROXY", "UNKNOWN", ..] => return Ok(Announced::Itself),
        ["PROXY", family, source, target, from, to] => (*family, *source, *target, *from, *to),
        _ => return Err(malformed("not six words")),
    };
    let address = |raw: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => raw.parse::<Ipv4Addr>().ok().map(IpAddr::from),
            "TCP6" => raw.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            _ => None,
        }
    };
    let port = |raw: &str| -> Option<u16> {
        let digits = !raw.is_empty() && raw.bytes().all(|b| b.is_ascii_digit());
        let plain = digits && (raw == "0" || !raw.starts_with('0'));
        plain.then(|| raw.parse().ok()).flatten()
    };
    match (address(source), address(target), port(source_port), port(target_port)) {
        (Some(source), Some(_), Some(port), Some(_)) => Ok(client(source, port, false)),
        _ => Err(malformed("an address or a port that is none")),
    }
}

/// Version 2: lengths first, so that it is read in three pieces.
async fn read_binary<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Announced, HeaderFault> {
    let mut fixed = [0; 4];
    stream.read_exact(&mut fixed).await?;
    let [version_and_command, family, high, low] = fixed;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if version_and_command >> 4 != 2 {
        return Err(HeaderFault::Malformed("not of version 2"));
    }
    if length > REST_BYTES_MAX {
        return Err(HeaderFault::TooLong(length));
    }
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await?;
    match version_and_command & 0x0f {
        0 => Ok(Announced::Itself),
        1 => parse_addresses(family, &rest),
        _ => Err(HeaderFault::Malformed("an unknown command")),
    }
}

fn parse_addresses(family: u8, rest: &[u8]) -> Result<Announced, HeaderFault> {
    let short = HeaderFault::Malformed("too short for its addresses");
    match family {
        // Unspecified: the receiver is to use the connection's own.
        0x00 => Ok(Announced::Itself),
        0x11 => match rest {
            [a, b, c, d, _, _, _, _, high, low, _, _, ..] => {
                let port = u16::from_be_bytes([*high, *low]);
                Ok(client([*a, *b, *c, *d].into(), port, says_tls(&rest[12..])))
            }
            _ => Err(short),
        },
        0x21 => {
            let (Some(source), Some(port), true) =
                (rest.first_chunk::<16>(), rest.get(32..34), rest.len() >= 36)
            else {
                return Err(short);
            };
            let port = port.iter().fold(0, |port, byte| port << 8 | u16::from(*byte));
            Ok(client(IpAddr::from(*source), port, says_tls(&rest[36..])))
        }
        _ => Err(HeaderFault::Malformed("neither TCP over IPv4 nor over IPv6")),
    }
}

fn client(ip: IpAddr, port: u16, tls: bool) -> Announced {
    Announced::Client { address: SocketAddr::new(ip.to_canonical(), port), tls }
}

/// What `PP2_TYPE_SSL` among the fields after the addresses says of the client's connection. Fields
/// that are cut short say nothing.
fn says_tls(mut fields: &[u8]) -> bool {
    while let [kind, high, low, rest @ ..] = fields {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some((value, others)) = rest.split_at_checked(length) else { return false };
        if *kind == SSL {
            return value.first().is_some_and(|bits| bits & CLIENT_SSL != 0);
        }
        fields = others;
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads from bytes; also how many of them are left for whoever comes next.
    fn read_from(bytes: &[u8]) -> (Result<Announced, HeaderFault>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut stream = bytes;
        let read = runtime.block_on(read_any(&mut stream));
        (read, stream.len())
    }

    fn of(address: &str) -> Announced {
        Announced::Client { address: address.parse().unwrap(), tls: false }
    }

    fn by_tls(address: &str) -> Announced {
        Announced::Client { address: address.parse().unwrap(), tls: true }
    }

    fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[test]
    fn a_client_is_announced_in_either_version_and_not_a_byte_is_read_beyond() {
        let six = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[9], &[0; 16], &[0x11, 0xd7, 1, 187]];
        let mapped = [&[0; 10][..], &[255, 255, 203, 0, 113, 9], &[0; 16], &[0x11, 0xd7, 1, 187]];
        let four = [203, 0, 113, 9, 10, 0, 0, 1, 0x11, 0xd7, 1, 187];
        let with_tlvs = [&four[..], &[0x04, 0, 3, 1, 2, 3]].concat();
        let ssl = |bits| [0x20, 0, 5, bits, 0, 0, 0, 0];
        let encrypted = [&with_tlvs[..], &ssl(0x07)].concat();
        let plain = [&four[..], &ssl(0)].concat();
        let cut = [&four[..], &[0x20, 0, 5, 1]].concat();
        let six_encrypted = [&six.concat()[..], &ssl(1)].concat();
        for (header, wanted) in [
            (b"PROXY TCP4 203.0.113.9 10.0.0.1 4567 443\r\n".to_vec(), of("203.0.113.9:4567")),
            (b"PROXY TCP6 2001:db8::9 ::1 4567 443\r\n".to_vec(), of("[2001:db8::9]:4567")),
            (b"PROXY TCP6 ::ffff:203.0.113.9 ::1 1 443\r\n".to_vec(), of("203.0.113.9:1")),
            (b"PROXY UNKNOWN\r\n".to_vec(), Announced::Itself),
            (b"PROXY UNKNOWN ffff::1 who knows\r\n".to_vec(), Announced::Itself),
            (binary(0x21, 0x11, &four), of("203.0.113.9:4567")),
            (binary(0x21, 0x11, &with_tlvs), of("203.0.113.9:4567")),
            (binary(0x21, 0x11, &encrypted), by_tls("203.0.113.9:4567")),
            (binary(0x21, 0x11, &plain), of("203.0.113.9:4567")),
            (binary(0x21, 0x11, &cut), of("203.0.113.9:4567")),
            (binary(0x21, 0x21, &six_encrypted), by_tls("[2001:db8::9]:4567")),
            (binary(0x21, 0x21, &six.concat()), of("[2001:db8::9]:4567")),
            (binary(0x21, 0x21, &mapped.concat()), of("203.0.113.9:4567")),
            (binary(0x20, 0x00, &[]), Announced::Itself),
            (binary(0x20, 0x11, &four), Announced::Itself),
            (binary(0x21, 0x00, &[1, 2]), Announced::Itself),
        ] {
            let (read, left) = read_from(&[&header[..], b"GET / HTTP/1.1"].concat());
            assert_eq!((read.unwrap(), left), (wanted, 14), "{header:?}");
        }
    }

    #[test]
    fn ed_77_what_is_not_exactly_a_header_is_refused() {
        for bytes in [
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.9 10.0.0.1 4567\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.9 10.0.0.1 4567 443 1\r\n".to_vec(),
            b"PROXY TCP4  203.0.113.9 10.0.0.1 4567 443\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.9 10.0.0.1 +567 443\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.9 10.0.0.1 65536 443\r\n".to_vec(),
            b"PROXY TCP4 2001:db8::9 ::1 4567 443\r\n".to_vec(),
            b"PROXY TCP6 203.0.113.9 10.0.0.1 4567 443\r\n".to_vec(),
            b"PROXY UDP4 203.0.113.9 10.0.0.1 4567 443\r\n".to_vec(),
            b"proxy TCP4 203.0.113.9 10.0.0.1 4567 443\r\n".to_vec(),
            [b"PROXY UNKNOWN ", &[b'a'; 94][..]].concat(),
            binary(0x21, 0x12, &[]),
            binary(0x21, 0x11, &[1; 11]),
            binary(0x21, 0x21, &[1; 35]),
            binary(0x21, 0x31, &[1; 216]),
            binary(0x22, 0x11, &[1; 12]),
            binary(0x11, 0x11, &[1; 12]),
            binary(0x21, 0x11, &[1; REST_BYTES_MAX + 1]),
            SIGNATURE.to_vec(),
            vec![],
        ] {
            assert!(read_from(&bytes).0.is_err(), "{:?}", String::from_utf8_lossy(&bytes));
        }
    }

    #[tokio::test]
    async fn ed_77_a_header_that_dribbles_in_is_not_waited_for() {
        let (mut near, _far) = tokio::io::duplex(16);

        let read = read(&mut near, Duration::from_millis(20)).await;

        assert!(matches!(read, Err(HeaderFault::Slow)), "{read:?}");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_within_its_bounds(
            start in prop_oneof![Just(SIGNATURE.to_vec()), Just(WORD.to_vec()), Just(vec![])],
            rest in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            drop(read_from(&[start, rest].concat()));
        }
    }
}
