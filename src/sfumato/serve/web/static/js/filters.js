// Filters: some labels of an attribute, or a stretch of an ordered one. All controls are the browser's own.
import { t } from "./tongue.js";
import { $, make, short, shown, titled } from "./words.js";

const MOST_TICKS = 60;

export function fillAddFilter(about, filters) {
  const free = about.columns.filter((one) => one.role === "attribute" && !filters.some((filter) => filter.attribute === one.column));
  $("add-filter").replaceChildren(
    make("option", { value: "", text: filters.length ? t("Add another…") : t("All rows; add a filter…") }),
    ...free.map((one) => make("option", { value: one.column, text: titled(about, one.column) })),
  );
}

/** A filter that leaves all rows in, to begin with. */
export function begin(column) {
  if (ranged(column)) return { attribute: column.column, first: null, last: null };
  return { attribute: column.column, labels: [...column.labels] };
}

const ranged = (column) => column.ordered || column.labels === null || column.labels.length > MOST_TICKS;

/** What the server is to be told; nothing of a filter that leaves all rows in. */
export function asked(filters, about) {
  return filters.flatMap((filter) => {
    const column = about.columns.find((one) => one.column === filter.attribute);
    if (filter.labels) return filter.labels.length === column.labels?.length || !filter.labels.length ? [] : [{ attribute: filter.attribute, labels: filter.labels }];
    const ends = Object.fromEntries(["first", "last"].filter((end) => filter[end] !== null).map((end) => [end, filter[end]]));
    return Object.keys(ends).length ? [{ attribute: filter.attribute, ...ends }] : [];
  });
}

/** A filter in a few words. */
export function inWords(filter, about) {
  const name = titled(about, filter.attribute);
  if (filter.labels) return `${name} ${filter.labels.map((label) => short(label, 30)).slice(0, 4).join(t(" or "))}${filter.labels.length > 4 ? t(" or {0} more", filter.labels.length - 4) : ""}`;
  if (filter.first !== undefined && filter.last !== undefined) return t("{0} from {1} to {2}", name, shown(filter.first), shown(filter.last));
  return filter.first !== undefined ? t("{0} from {1}", name, shown(filter.first)) : t("{0} up to {1}", name, shown(filter.last));
}

export function showFilters(box, filters, about, changed) {
  box.replaceChildren(...filters.map((filter) => {
    const column = about.columns.find((one) => one.column === filter.attribute);
    const name = titled(about, filter.attribute);
    const remove = make("button", { type: "button", class: "plain", text: "×", "aria-label": t("Remove the filter on {0}", name) });
    remove.addEventListener("click", () => changed(filters.filter((one) => one !== filter), true));
    const body = ranged(column) ? range(filter, column, () => changed(filters)) : ticks(filter, column, () => changed(filters));
    const head = make("div", { class: "filter-head" }, make("bdi", { text: name }), remove);
    return make("fieldset", { class: "filter" }, make("legend", { class: "unseen", text: t("Filter on {0}", name) }), head, body);
  }));
}

function ticks(filter, column, changed) {
  return make("div", { class: "ticks" }, ...column.labels.map((label) => {
    const box = make("input", { type: "checkbox", checked: filter.labels.includes(label) });
    box.addEventListener("change", () => {
      filter.labels = column.labels.filter((one) => (one === label ? box.checked : filter.labels.includes(one)));
      changed();
    });
    return make("label", { class: "tick" }, box, make("bdi", { text: shown(label) }));
  }));
}

function range(filter, column, changed) {
  const end = (which, text) => {
    const id = `filter-${which}-${column.column}`;
    let field;
    if (column.labels) {
      const present = column.labels.filter((label) => label !== null);
      field = make("select", { id }, make("option", { value: "", text: which === "first" ? t("the beginning") : t("the end") }),
        ...present.map((label, place) => make("option", { value: String(place), text: shown(label) })));
      field.value = filter[which] === null ? "" : String(present.indexOf(filter[which]));
      field.addEventListener("change", () => { filter[which] = field.value === "" ? null : present[+field.value]; changed(); });
    } else {
      field = make("input", { id, type: column.type === "date" ? "text" : "number", placeholder: column.type === "date" ? "2024-12-31" : which });
      field.value = filter[which] ?? "";
      field.addEventListener("change", () => { filter[which] = field.value === "" ? null : column.type === "integer" ? Math.round(+field.value) : field.value; changed(); });
    }
    return [make("label", { for: id, text }), field];
  };
  return make("div", { class: "range" }, ...end("first", t("from")), ...end("last", t("to")));
}
