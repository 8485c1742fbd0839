import { describe, expect, it } from "vitest";
import { read, type Address } from "../../src/lib/address";
import { beginning, maskable, plural, ranked, verb, wanted } from "../../src/lib/reading";
import type { ModelInfo, Summary } from "../../src/lib/types";

const at = (path: string): Address => read(new URL(path, "http://127.0.0.1"));
const model = (more: Partial<ModelInfo>): ModelInfo =>
  ({
    id: "gpt",
    reads: "text",
    tokenizer: 1024,
    text: "He shook his",
    second: "",
    masks: false,
    begins: 0,
    ...more,
  }) as ModelInfo;

describe("a page begins", () => {
  it("with the model's own text, where the address has none", () => {
    expect(beginning(at("/gpt"), model({}))).toEqual({ text: "He shook his", second: "" });
    expect(beginning(at("/gpt#t=mine"), model({}))).toEqual({});
  });

  it("with an example of a model that reads no text", () => {
    expect(beginning(at("/vit"), model({ reads: "images", begins: 4 }))).toEqual({ text: null, example: 4 });
    expect(beginning(at("/vit?example=2"), model({ reads: "images", begins: 4 }))).toEqual({ text: null });
  });
});

describe("what is read", () => {
  it("is a text, with its pair and its masks", () => {
    expect(wanted(at("/bert?mask=1#t=a&b=c"), model({}))).toEqual({ text: "a", second: "c", masks: [1] });
  });

  it("is ids where there is no tokenizer, and says which word is none", () => {
    const bare = model({ tokenizer: null });
    expect(wanted(at("/m#t=4,%208%2015"), bare)).toEqual({ ids: [4, 8, 15] });
    expect(() => wanted(at("/m#t=4%20x"), bare)).toThrow("expected token ids, whole numbers as in 4 8 15; got 'x'");
  });

  it("is a file before it is an example, and nothing while neither is chosen", () => {
    const vit = model({ reads: "images" });
    expect(wanted(at("/vit?upload=ab&index=2&invert=1"), vit)).toEqual({ upload: "ab", index: 2, invert: true });
    expect(wanted(at("/vit?example=3&given=9"), vit)).toEqual({ example: 3, given: 9 });
    expect(wanted(at("/vit"), vit)).toBeNull();
  });
});

describe("a token", () => {
  const run = { tokens: ["[CLS]", "rain", "[MASK]", "[SEP]"], masks: [2] } as unknown as Summary;

  it("can be hidden where it is a word, or is hidden already", () => {
    const bert = model({ masks: true });
    expect([0, 1, 2, 3, 4].map((place) => maskable(run, bert, place))).toEqual([false, true, true, false, false]);
  });

  it("cannot where the model restores nothing", () => {
    expect(maskable(run, model({}), 1)).toBe(false);
  });
});

describe("what a model says of its target", () => {
  const run = (rank: number | null, masked = false): Summary =>
    ({ masked, outcomes: 1024, target: { rank } }) as Summary;

  it("is that it comes, or would come where it is not the likeliest", () => {
    expect([run(1), run(2), run(1, true), run(3, true)].map(verb)).toEqual([
      "comes",
      "would come",
      "stands",
      "would stand",
    ]);
  });

  it("has its place among all, unless it is the first or has none", () => {
    expect([run(1), run(7), run(null)].map(ranked)).toEqual(["", "number 7 of 1,024", ""]);
  });

  it("is spoken of in the plural", () => {
    expect(["word", "class"].map(plural)).toEqual(["words", "classes"]);
  });
});
