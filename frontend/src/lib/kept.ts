/* The page as a file: what the server would answer lies in a block of the page itself.

   src/vesalius/explorer/snapshot.py writes it: a line for each question, deflated. What is not there
   was left out, and that is the answer. */

import type { Step } from "./types";

const WINDOW = 256;
/** Rows and columns of a step that lie together. */

export interface About {
  /** What Python and the command line call the model. */
  model: string;
  key: string;
  text?: string;
  ids?: number[];
  /** What there was no room for. */
  left: string[];
}

interface Posted {
  id: string;
  clean: string;
  milliseconds: number;
  /** Steps that a cut changes; all others are as without it. */
  changed: string[];
}

const block = document.getElementById("kept");

/** Whether this page is a file with a run in it. */
export const isKept = block !== null;

/** The file's own address without a fragment: in a notebook's frame, what is relative leads to the notebook. */
export const FILE = isKept ? location.href.split("#")[0]! : "";

let lines: Promise<Map<string, string>> | null = null;
let said: About | null = null;
const posted = new Map<string, Posted>();

const decoded = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));

async function opened(): Promise<Map<string, string>> {
  const stream = new Blob([decoded((block!.textContent ?? "").trim())]).stream();
  const text = await new Response(stream.pipeThrough(new DecompressionStream("deflate-raw"))).text();
  const found = new Map<string, string>();
  for (const line of text.split("\n")) {
    const tab = line.indexOf("\t");
    if (tab < 0) continue;
    const [key, rest] = [line.slice(0, tab), line.slice(tab + 1)];
    found.set(key, rest);
    if (key.startsWith("run ")) posted.set(key.slice(4), JSON.parse(rest) as Posted);
  }
  said = JSON.parse(found.get("about")!) as About;
  block!.textContent = "";
  return found;
}

/** What the file says of itself, once it is read. */
export const about = (): About | null => said;

/** Whether the file has a run with these cuts. */
export const holds = (cuts: string[]): boolean => posted.has(cuts.join(" "));

class LeftOut extends Error {}

/** The answer to a question, as the server would give it. */
export async function keptAnswer(path: string, init?: RequestInit): Promise<Response> {
  lines ??= opened();
  const found = await lines;
  try {
    if (init?.method === "POST") return Response.json(post(String(init.body)));
    const [place = "", query = ""] = path.split("?");
    return answered(found, decodeURIComponent(place), new URLSearchParams(query));
  } catch (error) {
    if (!(error instanceof LeftOut)) throw error;
    return Response.json({ error: "LeftOut", message: error.message }, { status: 410 });
  }
}

const server = (): string => `'vesalius explore ${said?.model ?? ""}'`;

function post(body: string): Posted {
  const wanted = JSON.parse(body) as { text?: string; ids?: number[]; cuts: string[]; model: string };
  const same = said!.text === undefined ? String(wanted.ids) === String(said!.ids) : wanted.text === said!.text;
  if (!same || wanted.model !== said!.key)
    throw new LeftOut(`This file holds the run of one text; ${server()} reads others.`);
  const run = posted.get(wanted.cuts.join(" "));
  if (!run) throw new LeftOut(`This file holds cuts of one head or network at a time; ${server()} makes others.`);
  return run;
}

function answered(found: Map<string, string>, place: string, query: URLSearchParams): Response {
  const [, , kind, id = "", below = "", ...rest] = place.split("/");
  if (kind === "runs" && below === "steps") return values(found, id, rest.join("/"), query);
  if (kind === "runs" && below === "lens") return states(found, place, query);
  if (kind === "runs" && below === "vocabulary") return words(found, place, query);
  const run = [...posted.values()].find((one) => one.id === id);
  const unfolds = kind === "runs" && below === "unfold" && run;
  const whose = unfolds && !run.changed.includes(rest[0] ?? "") ? run.clean : id; // else as without the cut
  const text = looked(found, place.replace(`/${id}/`, `/${whose}/`), query);
  if (text === null) throw new LeftOut(leftOut(below, rest));
  const answer = JSON.parse(text);
  if (kind === "runs" && !below) answer.steps = steps(found, id);
  return Response.json(answer);
}

