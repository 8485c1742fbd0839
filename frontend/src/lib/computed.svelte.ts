/* What was computed for the place: the model, its run, and what is filled in once that is shown. */

import { Failure, fetched } from "./api";
import { repainted } from "./frames";
import { maker, type Posted } from "./maker.svelte";
import { Place } from "./place.svelte";
import { beginning, byName, keyOf, requestOf } from "./reading";
import { isLeft, Stage } from "./resource.svelte";
import { sameRun, sameSteps } from "./same";
import type { Effect, Equation, ModelInfo, ModelName, RunRequest, Summary, Values } from "./types";

/** Summaries that are remembered. */
const REMEMBERED = 24;

type Words = { id: number; token: string; probability: number }[][];

export abstract class Computed extends Place {
  models = $state.raw<ModelName[]>([]);
  equations = $state.raw<Record<string, Equation>>({});
  model = $state.raw<ModelInfo | null>(null);
  run = $state.raw<Summary | null>(null);
  clean = $state.raw<Summary | null>(null);
  /** The target's probability, or value, with one part more cut, by the part's name. */
  effects = $state.raw<Record<string, number>>({});
  lens = $state.raw<Words>([]);
  /** The first token that the lens was read for, and how many are read. */
  lensed = $state.raw<[number, number]>([0, 8]);
  /** The series that was read, channels by time. */
  series = $state.raw<Values | null>(null);
  failure = $state.raw<Failure | null>(null);
  busy = $state("");
  /** What a file was too small for, of what is asked here. */
  missing = $state("");

  private described = new Stage<ModelInfo>();
  private summary = new Stage<Summary>();
  private read = new Stage<Values>();
  private words = new Stage<Words>();
  protected cuts = new Stage<Effect[]>();
  private remembered = new Map<string, Summary>();
  /** The key of the run that is here. */
  private meant = "";

  private drawn = $state.raw<Summary | null>(null);
  /** The run as all panes but the number itself show it: after a cut the number is repainted first. */
  readonly around = $derived(this.run && this.drawn?.clean === this.run.clean ? this.drawn : this.run);
  protected drawing: Promise<void> | null = null;

  /** Whether a word, class or grey can be read out of every layer's state. */
  get states(): boolean {
    return this.run?.target.probability !== null && !!this.run?.steps.some((step) => step.name === "H[0]");
  }

  /** Without a run: nothing is chosen yet, or something went wrong. */
  protected empty(failure: Failure | null): void {
    [this.run, this.clean, this.failure, this.busy] = [null, null, failure, ""];
  }

  protected fail(error: unknown): void {
    if (isLeft(error)) return;
    this.empty(error instanceof Failure ? error : new Failure(String(error), "Error", 0));
    maker.leave();
  }

  again(): void {
    this.failure = null;
    void this.follow();
  }

  private get key(): string {
    return this.side.model || this.models[0]!.id;
  }

  protected async followModel(): Promise<void> {
    if (this.model?.id !== this.key) {
      this.busy = `loading ${this.key}`;
      const model = await this.described.ask(`/api/models/${encodeURIComponent(this.key)}`);
      if (!sameRun(this.model, model)) [this.run, this.clean] = [null, null];
      this.model = model;
    }
    if (this.side !== this.place) return; // of B the address says all
    this.settle({ model: this.key, ...beginning(this.place, this.model!) }); // what the address leaves open
  }

  /** What the server is asked for; nothing where nothing is chosen to be read. */
  protected request(source: string | null): RunRequest | null {
    const { word, after } = this.side;
    const request = requestOf({ ...this.side, model: this.key }, this.model!, source);
    if (request && word !== null) request.word = word;
    if (request && after !== null) request.position = after;
    return request;
  }

  protected async followRun(request: RunRequest): Promise<void> {
    const key = keyOf(request);
    if (this.run && this.meant === key) return;
    const edited = this.side.cuts.length || this.side.from.length;
    this.busy ||= edited ? "computing again what depends on the cut" : "computing every step";
    const made = await maker.made(request, (busy) => (this.busy = busy));
    const query = this.about(request.word ?? null, request.position ?? null);
    const clean = await this.told(made.clean, query, made);
    query.set("word", String(clean.target.id)); // with cuts the same word is asked about
    const run = made.id === made.clean ? clean : await this.told(made.id, query, made);
    const other = run.clean !== this.run?.clean;
    if (other) this.clear();
    const series = run.input?.kind === "series" ? `/api/runs/${clean.id}/series` : "";
    this.series = series ? await this.read.ask(series, (signal) => fetched(series, "series", signal)) : null;
    [this.clean, this.run, this.meant] = [clean, run, key];
    this.drawing = this.draw(run, other);
  }

  /** Of another text nothing stays. */
  protected clear(): void {
    this.lens = [];
  }

  /** Show the run in the panes around the number: at once where it reads something else. */
  private async draw(run: Summary, other: boolean): Promise<void> {
    if (!other) await repainted();
    if (this.run === run && this.drawn !== run) [this.drawn, this.effects] = [run, {}];
  }

  private about(word: number | null, position: number | null): URLSearchParams {
    const said = Object.entries({ word, position }).filter(([, value]) => value !== null);
    return new URLSearchParams(said.map(([name, value]) => [name, String(value)]));
  }

  /** Which word after which token the answers about the run are of. */
  protected get asked(): string {
    const run = this.run!;
    return String(this.about(run.target.id, this.place.after === null ? null : run.position));
  }

  private async told(id: string, query: URLSearchParams, made: Posted): Promise<Summary> {
    const path = `/api/runs/${id}?${query}`;
    const sent = made.id === id ? made.summary : undefined;
    const found = this.remembered.get(path) ?? sent ?? (await this.summary.ask(path));
    this.remembered.set(path, found);
    const clean = this.clean;
    if (clean && clean.id === found.clean && sameSteps(clean, found)) {
      [found.steps, found.tokens] = [clean.steps, clean.tokens]; // cuts leave them: nothing to draw anew
    }
    if (this.remembered.size > REMEMBERED) this.remembered.delete(this.remembered.keys().next().value!);
    return found;
  }

  /** An answer, or nothing where a file leaves it out, which is said. */
  protected async unless<T>(asked: Promise<T> | T, say = true): Promise<T | null> {
    try {
      return await asked;
    } catch (error) {
      if (!(error instanceof Failure) || error.kind !== "LeftOut") throw error;
      if (say) this.missing = error.message;
      return null;
    }
  }

  protected async followLens(): Promise<void> {
    const [run, many] = [this.run!, this.lensed[1]];
    const first = Math.max(0, Math.min(run.position - many + 1, run.tokens.length - many));
    const path = `/api/runs/${run.id}/lens?first=${first}&last=${first + many}`;
    const found = await this.unless(this.words.ask(path));
    this.lens = found ?? [];
    if (this.lensed[0] !== first) this.lensed = [first, many];
  }

  /** Layer by layer from the top, where a cut is computed soonest; of long texts the one at hand alone. */
  protected async followEffects(here: number | undefined): Promise<void> {
    const run = this.run!;
    for (let layer = run.layers; layer >= 1; layer--) {
      if (run.long && layer !== here) continue; // minutes, for all of them
      if (run.steps.every((s) => s.cut !== s.name || s.place.layer !== layer || s.name in this.effects)) continue;
      const found = await this.unless(this.cuts.ask(`/api/runs/${run.id}/cuts?layer=${layer}&${this.asked}`));
      this.effects = { ...this.effects, ...byName(found ?? []) };
    }
  }
}
