// Time, numbers and waits, as the server has them and as they are written in this language.

// Time is the server's: its last word plus what has passed here.
let offset = room.dataset.now - Date.now() || 0;
let trip = Infinity;
const now = () => Date.now() + offset;
const instant = (value) => (typeof value === "number" ? value : Date.parse(value));
const learnTime = (value, sent) => {
  const took = Date.now() - sent;
  const at = instant(value) + took / 2;
  // A slower answer tells it worse, but does tell that a clock was set.
  if (!(at > 0) || (took > trip + 100 && abs(at - now()) < took + 1000)) return;
  trip = took;
  offset = at - Date.now();
};

// What Retry-After asks for, in seconds or as a date.
const waitOf = (headers) => {
  const text = headers.get("Retry-After");
  return sane(text > 0 ? 1000 * text : Date.parse(text) - now());
};

const number = (n) => new Intl.NumberFormat(lang).format(n);
const clockFace = (seconds) => {
  const two = (n) => String(n).padStart(2, "0");
  const [h, m, s] = [floor(seconds / 3600), floor(seconds / 60) % 60, seconds % 60];
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
};
const waitRange = ({ low, high }) => {
  const [unit, size] = high <= 90 ? ["second", 1] : high <= 5400 ? ["minute", 60] : ["hour", 3600];
  const from = floor(low / size);
  const to = max(1, ceil(high / size));
  const format = new Intl.NumberFormat(lang, { style: "unit", unit, unitDisplay: "long" });
  if (from === 0) return words.upTo.replace("{}", format.format(to));
  return from < to && format.formatRange ? format.formatRange(from, to) : format.format(to);
};
const localTimes = () => {
  const format = new Intl.DateTimeFormat(lang, { dateStyle: "medium", timeStyle: "medium" });
  for (const el of room.querySelectorAll("time")) {
    el.textContent = format.format(Date.parse(el.dateTime));
  }
  byId("clock").textContent = format.format(now());
};
