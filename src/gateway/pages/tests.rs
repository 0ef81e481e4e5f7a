//! What every page owes its reader, checked over all states.

use super::*;
use crate::domain::queue::{Eta, Odds, Place, PlaceState};
use crate::domain::refusal::Problem;
use crate::domain::stock::StockSum;
use crate::gateway::assets;

pub(super) const NOON: u64 = 1_803_902_400_000;

pub(super) const STATES: [PageState; 21] = [
    PageState::Upcoming,
    PageState::Lobby,
    PageState::Drawing,
    PageState::Open,
    PageState::Waiting,
    PageState::Called,
    PageState::Booked,
    PageState::Admitted,
    PageState::Missed,
    PageState::Left,
    PageState::CodeOver,
    PageState::Cookies,
    PageState::Paused,
    PageState::AllHeld,
    PageState::Gone,
    PageState::Closed,
    PageState::SignIn,
    PageState::Full,
    PageState::Unavailable,
    PageState::ShopUnavailable,
    PageState::Problem,
];

/// A page with everything known that the state can know.
pub(super) fn view(state: PageState) -> PageView {
    let place = |state| Place {
        state,
        entry: Some(17),
        position: Some(1_203),
        ahead: Some(1_003),
        ..Place::none()
    };
    let stock = match state {
        PageState::AllHeld => StockSum { available: 0, held: 60, confirmed: 440 },
        PageState::Gone => StockSum { available: 0, held: 0, confirmed: 500 },
        _ => StockSum { available: 412, held: 60, confirmed: 28 },
    };
    PageView {
        sale: Some("spring-drop".into()),
        lobby_opens_ms: Some(NOON - 1_800_000),
        opens_ms: Some(NOON + 272_000),
        closes_ms: Some(NOON + 7_200_000),
        next: "/checkout?item=7&size=m".into(),
        join_key: "k3y-of-the-form".into(),
        place: match state {
            PageState::Upcoming
            | PageState::Open
            | PageState::CodeOver
            | PageState::Cookies
            | PageState::SignIn
            | PageState::Full => Place::none(),
            PageState::Left => Place { ahead: None, ..place(PlaceState::Left) },
            PageState::Lobby | PageState::Drawing => {
                Place { position: None, ahead: None, ..place(PlaceState::Entered) }
            }
            PageState::Called | PageState::Booked => {
                Place { ahead: Some(0), ..place(PlaceState::Called) }
            }
            PageState::Missed => place(PlaceState::Missed),
            _ => place(PlaceState::Waiting),
        },
        admitted_ms: (state == PageState::Booked).then_some(NOON + 7_000),
        claim_window_ms: Some(120_000),
        recovery: Some("0G1ABCDEFGHJKMNP".into()),
        wait: Some(Eta { low: 4, high: 9 }),
        odds: Some(Odds::Unlikely),
        stock: Some(stock),
        retry_after_ms: Some(2_400),
        login_url: Some("/login?back=%2Fcheckout".into()),
        problem: Some(ProblemNote {
            problem: Problem::RateLimited,
            detail: "20 requests a second are the limit here.".into(),
        }),
        ..PageView::new(state, NOON)
    }
}

fn html(view: &PageView) -> String {
    render(view).unwrap()
}

/// Walks the tags; void elements and self-closed SVG shapes need no end.
fn assert_balanced(html: &str) {
    const VOID: [&str; 5] = ["!doctype", "meta", "link", "img", "input"];
    let mut open: Vec<&str> = Vec::new();
    for tag in html.split('<').skip(1) {
        let (inside, _) = tag.split_once('>').expect(tag);
        assert!(inside.matches('"').count().is_multiple_of(2), "quotes: <{inside}>");
        let name = inside.split([' ', '/']).find(|word| !word.is_empty()).unwrap();
        if inside.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "in {html}");
        } else if !VOID.contains(&name) && !inside.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn every_state_renders_a_balanced_page_with_one_headline() {
    for state in STATES {
        let html = html(&view(state));
        assert_balanced(&html);
        assert_eq!(html.matches("<h1").count(), 1, "{state:?}");
        assert!(html.contains("<title>") && html.contains("lang=\"en\""), "{state:?}");
        let (main, _) = html.split_once("</main>").unwrap();
        assert!(!main.contains("{}"), "a text was not filled in: {state:?}");
    }
}

#[test]
fn a_page_with_nothing_known_still_renders() {
    for state in STATES {
        let html = html(&PageView::new(state, 0));
        assert_balanced(&html);
        assert!(!html.contains("None"), "{state:?}");
    }
}

