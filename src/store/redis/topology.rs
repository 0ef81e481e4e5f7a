//! Which node of a cluster has which slot.

use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Value};

/// Slots of a cluster.
const SLOTS: u16 = 16_384;

/// Host and port.
pub(super) type Node = (String, u16);

/// The cluster as one of its nodes told it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Topology {
    /// First and last slot, and the primary that has them.
    ranges: Vec<(u16, u16, Node)>,
    /// All nodes, replicas too.
    pub(super) nodes: Vec<Node>,
}

impl Topology {
    /// Reads the answer to `CLUSTER SLOTS` that `asked` gave; a node may leave its own name out.
    pub(super) fn read(answer: Value, asked: &Node) -> RedisResult<Self> {
        let mut read = Self::default();
        for range in Vec::<Vec<Value>>::from_redis_value(answer)? {
            let mut parts = range.into_iter();
            let mut bound = || u16::from_redis_value(parts.next().unwrap_or(Value::Nil));
            let (first, last) = (bound()?, bound()?);
            let nodes = parts.map(|raw| node(raw, asked)).collect::<RedisResult<Vec<_>>>()?;
            let Some(primary) = nodes.first() else { continue };
            read.ranges.push((first, last, primary.clone()));
            for node in nodes {
                if !read.nodes.contains(&node) {
                    read.nodes.push(node);
                }
            }
        }
        Ok(read)
    }

    /// The primary of a slot.
    pub(super) fn primary(&self, slot: u16) -> Option<&Node> {
        let of = |(first, last, _): &&(u16, u16, Node)| (*first..=*last).contains(&slot);
        self.ranges.iter().find(of).map(|(.., node)| node)
    }

    /// All primaries, each once.
    pub(super) fn primaries(&self) -> Vec<Node> {
        let mut all: Vec<_> = self.ranges.iter().map(|(.., node)| node.clone()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Learns that a slot has moved.
    pub(super) fn moved(&mut self, slot: u16, node: Node) {
        if !self.nodes.contains(&node) {
            self.nodes.push(node.clone());
        }
        self.ranges.retain(|(first, last, _)| (*first, *last) != (slot, slot));
        self.ranges.insert(0, (slot, slot, node));
    }
}

fn node(raw: Value, asked: &Node) -> RedisResult<Node> {
    let mut parts = Vec::<Value>::from_redis_value(raw)?.into_iter();
    let host = Option::<String>::from_redis_value(parts.next().unwrap_or(Value::Nil))?;
    let port = u16::from_redis_value(parts.next().unwrap_or(Value::Nil))?;
    let host = host.filter(|host| !host.is_empty()).unwrap_or_else(|| asked.0.clone());
    Ok((host, port))
}

/// The node that a `MOVED` or `ASK` names, and the slot.
pub(super) fn redirect(error: &RedisError, from: &Node) -> RedisResult<(u16, Node)> {
    let read = || {
        let (address, slot) = error.redirect_node()?;
        let (host, port) = address.rsplit_once(':')?;
        let host = if host.is_empty() { from.0.as_str() } else { host };
        Some((slot, (host.to_owned(), port.parse().ok()?)))
    };
    read().ok_or_else(|| RedisError::from((ErrorKind::Client, "a redirection to nowhere")))
}

/// The slot of a key, by the part in its first braces if there is one.
pub(super) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let length = rest.iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &rest[..length])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"bar"), 5_061);
        assert_eq!(slot(b"stanchion:{foo}:room"), 12_182);
        assert_eq!(slot(b"{}foo"), crc16(b"{}foo") % SLOTS);
        assert_eq!(slot(b"{foo}{bar}"), 12_182);
    }

    #[test]
    fn a_told_cluster_is_read_and_a_moved_slot_learnt() {
        let node = |host: &str, port| {
            Value::Array(vec![Value::BulkString(host.into()), Value::Int(port), Value::Nil])
        };
        let range = |first, last, nodes: Vec<Value>| {
            Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
        };
        let answer = Value::Array(vec![
            range(0, 99, vec![node("", 1), node("b", 2)]),
            range(100, 16_383, vec![node("c", 3)]),
        ]);
        let mut read = Topology::read(answer, &("me".into(), 9)).unwrap();
        assert_eq!(read.primary(99), Some(&("me".into(), 1)));
        assert_eq!(read.nodes.len(), 3);
        assert_eq!(read.primaries(), [("c".into(), 3), ("me".into(), 1)]);

        read.moved(99, ("d".into(), 4));
        read.moved(99, ("e".into(), 5));

        assert_eq!(read.primary(99), Some(&("e".into(), 5)));
        assert_eq!(read.primary(98), Some(&("me".into(), 1)));
    }
}
