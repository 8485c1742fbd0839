/* The address holds all there is to see: model, room, step, cell, cuts, word, position and input.

   /gpt/dissect/mu[3,4]?at=2,1&cut=P[3,4]&word=769&after=2#t=He%20shook%20his
   /vit/dissect/mu[3,4]?at=0,24&example=4
   /gpt/dissect/H[4]?at=20,2&way=Y_hat:769,2/Z:769,2
   /gpt/dissect/mu[3,4]?at=2,1&vs=gpt&show=b#t=He%20shook%20his&v=He%20opened%20his */

import { FILE, isKept } from "./kept";
import { packed } from "./packing";

/** In the order of their keys; rooms/index.ts opens them. */
export const ROOMS = ["dissect", "heads", "words", "ledger", "runs"] as const;
/** The rooms that show a run of a text; the others need the model alone. */
export const READS: readonly string[] = ["dissect", "heads", "words"];
export type Room = (typeof ROOMS)[number];

/** The other run: another model, text or example, or the same with cuts of its own. */
export interface Other {
  model: string;
  /** Null where both read the same. */
  text: string | null;
  example: number | null;
  cuts: string[];
  /** A long text, until it is unpacked. */
  packed?: string | null;
}

/** A number that was unfolded: a step and a cell of it. */
export interface Crumb {
  step: string;
  at: number[];
}

export type Show = "a" | "b" | "change";

export interface Address {
  model: string;
  room: Room;
  step: string;
  at: number[] | null;
  /** The numbers that were unfolded on the way here, the first one first. */
  way: Crumb[];
  cuts: string[];
  /** The word that is asked about; null for the likeliest. */
  word: number | null;
  /** The token after which it comes; null for the last, or the mask. */
  after: number | null;
  /** "steps" is how far each is from the other run's. */
  spine: "parts" | "words" | "steps";
  /** The sampler: temperature, top-k, top-p, and the seed of the next draw; null where unsaid. */
  T: number | null;
  k: number | null;
  p: number | null;
  seed: number;
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
  /** What the run is compared with, and which of both is shown; "change" is B minus A. */
  vs: Other | null;
  show: Show;
  /** The runs that a cut is made in. */
  on: "both" | "a" | "b";
  /** Steps of A whose values are B's. */
  from: string[];
  /** What a room of its own says in its query, by name; other rooms do not write it. */
  own: Record<string, string>;
  /** A long text as the address holds it, until it is unpacked. */
  packed?: string | null;
}

/** What an address says when nothing is compared. */
export const ALONE = { vs: null, show: "change", on: "both", from: [] as string[] } as const;

/** What an address says of a picture or series, when it says nothing. */
export const NOTHING = { example: null, upload: "", index: 0, invert: false, given: null } as const;

/** The names of what a room says in its own query. */
const OWN: Partial<Record<Room, string[]>> = {
  dissect: ["order"],
  heads: ["by"],
  words: ["near", "axis", "view"],
  ledger: ["part", "set", "length", "batch"],
  runs: ["run"],
};

const whole = (text: string | null): number | null => (text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null);

const listed = (text: string | null): number[] | null =>
  text !== null && /^\d{1,9}(,\d{1,9})*$/.test(text) ? text.split(",").map(Number) : null;

/** A number in a range, or null. */
function within(text: string | null, least: number, most: number): number | null {
  const x = text !== null && /^\d{1,9}(\.\d{1,9})?$/.test(text) ? Number(text) : NaN;
  return x >= least && x <= most ? x : null;
}

/** Steps with their cells, as in Z:769,2/H[4]:3,2. */
function crumbs(text: string | null): Crumb[] {
  const found = (text ?? "").split("/").map((one) => /^([^:]+):(\d{1,9}(?:,\d{1,9})*)$/.exec(one));
  return found.flatMap((one) => (one ? [{ step: one[1]!, at: listed(one[2]!)! }] : []));
}

