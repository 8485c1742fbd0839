import { describe, expect, it } from "vitest";
import { firstCell, firstStep, largest, windowed } from "../../src/lib/cursor";
import type { Step, Summary, Values } from "../../src/lib/types";

const run = { position: 1, parts: [], target: { id: 7, step: "Z", at: [7, 1] } } as unknown as Summary;
const step = (more: Partial<Step>): Step => ({ name: "H[1]", shape: [2, 3], rows: "", columns: "", ...more }) as Step;
const values = (rows: number[][]): Values => ({
  name: "H[1]",
  shape: [rows.length, rows[0]!.length],
  top: 0,
  left: 0,
  rows: rows.length,
  columns: rows[0]!.length,
  data: Float32Array.from(rows.flat()),
});

describe("the window of a row", () => {
  it("is the whole of a small step", () => {
    expect(windowed(3, 256)).toEqual([0, 256]);
  });

  it("is a part of 256 of a large one, and the last may be shorter", () => {
    expect(windowed(300, 600)).toEqual([256, 512]);
    expect(windowed(599, 600)).toEqual([512, 600]);
  });
});

describe("the first step", () => {
  it("is the scores of the head with the first share", () => {
    const parts = [{ name: "D[4]" }, { name: "P[3,4]" }, { name: "P[1,1]" }];
    expect(firstStep({ ...run, parts } as Summary)).toBe("mu[3,4]");
  });

  it("is the target where no part is a head", () => {
    expect(firstStep(run)).toBe("Z");
  });
});

describe("the first cell", () => {
  it("is in the row of the token that is asked about, or of the word", () => {
    expect(firstCell(run, step({ rows: "queries" }))).toEqual([1]);
    expect(firstCell(run, step({ rows: "vocabulary" }))).toEqual([7]);
    expect(firstCell(run, step({}))).toEqual([0]);
  });

  it("is the largest by size in the token's row", () => {
    expect(
      largest(
        run,
        step({ rows: "queries" }),
        values([
          [9, 9, 9],
          [1, -5, 2],
        ]),
      ),
    ).toEqual([1, 1]);
  });

  it("is the largest by size in the token's column", () => {
    expect(
      largest(
        run,
        step({ columns: "tokens" }),
        values([
          [9, 1, 9],
          [0, -2, 0],
        ]),
      ),
    ).toEqual([1, 1]);
  });

  it("is the target's own in the target's step", () => {
    expect(largest(run, step({ name: "Z", rows: "vocabulary" }), values([[1, 2, 3]]))).toEqual([7, 1]);
  });

  it("is the first of a number", () => {
    expect(largest(run, step({ shape: [] }), values([[3]]))).toEqual([0]);
  });
});
