/* The session with the server: the token of the address opens it, once, and the page keeps its key.

   The key is in no cookie, which the browser would send to every port of this machine. All tabs of this
   address share it, and a bookmark works for as long as the server runs. */

export const HEADER = "x-vesalius-session";
const NAME = "session";

/** The key of a tab whose browser keeps nothing. */
let alone = "";
/** Why the token of the address opened no session. */
let refusal = "";
let opening: Promise<void> | null = null;

/** The key, which another tab may have kept since; empty where there is none. */
export async function opened(): Promise<string> {
  await (opening ??= open());
  if (alone) return alone;
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}

/** What to do instead, where the token was refused and no earlier session helps. */
export const refused = (): string => refusal;

async function open(): Promise<void> {
  const token = new URL(location.href).searchParams.get("token");
  if (token === null) return;
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }) };
  const answer = await fetch("/api/session", init);
  const place = new URL(location.href);
  place.searchParams.delete("token"); // it is worth nothing now
  history.replaceState(history.state, "", place);
  if (answer.ok) keep(((await answer.json()) as { key: string }).key);
  else refusal = await answer.text();
}

function keep(key: string): void {
  try {
    localStorage.setItem(NAME, key);
  } catch {
    alone = key;
  }
}
