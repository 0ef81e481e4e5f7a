//! From a view to bytes: picks the words, formats numbers and times, and fills the template.

use askama::Template;

use super::filters;
use super::problems;
use super::reload::Reload;
use super::view::{PageState, PageView, Refresh};
use super::words::{ENGLISH, Head, Words, grouped};
use crate::domain::stock::StockSum;
use crate::gateway::assets;

/// The `Content-Security-Policy` of every page: our own files only, no inline script or style. It is
/// silent about where forms lead: Chrome asks that of each redirect that follows, and checkouts send
/// people on to where they pay.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; \
     style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; frame-ancestors 'none'";

/// Renders a page as HTML. Every value is escaped, whoever it came from.
pub fn render(view: &PageView) -> Result<String, askama::Error> {
    Page::of(view, &ENGLISH).render()
}

/// What the illustration and the colours say before anything is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tone {
    /// The rope is closed, and the line moves.
    Wait,
    /// The rope is open.
    Go,
    /// The rope is closed, and nothing moves.
    Halt,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Go => "go",
            Self::Halt => "halt",
        }
    }
}

/// What a big countdown counts to.
struct Countdown {
    to_ms: u64,
    text: String,
    label: &'static str,
}

#[derive(Template)]
#[template(path = "page.html", whitespace = "minimize")]
struct Page<'a> {
    v: &'a PageView,
    t: &'a Words,
    head: Head,
    tone: Tone,
    sale: &'a str,
    name: String,
    next: &'a str,
    countdown: Option<Countdown>,
    /// How much of the rope is behind the visitor, in per cent.
    progress: u64,
    reload: Option<Reload<'a>>,
    login: Option<&'a str>,
    css: &'static str,
    js: &'static str,
    guard: &'static str,
    icon: &'static str,
}

impl<'a> Page<'a> {
    fn of(v: &'a PageView, t: &'a Words) -> Self {
        let refused = v.problem.as_ref().map(|note| problems::english(note.problem));
        let (title, lead) = refused.unwrap_or((t.problem_title, t.problem_text));
        let refused = Head { tag: t.problem_tag, title, lead };
        let head = t.head(v.state, v.has_place()).copied().unwrap_or(refused);
        let next = own_path(&v.next);
        let sale = v.sale.as_deref().unwrap_or_default();
        Self {
            v,
            t,
            head,
            tone: tone(v.state),
            sale,
            name: if sale.is_empty() { t.site.to_owned() } else { title_of(sale) },
            next,
            countdown: countdown(v, t),
            progress: progress(v),
            reload: Reload::of(v, next),
            login: v.login_url.as_deref().filter(|url| is_web_address(url)),
            css: assets::url("queue.css").unwrap_or_default(),
            js: assets::url("queue.js").unwrap_or_default(),
            guard: assets::url("guard.js").unwrap_or_default(),
            icon: assets::url("mark.svg").unwrap_or_default(),
        }
    }

