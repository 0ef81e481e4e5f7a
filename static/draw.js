// Recomputes a draw from its published proof in the reader's own browser. Every hash is made by the
// lines below and not by the browser's crypto, which is missing on pages without https.
"use strict";
{
  const ROUNDS = 90;
  const K = Uint32Array.of(
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
  );
  const START = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

  const bytes = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));
  const text = (value) => new TextEncoder().encode(value);
  const little = (value, size) => Array.from({ length: size }, (_, at) => Number((BigInt(value) >> BigInt(8 * at)) & 255n));
  const hex = (raw) => [...raw].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const isHex = (raw, size) =>
    typeof raw === "string" && raw.length === 2 * size && [...raw].every((digit) => "0123456789abcdef".includes(digit));
  const unhex = (raw) => Uint8Array.from({ length: raw.length / 2 }, (_, at) => parseInt(raw.slice(2 * at, 2 * at + 2), 16));
  const isCount = (value) => Number.isSafeInteger(value) && value >= 0;

  const turn = (x, by) => (x >>> by) | (x << (32 - by));
  const sha256 = (message) => {
    const padded = new Uint8Array(64 * Math.ceil((message.length + 9) / 64));
    padded.set(message);
    padded[message.length] = 128;
    const view = new DataView(padded.buffer);
    view.setUint32(padded.length - 4, 8 * message.length);
    const state = Uint32Array.from(START);
    const w = new Uint32Array(64);
    for (let at = 0; at < padded.length; at += 64) {
      for (let i = 0; i < 64; i++) {
        if (i < 16) w[i] = view.getUint32(at + 4 * i);
        else {
          const [x, y] = [w[i - 15], w[i - 2]];
          const low = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
          const high = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
          w[i] = w[i - 16] + low + w[i - 7] + high;
        }
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let i = 0; i < 64; i++) {
        const chosen = (e & f) ^ (~e & g);
        const most = (a & b) ^ (a & c) ^ (b & c);
        const one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + chosen + K[i] + w[i];
        const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + most;
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
      }
      [a, b, c, d, e, f, g, h].forEach((part, i) => (state[i] += part));
    }
    const out = new DataView(new ArrayBuffer(32));
    state.forEach((word, i) => out.setUint32(4 * i, word));
    return new Uint8Array(out.buffer);
  };

  // compute_shuffled_index of the Ethereum consensus specification.
  const position = (entry, n, key, rounds = ROUNDS) => {
    let index = entry;
    for (let round = 0; round < rounds; round++) {
      const head = new DataView(sha256(bytes(key, [round])).buffer);
      const pivot = Number(head.getBigUint64(0, true) % BigInt(n));
      const flip = (pivot + n - index) % n;
      const higher = Math.max(index, flip);
      const block = sha256(bytes(key, [round], little(Math.floor(higher / 256), 4)));
      if ((block[(higher % 256) >> 3] >> (higher % 8)) & 1) index = flip;
    }
    return index;
  };

  // Each step is passed, failed, later (not drawn yet), none (no such thing in this draw), or
  // unknown (cannot be checked here).
  const check = (proof) => {
    const judge = (holds) => (holds ? "passed" : "failed");
    const { sale, run, round, signature, beacon, n, seed, key } = proof;
    const found = { algorithm: judge(proof.algorithm === "swap-or-not-90-sha256") };
    const isDrawn = seed !== undefined || key !== undefined || n !== undefined;
    const isWhole = typeof sale === "string" && [run, round].every(isCount) && isHex(proof.commitment, 32);
    const hasSeed = isHex(seed, 32);
    const committed = () =>
      sha256(bytes(text("stanchion/commit/v1"), [0], text(sale), [0], little(run, 8), little(round, 8), unhex(seed)));
    const holds = isWhole && hasSeed && hex(committed()) === proof.commitment;
    found.commitment = isDrawn || !isWhole ? judge(holds) : "later";

    const hasNone = signature === "" && beacon === "";
    const isSigned = isHex(signature, 48);
    if (round === 0) {
      found.round = judge(hasNone);
      [found.signature, found.beacon] = ["none", "none"];
    } else if (!isDrawn && hasNone) {
      [found.round, found.signature, found.beacon] = ["passed", "later", "later"];
    } else {
      found.round = judge(isCount(round));
      found.signature = isSigned ? "unknown" : "failed";
      found.beacon = judge(isSigned && beacon === hex(sha256(unhex(signature))));
    }

    const randomness = () => (round === 0 ? [] : sha256(unhex(signature)));
    const drawn = () => sha256(bytes(text("stanchion/draw/v1"), [0], text(sale), [0], unhex(seed), little(n, 8), randomness()));
    const canDraw = isWhole && hasSeed && isCount(n) && (round === 0 || isSigned);
    found.key = isDrawn ? judge(canDraw && isHex(key, 32) && hex(drawn()) === key) : "later";
    return found;
  };

  // For whoever would rather try it by hand, in the browser's console.
  globalThis.stanchionDraw = { sha256: (value) => hex(sha256(text(value))), position: (entry, n, key, rounds) => position(entry, n, unhex(key), rounds), check };

  const page = document.getElementById("check");
  if (page) {
    const words = page.dataset;
    const base = `/_stanchion/${words.sale}`;
    const form = document.getElementById("ask");
    const number = new Intl.NumberFormat(document.documentElement.lang);
    let proof = {};
    let told = {};

    const show = (step, verdict, value) => {
      const line = page.querySelector(`[data-step=${step}]`);
      line.className = verdict;
      line.querySelector("b").textContent = words[verdict];
      const place = line.querySelector("code");
      if (place) place.textContent = value ?? "";
    };
    // People count from one, the proof from nothing.
    const place = () => {
      const typed = form.number.value.trim();
      const entry = Number(typed) - 1;
      if (proof.n === undefined) return ["later"];
      if (typed === "") return ["ask"];
      if (!isCount(entry) || entry >= proof.n || !isHex(proof.key, 32)) return ["failed", words.nobody];
      const at = position(entry, proof.n, unhex(proof.key));
      const isOwn = told.entry === entry && typeof told.position === "number";
      const text = words.place.replace("{}", number.format(at + 1)).replace("{}", number.format(proof.n));
      return [!isOwn || told.position === at ? "passed" : "failed", text];
    };
    const receipt = () => {
      const typed = form.commitment.value.trim().toLowerCase();
      return typed === "" ? ["ask"] : [typed === proof.commitment ? "passed" : "failed"];
    };
    const judge = () => {
      const found = check(proof);
      const values = { commitment: proof.commitment, key: proof.key, beacon: proof.beacon, signature: proof.signature };
      for (const [step, verdict] of Object.entries(found)) show(step, verdict, values[step]);
      const [own, text] = place();
      show("place", own, text);
      const [kept] = receipt();
      show("receipt", kept, words.run.replace("{}", number.format(proof.run)));
      const all = [...Object.values(found), own, kept];
      const verdict = all.includes("failed") ? "failed" : found.key === "later" ? "later" : "passed";
      page.dataset.verdict = verdict;
      document.getElementById("verdict").textContent = words[`all${verdict}`];
    };
    const ask = async (what) => {
      const answer = await fetch(base + what, { cache: "no-store", headers: { Accept: "application/json" } });
      return answer.ok ? answer.json() : Promise.reject(new Error(answer.status));
    };
    const begin = async () => {
      try {
        proof = await ask("/draw");
      } catch {
        document.getElementById("verdict").textContent = words.silent;
        return setTimeout(begin, 5000);
      }
      // Without a place, or without an answer, nothing is filled in.
      told = (await ask("/status").catch(() => ({}))).place ?? {};
      if (isCount(told.entry) && form.number.value === "") form.number.value = told.entry + 1;
      form.hidden = false;
      judge();
      // The draw is yet to be made: looked for again, now and then.
      if (proof.key === undefined) setTimeout(begin, 15000);
    };
    form.addEventListener("input", judge);
    form.addEventListener("submit", (event) => event.preventDefault());
    begin();
  }
}