#[test]
fn each_state_says_in_words_what_it_promises() {
    let promises = [
        (PageState::Upcoming, "Coming first gives no advantage"),
        (PageState::Lobby, "Each has the same chance"),
        (PageState::Lobby, "Chance alone: a draw at the opening second"),
        (PageState::Lobby, "your place is kept in this browser"),
        (PageState::Drawing, "gets a place now"),
        (PageState::Open, "in the order of arrival"),
        (PageState::Waiting, "Your number never goes up"),
        (PageState::Waiting, "4–9 seconds"),
        (PageState::Waiting, "1,003"),
        (PageState::Waiting, "unlikely"),
        (PageState::Waiting, "When called you have 2 minutes to go in"),
        (PageState::Called, "It is your turn"),
        (PageState::Booked, "your moment is booked"),
        (PageState::Admitted, "href=\"/checkout?item=7"),
        (PageState::Missed, "join again at the end of the line"),
        (PageState::Left, "You can join again at any time"),
        (PageState::CodeOver, "A place that you have in this browser is kept"),
        (PageState::Cookies, "Allow cookies for this site"),
        (PageState::Paused, "nobody loses a place"),
        (PageState::AllHeld, "What they do not buy comes back"),
        (PageState::Gone, "so nothing comes back"),
        (PageState::Closed, "The sale is over"),
        (PageState::SignIn, "one place to each account"),
        (PageState::Full, "Every place has been given out"),
        (PageState::Unavailable, "it is kept"),
        (PageState::ShopUnavailable, "your place is kept"),
        (PageState::Problem, "20 requests a second are the limit here."),
    ];
    for (state, promise) in promises {
        let html = html(&view(state));
        assert!(html.contains(promise), "{state:?} does not say: {promise}\n{html}");
    }
    for state in STATES {
        assert!(promises.iter().any(|(told, _)| *told == state), "{state:?} promises nothing");
    }
}

#[test]
fn every_problem_type_has_a_page_with_words_of_its_own() {
    let mut titles = std::collections::HashSet::new();
    for problem in Problem::ALL {
        let note = ProblemNote { problem, detail: String::new() };
        let page = PageView { problem: Some(note), ..PageView::new(PageState::Problem, NOON) };
        let html = html(&page);
        assert_balanced(&html);
        let (_, title) = html.split_once("<title>").unwrap();
        assert!(titles.insert(title[..title.find('<').unwrap()].to_owned()), "{problem:?}");
    }
}

#[test]
fn joining_and_claiming_are_forms_that_work_without_a_script() {
    let lobby = html(&PageView { place: Place::none(), ..view(PageState::Lobby) });
    assert!(lobby.contains("method=\"post\" action=\"/_stanchion/spring-drop/join\""));
    assert!(lobby.contains("name=\"join_key\" value=\"k3y-of-the-form\""));
    assert!(lobby.contains("name=\"next\" value=\"/checkout?item=7&#38;size=m\""));
    let called = html(&view(PageState::Called));
    assert!(called.contains("method=\"post\" action=\"/_stanchion/spring-drop/claim\""));

    for state in STATES {
        let html = html(&view(state));
        assert_eq!(html.matches("/join\"").count(), html.matches("name=\"join_key\"").count());
    }
    assert!(!html(&view(PageState::Waiting)).contains("/join\""), "who has a place needs no other");
    let standby = html(&PageView { place: Place::none(), ..view(PageState::AllHeld) });
    assert!(standby.contains("/join\""), "while units may come back, joining makes sense");
    assert!(!html(&view(PageState::Gone)).contains("/join\""), "and none when nothing can");
}

