import { describe, expect, it } from "vitest";
import { lines, middle, span, ticks } from "../../src/lib/lines";
import type { Seen, Values } from "../../src/lib/types";

const series = (rows: number, columns: number, data: number[]): Values => ({
  ...{ name: "series", shape: [rows, columns], top: 0, left: 0 },
  ...{ rows, columns, data: Float32Array.from(data) },
});

describe("a series", () => {
  it("is a path a channel, all on one scale", () => {
    expect(lines(series(2, 2, [0, 1, 1, 2]), 20, 10, 1)).toEqual(["M5.00 9.00L15.00 5.00", "M5.00 5.00L15.00 1.00"]);
  });

  it("is drawn on the scale of another, if one is said", () => {
    expect(lines(series(1, 1, [1]), 10, 10, 0, series(1, 2, [0, 4]))).toEqual(["M5.00 7.50"]);
  });

  it("that does not change lies at one height", () => {
    expect(lines(series(1, 2, [3, 3]), 4, 10, 0)).toEqual(["M1.00 0.00L3.00 0.00"]);
  });
});

describe("a column", () => {
  it("stands in the middle of its share of the width", () => {
    expect([0, 1].map((i) => middle(i, 2, 100))).toEqual([25, 75]);
  });

  it("covers a patch of a channel, or a time of all", () => {
    const seen = { kind: "series", spans: [[0, 3, 4, 1, "patch 1"]] } as unknown as Seen;
    expect(span(seen, 0)).toEqual([0, 3, 4, 1, "patch 1"]);
    expect(span(null, 2)).toEqual([-1, 2, 1, 3, "time 3"]);
  });
});

describe("an axis", () => {
  it.each([
    [0, 10, ["0.0", "2.5", "5.0", "7.5", "10.0"]],
    [-1, 1, ["−1.0", "−0.5", "0.0", "0.5", "1.0"]],
    [0, 4000, ["0", "1,000", "2,000", "3,000", "4,000"]],
  ] as const)("from %s to %s has round numbers", (least, most, names) => {
    expect(ticks(least, most).at.map((one) => one.name)).toEqual(names);
  });

  it("of one value has room around it", () => {
    const { low, high } = ticks(5, 5);
    expect(low).toBeLessThanOrEqual(5);
    expect(high).toBeGreaterThan(5);
  });
});
