/* Two runs: what the server tells of B beside A, for the cursor, the parts, the words and the heads.

   One of the two is the explorer's run, which every pane shows; the other is held here. */

import type { Address, Show } from "./address";
import { otherOf } from "./address";
import { Failure, fetched, post, stepPath } from "./api";
import { spriteOf, type Sprite, type Told } from "./atlas.svelte";
import { windowed } from "./cursor";
import type { Explorer } from "./explorer.svelte";
import { byName, keyOf, requestOf } from "./reading";
import { Stage } from "./resource.svelte";
import type { Cell, Effect, ModelInfo, Step, Summary, Values } from "./types";

export interface Distance {
  name: string;
  kind: string;
  layer?: number;
  head?: number;
  time?: number;
  difference: number;
  norm: number;
  relative: number;
  /** The difference as a share of the most that it could be, the sum of both norms. */
  share: number;
}

interface Against {
  a: string;
  b: string;
  /** For each token of A that of B, or null where it has no counterpart. */
  pairs: (number | null)[];
  /** Whether every token has a counterpart at its own place. */
  whole: boolean;
  same_words: boolean;
  steps: Distance[];
  /** The step that is furthest apart, and the first that differs. */
  furthest: string | null;
  first: string | null;
  /** By the position in A, in nats. */
  kl: (number | null)[];
  notes: string[];
  position: { a: number; b: number | null };
}

type Words = { id: number; token: string; probability: number }[][];

export interface Shared {
  name: string;
  what: string;
  a: number | null;
  b: number | null;
  difference: number | null;
}

interface Shares {
  target: {
    token: string;
    a: { logit: number; probability: number | null };
    b: { logit: number; probability: number | null };
    difference: number;
  };
  parts: Shared[];
}

const TOKENS = ["tokens", "queries", "keys"];

class Comparing {
  told = $state.raw<Against | null>(null);
  shares = $state.raw<Shares | null>(null);
  /** The run that is not shown, and its model where that is another. */
  other = $state.raw<Summary | null>(null);
  /** What lies at the cursor in the other run, and B minus A there. */
  values = $state.raw<Values | null>(null);
  change = $state.raw<Values | null>(null);
  /** The step that these were looked for. */
  sought = $state("");
  /** A's target with one part more taken from B, by the part's name. */
  patches = $state.raw<Record<string, number>>({});
  lens = $state.raw<Words>([]);
  heads = $state.raw<Told | null>(null);
  sprite = $state.raw<Sprite | null>(null);
  /** Why nothing is compared. */
  problem = $state("");
  /** The runs by what they were asked for, so that nothing is posted twice. */
  private posted = new Map<string, string>();
  private models = new Map<string, ModelInfo>();
  private made = new Stage<{ id: string }>();
  private model = new Stage<ModelInfo>();
  private against = new Stage<Against>();
  private parts = new Stage<Shares>();
  private summary = new Stage<Summary>();
  private there = new Stage<Values | null>();
  private apart = new Stage<Values | null>();
  private words = new Stage<Words>();
  private measured = new Stage<Told>();
  private pictured = new Stage<Sprite>();
  /** A's effects of taking parts from B. */
  readonly taken = new Stage<Effect[]>();
  /** Whether all that can be taken from B has been. */
  patched = $state(false);
  /** What `patches` are about. */
  private about = "";
  private ids: { a: string; b: string } | null = null;

  clear(): void {
    if (!this.ids && !this.problem) return;
    [this.told, this.shares, this.other, this.values, this.change] = [null, null, null, null, null];
    [this.patches, this.lens, this.heads, this.sprite, this.problem, this.about] = [{}, [], null, null, "", ""];
    this.ids = null;
  }

  /** A's run and B's, as far as they are here. */
  a(explorer: Explorer): Summary | null {
    return explorer.place.show === "b" ? this.other : explorer.run;
  }

  b(explorer: Explorer): Summary | null {
    return explorer.place.show === "b" ? explorer.run : this.other;
  }