function leftOut(below: string, rest: string[]): string {
  if (below === "unfold")
    return `The terms of ${rest[0]}(${rest[1]}) are not in this file; ${server()} unfolds every number.`;
  if (below === "sources") return `What ${rest[0]} read is not in this file; ${server()} tells it.`;
  if (!below) return `This file holds the likeliest words and the last positions; ${server()} tells of others.`;
  return `This was left out of the file; ${server()} tells it.`;
}

/** The line of a question, whatever the order of its parts; or of the one that it is the same as. */
function looked(found: Map<string, string>, place: string, query: URLSearchParams): string | null {
  const parts = [...query].filter(([, value]) => value).sort(([a], [b]) => (a < b ? -1 : 1));
  const key = place + (parts.length ? `?${parts.map(([name, value]) => `${name}=${value}`).join("&")}` : "");
  const text = found.get(key);
  if (text?.startsWith("=")) return found.get(text.slice(1)) ?? null;
  return text ?? null;
}

const steps = (found: Map<string, string>, id: string): Step[] => JSON.parse(found.get(`steps ${id}`) ?? "[]");

/** The words of the states of some tokens. */
function states(found: Map<string, string>, place: string, query: URLSearchParams): Response {
  const text = found.get(place);
  if (text === undefined) throw new LeftOut(leftOut("lens", []));
  const [first, last] = ["first", "last"].map((name) => Number(query.get(name)));
  return Response.json((JSON.parse(text) as unknown[][]).map((row) => row.slice(first, last)));
}

function words(found: Map<string, string>, place: string, query: URLSearchParams): Response {
  const [search, k] = [(query.get("search") ?? "").toLowerCase(), Number(query.get("k") ?? 12)];
  for (const name of ["search", "k"]) query.delete(name);
  const text = looked(found, place, query);
  if (text === null) throw new LeftOut(`These words are not in this file; ${server()} tells all.`);
  const all = JSON.parse(text) as { words: { token: string }[]; found: number; size: number };
  const some = search ? all.words.filter((word) => word.token.toLowerCase().includes(search)) : all.words;
  return Response.json({ words: some.slice(0, k), found: search ? some.length : all.found, size: all.size });
}

const range = (text: string | null): [number, number] => (text ?? "0:0").split(":").map(Number) as [number, number];

/** Rows and columns of a step, put together from the parts that lie in the file. */
function values(found: Map<string, string>, id: string, name: string, query: URLSearchParams): Response {
  const run = [...posted.values()].find((one) => one.id === id);
  const whose = run && !run.changed.includes(name) ? run.clean : id;
  const step = steps(found, id).find((one) => one.name === name);
  const [[top, bottom], [left, right]] = [range(query.get("rows")), range(query.get("columns"))];
  const wide = right - left;
  const data = new DataView(new ArrayBuffer(4 * (bottom - top) * wide));
  const columns = step?.shape[1] ?? 1;
  const first = (k: number): number => Math.floor(k / WINDOW) * WINDOW;
  for (let r = first(top); r < bottom; r += WINDOW) {
    for (let c = first(left); c < right; c += WINDOW) {
      const text = found.get(`values ${whose} ${name} ${r},${c}`);
      if (text === undefined)
        throw new LeftOut(`Values of ${name} were left out to keep this file small; ${server()} shows them.`);
      const part = new DataView(decoded(text).buffer);
      const across = Math.min(WINDOW, columns - c);
      for (let i = Math.max(r, top); i < Math.min(r + WINDOW, bottom); i++) {
        for (let j = Math.max(c, left); j < Math.min(c + across, right); j++) {
          data.setUint32(4 * ((i - top) * wide + j - left), part.getUint32(4 * ((i - r) * across + j - c)));
        }
      }
    }
  }
  const headers = {
    "x-shape": (step?.shape ?? []).join(","),
    "x-rows": `${top}:${bottom}`,
    "x-columns": `${left}:${right}`,
  };
  return new Response(data.buffer, { headers });
}
