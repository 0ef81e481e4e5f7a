//! The sale's own page, as a script or a reader asks for it.

use super::browser::Browser;
use super::wire::status;
use super::{lobby, open_edge};

#[test]
fn wr_60_a_reader_without_a_script_pauses_the_refresh_and_keeps_the_place() {
    let edge = lobby();
    let mut reader = Browser::new(&edge);
    let room = format!("GET /_stanchion/{}?next=%2Fcheckout%2Fr", edge.plan.id);
    for state in ["Join the draw", "You are in the draw"] {
        let moving = reader.go(&room, None);
        let still = reader.go(&format!("{room}&refresh=off"), None);

        for page in [&moving, &still] {
            assert!(status(page) == 200 && page.contains(state), "{page}");
            assert!(page.contains("name=\"next\" value=\"/checkout/r\""), "{page}");
        }
        assert!(moving.contains("http-equiv=\"refresh\""), "{moving}");
        assert!(moving.contains("name=\"refresh\" value=\"off\">Pause the refresh"), "{moving}");
        assert!(!still.contains("http-equiv"), "{still}");
        assert!(still.contains("<button>Refresh by itself again"), "{still}");
        reader.post("join", "join_key=reader&next=/checkout/r");
    }
}

#[test]
fn wr_05_a_script_that_has_claimed_gets_the_page_of_its_slot() {
    let edge = open_edge("slotpage", 500);
    edge.await_lobby();
    let mut called = Browser::new(&edge);
    called.post("join", "join_key=called&next=/checkout/s");
    edge.await_open();
    let room = format!("GET /_stanchion/{}", edge.plan.id);
    while !called.go(&room, None).contains("data-state=\"called\"") {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }

    let booked = called.go(&format!("{room}?slot=4102444800000"), None);
    let wrong = called.go(&format!("{room}?slot=soon"), None);
    let stranger = Browser::new(&edge).go(&format!("{room}?slot=4102444800000"), None);

    assert!(booked.contains("data-state=\"booked\""), "{booked}");
    assert!(booked.contains("data-count=\"4102444800000\""), "{booked}");
    assert!(wrong.contains("data-state=\"called\""), "{wrong}");
    assert!(!stranger.contains("data-count"), "{stranger}");
}
