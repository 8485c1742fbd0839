import { describe, expect, it } from "vitest";
import * as format from "../../src/lib/format";

describe("a number", () => {
  it.each([
    [0, "0"],
    [9.09472, "9.095"],
    [-0.05, "−0.05000"],
    [1234.5, "1235"],
    [0.00001234, "1.2e−5"],
    [-12345678, "−1.2e+7"],
    ["-inf", "−∞"],
    ["nan", "NaN"],
    [Infinity, "∞"],
  ] as const)("has four significant digits: %s is %s", (x, text) => {
    expect(format.number(x)).toBe(text);
  });

  it("is rounded half away from zero, on the digits that it is written with", () => {
    expect(format.decimals(1.005, 2)).toBe("1.01");
    expect(format.decimals(-2.5, 0)).toBe("−3");
    expect(format.signed(0.125, 2)).toBe("+0.13");
  });

  it("has no minus where nothing of it is left", () => {
    expect(format.signed(-0.001)).toBe("+0.00");
  });
});

describe("a probability", () => {
  it.each([
    [0, "0 %"],
    [0.4123, "41.2 %"],
    [0.00099, "0.099 %"],
    [0.000021, "2e−3 %"],
  ] as const)("%s is %s", (p, text) => {
    expect(format.percent(p)).toBe(text);
  });

  it("is told as a value where there is none", () => {
    expect(format.outcome(null, 2.5)).toBe("2.500");
    expect(format.would({ target: { probability: null }, forecast: { mean: 10, std: 2 } }, 1)).toBe("12.00");
    expect(format.would({ target: { probability: 0.5 } }, 0.25)).toBe("25.0 %");
  });
});

describe("a token", () => {
  it("shows its blanks and line ends", () => {
    expect(format.shown("  a b\n")).toBe("␣␣a␣b↵");
  });
});

describe("a name", () => {
  it("is written with the paper's letters", () => {
    expect(format.letters("mu[3,4]")).toBe("μ[3,4]");
    expect(format.letters("Phi[1].Gamma.b_O")).toBe("Φ[1].Γ.b_O");
    expect(format.symbolOf("H_bar[2]")).toBe("H̄");
  });

  it("of an edit says what is done", () => {
    expect(format.edit("P[3,4]")).toBe("P[3,4] cut");
    expect(format.edit("c[2,*](31)")).toBe("unit 31 of layer 2 held at 0");
    expect(format.edit("c[2,5](31)=0.5")).toBe("unit 31 of layer 2 held at 0.5 at token 4");
    expect(format.edit("p[1,*](7)=1")).toBe("forget gate of unit 7, layer 1, frozen at 1");
  });

  it("of a shape is typeset", () => {
    expect(format.shapeLatex("d_e × n")).toBe("d_{e} \\times  n");
    expect(format.shapeLatex("n_max × |V|")).toBe("n_{\\text{max}} \\times  |V|");
  });
});

describe("a large number", () => {
  it("is told by its power of a thousand", () => {
    expect(format.counted(124_439_808)).toBe("124.44 M");
    expect(format.byteText(999)).toBe("999 bytes");
    expect(format.byteText(1_234_000)).toBe("1.234 MB");
    expect(format.rough(5.4e15)).toBe("5.400 P");
  });
});
