/* What keys do; single letters never while one types. */

import { pictures } from "../pictures/pictures.svelte";
import { roomsOf } from "../rooms";
import { comparing } from "./comparing.svelte";
import { caution, command, number, python } from "./copying";
import type { Explorer } from "./explorer.svelte";
import { letters } from "./letters.svelte";

export const KEYS: [string, string][] = [
  ["← ↑ → ↓", "move the cell"],
  ["[ ]", "layer below, above"],
  [", .", "head or unit before, after"],
  ["Enter", "unfold the largest term"],
  ["Backspace", "fold again"],
  ["x", "cut the head or network; hold the unit at zero"],
  ["X f", "hold it at this token alone; freeze its forget gate at one"],
  ["u", "undo the last cut"],
  ["/", "the text, picture or series"],
  ["v b", "compare with another text or model; show A, B, B − A"],
  ["p", "take the head, network or state from B"],
  ["m", "mask the token, or show it"],
  ["t", "a table in place of the picture pointed at"],
  ["c", "copy the number, all its digits"],
  ["1 – 5", "the rooms"],
  ["e", "all equations"],
  ["y Y", "copy the Python line, the command"],
  ["?", "these keys"],
];

/** The rooms that show the number at the cursor. */
const AT_CURSOR = ["dissect", "heads"];

const SHOWN = ["change", "a", "b"] as const;

const ARROWS: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** What keys do in the room that is open, before all else; the room sets it and takes it back. */
export const own: { keys: Record<string, (event: KeyboardEvent) => void> } = { keys: {} };

export interface Acts {
  text: () => void;
  compare: () => void;
  help: () => void;
  equations: () => void;
}

export function pressed(event: KeyboardEvent, explorer: Explorer, acts: Acts): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.closest("input, textarea, select, [contenteditable]")) return;
  if (event.key.length === 1 && !letters.on) return;
  const arrow = ARROWS[event.key];
  const mine = own.keys[event.key];
  const act = mine
    ? (): void => mine(event)
    : arrow
      ? (): void => move(explorer, ...arrow)
      : actOf(event.key, explorer, acts);
  if (!act || (event.key === "Enter" && target.closest("button, a, summary"))) return;
  event.preventDefault();
  act();
}

function actOf(key: string, explorer: Explorer, acts: Acts): (() => void) | null {
  switch (key) {
    case "[":
      return () => layer(explorer, -1);
    case "]":
      return () => layer(explorer, 1);
    case ",":
      return () => head(explorer, -1);
    case ".":
      return () => head(explorer, 1);
    case "Enter":
      return () => {
        unfolded = unfolded.then(
          () => unfold(explorer),
          () => unfold(explorer),
        );
      };
    case "Backspace":
      return () => explorer.fold();
    case "x":
      return () => explorer.toggle();
    case "u":
      return () => explorer.undo();
    case "m":
      return () => explorer.hide();
    case "1":
    case "2":
    case "3":
    case "4":
    case "5":
      return () => enter(explorer, key);
    case "v":
      return acts.compare;
    case "b":
      return () => turn(explorer);
    case "p":
      return () => comparing.patch(explorer);
    case "/":
      return acts.text;
    case "?":
      return acts.help;
    case "e":
      return acts.equations;
    case "t":
      return () => pictures.turn();
    case "c":
      return () => copyAtCursor(explorer, key, number);
    case "y":
      return () => copyAtCursor(explorer, key, python);
    case "Y":
      return () => copyAtCursor(explorer, key, command);
    default:
      return null;
  }
}

function turn(explorer: Explorer): void {
  if (!explorer.place.vs) explorer.note = "b shows A, B or B − A of two runs; v chooses the other";
  else comparing.turn(explorer, SHOWN[(SHOWN.indexOf(explorer.place.show) + 1) % SHOWN.length]!);
}

function enter(explorer: Explorer, key: string): void {
  const found = explorer.model && roomsOf(explorer.model).find((one) => one.key === key);
  if (found) explorer.go({ room: found.room });
}

/** Matrices with a column a token are drawn on their side, so that the arrows turn with them. */
export function onItsSide(step: { shape: number[]; rows: string; columns: string }): boolean {
  const [rows = 1, columns = 1] = step.shape;
  return step.shape.length < 2 || (!step.rows && columns < rows) || step.rows === "vocabulary";
}

function move(explorer: Explorer, down: number, right: number): void {
  const step = explorer.step;
  if (!step || !explorer.at.length) return;
  const by = onItsSide(step) ? [right, down] : [down, right];
  const at = explorer.at.map((k, i) => Math.min((step.shape[i] ?? 1) - 1, Math.max(0, k + by[i]!)));
  if (at.some((k, i) => k !== explorer.at[i])) explorer.go({ at }, true);
}

function layer(explorer: Explorer, by: number): void {
  jump(explorer, { layer: explorer.layer + by });
}

function head(explorer: Explorer, by: number): void {
  jump(explorer, { head: (explorer.head ?? 1) + by });
}

/** The same step in another layer or head, if there is one. */
function jump(explorer: Explorer, to: { layer?: number; head?: number }): void {
  const here = explorer.step;
  if (!here) return;
  const wanted = { ...here.place, ...to };
  const found = explorer.run?.steps.find(
    (step) =>
      step.symbol === here.symbol &&
      step.place.layer === wanted.layer &&
      step.place.head === wanted.head &&
      step.place.time === wanted.time,
  );
  if (found) explorer.go({ step: found.name });
}

/** One after the other, however quickly the key is pressed. */
let unfolded = Promise.resolve();

async function unfold(explorer: Explorer): Promise<void> {
  for (const term of (await explorer.unfold())?.terms ?? []) {
    const factor = term.factors.find((one) => one.kind === "step");
    if (factor) return explorer.into(factor.name, factor.at);
  }
  explorer.note = "the terms of this number are weights: nothing lies below them";
}

/** Where the room shows the number at the cursor. */
function copyAtCursor(explorer: Explorer, key: string, told: (explorer: Explorer) => string): void {
  if (AT_CURSOR.includes(explorer.place.room)) void copy(explorer, told(explorer), caution(explorer));
  else explorer.note = `no number stands at the cursor here; ${key} copies the one of Dissect and Heads`;
}

export async function copy(explorer: Explorer, text = python(explorer), note = ""): Promise<void> {
  if (!text) {
    explorer.note = "no command gives this number; y copies the Python line";
    return;
  }
  try {
    await navigator.clipboard.writeText(text);
    explorer.note = `copied${note}: ${text}`;
  } catch {
    explorer.note = text; // to be copied by hand, where the browser does not allow it
  }
}