#[test]
fn pages_reload_by_themselves_only_where_no_script_runs() {
    let refresh = |view: &PageView| {
        let html = html(view);
        let (_, rest) = html.split_once("<noscript><meta http-equiv=\"refresh\" content=\"")?;
        assert_eq!(html.matches("http-equiv").count(), 1);
        Some(rest[..rest.find('"')?].to_owned())
    };
    assert_eq!(refresh(&view(PageState::Waiting)).as_deref(), Some("5"));
    assert_eq!(refresh(&view(PageState::Lobby)).as_deref(), Some("60"));
    let soon = PageView { opens_ms: Some(NOON + 9_500), ..view(PageState::Lobby) };
    assert_eq!(refresh(&soon).as_deref(), Some("11"));
    let slot = refresh(&view(PageState::Booked)).unwrap();
    assert_eq!(slot, "7;url=/checkout?item=7&#38;size=m", "the protected path collects the slot");
    let later = PageView { retry_after_ms: Some(3_500), ..view(PageState::Problem) };
    assert_eq!(refresh(&later).unwrap(), "4;url=/checkout?item=7&#38;size=m");
    let never = PageView { retry_after_ms: None, ..view(PageState::Problem) };
    assert_eq!(refresh(&never), None, "trying again would change nothing");
    for over in [PageState::Gone, PageState::Closed, PageState::Admitted] {
        assert_eq!(refresh(&view(over)), None, "{over:?}");
    }
    // Where all wait for one instant, not all come back in one second.
    let spread = |state| PageView { spread: 3, opens_ms: Some(NOON + 9_500), ..view(state) };
    assert_eq!(refresh(&spread(PageState::Lobby)).as_deref(), Some("14"));
    assert_eq!(refresh(&spread(PageState::Waiting)).as_deref(), Some("5"));
}

#[test]
fn wherever_a_page_reloads_without_scripts_it_does_so_without_its_own() {
    for state in STATES {
        let html = html(&view(state));
        let guard = format!("<script src=\"{}\" defer></script>", assets::url("guard.js").unwrap());
        assert_eq!(html.contains("<noscript>"), html.contains(&guard), "{state:?}");
    }
}

#[test]
fn hostile_text_stays_text_and_a_foreign_next_is_dropped() {
    let evil = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>";
    for state in STATES {
        let mut page = view(state);
        page.sale = Some(evil.into());
        page.join_key = evil.into();
        page.next = format!("/{evil}");
        page.login_url = Some(format!("/{evil}"));
        page.problem = Some(ProblemNote { problem: Problem::BadRequest, detail: evil.to_owned() });
        let html = html(&page);
        assert_balanced(&html);
        let files = 1 + html.matches("<script src=\"/_stanchion/assets/guard.").count();
        assert_eq!(html.matches("<script").count(), files, "{state:?}");
        assert_eq!(html.matches("<img").count(), 1, "{state:?}");
    }
    let foreign =
        ["https://evil.test/", "//evil.test/", "/\\evil.test", "javascript:alert(1)", "", "/a\nb"];
    for next in foreign {
        let page = PageView { next: next.into(), ..view(PageState::Called) };
        assert!(html(&page).contains("name=\"next\" value=\"/\""), "{next}");
    }
    for login in ["javascript:alert(1)", "//evil.test/", "data:text/html,x"] {
        let page = PageView { login_url: Some(login.into()), ..view(PageState::SignIn) };
        assert!(!html(&page).contains(login), "{login}");
    }
}

#[test]
fn no_script_and_no_style_is_inline() {
    for state in STATES {
        let html = html(&view(state));
        assert!(!html.contains("<style") && !html.contains("style=\""), "{state:?}");
        let tags = html.split("<script").skip(1).map(|tag| tag.split('>').next().unwrap());
        let mut files: Vec<_> = tags.collect();
        let ours = |name| format!(" src=\"{}\" defer", assets::url(name).unwrap());
        assert_eq!(files.pop(), Some(ours("queue.js").as_str()), "{state:?}");
        assert!(files.iter().all(|tag| *tag == ours("guard.js")), "{state:?}");
        for tag in html.split('<') {
            let inside = tag.split('>').next().unwrap_or_default();
            assert!(!inside.contains(" onclick") && !inside.contains(" onload"), "{inside}");
        }
        assert!(!html.contains("http://") && !html.contains("https://"), "a third party");
    }
    assert!(!CONTENT_SECURITY_POLICY.contains("unsafe"));
    assert!(
        !CONTENT_SECURITY_POLICY.contains("form-action"),
        "it would hold up a checkout's redirect"
    );
}

#[test]
fn wr_18_the_page_says_that_coming_early_does_not_count_and_shows_number_and_proof() {
    let drawn = html(&view(PageState::Waiting));
    for part in [
        "Joining early did not count",
        "Your place in line",
        "No. 1,204",
        "href=\"/_stanchion/spring-drop/draw/check\"",
    ] {
        assert!(drawn.contains(part), "{part}: {drawn}");
    }
    let entered = html(&view(PageState::Lobby));
    for part in ["however early they came", "Your entry", "No. 18", "/spring-drop/draw/check"] {
        assert!(entered.contains(part), "{part}: {entered}");
    }
}