  /** Have B made, from which A may take values; a failure is said, and A stands alone. */
  async prepare(explorer: Explorer): Promise<string | null> {
    try {
      const b = await this.idOf(explorer, otherOf(explorer.place));
      this.problem = "";
      return b;
    } catch (error) {
      this.fail(error);
      return null;
    }
  }

  private fail(error: unknown): void {
    if (!(error instanceof Failure) || error.status === 0) throw error;
    const problem = error.message;
    this.clear();
    this.problem = problem;
  }

  /** The run of an address, made once; `source` is where its values come from. */
  private async idOf(explorer: Explorer, place: Address, source: string | null = null): Promise<string> {
    const model = await this.modelOf(explorer, place.model);
    const request = requestOf(place, model, source) ?? { model: place.model, cuts: place.cuts };
    const key = keyOf(request);
    if (!this.posted.has(key)) explorer.busy ||= "computing the other run";
    const made = (): Promise<{ id: string }> => this.made.ask(key, (signal) => post("/api/runs", request, signal));
    const known = this.posted.get(key) ?? (await made()).id;
    this.posted.set(key, known);
    if (this.posted.size > 48) this.posted.delete(this.posted.keys().next().value!);
    return known;
  }

  private async modelOf(explorer: Explorer, id: string): Promise<ModelInfo> {
    const found =
      this.models.get(id) ??
      (explorer.model?.id === id ? explorer.model : null) ??
      (await this.model.ask(`/api/models/${encodeURIComponent(id)}`));
    this.models.set(id, found);
    return found;
  }

  /** What is told of both, once the run that is shown is here; whether they can be compared. */
  async follow(explorer: Explorer, b: string): Promise<boolean> {
    try {
      await this.tell(explorer, b);
    } catch (error) {
      this.fail(error);
    }
    return this.problem === "";
  }

  private async tell(explorer: Explorer, b: string): Promise<void> {
    const { place, run } = explorer;
    if (!run) return;
    const here = place.show === "b";
    const other = here ? await this.idOf(explorer, { ...place, vs: null }, b) : b;
    const ids = here ? { a: other, b: run.id } : { a: run.id, b: other };
    const same = this.ids?.a === ids.a && this.ids.b === ids.b;
    const told = await this.against.ask(`/api/runs/${ids.a}/against/${ids.b}`);
    const [mine, theirs] = this.positions(told, place);
    const at = (position: number | null): string => (position === null ? "" : `&position=${position}`);
    const word = told.same_words ? `word=${run.target.id}` : "";
    const asked = here && !told.same_words ? "" : `word=${run.target.id}`;
    const shares = await this.parts.ask(`/api/runs/${ids.a}/against/${ids.b}/parts?${asked}${at(mine)}`);
    const summary = await this.summary.ask(`/api/runs/${other}?${word}${at(here ? mine : theirs)}`);
    if (!same) [this.values, this.change, this.lens, this.heads, this.sprite] = [null, null, [], null, null];
    [this.told, this.shares, this.other, this.ids] = [told, shares, summary, ids];
  }

  /** The token that is asked about, in A and in B. */
  private positions(told: Against, place: Address): [number | null, number | null] {
    if (place.after === null) return [null, null];
    if (place.show !== "b") return [place.after, told.pairs[place.after] ?? null];
    const mine = told.pairs.indexOf(place.after);
    return [mine < 0 ? null : mine, place.after];
  }

  /** A cell of the run that is shown, as the other one counts; null where it has no counterpart. */
  across(explorer: Explorer, step: Step, at: Cell): Cell | null {
    const pairs = this.told?.pairs ?? [];
    const there = (k: number): number => (explorer.place.show === "b" ? pairs.indexOf(k) : (pairs[k] ?? -1));
    const cell = at.map((k, i) => (TOKENS.includes(i ? step.columns : step.rows) ? there(k) : k));
    return cell.some((k) => k < 0) ? null : cell;
  }

  /** What a step of the run that is shown is called in the other; times are those of tokens. */
  named(explorer: Explorer, step: Step): string | null {
    const { time, layer } = step.place;
    if (time === undefined || this.told?.whole) return step.name;
    const pairs = this.told?.pairs ?? [];
    const there = explorer.place.show === "b" ? pairs.indexOf(time - 1) : (pairs[time - 1] ?? -1);
    return there < 0 ? null : `${step.symbol}[${layer},${there + 1}]`;
  }