    /// The state as a word for the script and the stylesheet.
    fn state(&self) -> &'static str {
        match self.v.state {
            PageState::Upcoming => "upcoming",
            PageState::Lobby => "lobby",
            PageState::Drawing => "drawing",
            PageState::Open => "open",
            PageState::Waiting => "waiting",
            PageState::Called => "called",
            PageState::Booked => "booked",
            PageState::Admitted => "admitted",
            PageState::Missed => "missed",
            PageState::Left => "left",
            PageState::CodeOver => "code-over",
            PageState::Cookies => "cookies",
            PageState::Paused => "paused",
            PageState::AllHeld => "all-held",
            PageState::Gone => "gone",
            PageState::Closed => "closed",
            PageState::SignIn => "sign-in",
            PageState::Full => "full",
            PageState::Unavailable => "unavailable",
            PageState::ShopUnavailable => "shop-unavailable",
            PageState::Problem => "problem",
        }
    }

    /// The button that joins, where joining is possible.
    fn join_label(&self) -> Option<&'static str> {
        match self.v.state {
            PageState::Missed => Some(self.t.rejoin),
            PageState::Left => Some(self.t.join_again),
            _ if self.v.has_place() => None,
            PageState::Lobby => Some(self.t.join_draw),
            PageState::Drawing
            | PageState::Open
            | PageState::Paused
            | PageState::AllHeld
            | PageState::Cookies => Some(self.t.join_line),
            _ => None,
        }
    }

    /// Where nobody has decided against a place, or cannot keep one.
    fn joins_itself(&self) -> bool {
        !matches!(self.v.state, PageState::Missed | PageState::Left | PageState::Cookies)
    }

    /// When the sale opens, where that may still change.
    fn may_be_put_off(&self) -> Option<u64> {
        let is_early = matches!(self.v.state, PageState::Upcoming | PageState::Lobby);
        self.v.opens_ms.filter(|_| is_early)
    }

    /// Whether the page comes again as itself, which may be paused.
    fn reloads_here(&self) -> bool {
        self.reload.as_ref().is_some_and(|reload| reload.to.is_none())
    }

    /// The page is about a line, so the rules of the line belong on it.
    fn in_line(&self) -> bool {
        matches!(
            self.v.state,
            PageState::Waiting
                | PageState::Called
                | PageState::Booked
                | PageState::Paused
                | PageState::AllHeld
        )
    }

    /// Beside the number; latecomers have no part in the draw.
    fn has_receipt(&self) -> bool {
        let has_row = matches!(self.v.state, PageState::Lobby | PageState::Drawing)
            || self.in_line() && self.v.state != PageState::Called;
        has_row && self.v.place.entry.is_some() && self.v.has_place() && !self.sale.is_empty()
    }

    fn tells_order(&self) -> Option<&'static str> {
        let late = self.v.place.entry.is_none();
        match self.v.state {
            PageState::Upcoming | PageState::Lobby | PageState::Drawing if self.v.round > 0 => {
                Some(self.t.order_beacon)
            }
            PageState::Upcoming | PageState::Lobby | PageState::Drawing => Some(self.t.order_draw),
            PageState::Open | PageState::Missed | PageState::Left => Some(self.t.order_open),
            _ if !self.in_line() => None,
            _ if !self.v.has_place() => Some(self.t.order_open),
            _ if late => Some(self.t.order_late),
            _ => Some(self.t.order_drawn),
        }
    }

    fn tells_closing(&self) -> Option<String> {
        let t = self.t;
        let window = self.v.claim_window_ms.map(|ms| t.span(ms.div_ceil(1_000)));
        let window = window.as_deref().unwrap_or(t.limited_time);
        let text = match self.v.state {
            PageState::Booked => t.away_slot,
            PageState::Admitted
            | PageState::Gone
            | PageState::Closed
            | PageState::SignIn
            | PageState::CodeOver
            | PageState::Full
            | PageState::Unavailable
            | PageState::ShopUnavailable
            | PageState::Problem => return None,
            _ if !self.v.has_place() || self.v.state == PageState::Missed => t.away_before,
            _ if self.v.account => t.away_account,
            PageState::Lobby => t.away_lobby,
            _ => t.away_line,
        };
        Some(text.replace("{}", window))
    }

    /// Whether there is a place to give up.
    fn can_leave(&self) -> bool {
        let is_early = matches!(self.v.state, PageState::Lobby | PageState::Drawing);
        (is_early || self.in_line()) && self.v.has_place() && !self.sale.is_empty()
    }

    /// Whether another place than the one shown may be come back to.
    fn can_recover(&self) -> bool {
        let has_room = matches!(
            self.v.state,
            PageState::Lobby
                | PageState::Drawing
                | PageState::Open
                | PageState::Waiting
                | PageState::Paused
                | PageState::AllHeld
                | PageState::Missed
                | PageState::Left
                | PageState::CodeOver
                | PageState::Full
        );
        has_room && !self.sale.is_empty()
    }

    /// The recovery code in groups of four; who is signed in needs none.
    fn code(&self) -> Option<String> {
        let code = self.v.recovery.as_deref().filter(|_| !self.v.account)?;
        let groups = code.as_bytes().chunks(4).map(String::from_utf8_lossy);
        Some(groups.collect::<Vec<_>>().join("-"))
    }

    fn ahead(&self) -> Option<u64> {
        self.v.place.ahead
    }

    fn wait_text(&self) -> String {
        match self.v.wait {
            Some(wait) => self.t.range(wait.low, wait.high),
            None => self.t.wait_unknown.to_owned(),
        }
    }

    /// Whether the window to go in is the second; when that began nobody knows here.
    fn is_last_chance(&self) -> bool {
        self.v.place.lapsed && matches!(self.v.state, PageState::Called | PageState::Booked)
    }

    fn window_text(&self) -> Option<String> {
        let span = self.t.span(self.v.claim_window_ms?.div_ceil(1_000));
        Some(self.t.claim_within.replace("{}", &span))
    }

    fn retry_text(&self) -> Option<String> {
        let span = self.t.span(self.v.retry_after_ms?.div_ceil(1_000));
        Some(self.t.retry_in.replace("{}", &span))
    }

    /// The fixed number the place has: of the line once there is one, before that of the entry.
    fn number(&self) -> Option<(&'static str, String)> {
        let place = &self.v.place;
        let drawn = place.position.map(|n| (self.t.drawn, n));
        let (label, n) = drawn.or(place.entry.map(|n| (self.t.entry, n)))?;
        // People count from one.
        Some((label, self.t.number.replace("{}", &grouped(n.saturating_add(1)))))
    }

    /// Why a join found no room.
    fn not_joined(&self) -> Option<&str> {
        let why = self.v.problem.as_ref().map(|note| note.detail.as_str());
        why.filter(|_| self.v.not_joined)
    }

    fn odds_text(&self) -> Option<&'static str> {
        self.v.odds.map(|odds| self.t.odds_word(odds))
    }

    /// How far the bar of free units reaches, of 1,000.
    fn free_share(stock: &StockSum) -> u64 {
        share(stock, stock.available)
    }

    /// How far free and held units reach together.
    fn unsold_share(stock: &StockSum) -> u64 {
        share(stock, stock.available.saturating_add(stock.held))
    }
}

