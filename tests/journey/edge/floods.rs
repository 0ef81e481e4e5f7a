//! HTTP/2 clients that mean harm: each costs little, each is told to stop, nobody else notices.

use rustls::ClientConfig;

use super::Edge;
use super::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, H2, HEADERS, PING,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, block, field, frame, number,
};
use super::tls::{secured, secured_with};

/// More than this much growth would be a lever for an attacker.
const GROWTH_KIB_MAX: u64 = 64 * 1024;

/// An honest client is served.
fn honest(edge: &Edge, client: &ClientConfig) {
    let mut honest = H2::connect(edge, client, &[]);
    assert!(honest.send(HEADERS, END_HEADERS | END_STREAM, 1, &block("GET", "/honest", &[])));
    let answer = honest.outcome(1).expect("an answer");
    assert_eq!((answer.kind, answer.status()), (HEADERS, 200));
}

/// Runs a flood and looks at what is left of it: little memory, no files, no harm.
fn survives(edge: &Edge, client: &ClientConfig, flood: impl FnOnce()) {
    honest(edge, client);
    let (memory, files) = (edge.memory_kib(), edge.descriptors());
    flood();
    let growth = edge.memory_kib().saturating_sub(memory);
    assert!(growth < GROWTH_KIB_MAX, "grew by {growth} KiB");
    honest(edge, client);
    edge.await_descriptors(files);
}

#[test]
fn ed_64_a_rapid_reset_is_told_to_calm_down_and_hardly_reaches_the_shop() {
    let (edge, client) = secured("rapid");
    survives(&edge, &client, || {
        let mut hostile = H2::connect(&edge, &client, &[]);
        let ask = block("GET", "/rapid", &[]);
        for batch in 0..100 {
            let mut frames = Vec::new();
            for number in 0..100 {
                let stream = (batch * 100 + number) * 2 + 1;
                frames.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &ask));
                frames.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            }
            if !hostile.send_all(&frames) {
                break;
            }
        }
        let end = hostile.find(|frame| frame.kind == GOAWAY).expect("a GOAWAY");
        assert_eq!(end.code(), ENHANCE_YOUR_CALM);
    });
    assert!(edge.shop.heads("/rapid").len() < 200, "{}", edge.shop.heads("/rapid").len());
}

#[test]
fn ed_64_resets_that_the_server_is_made_to_send_are_counted_as_well() {
    let (edge, client) = secured("madereset");
    let ask = block("GET", "/madereset", &[]);
    // A window that is opened too far, and a body after the end.
    let too_far = |stream| frame(WINDOW_UPDATE, 0, stream, &0x7fff_ffff_u32.to_be_bytes());
    let after_end = |stream| frame(DATA, 0, stream, b"a");
    for provoke in [&too_far as &dyn Fn(u32) -> Vec<u8>, &after_end] {
        survives(&edge, &client, || {
            let mut hostile = H2::connect(&edge, &client, &[]);
            for batch in 0..100 {
                let mut frames = Vec::new();
                for number in 0..50 {
                    let stream = (batch * 50 + number) * 2 + 1;
                    frames.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &ask));
                    frames.extend(provoke(stream));
                }
                if !hostile.send_all(&frames) {
                    break;
                }
            }
            let end = hostile.find(|frame| frame.kind == GOAWAY).expect("a GOAWAY");
            assert_ne!(end.code(), 0);
        });
    }
    let seen = edge.shop.heads("/madereset").len();
    assert!(seen < 2 * 1_100, "{seen} reached the shop");
}

#[test]
fn ed_65_a_head_without_end_is_cut_off() {
    let (edge, client) = secured("continued");
    survives(&edge, &client, || {
        let mut hostile = H2::connect(&edge, &client, &[]);
        assert!(hostile.send(HEADERS, END_STREAM, 1, &block("GET", "/continued", &[])));
        let piece: Vec<u8> = (0..8).flat_map(|_| field("x-a", &"a".repeat(2_000))).collect();
        for _ in 0..4_000 {
            if !hostile.send(CONTINUATION, 0, 1, &piece) {
                break;
            }
        }
        let end = hostile.find(|frame| frame.kind == GOAWAY).expect("a GOAWAY");
        assert_ne!(end.code(), 0);
    });
    assert_eq!(edge.shop.heads("/continued"), [""; 0]);
}