  /** Where the number at the cursor stands in B, while B minus A is shown; null where B has none such. */
  counterpart(explorer: Explorer): { name: string; at: Cell } | null {
    const { step, at, run, place } = explorer;
    if (!this.told || !step || !run || !this.other || place.show !== "change") return null;
    const [name, cell] = [this.named(explorer, step), this.across(explorer, step, at)];
    const both = run.long
      ? this.other.steps.some((one) => one.name === name)
      : this.told.steps.some((one) => one.name === step.name);
    return both && name && cell ? { name, at: cell } : null;
  }

  /** The values at the cursor, in the other run and as B minus A. */
  async followCursor(explorer: Explorer): Promise<void> {
    const { step, at, run, values: held } = explorer;
    if (!step || !held || !this.ids || !this.other || !this.told || !run) return;
    const called = this.named(explorer, step);
    const there = this.other.steps.find((one) => one.name === called);
    const cell = there && this.across(explorer, step, at);
    const { a, b } = this.ids;
    const around = (cursor: Cell, shape: number[]): string =>
      ["rows", "columns"].map((name, i) => `${name}=${windowed(cursor[i] ?? 0, shape[i] ?? 1).join(":")}`).join("&");
    const none = (error: unknown): null => {
      if (error instanceof Failure && error.status === 404) return null; // no counterpart
      throw error;
    };
    const part = (of: Stage<Values | null>, path: string): Promise<Values | null> =>
      of.ask(path, (signal) => fetched(path, step.name, signal).catch(none));
    const alone = explorer.place.show === "b" || !(run.long || this.told.steps.some((one) => one.name === step.name));
    const name = encodeURIComponent(step.name);
    const [values, change] = await Promise.all([
      there && part(this.there, `${stepPath(this.other.id, there.name)}?${around(cell ?? [0, 0], there.shape)}`),
      alone ? null : part(this.apart, `/api/runs/${a}/against/${b}/steps/${name}?${around(at, step.shape)}`),
    ]);
    [this.values, this.change, this.sought] = [values ?? null, change, step.name];
  }

  /** The number at the cursor in A and in B, and their difference, as far as they are here. */
  cell(explorer: Explorer): { a: number | null; b: number | null; difference: number | null } | null {
    const { step, at, values } = explorer;
    if (!this.told || !step || !values || values.name !== step.name) return null;
    const there = this.across(explorer, step, at);
    const [mine, theirs] = [
      cellOf(values, at),
      there && this.values?.name === step.name ? cellOf(this.values, there) : null,
    ];
    const difference = this.change?.name === step.name ? cellOf(this.change, at) : null;
    const [a, b] = explorer.place.show === "b" ? [theirs, mine] : [mine, theirs];
    return { a, b, difference: difference !== null && Number.isNaN(difference) ? null : difference };
  }

  /** The words of the other run's states, for the tokens that are shown. */
  async followLens(explorer: Explorer): Promise<void> {
    const { other, told } = this;
    if (!other || !told || !explorer.lens.length) return;
    const [first, many] = explorer.lensed;
    const places = Array.from({ length: many }, (_, i) => this.paired(explorer, first + i)).filter((k) => k >= 0);
    const [from, to] = [Math.min(...places), Math.max(...places) + 1];
    if (!places.length) return;
    const found = await this.words.ask(`/api/runs/${other.id}/lens?first=${from}&last=${to}`);
    const single = !other.steps.some((step) => step.name === "Z");
    this.lens = found.map((row) =>
      Array.from({ length: many }, (_, i) => (single ? row[0]! : row[this.paired(explorer, first + i) - from]!)),
    );
  }

  /** The token of the other run that one of the shown run belongs to, or -1. */
  paired(explorer: Explorer, k: number): number {
    const pairs = this.told?.pairs ?? [];
    return explorer.place.show === "b" ? pairs.indexOf(k) : (pairs[k] ?? -1);
  }

