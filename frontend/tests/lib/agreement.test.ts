import { describe, expect, it } from "vitest";
import { agrees } from "../../src/lib/agreement";

describe("a sum agrees with what is stored", () => {
  it("up to what rounding can make", () => {
    expect(agrees({ difference: -1e-6, bound: 1e-6 })).toBe(true);
    expect(agrees({ difference: 2e-6, bound: 1e-6 })).toBe(false);
  });

  it("only where that is small beside the values", () => {
    expect(agrees({ difference: 0, bound: 1, precise: false })).toBe(false);
  });

  it("never where it is no number", () => {
    expect(agrees({ difference: "nan", bound: 1 })).toBe(false);
    expect(agrees({ difference: 0, bound: "inf" })).toBe(false);
  });
});
