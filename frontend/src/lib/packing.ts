/* Long texts are deflated in the address: #z= in place of #t=. */

import { Failure } from "./api";

const LONG = 256;
/** Characters from which on a text is deflated. */
const MOST = 1 << 20;
/** Bytes that an address may unfold to. */

const known = new Map<string, string>();

/** A text as the address holds it, if that is known yet and shorter. */
export const packed = (text: string): string | null => known.get(text) ?? null;

/** Deflate a long text, which takes a moment; whether there is anything to gain. */
export async function pack(text: string): Promise<boolean> {
  if (known.has(text)) return true;
  if (text.length < LONG) return false;
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const written = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  keep(text, written.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, ""));
  return true;
}

/** The text again, which an address that was cut short does not hold. */
export async function unpack(z: string): Promise<string> {
  const found = await inflated(z).catch(() => null);
  if (found !== null) return found;
  throw new Failure("The address holds a text that cannot be read; it may have been cut short.", "BadAddress", 422);
}

/** An address is anybody's, so that one which would never end is refused. */
async function inflated(z: string): Promise<string> {
  const bytes = Uint8Array.from(atob(z.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let [text, size] = ["", 0];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MOST) throw new RangeError(`more than ${MOST} bytes`);
    text += decoder.decode(value, { stream: true });
  }
  text += decoder.decode();
  keep(text, z);
  return text;
}

function keep(text: string, z: string): void {
  known.set(text, z);
  if (known.size > 64) known.delete(known.keys().next().value!);
}
