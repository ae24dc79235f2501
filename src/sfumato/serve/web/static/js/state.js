// What is chosen, shared by all views and kept in the address so that a view can be sent to somebody.

export const STOPS = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999];

export const state = {
  release: null, about: null, tab: "explore", confidence: 0.95, interval: "typical",
  amount: "count", of: null, by: [], shape: "bars", order: "listed", scale: "auto", filters: [], sql: "",
};

const KEPT = ["release", "tab", "confidence", "interval", "amount", "of", "by", "shape", "order", "scale", "filters", "sql"];

let writing = 0;

/** Soon, not at once: a slider that is dragged must not wait for the address. */
export function remember() {
  clearTimeout(writing);
  writing = setTimeout(() => {
    const kept = Object.fromEntries(KEPT.map((name) => [name, state[name]]));
    history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(kept))}`);
  }, 200);
}

/** What an address asks for; each part is used only if it makes sense. */
export function recall() {
  try {
    const kept = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    return kept && typeof kept === "object" ? kept : {};
  } catch { return {}; }
}

export const manner = () => ({ confidence: state.confidence, interval: state.interval });
