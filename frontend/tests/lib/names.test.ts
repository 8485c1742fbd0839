import { afterEach, describe, expect, it } from "vitest";
import { explorer } from "../../src/lib/explorer.svelte";
import { inPieces, isApart, named, spelled, textOf } from "../../src/lib/names";
import type { ModelInfo, Summary } from "../../src/lib/types";

const run = (more: object): Summary =>
  ({
    tokens: [],
    within: {},
    blanks: true,
    second: "",
    command: "",
    input: null,
    target: { step: "Z", probability: 0.4 },
    ...more,
  }) as unknown as Summary;

function reading(shown: Summary, reads: ModelInfo["reads"] = "text"): void {
  [explorer.run, explorer.model] = [shown, { reads } as ModelInfo];
}

afterEach(() => {
  [explorer.run, explorer.model] = [null, null];
});

describe("a token's name", () => {
  it("shows its blanks where it is a word", () => {
    reading(run({}));
    expect(named(" head")).toBe("␣head");
  });

  it("is as it is where it is a class", () => {
    reading(run({ masked: true, target: { step: "z", probability: 0.4 } }));
    expect(named("sea lion")).toBe("sea lion");
  });

  it("is its number where it is a pixel", () => {
    reading(run({ input: { kind: "pixels", first: 1 } }), "pixels");
    expect([named("7", 0), named("7", 3)]).toEqual(["start", "pixel 3"]);
  });
});

describe("what was read", () => {
  it("has blanks between pieces that have none of their own", () => {
    const pieces = run({ tokens: ["um", "##brella", "now"], blanks: false });
    expect(inPieces(pieces)).toBe(true);
    expect(["um", "##brella", "now"].map(isApart)).toEqual([false, false, true]);
    expect(textOf(pieces)).toBe("um##brella now");
  });

  it("is the text that the command line is given, if it is one", () => {
    expect(textOf(run({ command: "He shook his", tokens: ["x"] }))).toBe("He shook his");
    expect(textOf(run({ input: { kind: "pixels" }, source: "example 4" }))).toBe("example 4");
    expect(textOf(null)).toBe("");
  });

  it("has a letter of several bytes at the last of its tokens", () => {
    const bytes = run({ tokens: ["a", "\\xc3", "\\xa9", "b"], within: { 1: "é", 2: "é" } });
    expect(spelled(bytes, 4)).toEqual(["a", "", "é", "b"]);
    expect(spelled(bytes, 2)).toEqual(["a", "\\xc3"]);
  });
});