  /** What A's target becomes with each part taken from B, layer by layer from the top. */
  async followPatches(explorer: Explorer): Promise<void> {
    const { place, run } = explorer;
    if (!this.ids || !run || place.show === "b" || run.long || this.other?.long || place.room !== "dissect") return;
    const kind = place.spine === "words" ? "states" : "parts";
    if (place.spine === "steps" || !this.told?.same_words || (kind === "parts" && !run.steps.some((step) => step.cut)))
      return;
    const query = `word=${run.target.id}${place.after === null ? "" : `&position=${run.position}`}&kind=${kind}`;
    const about = `${this.ids.a} ${this.ids.b} ${query}`;
    if (this.about === about) return;
    [this.about, this.patches, this.patched] = [about, {}, false];
    for (let layer = run.layers; layer >= (kind === "parts" ? 1 : 0); layer--) {
      const path = `/api/runs/${this.ids.a}/against/${this.ids.b}/patches?layer=${layer}&${query}`;
      const found = await this.taken.ask(path).catch((error) => {
        this.about = ""; // asked for again, where it was only put off
        throw error;
      });
      this.patches = { ...this.patches, ...byName(found) };
    }
    this.patched = true;
  }

  /** The other run's heads, and B minus A of all scores. */
  async followHeads(by: Sprite["by"]): Promise<void> {
    if (!this.ids || !this.other?.steps.some((step) => step.symbol === "mu")) return;
    const { a, b } = this.ids;
    const run = `${a} ${b}`;
    const [heads, sprite] = await Promise.all([
      this.measured.ask(`/api/runs/${this.other.id}/heads`),
      spriteOf(this.pictured, `/api/runs/${a}/against/${b}/heads.sprite?by=${by}`, run, by),
    ]);
    [this.heads, this.sprite] = [heads, { ...sprite, signed: true }];
  }

  /** Show A, B or B minus A; the cursor stays at what belongs together. */
  turn(explorer: Explorer, show: Show): void {
    const { place, step, run } = explorer;
    if (!place.vs || place.show === show) return;
    if ((place.show === "b") === (show === "b") || !step || !run || !this.told) return explorer.go({ show });
    const [at, name] = [this.across(explorer, step, explorer.at), this.named(explorer, step)];
    const after = place.after === null ? null : this.paired(explorer, place.after);
    const word = this.told.same_words ? run.target.id : null;
    explorer.go({ show, word, at, step: name ?? place.step, after: after !== null && after < 0 ? null : after });
  }

  /** Take the step at the cursor from B, or no longer. */
  patch(explorer: Explorer, name = this.patchable(explorer)): void {
    const { place, run } = explorer;
    if (!place.vs || !this.told)
      explorer.note = "p takes values from the run that this one is compared with; v chooses one";
    else if (place.show === "b") explorer.note = "values are put into A; b shows it";
    else if (!name) explorer.note = "this has no counterpart in B that could be put in its place";
    else if (run?.long) explorer.note = "this text is too long for values to be taken from another run";
    else {
      const there = place.from.includes(name);
      const from = there ? place.from.filter((one) => one !== name) : [...place.from, name];
      explorer.go({ from, ...(there ? {} : { cuts: place.cuts.filter((one) => one !== name) }) });
    }
  }

  /** What is taken from B at the cursor: its head or network, or else the step at its token. */
  patchable(explorer: Explorer): string {
    const { step, at } = explorer;
    if (!step || this.across(explorer, step, at) === null || this.named(explorer, step) === null) return "";
    if (step.cut) return step.cut;
    if (TOKENS.includes(step.columns)) return `${step.name}@${at[1]}`;
    return TOKENS.includes(step.rows) ? `${step.name}@${at[0]}` : step.name;
  }
}

function cellOf({ data, top, left, rows, columns }: Values, at: Cell): number | null {
  const [r, c] = [(at[0] ?? 0) - top, (at[1] ?? 0) - left];
  return r < 0 || c < 0 || r >= rows || c >= columns ? null : (data[r * columns + c] ?? null);
}

export const comparing = new Comparing();
