/* The address holds all there is to see: model, step, cell, cuts, word, position and text.

   /gpt/dissect/mu[3,4]?at=2,1&cut=P[3,4]&word=769&after=2#t=He%20shook%20his */

export interface Address {
  model: string;
  step: string;
  at: number[] | null;
  cuts: string[];
  /** The word that is asked about; null for the likeliest. */
  word: number | null;
  /** The token after which it comes; null for the last, or the mask. */
  after: number | null;
  spine: "parts" | "words";
  /** The sampler: temperature, top-k, top-p, and the seed of the next draw; null where unsaid. */
  T: number | null;
  k: number | null;
  p: number | null;
  seed: number;
  /** Null where the address says none; the model's own example is read then. */
  text: string | null;
}

const whole = (text: string | null): number | null =>
  text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;

/** A number in a range, or null. */
function within(text: string | null, least: number, most: number): number | null {
  const x = text !== null && /^\d{1,9}(\.\d{1,9})?$/.test(text) ? Number(text) : NaN;
  return x >= least && x <= most ? x : null;
}

export function read(url: URL): Address {
  const [model = "", , ...rest] = url.pathname.split("/").slice(1).map(decodeURIComponent);
  const query = url.searchParams;
  const at = query.get("at");
  const hash = new URLSearchParams(url.hash.slice(1).replace(/\+/g, "%2B"));
  return {
    model,
    step: rest.join("/"),
    at: at !== null && /^\d{1,9}(,\d{1,9})*$/.test(at) ? at.split(",").map(Number) : null,
    cuts: query.getAll("cut"),
    word: whole(query.get("word")),
    after: whole(query.get("after")),
    spine: query.get("spine") === "words" ? "words" : "parts",
    T: within(query.get("T"), 0, 100),
    k: whole(query.get("k")) || null,
    p: within(query.get("p"), 1e-9, 1),
    seed: whole(query.get("seed")) ?? 0,
    text: hash.get("t"),
  };
}

/** Brackets and commas are read more easily than their codes, and mean nothing else here. */
const plain = (text: string): string =>
  encodeURIComponent(text).replace(/%5B/g, "[").replace(/%5D/g, "]").replace(/%2C/g, ",");

export function written(place: Address): string {
  const query: string[] = [];
  if (place.at) query.push(`at=${place.at.join(",")}`);
  for (const name of place.cuts) query.push(`cut=${plain(name)}`);
  if (place.word !== null) query.push(`word=${place.word}`);
  if (place.after !== null) query.push(`after=${place.after}`);
  if (place.spine === "words") query.push("spine=words");
  if (place.T !== null) query.push(`T=${place.T}`);
  if (place.k !== null) query.push(`k=${place.k}`);
  if (place.p !== null) query.push(`p=${place.p}`);
  if (place.seed) query.push(`seed=${place.seed}`);
  const path = place.step ? `/${place.model}/dissect/${plain(place.step)}` : `/${place.model}/dissect`;
  const text = place.text === null ? "" : `#t=${encodeURIComponent(place.text)}`;
  return `${path}${query.length ? `?${query.join("&")}` : ""}${text}`;
}
