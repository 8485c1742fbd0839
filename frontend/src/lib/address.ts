/* The address holds all there is to see: model, step, cell, cuts, word, position and input.

   /gpt/dissect/mu[3,4]?at=2,1&cut=P[3,4]&word=769&after=2#t=He%20shook%20his
   /vit/dissect/mu[3,4]?at=0,24&example=4 */

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
  /** Null where the address says none; the model's own example is read then. */
  text: string | null;
  /** The other text of a pair. */
  second: string;
  /** Places of tokens that are hidden from the model. */
  masks: number[];
  /** A picture or series: an example by its number, or a file by the hash of what it holds. */
  example: number | null;
  upload: string;
  /** Which of several in a file. */
  index: number;
  invert: boolean;
  /** Pixels that the model is given of a picture; null for half of it. */
  given: number | null;
}

/** What an address says of a picture or series, when it says nothing. */
export const NOTHING = { example: null, upload: "", index: 0, invert: false, given: null } as const;

const whole = (text: string | null): number | null =>
  text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;

const listed = (text: string | null): number[] | null =>
  text !== null && /^\d{1,9}(,\d{1,9})*$/.test(text) ? text.split(",").map(Number) : null;

export function read(url: URL): Address {
  const [model = "", , ...rest] = url.pathname.split("/").slice(1).map(decodeURIComponent);
  const query = url.searchParams;
  const at = query.get("at");
  const hash = new URLSearchParams(url.hash.slice(1).replace(/\+/g, "%2B"));
  return {
    model,
    step: rest.join("/"),
    at: listed(at),
    cuts: query.getAll("cut"),
    word: whole(query.get("word")),
    after: whole(query.get("after")),
    spine: query.get("spine") === "words" ? "words" : "parts",
    text: hash.get("t"),
    second: hash.get("b") ?? "",
    masks: listed(query.get("mask")) ?? [],
    example: whole(query.get("example")),
    upload: /^[0-9a-f]{1,64}$/.exec(query.get("upload") ?? "")?.[0] ?? "",
    index: whole(query.get("index")) ?? 0,
    invert: query.get("invert") === "1",
    given: whole(query.get("given")),
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
  if (place.masks.length) query.push(`mask=${place.masks.join(",")}`);
  if (place.example !== null) query.push(`example=${place.example}`);
  if (place.upload) query.push(`upload=${place.upload}`);
  if (place.index) query.push(`index=${place.index}`);
  if (place.invert) query.push("invert=1");
  if (place.given !== null) query.push(`given=${place.given}`);
  const path = place.step ? `/${place.model}/dissect/${plain(place.step)}` : `/${place.model}/dissect`;
  const second = place.second ? `&b=${encodeURIComponent(place.second)}` : "";
  const text = place.text === null ? "" : `#t=${encodeURIComponent(place.text)}${second}`;
  return `${path}${query.length ? `?${query.join("&")}` : ""}${text}`;
}
