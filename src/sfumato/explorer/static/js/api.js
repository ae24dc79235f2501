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

/** An answer, from memory where the same was asked before. */
export async function ask(release, kind, question, signal) {
  const key = JSON.stringify([release, kind, question]);
  if (kept.has(key)) return kept.get(key);
  const found = await answer(await post(release, kind, question, signal));
  kept.set(key, found);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return found;
}

export async function csv(release, question) {
  const response = await post(release, "csv", question);
  if (!response.ok) await answer(response);
  return response.blob();
}

/** The latest of several questions: an older one is given up. */
export function latest() {
  let running = null;
  return async (work) => {
    running?.abort();
    const mine = (running = new AbortController());
    try { return { found: await work(mine.signal), current: running === mine }; }
    catch (error) { if (error.name === "AbortError" || running !== mine) return { current: false }; throw error; }
  };
}