fn share(stock: &StockSum, part: u64) -> u64 {
    let total = stock.available.saturating_add(stock.held).saturating_add(stock.confirmed);
    let share = u128::from(part) * 1_000 / u128::from(total.max(1));
    u64::try_from(share).unwrap_or(1_000)
}

fn tone(state: PageState) -> Tone {
    match state {
        PageState::Called | PageState::Booked | PageState::Admitted => Tone::Go,
        PageState::Upcoming
        | PageState::Lobby
        | PageState::Drawing
        | PageState::Open
        | PageState::Waiting
        | PageState::SignIn => Tone::Wait,
        _ => Tone::Halt,
    }
}

/// Only a path of this host is somewhere to come back to.
pub(super) fn own_path(next: &str) -> &str {
    let path = next.starts_with('/')
        && !next.starts_with("//")
        && !next.contains(|c: char| c == '\\' || c.is_control());
    if path { next } else { "/" }
}

/// A sign-in may live on another host, but it is a page.
fn is_web_address(url: &str) -> bool {
    own_path(url) == url || url.starts_with("https://") || url.starts_with("http://")
}

/// `spring-drop` as "Spring drop".
pub(super) fn title_of(sale: &str) -> String {
    let words = sale.replace('-', " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn countdown(v: &PageView, t: &Words) -> Option<Countdown> {
    let (to_ms, label) = match v.state {
        PageState::Upcoming => (v.lobby_opens_ms?, t.until_lobby),
        PageState::Lobby => (v.opens_ms?, t.until_draw),
        PageState::Booked => (v.admitted_ms?, t.until_slot),
        _ => return None,
    };
    let seconds = to_ms.saturating_sub(v.now_ms).div_ceil(1_000);
    Some(Countdown { to_ms, text: clock_face(seconds), label })
}

/// 272 seconds as 4:32, an hour and more as 1:04:32.
fn clock_face(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// The share of the way behind the visitor; of the wait for the draw, while in the lobby.
fn progress(v: &PageView) -> u64 {
    let lobby = || Some(lobby_progress(v.now_ms, v.lobby_opens_ms?, v.opens_ms?));
    let line = || {
        let position = v.place.position?;
        Some(percent(position.saturating_sub(v.place.ahead?), position))
    };
    let way = if v.state == PageState::Lobby { lobby() } else { line() };
    way.unwrap_or(0)
}

/// How much of the lobby's time has passed, in per cent.
pub(super) fn lobby_progress(now_ms: u64, lobby_opens_ms: u64, opens_ms: u64) -> u64 {
    percent(now_ms.saturating_sub(lobby_opens_ms), opens_ms.saturating_sub(lobby_opens_ms))
}

fn percent(done: u64, whole: u64) -> u64 {
    done.min(whole).saturating_mul(100).checked_div(whole).unwrap_or(100)
}
