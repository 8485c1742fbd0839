import { describe, expect, it } from "vitest";
import { read, type Address } from "../../src/lib/address";
import { beginning, keyOf, maskable, plural, ranked, requestOf, verb } from "../../src/lib/reading";
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

describe("what the server is asked for", () => {
  const asked = { model: "bert", cuts: [] };

  it("is a text, with its pair and its masks", () => {
    const request = requestOf(at("/bert?mask=1#t=a&b=c"), model({}));
    expect(request).toEqual({ ...asked, text: "a", second: "c", masks: [1] });
  });

  it("is the model's own text where the address has none", () => {
    expect(requestOf(at("/bert?cut=D[1]"), model({}))).toEqual({ model: "bert", cuts: ["D[1]"], text: "He shook his" });
  });

  it("is ids where there is no tokenizer, and says which word is none", () => {
    const bare = model({ tokenizer: null });
    expect(requestOf(at("/bert#t=4,%208%2015"), bare)).toEqual({ ...asked, ids: [4, 8, 15] });
    expect(() => requestOf(at("/m#t=4%20x"), bare)).toThrow("expected token ids, whole numbers as in 4 8 15; got 'x'");
  });

  it("is a file before it is an example, and nothing while neither is chosen", () => {
    const vit = model({ reads: "images", begins: null });
    const file = requestOf(at("/bert?upload=ab&index=2&invert=1"), vit);
    expect(file).toEqual({ ...asked, upload: "ab", index: 2, invert: true });
    expect(requestOf(at("/bert?example=3&given=9"), vit)).toEqual({ ...asked, example: 3, given: 9 });
    expect(requestOf(at("/bert"), vit)).toBeNull();
  });

  it("takes steps of another run, where there is one to take them from", () => {
    const place = at("/bert?vs=bert&from=D[2]#t=a");
    expect(requestOf(place, model({}), "b1")).toEqual({ ...asked, text: "a", patches: ["D[2]"], source: "b1" });
    expect(requestOf(place, model({}))).toEqual({ ...asked, text: "a" });
  });

  it("has one key, whatever address it came from", () => {
    const key = (path: string): string => keyOf(requestOf(at(path), model({}))!);
    expect(key("/gpt/heads/mu[1,1]?at=0,0#t=a")).toBe(key("/gpt/dissect?spine=words&T=0.5#t=a"));
    expect(key("/gpt?cut=D[1]#t=a")).not.toBe(key("/gpt#t=a"));
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
