/* Where the cursor stands at first, in a run and in a step. */

import type { Cell, Step, Summary, Values } from "./types";

const WINDOW = 256;
/** Rows and columns of a step that are fetched at once. */

/** The part of n rows or columns that k lies in. */
export function windowed(k: number, n: number): [number, number] {
  const first = n <= WINDOW ? 0 : Math.floor(k / WINDOW) * WINDOW;
  return [first, Math.min(n, first + WINDOW)];
}

/** The scores of the head with the largest share, or the logit. */
export function firstStep(run: Summary): string {
  const head = run.parts.find((part) => part.name.startsWith("P["));
  return head ? head.name.replace("P", "mu") : run.target.step;
}

/** The row to begin with, before values are here. */
export function firstCell(run: Summary, step: Step): Cell {
  if (step.rows === "vocabulary") return run.target.at.slice(0, 1);
  return [step.rows ? run.position : 0];
}

/** The cell to begin with: the largest in the row or column of the current position. */
export function largest(run: Summary, step: Step, found: Values): Cell {
  if (!step.shape.length) return [0];
  if (step.rows === "vocabulary" && step.name === run.target.step) return run.target.at;
  if (step.rows === "vocabulary") return step.shape.length > 1 ? [run.target.id, run.position] : [run.target.id];
  const size = (r: number, c: number): number => Math.abs(found.data[r * found.columns + c] ?? 0);
  let best: Cell = [0, 0];
  for (let r = 0; r < found.rows; r++) {
    if (step.rows && r + found.top !== run.position) continue;
    for (let c = 0; c < found.columns; c++) {
      if (!step.rows && step.columns && c + found.left !== run.position) continue;
      const [br, bc] = best as [number, number];
      const outside = (step.rows && br !== r) || (!step.rows && step.columns && bc !== c);
      if (outside || size(r, c) > size(br, bc)) best = [r, c];
    }
  }
  const cell = [best[0]! + found.top, best[1]! + found.left];
  return step.shape.length > 1 ? cell : cell.slice(0, 1);
}
