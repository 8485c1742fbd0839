/* The number at the cursor for elsewhere: as it is, as Python gives it, as the command line does. */

import { full } from "../pictures/table";
import type { Explorer } from "./explorer.svelte";

/** The number with all its digits. */
export function number(explorer: Explorer): string {
  return full(explorer.unfolding?.value ?? null);
}

/** The command that unfolds the number; nothing where no command reads this input. */
export function command(explorer: Explorer): string {
  const [read, { cuts, step }] = [explorer.run?.command, explorer.place];
  if (!read) return "";
  const edit = cuts.map((name) => ` --cut ${quoted(name)}`).join("");
  const ended = read.startsWith("-") ? " --" : ""; // else the text were an option
  return `vesalius unfold${edit}${ended} ${quoted(explorer.model?.name ?? "")} ${quoted(read)} ${quoted(step)} ${explorer.at.join(" ")}`;
}

/** The line of Python that gives the number. */
export function python(explorer: Explorer): string {
  const { cuts, step } = explorer.place;
  const edit = cuts.map((cut) => {
    const [steps, value] = cut.split("=");
    return `${JSON.stringify(steps)}: ${value ?? "vs.zero"}`;
  }).join(", ");
  const more = edit ? `, edit={${edit}}` : "";
  return `vs.dissect(${JSON.stringify(explorer.model?.name)}, ${explorer.run?.python}${more})[${JSON.stringify(step)}][${explorer.at.join(", ")}]`;
}

/** A word as a shell takes it. */
function quoted(text: string): string {
  return /^[\w.:/-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}