#[test]
fn wr_18_whoever_is_in_the_draw_has_a_receipt_to_keep_and_nobody_else_has() {
    let row = "<dt>Receipt</dt><dd><a href=\"/_stanchion/spring-drop/draw/check\">";
    for state in [PageState::Lobby, PageState::Drawing, PageState::Waiting, PageState::Booked] {
        assert!(html(&view(state)).contains(row), "{state:?}");
    }
    let late = Place { entry: None, ..view(PageState::Waiting).place };
    let late = PageView { place: late, ..view(PageState::Waiting) };
    for page in [view(PageState::Left), late, view(PageState::Called), view(PageState::Gone)] {
        let html = html(&page);
        assert!(!html.contains(row), "{:?}", page.state);
        assert!(html.contains("/draw/check\">Check the draw"), "{:?}", page.state);
    }
}

#[test]
fn only_of_a_draw_with_a_beacon_it_is_said_that_nobody_can_tilt_it() {
    for state in [PageState::Upcoming, PageState::Lobby, PageState::Drawing] {
        let plain = html(&view(state));
        assert!(plain.contains("no shopper can steer it") && !plain.contains("nobody can tilt"));
        let with_beacon = html(&PageView { round: 9, ..view(state) });
        assert!(with_beacon.contains("nobody can tilt it"), "{with_beacon}");
    }
}

#[test]
fn wr_34_leaving_asks_first_and_a_code_leads_back() {
    let waiting = html(&view(PageState::Waiting));
    let (_, asked) = waiting.split_once("<summary>Leave the line</summary>").unwrap();
    assert!(asked.contains("Your place goes to those behind you at once"));
    assert!(asked.contains("method=\"post\" action=\"/_stanchion/spring-drop/leave\""));
    assert!(waiting.contains("0G1A-BCDE-FGHJ-KMNP"));
    assert!(waiting.contains("action=\"/_stanchion/spring-drop/recover\""));

    let signed_in = html(&PageView { account: true, ..view(PageState::Waiting) });
    assert!(!signed_in.contains("0G1A-"), "the account is the way back");
    for over in [PageState::Gone, PageState::Closed, PageState::Admitted, PageState::Left] {
        assert!(!html(&view(over)).contains("/leave\""), "{over:?}");
    }
    let left = html(&view(PageState::Left));
    assert!(left.contains("/join\"") && !left.contains("data-join"), "only if asked for");
    let cookies = html(&view(PageState::Cookies));
    assert!(!cookies.contains("http-equiv"), "no page without cookies goes round in circles");
}

#[test]
fn wr_28_a_second_chance_is_told_to_be_the_last() {
    let mut page = view(PageState::Called);
    for (state, lapsed) in [(page.state, false), (page.state, true), (PageState::Booked, true)] {
        (page.state, page.place.lapsed) = (state, lapsed);
        assert_eq!(html(&page).contains("may be your last chance"), lapsed, "{state:?}");
    }
}

#[test]
fn the_first_load_stays_within_twenty_kilobytes() {
    let files = ["queue.css", "queue.js", "guard.js", "mark.svg"];
    let fixed: usize = files
        .iter()
        .map(|file| assets::url(file).unwrap().rsplit('/').next().unwrap())
        .map(|name| assets::find(name).unwrap().bytes.len())
        .sum();
    let total = |state| fixed + render(&view(state)).unwrap().len();
    let largest = STATES.map(|state| (total(state), state)).into_iter().max_by_key(|it| it.0);
    let (bytes, state) = largest.unwrap();
    assert!(bytes <= 20_000, "{state:?}: {bytes} bytes");
}

#[test]
fn every_template_and_every_static_file_is_used() {
    let read = |dir: &str| -> Vec<(String, String)> {
        let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
        files
            .filter(|path| path.is_file())
            .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()))
            .collect()
    };
    let templates: Vec<_> = read("templates").into_iter().chain(read("templates/parts")).collect();
    for (path, _) in &templates {
        let name = path.strip_prefix("templates/").unwrap();
        let is_whole = ["page.html", "pass.html", "draw.html"].contains(&name);
        let used = is_whole || templates.iter().any(|(_, text)| text.contains(name));
        assert!(used, "{path}");
    }
    for (path, _) in read("static") {
        // The shop's own pages take the first two, the operators' page and the draw's the others.
        let elsewhere = ["hold.js", "stock.js", "ops.css", "ops.js", "draw.css", "draw.js"];
        if elsewhere.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        let url = assets::url(path.strip_prefix("static/").unwrap()).unwrap();
        assert!(html(&view(PageState::Lobby)).contains(url), "{path}");
    }
}
