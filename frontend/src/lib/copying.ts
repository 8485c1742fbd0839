/* The number at the cursor for elsewhere: as it is, as Python gives it, as the command line does. */

import { full } from "../pictures/table";
import { comparing } from "./comparing.svelte";
import type { Explorer } from "./explorer.svelte";
import type { Summary } from "./types";

/** The number with all its digits; of two runs that are compared, B minus A, where both have it. */
export function number(explorer: Explorer): string {
  if (comparing.counterpart(explorer)) return full(comparing.cell(explorer)?.difference ?? null);
  return full(explorer.unfolding?.value ?? null);
}

/** What is to be known of a number that is copied: that it is A's alone. */
export function caution(explorer: Explorer): string {
  const alone = comparing.told && explorer.place.show === "change" && !comparing.counterpart(explorer);
  return alone ? ` (A's: B has no such ${explorer.place.step})` : "";
}

/** The command that gives the number; nothing where none reads this input, or takes values of another run. */
export function command(explorer: Explorer): string {
  const { run, place, at } = explorer;
  if (!run?.command || run.patches.length) return "";
  const cell = `${place.step}(${at.join(",")})`;
  const b = comparing.b(explorer);
  if (comparing.counterpart(explorer) && b) {
    if (!b.command || run.second || b.second) return "";
    const other = b.command === run.command ? "" : ` --text-b=${quoted(b.command)}`;
    const cuts = [
      ...run.cuts.map((name) => ` --cut-a ${quoted(name)}`),
      ...b.cuts.map((name) => ` --cut-b ${quoted(name)}`),
    ].join("");
    const models = [run.name, b.name, run.command].map(quoted).join(" ");
    return `vesalius diff --number ${quoted(cell)}${cuts}${other}${ended(run.command)} ${models}`;
  }
  const edit = run.cuts.map((name) => ` --cut ${quoted(name)}`).join("");
  const second = run.second ? ` --second=${quoted(run.second)}` : "";
  const number = [run.name, run.command, place.step].map(quoted).join(" ");
  return `vesalius unfold${edit}${second}${ended(run.command)} ${number} ${at.join(" ")}`;
}

/** The line of Python that gives the number. */
export function python(explorer: Explorer): string {
  const { run, step, at } = explorer;
  if (!run || !step) return "";
  const [a, b] = [comparing.a(explorer), comparing.b(explorer)];
  const here = numbered(run === a ? dissected(a, b) : dissected(run, null), step.name, at);
  const there = comparing.counterpart(explorer);
  return there && b ? `${numbered(dissected(b, null), there.name, there.at)} - ${here}` : here;
}

/** A count with changed settings, as Python and the command line ask for it. */
export function counting(name: string, changes: Record<string, string>): { python: string; command: string } {
  const meant: Record<string, string> = { true: "True", false: "False", none: "None" };
  const set = Object.entries(changes);
  const options = set.map(([key, value]) => ` --set ${quoted(`${key}=${value}`)}`).join("");
  const said = set.map(
    ([key, value]) => `, ${key}=${meant[value] ?? (/^[\d.e+-]+$/.test(value) ? value : JSON.stringify(value))}`,
  );
  return {
    python: `vs.count(${JSON.stringify(name)}${said.join("")}).total`,
    command: `vesalius count${options} ${quoted(name)}`,
  };
}

const numbered = (trace: string, step: string, at: number[]): string =>
  `${trace}[${JSON.stringify(step)}][${at.join(", ")}]`;

/** The forward pass with its cuts, and with values of another where it has some. */
function dissected(run: Summary, source: Summary | null): string {
  const cuts = run.cuts.map((cut) => {
    const [steps, value] = cut.split("=");
    return `${JSON.stringify(steps)}: ${value ?? "vs.zero"}`;
  });
  const edit = [...cuts, ...(source ? taken(run, dissected(source, null)) : [])].join(", ");
  return `vs.dissect(${JSON.stringify(run.name)}, ${run.python}${edit ? `, edit={${edit}}` : ""})`;
}

/** Steps with the values of another forward pass, at the tokens that belong together. */
function taken(run: Summary, other: string): string[] {
  const pairs = comparing.told?.pairs ?? [];
  if (comparing.told?.whole) return run.patches.map((name) => `${JSON.stringify(name)}: vs.from_trace(${other})`);
  const found = new Map<string, string[]>();
  for (const patch of run.patches) {
    const [step = "", place] = patch.split("@");
    const places = place === undefined ? [...pairs.keys()] : [Number(place)];
    const these = places.filter((k) => pairs[k] != null).map((k) => `${k}: ${pairs[k]}`);
    found.set(step, [...(found.get(step) ?? []), ...these]);
  }
  return [...found].map(([step, these]) => `${JSON.stringify(step)}: vs.from_trace(${other}, {${these.join(", ")}})`);
}

/** Before a text that begins as an option does. */
const ended = (text: string): string => (text.startsWith("-") ? " --" : "");

/** A word as a shell takes it. */
function quoted(text: string): string {
  return /^[\w.:/-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}
