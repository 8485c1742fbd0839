/* Pictures of the server as addresses of this page: a plain <img> sends no key of the session. */

import { SvelteMap } from "svelte/reactivity";
import { bytes } from "./api";

const MOST = 200;
const asked = new Set<string>();
const urls = new SvelteMap<string, string>();

/** The address of a picture, empty until it is here; each is asked for once. */
export function shown(path: string): string {
  if (path && !asked.has(path)) {
    asked.add(path);
    void bytes(path).then(
      ({ data, headers }) => keep(path, new Blob([data], { type: headers.get("content-type") ?? "" })),
      () => asked.delete(path),
    );
  }
  return urls.get(path) ?? "";
}

function keep(path: string, blob: Blob): void {
  urls.set(path, URL.createObjectURL(blob));
  const oldest = urls.keys().next().value!;
  if (urls.size <= MOST) return;
  URL.revokeObjectURL(urls.get(oldest)!);
  urls.delete(oldest);
  asked.delete(oldest);
}
