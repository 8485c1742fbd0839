/* Asking the server, or the file that the page is in. A failure carries the sentence of the exception. */

import { isKept, keptAnswer } from "./kept";
import { HEADER, opened, refused } from "./session";
import type { Cell, Values } from "./types";

export class Failure extends Error {
  constructor(
    message: string,
    readonly kind: string,
    readonly status: number,
    readonly fitting = "",
    readonly limit = 0,
  ) {
    super(message);
  }
}

/** With the key of the session, without which the server tells nothing. */
async function asked(path: string, init?: RequestInit): Promise<Response> {
  const key = await opened();
  const response = await fetch(path, { ...init, headers: { ...init?.headers, [HEADER]: key } });
  if (response.status === 403 && refused()) throw new Failure(refused(), "Refused", 403);
  return response;
}

async function answered(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await (isKept ? keptAnswer(path, init) : asked(path, init));
  } catch (error) {
    if (error instanceof Failure || (error instanceof DOMException && error.name === "AbortError")) throw error;
    throw new Failure("The server does not answer. Is 'vesalius explore' still running?", "Gone", 0);
  }
  if (response.ok) return response;
  const text = await response.text();
  try {
    const said = JSON.parse(text);
    throw new Failure(said.message, said.error, response.status, said.fitting ?? "", said.limit ?? 0);
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(text || response.statusText, "Refused", response.status);
  }
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await answered(path, { signal })).json() as Promise<T>;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const init = { signal, method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  return (await answered(path, init)).json() as Promise<T>;
}

/** A file as it is. */
export async function sent<T>(path: string, file: Blob): Promise<T> {
  const headers = { "content-type": "application/octet-stream" };
  return (await answered(path, { method: "POST", headers, body: file })).json() as Promise<T>;
}

/** Numbers as little-endian float32, and what the headers say of them. */
export async function numbers(path: string, signal?: AbortSignal): Promise<{ data: Float32Array; headers: Headers }> {
  const response = await answered(path, { signal });
  const view = new DataView(await response.arrayBuffer());
  const data = new Float32Array(view.byteLength / 4);
  for (let i = 0; i < data.length; i++) data[i] = view.getFloat32(4 * i, true);
  return { data, headers: response.headers };
}

interface Said {
  error: string;
  message: string;
  status?: number;
  fitting?: string;
  limit?: number;
}

/** Server-sent events of a POST, one after the other; a failure among them is thrown. */
export async function* events(
  path: string,
  body: unknown,
  signal: AbortSignal,
): AsyncGenerator<{ name: string; about: unknown }> {
  const response = await answered(path, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream" },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    yield { name: "run", about: await response.json() }; // of a page in a file, which has it ready
    return;
  }
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (left + value).split("\n\n");
    left = parts.pop()!;
    for (const part of parts) {
      const [first = "", second = ""] = part.split("\n");
      const [name, about] = [first.replace("event: ", ""), JSON.parse(second.replace("data: ", ""))];
      if (name === "failure") {
        const said = about as Said;
        throw new Failure(said.message, said.error, said.status ?? 422, said.fitting, said.limit);
      }
      yield { name, about };
    }
  }
}

/** Says that something is not wanted any more; whether it was still there does not matter. */
export async function remove(path: string): Promise<void> {
  await asked(path, { method: "DELETE" }).catch(() => undefined);
}

const named = (name: string): string => encodeURIComponent(name);

export const stepPath = (run: string, name: string): string => `/api/runs/${run}/steps/${named(name)}`;
export const unfoldPath = (run: string, name: string, at: Cell): string =>
  `/api/runs/${run}/unfold/${named(name)}/${at.join(",")}`;
export const sourcesPath = (run: string, name: string, query: string): string =>
  `/api/runs/${run}/sources/${named(name)}${query}`;

function range(text: string | null): [number, number] {
  const [first, last] = (text ?? "0:0").split(":").map(Number);
  return [first ?? 0, last ?? 0];
}

/** Rows and columns of a step, as little-endian float32. */
export async function values(
  run: string,
  name: string,
  rows: [number, number],
  columns: [number, number],
  signal?: AbortSignal,
): Promise<Values> {
  const query = `?rows=${rows.join(":")}&columns=${columns.join(":")}`;
  return fetched(stepPath(run, name) + query, name, signal);
}

/** A matrix at an address, or the part of it that is asked for. */
export async function fetched(path: string, name: string, signal?: AbortSignal): Promise<Values> {
  const { data, headers } = await numbers(path, signal);
  const [top, bottom] = range(headers.get("x-rows"));
  const [left, right] = range(headers.get("x-columns"));
  const shape = (headers.get("x-shape") ?? "").split(",").filter(Boolean).map(Number);
  return { name, shape, top, left, rows: bottom - top, columns: right - left, data };
}

export async function bytes(path: string, signal?: AbortSignal): Promise<{ data: ArrayBuffer; headers: Headers }> {
  const response = await answered(path, { signal });
  return { data: await response.arrayBuffer(), headers: response.headers };
}
