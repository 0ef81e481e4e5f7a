// Keeps the operators' page fresh: the server renders, this puts it in place.
(() => {
  const live = document.getElementById("live");
  const fresh = document.getElementById("fresh");
  const STALE_MS = 4000;
  let heard = Date.now();

  const events = new EventSource("/live");
  events.onmessage = (event) => {
    heard = Date.now();
    fresh.hidden = true;
    // The answer of this very address, every value in it escaped by the server.
    live.innerHTML = event.data;
  };

  setInterval(() => {
    const silent = Date.now() - heard;
    if (silent > STALE_MS) {
      fresh.textContent = `Not fresh: this node was last heard ${Math.round(silent / 1000)} s ago`;
      fresh.hidden = false;
    }
  }, 1000);
})();
