/* The numbers behind a picture: a table that is read, and a file that other programs read. */

import type { Numeral } from "../lib/types";

export type Entry = Numeral | string | null;

export interface Table {
  /** What the columns are; the first says what a row is. */
  heads: string[];
  rows: Entry[][];
  /** What is not in it, and why. */
  note?: string;
}

/** All digits that a number has: as few as give the same float32, where it is one. */
export function full(x: Entry): string {
  if (x === null) return "";
  if (typeof x === "string") return x;
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
  if (Math.fround(x) !== x || Number.isInteger(x)) return String(x);
  for (let digits = 1; digits <= 9; digits++) {
    const short = Number(x.toPrecision(digits));
    if (Math.fround(short) === x) return String(short);
  }
  return String(x);
}

const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);

/** Comma-separated values below one line that says what they are. */
export function csv(table: Table, lines: string[]): string {
  const about = [...lines, ...(table.note ? [table.note] : [])].join("; ").replace(/\s+/g, " ");
  const rows = [table.heads, ...table.rows].map((row) => row.map((entry) => quoted(full(entry))).join(","));
  return [`# ${about}`, ...rows, ""].join("\r\n");
}

/** What is selected, with every digit of the numbers that the page shows rounded. */
export function copied(event: ClipboardEvent): void {
  const selection = getSelection();
  if (!selection || selection.isCollapsed || !event.clipboardData) return;
  let [text, from] = [selection.toString(), 0];
  const before = text;
  for (const one of document.querySelectorAll<HTMLElement>("[data-full]")) {
    if (!selection.containsNode(one, true)) continue;
    const shown = one.innerText.trim();
    const found = shown ? text.indexOf(shown, from) : -1; // none where only a piece of it is selected
    if (found < 0) continue;
    const exact = one.dataset.full ?? shown;
    text = text.slice(0, found) + exact + text.slice(found + shown.length);
    from = found + exact.length;
  }
  if (text === before) return;
  event.clipboardData.setData("text/plain", text);
  event.preventDefault();
}