/** A part of the path; one that was cut short within a letter is taken as it stands, and named as unknown. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function read(given: URL): Address {
  const url = isKept ? new URL(given.hash.slice(1) || "/", "file:///") : given; // a file has but its fragment
  const [model = "", room = "", ...rest] = url.pathname.split("/").slice(1).map(decoded);
  const query = url.searchParams;
  const at = query.get("at");
  const names = OWN[ROOMS.find((one) => one === room) ?? "dissect"] ?? [];
  const own = Object.fromEntries(names.map((name) => [name, query.get(name) ?? ""]).filter(([, said]) => said));
  const hash = new URLSearchParams(url.hash.slice(1).replace(/\+/g, "%2B"));
  return {
    model,
    room: ROOMS.find((one) => one === room) ?? "dissect",
    step: rest.join("/"),
    at: listed(at),
    way: crumbs(query.get("way")),
    cuts: query.getAll("cut"),
    word: whole(query.get("word")),
    after: whole(query.get("after")),
    spine: (["words", "steps"] as const).find((one) => one === query.get("spine")) ?? "parts",
    T: within(query.get("T"), 0, 100),
    k: whole(query.get("k")) || null,
    p: within(query.get("p"), 1e-9, 1),
    seed: whole(query.get("seed")) ?? 0,
    text: hash.get("t"),
    second: hash.get("b") ?? "",
    masks: listed(query.get("mask")) ?? [],
    example: whole(query.get("example")),
    upload: /^[0-9a-f]{1,64}$/.exec(query.get("upload") ?? "")?.[0] ?? "",
    index: whole(query.get("index")) ?? 0,
    invert: query.get("invert") === "1",
    given: whole(query.get("given")),
    ...compared(query, hash),
    own,
    packed: hash.get("z"),
  };
}

function compared(query: URLSearchParams, hash: URLSearchParams): Pick<Address, "vs" | "show" | "on" | "from"> {
  const model = query.get("vs");
  if (!model || isKept) return { ...ALONE, from: [] };
  const vs = {
    model,
    text: hash.get("v"),
    example: whole(query.get("vsexample")),
    cuts: query.getAll("vscut"),
    packed: hash.get("vz"),
  };
  const [show, on] = [query.get("show"), query.get("on")];
  return {
    vs,
    show: show === "a" || show === "b" ? show : "change",
    on: on === "a" || on === "b" ? on : "both",
    from: query.getAll("from"),
  };
}

/** B as if it stood alone. */
export function otherOf(place: Address): Address {
  const { vs } = place;
  if (!vs) return place;
  const own = vs.text !== null;
  const seen = vs.example === null ? {} : { ...NOTHING, example: vs.example };
  return {
    ...place,
    ...seen,
    ...ALONE,
    from: [],
    model: vs.model,
    cuts: vs.cuts,
    text: vs.text ?? place.text,
    masks: own || vs.example !== null ? [] : place.masks,
  };
}

/** Brackets and commas are read more easily than their codes, and mean nothing else here. */
const plain = (text: string): string => encodeURIComponent(text).replace(/%(5B|5D|2C|3A|3D|40)/g, decodeURIComponent);

export function written(place: Address): string {
  const query: string[] = [];
  if (place.at) query.push(`at=${place.at.join(",")}`);
  if (place.way.length)
    query.push(`way=${place.way.map(({ step, at }) => `${plain(step)}:${at.join(",")}`).join("/")}`);
  for (const name of place.cuts) query.push(`cut=${plain(name)}`);
  if (place.word !== null) query.push(`word=${place.word}`);
  if (place.after !== null) query.push(`after=${place.after}`);
  if (place.spine !== "parts") query.push(`spine=${place.spine}`);
  if (place.masks.length) query.push(`mask=${place.masks.join(",")}`);
  if (place.example !== null) query.push(`example=${place.example}`);
  if (place.upload) query.push(`upload=${place.upload}`);
  if (place.index) query.push(`index=${place.index}`);
  if (place.invert) query.push("invert=1");
  if (place.given !== null) query.push(`given=${place.given}`);
  if (place.T !== null) query.push(`T=${place.T}`);
  if (place.k !== null) query.push(`k=${place.k}`);
  if (place.p !== null) query.push(`p=${place.p}`);
  if (place.seed) query.push(`seed=${place.seed}`);
  if (place.vs) {
    query.push(`vs=${plain(place.vs.model)}`);
    if (place.vs.example !== null) query.push(`vsexample=${place.vs.example}`);
    for (const name of place.vs.cuts) query.push(`vscut=${plain(name)}`);
    if (place.show !== "change") query.push(`show=${place.show}`);
    if (place.on !== "both") query.push(`on=${place.on}`);
    for (const name of place.from) query.push(`from=${plain(name)}`);
  }
  for (const name of OWN[place.room] ?? []) if (place.own[name]) query.push(`${name}=${plain(place.own[name])}`);
  const path = `/${plain(place.model)}/${place.room}${place.step ? `/${plain(place.step)}` : ""}`;
  const texts = [held("t", "z", place.text, place.packed)];
  if (texts[0] && place.second) texts.push(`b=${encodeURIComponent(place.second)}`);
  if (place.vs) texts.push(held("v", "vz", place.vs.text, place.vs.packed));
  const hash = texts.filter(Boolean).join("&");
  return `${isKept ? `${FILE}#` : ""}${path}${query.length ? `?${query.join("&")}` : ""}${hash && `#${hash}`}`;
}

/** A text in the fragment, as it is or deflated. */
function held(plainly: string, short: string, text: string | null, before: string | null = null): string {
  const deflated = text === null ? before : packed(text);
  if (deflated) return `${short}=${deflated}`;
  return text === null ? "" : `${plainly}=${encodeURIComponent(text)}`;
}
