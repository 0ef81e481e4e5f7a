// Shows in the shop's own pages how long a hold still lasts, and lets the shopper keep it longer.
//
//   <script src="/_stanchion/hold.js" defer></script>
//   <p data-stanchion-hold="SALE" hidden>Held for you: <b data-left></b>
//     <button data-extend hidden>I need more time</button></p>
//
// `data-left` gets the time left, `data-extend` asks for more and is hidden where there is none.
// The element is shown while something is held, carries `data-state` (held, soon: the last two
// minutes, gone), and sends "stanchion:hold" events that bubble, `detail` being {state, hold,
// left}: `hold` as the gateway tells it, `left` in seconds.
"use strict";
{
  const clockFace = (seconds) => `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;

  const watch = (element) => {
    const base = `/_stanchion/${encodeURIComponent(element.dataset.stanchionHold)}/reservations`;
    const left = element.querySelector("[data-left]");
    const more = element.querySelector("[data-extend]");
    let hold = null;
    let offset = 0;
    let state = "";
    let sure = "";
    let asking = false;

    const tell = (next, seconds) => {
      element.dataset.state = next;
      element.hidden = next === "none";
      if (next === state) return;
      state = next;
      const detail = { state, hold, left: seconds };
      element.dispatchEvent(new CustomEvent("stanchion:hold", { bubbles: true, detail }));
    };
    const tick = () => {
      if (!hold) return;
      const seconds = Math.max(0, Math.ceil((Date.parse(hold.expires_at) - Date.now() - offset) / 1000));
      const text = clockFace(seconds);
      if (left && left.textContent !== text) left.textContent = text;
      if (seconds === 0 && more) more.hidden = true;
      const term = hold.id + hold.expires_at;
      if (seconds === 0 && sure !== term) return makeSure(term);
      tell(seconds === 0 ? "gone" : seconds <= 120 ? "soon" : "held", seconds);
    };
    // It may have been paid for meanwhile: asked once before it is called gone.
    const makeSure = async (term) => {
      if (asking) return;
      asking = true;
      await look().catch(() => {});
      [asking, sure] = [false, term];
      tick();
    };
    const ask = async (path, init = {}) => {
      const headers = { Accept: "application/json", ...init.headers };
      const answer = await fetch(base + path, { cache: "no-store", ...init, headers });
      const date = Date.parse(answer.headers.get("Date"));
      if (date) offset = date - Date.now();
      return { ok: answer.ok, body: await answer.json().catch(() => ({})) };
    };
    const look = async () => {
      const { ok, body } = await ask("");
      if (!ok) return;
      const held = (body.reservations || []).filter((one) => one.status === "held" && one.expires_at);
      held.sort((a, b) => Date.parse(a.expires_at) - Date.parse(b.expires_at));
      const [first] = held;
      if (!first && hold) {
        const { status } = body.reservations?.find(({ id }) => id === hold.id) || {};
        // Bought or given back is nothing to count any more. What is not known any more is gone.
        if (!["confirmed", "released", "cancelled"].includes(status)) return;
      }
      hold = first || null;
      if (!hold) return tell("none", 0);
      if (more) more.hidden = false;
      tick();
    };
    if (more) {
      more.addEventListener("click", async () => {
        more.disabled = true;
        const init = { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } };
        const { ok } = await ask(`/${hold.id}/extend`, init).catch(() => ({}));
        await look().catch(() => {});
        more.disabled = false;
        if (!ok) more.hidden = true;
      });
    }
    const refresh = () => document.hidden || look().catch(() => {});
    document.addEventListener("visibilitychange", refresh);
    setInterval(tick, 1000);
    setInterval(refresh, 60000);
    refresh();
  };

  for (const element of document.querySelectorAll("[data-stanchion-hold]")) watch(element);
}
