//! The headers of one address each by which CDNs name their client.

/// In lower case. Whoever is no CDN of ours may not send them on to the shop.
pub const CLIENT_HEADERS: [&str; 8] = [
    "cf-connecting-ip",
    "true-client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "do-connecting-ip",
    "x-azure-clientip",
    "x-client-ip",
    "x-real-ip",
];

/// Whether a name, in any case, is one of them.
pub fn names_a_client(name: &str) -> bool {
    CLIENT_HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name))
}
