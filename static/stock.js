// Shows in a product page how many units of a SKU are left, live while somebody looks.
//
//   <script src="/_stanchion/stock.js" defer></script>
//   <p data-stanchion-stock="SALE" data-sku="SKU" hidden><b data-available></b> free,
//     <b data-held></b> in baskets, <b data-confirmed></b> sold</p>
//
// Without `data-sku` all SKUs of the sale are summed. The element is shown once the numbers are
// known and hidden while they are not; it carries `data-state` (free, held: nothing is free but
// some may come back, gone), and sends "stanchion:stock" events that bubble, `detail` being
// {state, available, held, confirmed}. `data-every` is the pause between two looks in seconds, 5
// if left out, at least 2.
"use strict";
{
  const sales = new Map();
  for (const element of document.querySelectorAll("[data-stanchion-stock]")) {
    const sale = element.dataset.stanchionStock;
    sales.set(sale, [...(sales.get(sale) || []), element]);
  }

  const paint = (element, skus) => {
    const { sku } = element.dataset;
    const mine = skus.filter((one) => !sku || one.sku === sku);
    element.hidden = mine.length === 0;
    if (element.hidden) return;
    const lang = document.documentElement.lang || undefined;
    const sum = {};
    for (const part of ["available", "held", "confirmed"]) {
      sum[part] = mine.reduce((total, one) => total + one[part], 0);
      const text = new Intl.NumberFormat(lang).format(sum[part]);
      for (const el of element.querySelectorAll(`[data-${part}]`)) {
        if (el.textContent !== text) el.textContent = text;
      }
    }
    const state = sum.available ? "free" : sum.held ? "held" : "gone";
    const key = JSON.stringify([state, sum]);
    if (key === element.stanchionKey) return;
    element.stanchionKey = key;
    element.dataset.state = state;
    const detail = { state, ...sum };
    element.dispatchEvent(new CustomEvent("stanchion:stock", { bubbles: true, detail }));
  };

  // What Retry-After asks for, in seconds or as a date, in milliseconds; 0 for what makes no sense.
  const waitOf = (headers) => {
    const text = headers.get("Retry-After");
    const now = Date.parse(headers.get("Date")) || Date.now();
    const ms = text > 0 ? 1000 * text : Date.parse(text) - now;
    return ms > 0 ? Math.min(ms, 3600000) : 0;
  };

  for (const [sale, elements] of sales) {
    const every = 1000 * Math.max(2, ...elements.map((el) => Number(el.dataset.every) || 5));
    let timer;
    // Not asked before this, whoever comes back to the page, and not twice at once.
    let rest = 0;
    let isAsked = false;
    const lookIn = (ms) => {
      clearTimeout(timer);
      // A timer of more than 24 days would go off at once.
      timer = setTimeout(look, Math.min(ms, 86400000));
    };
    const look = async () => {
      clearTimeout(timer);
      if (document.hidden || isAsked) return;
      if (Date.now() < rest) return lookIn(rest - Date.now());
      let wait = 0;
      isAsked = true;
      try {
        const url = `/_stanchion/${encodeURIComponent(sale)}/stock`;
        const answer = await fetch(url, { headers: { Accept: "application/json" } });
        wait = waitOf(answer.headers) * (1 + 0.3 * Math.random());
        rest = Date.now() + wait;
        const skus = answer.ok ? (await answer.json()).skus : [];
        // Asked too often: what was shown stays for the moment.
        if (answer.status !== 429) for (const el of elements) paint(el, skus);
      } catch {}
      isAsked = false;
      lookIn(Math.max(wait, every * (1 + 0.3 * Math.random())));
    };
    document.addEventListener("visibilitychange", look);
    look();
  }
}
