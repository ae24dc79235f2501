// The server, asked by JSON. Every number on the page comes from here.

const kept = new Map();
const MOST_KEPT = 300;

export class Refused extends Error {
  constructor(said) {
    super(said.what_to_do ? `${said.error}: ${said.what_to_do}` : said.error);
    this.kind = said.kind;
  }
}

async function answer(response) {
  let said;
  try { said = await response.json(); } catch { said = { error: `the server answered ${response.status}`, what_to_do: "reload the page" }; }
  if (!response.ok) throw new Refused(said);
  return said;
}

export async function get(path) {
  return answer(await fetch(path, { headers: { Accept: "application/json" } }));
}

const path = (release, kind) => `/api/releases/${encodeURIComponent(release)}/${kind}`;
const post = (release, kind, question, signal) => fetch(path(release, kind), {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question), signal,
});

const keyOf = (...parts) => JSON.stringify(parts);

/** Whether an answer needs no waiting for. */
export const atHand = (release, kind, question) => kept.has(keyOf(release, kind, question));

let likely = null; // what is being asked in advance

/** An answer, from memory where the same was asked before. Whoever asks goes before what is only likely to be asked. */
export async function ask(release, kind, question, signal) {
  const key = keyOf(release, kind, question);
  if (kept.has(key)) return kept.get(key);
  if (likely?.key === key) {
    likely.stop = () => {}; // somebody waits for it now
    return unless(signal, likely.found);
  }
  likely?.stop();
  return worked(key, await post(release, kind, question, signal));
}

/** An answer that is likely to be wanted next, put by. One at a time. */
export async function askAhead(release, kind, question) {
  const key = keyOf(release, kind, question);
  await likely?.found.catch(() => {});
  if (kept.has(key)) return;
  const control = new AbortController();
  const mine = { key, stop: () => control.abort(), found: post(release, kind, question, control.signal).then((response) => worked(key, response)) };
  likely = mine;
  try { await mine.found; } finally { if (likely === mine) likely = null; }
}

const unless = (signal, found) => new Promise((resolve, reject) => {
  signal?.addEventListener("abort", () => reject(signal.reason));
  found.then(resolve, reject);
});

async function worked(key, response) {
  const found = await answer(response);
  kept.set(key, found);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return found;
}

export async function csv(release, question) {
  const response = await post(release, "csv", question);
  if (!response.ok) await answer(response);
  return response.blob();
}

/** The latest of several questions: an older one is given up. `stop` gives up the latest, too. */
export function latest() {
  let running = null;
  const newest = async (work) => {
    running?.abort();
    const mine = (running = new AbortController());
    try { return { found: await work(mine.signal), current: running === mine }; }
    catch (error) { if (error.name === "AbortError" || running !== mine) return { current: false, stopped: running === mine }; throw error; }
  };
  newest.stop = () => running?.abort();
  return newest;
}
