/* Asking the server. A failure carries the sentence of the exception. */

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

async function answered(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
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

export async function get<T>(path: string): Promise<T> {
  return (await answered(path)).json() as Promise<T>;
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  const init = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  return (await answered(path, init)).json() as Promise<T>;
}

/** A file as it is. */
export async function sent<T>(path: string, file: Blob): Promise<T> {
  const headers = { "content-type": "application/octet-stream" };
  return (await answered(path, { method: "POST", headers, body: file })).json() as Promise<T>;
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
): Promise<Values> {
  const query = `?rows=${rows.join(":")}&columns=${columns.join(":")}`;
  return fetched(stepPath(run, name) + query, name);
}

/** Numbers at an address, as little-endian float32. */
export async function fetched(path: string, name: string): Promise<Values> {
  const response = await answered(path);
  const [top, bottom] = range(response.headers.get("x-rows"));
  const [left, right] = range(response.headers.get("x-columns"));
  const view = new DataView(await response.arrayBuffer());
  const data = new Float32Array(view.byteLength / 4);
  for (let i = 0; i < data.length; i++) data[i] = view.getFloat32(4 * i, true);
  const shape = (response.headers.get("x-shape") ?? "").split(",").filter(Boolean).map(Number);
  return { name, shape, top, left, rows: bottom - top, columns: right - left, data };
}