#[test]
fn ed_65_floods_of_small_frames_are_bounded() {
    let (edge, client) = secured("smallframes");
    survives(&edge, &client, || {
        let mut hostile = H2::connect(&edge, &client, &[]);
        assert!(hostile.send(HEADERS, END_HEADERS, 1, &block("POST", "/onebyone", &[])));
        let bytes: Vec<u8> = (0..1_000).flat_map(|_| frame(DATA, 0, 1, b"a")).collect();
        for _ in 0..100 {
            if !hostile.send_all(&bytes) {
                break;
            }
        }
    });
    for (kind, payload) in [(PING, &[0; 8][..]), (SETTINGS, &[][..])] {
        survives(&edge, &client, || {
            let mut hostile = H2::connect(&edge, &client, &[]);
            let frames: Vec<u8> = (0..1_000).flat_map(|_| frame(kind, 0, 0, payload)).collect();
            for _ in 0..100 {
                if !hostile.send_all(&frames) {
                    break;
                }
            }
        });
    }
}

#[test]
fn an_hpack_bomb_is_not_unpacked() {
    let (edge, client) = secured("bomb");
    survives(&edge, &client, || {
        let mut hostile = H2::connect(&edge, &client, &[]);
        // One entry of the table, named again and again: a byte for each 3,900.
        let mut bomb = block("GET", "/bomb", &[]);
        bomb.extend([0x40, 1, b'x']);
        bomb.extend(number(3_900, 0x7f, 0));
        bomb.extend([b'a'; 3_900]);
        bomb.resize(16_000, 0xbe);
        for number in 0..50 {
            if !hostile.send(HEADERS, END_HEADERS | END_STREAM, number * 2 + 1, &bomb) {
                break;
            }
        }
        let end = hostile.outcome(1);
        assert!(end.is_none_or(|end| end.kind != HEADERS || end.status() != 200));
    });
    assert_eq!(edge.shop.heads("/bomb"), [""; 0]);
}

#[test]
fn ed_56_a_reader_whose_window_stays_shut_is_left_and_its_connection_lives() {
    let (edge, client) = secured_with("window", |config| {
        config.set("limits.client.write_timeout", "1s").unwrap();
    });
    edge.shop.release();
    survives(&edge, &client, || {
        let mut hostile = H2::connect(&edge, &client, &[(4, 0)]);
        let ask = block("GET", "/down", &[]);
        for number in 0..20 {
            assert!(hostile.send(HEADERS, END_HEADERS | END_STREAM, number * 2 + 1, &ask));
        }
        for _ in 0..20 {
            let end = hostile.find(|frame| matches!(frame.kind, RST_STREAM | GOAWAY));
            assert_eq!(end.expect("a reset").kind, RST_STREAM, "only the stream is at fault");
        }
        // The window opens for others: the connection is as good as before.
        let open = [&4_u16.to_be_bytes()[..], &65_535_u32.to_be_bytes()[..]].concat();
        assert!(hostile.send(SETTINGS, 0, 0, &open));
        let ask = block("GET", "/after", &[]);
        assert!(hostile.send(HEADERS, END_HEADERS | END_STREAM, 101, &ask));
        let answer = hostile.outcome(101).expect("an answer");
        assert_eq!((answer.kind, answer.status()), (HEADERS, 200));
    });
}

#[test]
fn a_connection_that_is_idle_or_has_carried_enough_is_told_to_go() {
    let (edge, client) = secured_with("worn", |config| {
        config.set("limits.client.h2_idle_timeout", "500ms").unwrap();
        config.set("limits.client.max_requests", 5).unwrap();
    });
    let mut idle = H2::connect(&edge, &client, &[]);
    let ask = block("GET", "/worn", &[]);
    assert!(idle.send(HEADERS, END_HEADERS | END_STREAM, 1, &ask));
    assert_eq!(idle.find(|frame| frame.kind == GOAWAY).expect("a GOAWAY").code(), 0);

    let mut busy = H2::connect(&edge, &client, &[]);
    for number in 0..5 {
        assert!(busy.send(HEADERS, END_HEADERS | END_STREAM, number * 2 + 1, &ask));
    }
    let mut answered = 0;
    let end = loop {
        let frame = busy.next().expect("a GOAWAY before the end");
        answered += usize::from(frame.kind == HEADERS);
        if frame.kind == GOAWAY {
            break frame;
        }
    };
    assert_eq!(end.code(), 0);
    while answered < 5 {
        answered += usize::from(busy.next().expect("all answers").kind == HEADERS);
    }
}
