// Keeps a page of the waiting room live: numbers, countdown and title; joins once, claims when
// called, and takes the shopper on. Every word it shows comes with the page.
"use strict";
{
  const { max, min, random, floor, ceil, abs } = Math;
  const doc = document;
  const byId = (id) => doc.getElementById(id);
  const say = byId("say");
  const words = say.dataset;
  const lang = doc.documentElement.lang;
  let room = byId("room");
  const find = (what) => room.querySelector(what);
  const put = (el, text) => {
    if (el.textContent !== text) el.textContent = text;
  };
  let plainTitle = doc.title;
  const { sale, next } = room.dataset;
  const base = `/_stanchion/${sale}`;

  // A wait that makes sense: of what is no number the usual one, and never so long that a timer
  // would overflow and go off at once.
  const HOUR = 3600000;
  const sane = (ms, usual = 0) => (ms >= 0 ? min(ms, HOUR) : usual);
  const after = (ms, work) => setTimeout(work, sane(ms, 5000));

  // Storage may be switched off; then a reload is recognised by its cookie alone.
  const stored = (name, value) => {
    try {
      const at = `stanchion ${name} ${sale}`;
      if (value === undefined) return localStorage.getItem(at);
      localStorage.setItem(at, value);
    } catch {}
  };
  // The key of a join: the one that led to the place before, or the page's, which has none if
  // anybody may have seen it.
  const keyOf = (field) => {
    field.value = stored("key") || field.value || crypto.getRandomValues(new Uint32Array(4)).join("");
    stored("key", field.value);
    return field.value;
  };
  // Two tabs of one browser join one after the other, with one key.
  const alone = (work) => (navigator.locks ? navigator.locks.request(`stanchion ${sale}`, work) : work());

  // include: telling.js

  let spoken = 0;
  const speak = (text) => {
    spoken = Date.now();
    say.textContent = text;
  };
  const notice = (text) => {
    const el = byId("notice");
    el.hidden = !text;
    put(el, text);
  };

  // Once a second: what runs by itself.
  const tick = () => {
    const count = find("[data-count]");
    const ahead = find("[data-live=ahead]");
    let short = "";
    if (count) {
      const left = max(0, ceil((count.dataset.count - now()) / 1000));
      short = clockFace(left);
      put(count, short);
      if ([600, 300, 60, 30, 10].includes(left)) speak(count.parentNode.textContent);
    } else if (ahead) {
      short = words.ahead.replace("{}", ahead.textContent);
    }
    const done = byId("done");
    const from = done?.dataset.from;
    if (from) done.setAttribute("stroke-dasharray", `${(100 * (now() - from)) / (room.dataset.opens - from)} 200`);
    doc.title = short ? `${short} · ${plainTitle}` : plainTitle;
    localTimes();
  };

  const show = (name, text) => {
    for (const el of room.querySelectorAll(`[data-live=${name}]`)) put(el, text);
  };
  // One node may be a little behind another, but no number goes up.
  let line, least;
  const paint = ({ run, place, eta_seconds: wait, odds, stock }) => {
    show("wait", wait ? waitRange(wait) : words.unknown);
    if (odds) show("odds", words[odds]);
    const { position } = place;
    if (typeof place.ahead === "number" && byId("some")) {
      const ahead = min(place.ahead, line === `${run} ${position}` ? least : Infinity);
      [line, least] = [`${run} ${position}`, ahead];
      byId("some").hidden = ahead === 0;
      byId("none").hidden = ahead > 0;
      show("ahead", number(ahead));
      const people = byId("people");
      people.textContent = people.dataset[ahead === 1 ? "one" : "other"];
      const done = position ? (100 * (position - ahead)) / position : 100;
      byId("done")?.setAttribute("stroke-dasharray", `${done} 200`);
      // Often enough to know, seldom enough to hear something else.
      if (Date.now() - spoken > 30000) speak(byId(ahead ? "some" : "none").textContent);
    }
    const section = find(".stock");
    if (section) section.hidden = !stock;
    if (section && stock) {
      const { available, held, confirmed } = stock;
      show("available", number(available));
      show("held", number(held));
      show("confirmed", number(confirmed));
      const part = (n) => (1000 * n) / max(1, available + held + confirmed);
      byId("bar-free").setAttribute("width", part(available));
      byId("bar-held").setAttribute("width", part(available + held));
    }
    tick();
  };

  const hasPlace = ({ state }) => state !== "none" && state !== "left";
  // Which page tells it best; `PageState::of` decides the same way.
  const pageOf = ({ phase, paused, sold_out: soldOut, stock, place }) => {
    const { state } = place;
    if (state === "admitted") return state;
    if (state === "left" && (phase === "lobby" || phase === "drawing")) return state;
    if (phase !== "open") return phase;
    if (soldOut && stock && !stock.held) return "gone";
    if (state === "missed" || state === "left") return state;
    if (paused) return "paused";
    if (state === "called") return place.admitted_at ? "booked" : state;
    if (soldOut) return "all-held";
    return hasPlace(place) ? "waiting" : "open";
  };

  let timer;
  let failures = 0;
  // When the server was last asked or heard, and when it wants to be asked again.
  let heard = 0;
  let told = sane(room.dataset.poll, 5000);
  // The stream of events; where there can be none, polls.
  let source;
  let polls = !window.EventSource;
  const hangUp = () => {
    source?.close();
    source = null;
  };
  // Nothing is tried again before this.
  let rest = 0;
  const askAgainIn = (ms) => {
    clearTimeout(timer);
    timer = after(max(ms, rest - Date.now()), () => (polls ? poll() : listen()));
  };
  const trouble = (text, wait = 0, turn = 0) => {
    failures = min(failures + 1, 5);
    notice(text);
    // A turn is kept as told: the server has spread them out, and whoever comes later may be late.
    const ms = turn || max(wait, 1000 * 2 ** failures * (0.5 + random()));
    rest = Date.now() + ms;
    askAgainIn(ms);
    return ms;
  };
  const lost = () => trouble(words.offline);
  const ask = async (what, init = {}) => {
    const headers = { Accept: "application/json", ...init.headers };
    const signal = AbortSignal.timeout?.(10000);
    const answer = await fetch(base + what, { cache: "no-store", signal, ...init, headers });
    const body = await answer.json().catch(() => ({}));
    const wait = sane(body.retry_after_ms) || waitOf(answer.headers);
    return { code: answer.status, busy: answer.status === 429 || answer.status > 499, body, wait };
  };
  const post = (headers) => ({
    method: "POST",
    body: "{}",
    headers: { "Content-Type": "application/json", ...headers },
  });

  // Another state is another page; the focus stays, or goes to the headline if its place is gone.
  let turnedTo = "";
  let turnedAt = 0;
  const turn = async (key, more = "") => {
    if (key === turnedTo && Date.now() - turnedAt < 10000) return;
    [turnedTo, turnedAt] = [key, Date.now()];
    const headers = { Accept: "text/html" };
    const answer = await fetch(`${base}?next=${encodeURIComponent(next)}${more}`, { cache: "no-store", headers });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("room");
    // A refusal would be worse than what is shown.
    if (!fresh || !answer.ok) return;
    const focused = room.contains(doc.activeElement);
    room.replaceWith(fresh);
    room = fresh;
    plainTitle = page.title;
    const headline = find("h1");
    if (focused) headline.focus();
    speak(headline.textContent);
    tick();
  };

  const leave = () => {
    const { pathname, search, hash } = location;
    const isHere = next === pathname + search;
    // The same address with a fragment would only be scrolled to, and a reload may send a form anew.
    if (isHere && hash) history.replaceState(null, "", base);
    location.replace(isHere || pathname === base ? next + hash : next);
  };
  const leaveOnceSeen = () => (doc.hidden ? doc.addEventListener("visibilitychange", leaveOnceSeen, { once: true }) : leave());
  const goOn = () => {
    // Sent back by the shop a moment ago: leave the next try to the button.
    if (abs(Date.now() - stored("went")) < 15000) return false;
    stored("went", Date.now());
    leave();
    return true;
  };

  let tried = false;
  let full = 0;
  // A place that goes though nobody gave it up is asked for once more; what is to be said if that
  // makes another one. The page tells as well: a tab in the background asks for nothing.
  let news = "";
  let had, run;
  const know = () => {
    run = room.dataset.ticket;
    had = run !== undefined;
  };
  know();
  const miss = ({ place, run: current }) => {
    if (had && place.state === "none") {
      tried = false;
      news = current > run ? words.anew : words.stranger;
    }
    had = hasPlace(place);
    run = current;
  };
  // The same join once more, at its turn: with the key that is kept.
  const joinIn = (ms) =>
    after(ms, () => {
      tried = false;
      join().catch(noJoin);
    });
  const noJoin = () => joinIn(lost());
  const join = async () => {
    const form = find("form[data-join]");
    // What a browser loads ahead is nobody's wish yet; a tab in the background is.
    if (!form || tried || doc.prerendering) return;
    tried = true;
    const { code, busy, body, wait } = await alone(() => {
      const key = keyOf(form.join_key);
      return ask("/join", post({ "Idempotency-Key": key }));
    });
    if (busy) return joinIn(trouble(words.busy, wait, body.code === "overloaded" && wait));
    await turn(`joined ${code}`);
    know();
    listenAnew(0);
    if (code > 299) notice(body.detail || body.title || "");
    else if (!("ticket" in room.dataset)) notice(words.cookies);
    else if (code === 201) {
      notice(news);
      find("details")?.toggleAttribute("open", news === words.stranger);
    }
    news = "";
    // A place may come free: asked for again, less and less often.
    if (body.code === "sale-full") {
      full = min(full + 1, 5);
      after(wait * full, () => (tried = false));
    }
  };

  let slot;
  const claim = async () => {
    const { code, busy, body, wait } = await ask("/claim", post());
    if (code === 200) return goOn();
    if (body.code === "missed") {
      // The protected path says so, with the way to a new place; the old key leads to the old one.
      stored("key", "");
      return leave();
    }
    if (busy) return trouble(words.busy, wait);
    const { admitted_at: at } = body;
    if (code !== 202 || !at) return;
    collectIn(body.retry_after_ms ?? instant(at) - now());
    // The page is told when: asking for it claims nothing.
    if (room.dataset.state !== "booked") await turn("booked+", `&slot=${instant(at)}`);
    const count = find("[data-count]");
    if (count) [count.dataset.count, find("time").dateTime] = [instant(at), at];
  };
  // A slot waits two seconds only, so this runs in a hidden tab too.
  const collectIn = (ms) => {
    clearTimeout(slot);
    slot = after(max(0, ms) + 20, () => {
      slot = 0;
      claim().catch(lost);
    });
  };

  const act = async (status) => {
    if (failures && Date.now() >= rest) {
      notice("");
      failures = 0;
    }
    paint(status);
    miss(status);
    heard = Date.now();
    told = max(1000, sane(status.poll_after_ms, 5000)) * (1 + 0.3 * random());
    const page = pageOf(status);
    if (polls) {
      const count = find("[data-count]")?.dataset.count - now();
      askAgainIn(count > 0 ? min(told, count + 300 + 2000 * random()) : told);
    } else if (page === "admitted" || page === "closed") hangUp();
    if (page === "admitted" && goOn()) return;
    if (!polls && Date.now() < rest) return;
    if (page === "called" && room.dataset.state === "missed") return;
    if (page === "called") await claim();
    if (page === "booked") collectIn(instant(status.place.admitted_at) - now());
    const key = page + (hasPlace(status.place) ? "+" : "");
    const here = room.dataset.state + ("ticket" in room.dataset ? "+" : "");
    // The opening may be put off.
    const moved = abs(room.dataset.opens - instant(status.opens_at)) > 0;
    if ((key !== here || moved) && !(slot && page === "called")) {
      // Not everybody at once, but whoever is called.
      await new Promise((done) => after(page === "called" ? 0 : 1000 * random(), done));
      await turn(key + status.opens_at);
      if (room.dataset.state !== page) listenAnew(told);
    }
    await join().catch(noJoin);
  };

  const poll = async () => {
    if (doc.hidden) return;
    heard = Date.now();
    try {
      const { code, busy, body, wait } = await ask("/status");
      if (busy) return trouble(words.busy, wait);
      if (code !== 200) return askAgainIn(30000);
      // Somebody else's answer, such as the sign-in page of a network.
      if (!body.place) return lost();
      learnTime(body.server_time, heard);
      await act(body);
    } catch {
      lost();
    }
  };

  // One frame at a time: of those that come while one is acted upon, the last is acted upon then.
  let latest;
  let acting = false;
  const listen = () => {
    if (doc.hidden || source) return;
    heard = Date.now();
    source = new EventSource(`${base}/events`);
    source.onmessage = async ({ data }) => {
      latest = JSON.parse(data);
      learnTime(latest.server_time, Date.now());
      if (acting) return paint(latest);
      acting = true;
      for (let status; status !== latest; ) await act((status = latest)).catch(lost);
      acting = false;
    };
    source.onerror = () => {
      // Refused rather than cut off, when it comes again by itself.
      if (source?.readyState === 2) fallBack();
    };
  };
  // The stream knows the place that it was opened with.
  const listenAnew = (ms) => {
    if (polls) return;
    hangUp();
    askAgainIn(ms);
  };
  const fallBack = () => {
    hangUp();
    polls = true;
    askAgainIn(told);
  };

  tick();
  const { state, retry } = room.dataset;
  const isStill = ["problem", "closed", "sign-in", "code-over"].includes(state) || (state === "cookies" && !navigator.cookieEnabled);
  if (sale && !isStill) {
    setInterval(() => {
      tick();
      // Something between us keeps the events for itself.
      if (source && Date.now() - heard > 25000) fallBack();
    }, 1000);
    // Nothing is asked while nobody looks, and on return no more often than told.
    const wake = () => (doc.hidden ? hangUp() : askAgainIn(max(0, heard + told - Date.now())));
    doc.addEventListener("visibilitychange", wake);
    addEventListener("pageshow", (event) => event.persisted && wake());
    addEventListener("online", wake);
    // What was missed or is given up is not come back to: the next place has a key of its own.
    doc.addEventListener("submit", ({ target }) => {
      const field = target.join_key;
      if (!field || ["missed", "left"].includes(room.dataset.state)) stored("key", "");
      if (field) keyOf(field);
    });
    // A page that says that a join found no room comes with the key of that join, and its turn.
    if (retry) {
      joinIn(retry);
      rest = Date.now() + max(3000, sane(retry, 5000));
    } else join().catch(noJoin);
    askAgainIn(!polls || state === "admitted" || state === "called" ? 0 : told * (0.5 + random()));
  } else if (retry) {
    after(max(3000, sane(retry, 5000)) * (1 + 0.3 * random()), leaveOnceSeen);
  }
  // Tells guard.js.
  self.stanchionRuns = true;
}
