/* One run, one cursor: what the address says, and what the server told about it. */

import { NOTHING, otherOf, read, READS, written, type Address } from "./address";
import { atlas } from "./atlas.svelte";
import { Failure, fetched, get, sent, sourcesPath, unfoldPath, values } from "./api";
import { comparing } from "./comparing.svelte";
import { firstCell, firstStep, largest, windowed } from "./cursor";
import { repainted } from "./frames";
import { maker, type Posted } from "./maker.svelte";
import { pack, unpack } from "./packing";
import { beginning, maskable, wanted } from "./reading";
import { about, holds, isKept } from "./kept";
import { sameRun, sameSteps } from "./same";
import { roomy } from "./shape.svelte";
import type { Cell, Effect, Equation, ModelInfo, ModelName, Step, Summary, Unfolding, Values } from "./types";

/** What leads to another number than the one that was unfolded. */
const ELSEWHERE: (keyof Address)[] = [
  "step",
  "model",
  "text",
  "second",
  "word",
  "after",
  "example",
  "upload",
  "index",
  "given",
  "masks",
];
/** Numbers that the way here holds; the first of a longer one are forgotten. */
const DEEPEST = 16;

export class Explorer {
  models = $state.raw<ModelName[]>([]);
  equations = $state.raw<Record<string, Equation>>({});
  model = $state.raw<ModelInfo | null>(null);
  place = $state.raw<Address>(read(new URL(location.href)));
  run = $state.raw<Summary | null>(null);
  clean = $state.raw<Summary | null>(null);
  /** The target's probability, or value, with one part more cut, by the part's name. */
  effects = $state.raw<Record<string, number>>({});
  values = $state.raw<Values | null>(null);
  mask = $state.raw<Values | null>(null);
  unfolding = $state.raw<Unfolding | null>(null);
  shares = $state.raw<{ name: string; shares: number[] } | null>(null);
  lens = $state.raw<{ id: number; token: string; probability: number }[][]>([]);
  /** The series that was read, channels by time. */
  series = $state.raw<Values | null>(null);
  /** The first token that the lens was read for, and how many are read. */
  lensed = $state.raw<[number, number]>([0, 8]);
  failure = $state.raw<Failure | null>(null);
  busy = $state("");
  /** What a file was too small for, of what is asked here. */
  missing = $state("");
  /** A sentence that goes away again. */
  note = $state("");
  private asked = 0;

  private drawn = $state.raw<Summary | null>(null);
  /** The run as all panes but the number itself show it: after a cut the number is repainted first. */
  readonly around = $derived(this.run && this.drawn?.clean === this.run.clean ? this.drawn : this.run);
  private drawing: Promise<void> | null = null;

  readonly step = $derived.by<Step | null>(() => this.run?.steps.find((step) => step.name === this.place.step) ?? null);

  /** What the address says of the run that is shown: A, or B as if it stood alone. */
  get side(): Address {
    return this.place.vs && this.place.show === "b" && !comparing.problem ? otherOf(this.place) : this.place;
  }

  /** Whether a word, class or grey can be read out of every layer's state. */
  get states(): boolean {
    return this.run?.target.probability !== null && !!this.run?.steps.some((step) => step.name === "H[0]");
  }

  get equation(): Equation | null {
    return this.step ? (this.equations[this.step.equation] ?? null) : null;
  }

  get at(): Cell {
    return this.place.at ?? [];
  }

  get layer(): number {
    return this.step?.place.layer ?? this.run?.layers ?? 1;
  }

  get head(): number | null {
    return this.step?.place.head ?? null;
  }

  /** What a cut at the cursor sets to zero, or nothing. */
  get cut(): string {
    return this.step?.cut ?? "";
  }

  async start(): Promise<void> {
    window.addEventListener("popstate", () => {
      this.place = read(new URL(location.href));
      void this.follow();
    });
    try {
      [this.models, this.equations] = await Promise.all([
        get<ModelName[]>("/api/models"),
        get<Record<string, Equation>>("/api/equations"),
      ]);
    } catch (error) {
      return this.fail(error);
    }
    await this.follow();
  }

  /** Go to another place: a click pushes, moving about replaces. */
  go(change: Partial<Address>, replace = false): void {
    const way = ELSEWHERE.every((name) => !(name in change)) ? this.place.way : [];
    this.place = { ...this.place, way, ...change };
    const state = replace ? history.state : { depth: this.depth + 1 };
    history[replace ? "replaceState" : "pushState"](state, "", written(this.place));
    void this.follow();
  }

  /** Go down to a number that the one at the cursor was made of, and note the way. */
  into(step: string, at: Cell): void {
    const { step: from, at: cell, way } = this.place;
    const here = { step: from, at: cell ?? [] };
    this.go({ step, at, way: [...way, ...(from && cell ? [here] : [])].slice(-DEEPEST) });
  }

  /** Change what the room says in its own query; an empty text takes it out. */
  say(own: Record<string, string>, replace = false): void {
    this.go({ own: { ...this.place.own, ...own } }, replace);
  }

  /** Settings of the sampler, which change no number but those of the word list. */
  tune(change: Pick<Partial<Address>, "T" | "k" | "p" | "seed">): void {
    this.place = { ...this.place, ...change };
    history.replaceState(history.state, "", written(this.place));
  }

  get depth(): number {
    return (history.state?.depth as number | undefined) ?? 0;
  }

  fold(): void {
    if (this.depth > 0) history.back();
  }

  private fail(error: unknown): void {
    this.failure = error instanceof Failure ? error : new Failure(String(error), "Error", 0);
    maker.making = null;
    [this.run, this.clean] = [null, null];
    this.busy = "";
  }

  /** Ask for whatever the address needs that is not here yet. */
  private async follow(): Promise<void> {
    const turn = ++this.asked;
    this.asking?.abort(); // what is wanted now comes before what is filled in
    const late = (): boolean => turn !== this.asked;
    try {
      // Without waiting where nothing is missing: a run is asked for before the page is drawn anew.
      if ([this.place, this.place.vs].some((one) => one?.packed && one.text === null)) await this.followText(late);
      if (late()) return;
      const b = this.place.vs && READS.includes(this.place.room) ? await comparing.prepare(this) : null;
      if (!this.place.vs) comparing.clear();
      if (late()) return;
      if (this.model?.id !== this.key) await this.followModel(late);
      if (late()) return;
      this.begin();
      void this.shorten();
      if (!READS.includes(this.place.room)) {
        [this.failure, this.busy] = [null, ""];
        return;
      }
      const side = this.begun();
      if (!wanted(side, this.model!)) return this.wait();
      await this.followRun(late, b);
      if (late()) return;
      const told = b && (await comparing.follow(this, b, late));
      if (late()) return;
      if (b && !told && this.place.show === "b") return this.go({ show: "change" }, true); // A stands alone
      const heads = this.place.room === "heads" ? atlas.follow(this.run!) : null;
      const apart = told && heads ? comparing.followHeads(atlas.by, late) : null;
      await Promise.all([this.followCursor(late), heads, apart, this.drawing]); // which need not wait for each other
      if (late()) return;
      if (told) await comparing.followCursor(this, late);
      if (late()) return;
      this.failure = null;
      this.busy = "";
      if (this.place.spine === "words" || (roomy.now && this.states)) await this.followLens(late);
      if (told && this.place.spine === "words") await comparing.followLens(this, late);
      if (told) await comparing.followPatches(this, late, (this.asking = new AbortController()).signal);
      await this.followEffects(late);
    } catch (error) {
      if (!late()) this.fail(error);
    }
  }

  /** What is read, with the model's own example where nothing is said. */
  private begun(): Address {
    return this.side === this.place ? this.place : { ...this.side, ...beginning(this.side, this.model!) };
  }

  /** Nothing is chosen yet: the page asks for a picture or a series. */
  private wait(): void {
    [this.run, this.clean, this.failure, this.busy] = [null, null, null, ""];
  }

  /** The text, where the address holds it deflated. */
  private async followText(late: () => boolean): Promise<void> {
    const { text, packed, vs } = this.place;
    if (text === null && packed) {
      const found = await unpack(packed);
      if (late()) return;
      this.place = { ...this.place, text: found, packed: null };
    }
    if (vs?.packed && vs.text === null) {
      const found = await unpack(vs.packed);
      if (!late()) this.place = { ...this.place, vs: { ...vs, text: found, packed: null } };
    }
  }

  /** A long text is deflated, which takes a moment; the address follows. */
  private async shorten(): Promise<void> {
    for (const text of [this.place.text, this.place.vs?.text ?? null]) {
      if (text === null || !(await pack(text))) continue;
      history.replaceState(history.state, "", written(this.place));
    }
  }

  private get key(): string {
    return this.side.model || this.models[0]!.id;
  }

  private async followModel(late: () => boolean): Promise<void> {
    this.busy = `loading ${this.key}`;
    const model = await get<ModelInfo>(`/api/models/${encodeURIComponent(this.key)}`);
    if (late()) return;
    if (!sameRun(this.model, model)) [this.run, this.clean] = [null, null];
    this.model = model;
  }

  /** What the address leaves open is written into it. */
  private begin(): void {
    if (this.side !== this.place) return; // of B the address says all
    const place = { ...this.place, model: this.key, ...beginning(this.place, this.model!) };
    if (written(place) !== written(this.place)) {
      this.place = place;
      history.replaceState(history.state, "", written(place));
    }
  }

  private async followRun(late: () => boolean, b: string | null): Promise<void> {
    const side = this.begun();
    const { model, cuts, word, after } = side;
    const given = { ...wanted(side, this.model!), ...(b && side.from.length ? { patches: side.from, source: b } : {}) };
    const meant = JSON.stringify([model, given, cuts, word, after]);
    if (this.run && this.meant === meant) return;
    this.busy ||= cuts.length || side.from.length ? "computing again what depends on the cut" : "computing every step";
    const about = { ...(word === null ? {} : { word }), ...(after === null ? {} : { position: after }) };
    const made = await maker.made({ model, cuts, ...given, ...about }, (busy) => (this.busy = busy));
    if (late()) return;
    const query = new URLSearchParams(Object.entries(about).map(([name, value]) => [name, String(value)]));
    const clean = await this.told(made.clean, query, made);
    if (late()) return;
    query.set("word", String(clean.target.id)); // with cuts the same word is asked about
    const run = made.id === made.clean ? clean : await this.told(made.id, query, made);
    if (late()) return;
    if (run.clean !== this.run?.clean) {
      [this.values, this.mask, this.unfolding, this.lens] = [null, null, null, []]; // of another text
    }
    if (run.input?.kind !== "series") this.series = null;
    else if (this.seriesOf !== clean.id) await this.followSeries(clean, late);
    if (late()) return;
    const other = run.clean !== this.run?.clean;
    [this.clean, this.run, this.meant] = [clean, run, meant];
    this.drawing = this.draw(run, other);
  }

  /** Show the run in the panes around the number: at once where it reads something else. */
  private async draw(run: Summary, other: boolean): Promise<void> {
    if (!other) await repainted();
    if (this.run === run && this.drawn !== run) [this.drawn, this.effects] = [run, {}];
  }

  again(): void {
    this.failure = null;
    void this.follow();
  }

  /** What the run that is here is of. */
  private meant = "";
  private seriesOf = "";

  private async followSeries(run: Summary, late: () => boolean): Promise<void> {
    const found = await fetched(`/api/runs/${run.id}/series`, "series");
    if (!late()) [this.series, this.seriesOf] = [found, run.id];
  }

  private kept = new Map<string, Summary>();

  private async told(id: string, query: URLSearchParams, made: Posted): Promise<Summary> {
    const path = `/api/runs/${id}?${query}`;
    const sent = made.id === id ? made.summary : undefined;
    const found = this.kept.get(path) ?? sent ?? (await get<Summary>(path));
    this.kept.set(path, found);
    const clean = this.clean;
    if (clean && clean.id === found.clean && sameSteps(clean, found)) {
      [found.steps, found.tokens] = [clean.steps, clean.tokens]; // cuts leave them: nothing to draw anew
    }
    if (this.kept.size > 24) this.kept.delete(this.kept.keys().next().value!);
    return found;
  }

  private async followCursor(late: () => boolean): Promise<void> {
    const run = this.run!;
    let step = this.step;
    if (!step) {
      if (this.place.step) this.note = `${this.place.step} is no step of this run`;
      const name = firstStep(run);
      step = run.steps.find((one) => one.name === name)!;
      this.place = { ...this.place, step: name, at: null };
    }
    const [rows = 1, columns = 1] = step.shape;
    const at = this.place.at;
    const fits = at && at.length === Math.max(1, step.shape.length) && at.every((k, i) => k < (step.shape[i] ?? 1));
    const cell = fits ? at : null;
    const [r, c] = [cell?.[0] ?? firstCell(run, step)[0]!, cell?.[1] ?? 0];
    const there = this.values;
    const [[top], [left]] = [windowed(r, rows), windowed(c, columns)];
    const same = this.valuesOf === run.id && there?.name === step.name && there.top === top && there.left === left;
    this.missing = "";
    const seen = (name: string): Promise<Values> => values(run.id, name, windowed(r, rows), windowed(c, columns));
    const terms = (at: Cell): Promise<Unfolding | null> =>
      this.unless(get<Unfolding>(unfoldPath(run.id, step.name, at)));
    const masked = step.symbol === "mu" && run.steps.some((one) => one.name === "S");
    const [found, mask, early, shares] = await Promise.all([
      this.unless(same ? there : seen(step.name)),
      (same && this.mask) || (masked ? this.unless(seen("S")) : null),
      cell && terms(cell),
      this.sources(step, run),
    ]);
    if (late()) return;
    if (!cell) {
      const first = step.shape.length > 1 ? [r, c] : [r];
      this.place = { ...this.place, at: found ? largest(run, step, found) : first };
    }
    history.replaceState(history.state, "", written(this.place));
    const unfolding = cell ? early : await terms(this.at);
    if (late()) return;
    [this.values, this.mask, this.valuesOf] = [found, mask, run.id];
    [this.unfolding, this.shares, this.sharesOf] = [unfolding, shares, run];
  }

  /** The run that the values which are here are of, and the summary of the shares. */
  private valuesOf = "";
  private sharesOf: Summary | null = null;

  /** How the number at the cursor was made, also before it is shown. */
  async terms(): Promise<Unfolding | null> {
    const [shown, { step, at }] = [this.unfolding, this.place];
    if (!this.run || !step || !at || (shown?.step === step && String(shown.at) === String(at))) return shown;
    return this.unless(get<Unfolding>(unfoldPath(this.run.id, step, at)));
  }

  /** An answer, or nothing where a file leaves it out, which is said. */
  private async unless<T>(asked: Promise<T> | T, say = true): Promise<T | null> {
    try {
      return await asked;
    } catch (error) {
      if (!(error instanceof Failure) || error.kind !== "LeftOut") throw error;
      if (say) this.missing = error.message;
      return null;
    }
  }

  /** What the head at the cursor adds, by token; a pane of its own says it where a file has it not. */
  private sources(step: Step, run: Summary): Promise<typeof this.shares> | typeof this.shares {
    const head = step.cut.startsWith("P[") ? step.cut : "";
    if (!head || (this.shares?.name === head && this.sharesOf === run)) return head ? this.shares : null;
    const query = `?word=${run.target.id}${run.tokens.length > 1 && this.place.after !== null ? `&position=${run.position}` : ""}`;
    return this.unless(get<{ name: string; shares: number[] }>(sourcesPath(run.id, head, query)), false);
  }

  private async followLens(late: () => boolean): Promise<void> {
    const [run, many] = [this.run!, this.lensed[1]];
    const first = Math.max(0, Math.min(run.position - many + 1, run.tokens.length - many));
    if (this.lens.length && this.lensed[0] === first && this.lensOf === run.id) return;
    const path = `/api/runs/${run.id}/lens?first=${first}&last=${first + many}`;
    const found = await this.unless(get<typeof this.lens>(path));
    if (!late()) [this.lens, this.lensed, this.lensOf] = [found ?? [], [first, many], run.id];
  }

  private lensOf = "";

  private asking: AbortController | null = null;

  /** Layer by layer from the top, where a cut is computed soonest. */
  private async followEffects(late: () => boolean): Promise<void> {
    const run = this.run!;
    if (!run.steps.some((step) => step.cut)) return;
    const { signal } = (this.asking = new AbortController());
    const query = `word=${run.target.id}${this.place.after === null ? "" : `&position=${run.position}`}`;
    for (let layer = run.layers; layer >= 1; layer--) {
      if (run.long && layer !== this.step?.place.layer) continue; // minutes, for all of them
      if (run.steps.every((s) => s.cut !== s.name || s.place.layer !== layer || s.name in this.effects)) continue;
      const path = `/api/runs/${run.id}/cuts?layer=${layer}&${query}`;
      const found = (await this.unless(get<Effect[]>(path, signal))) ?? [];
      if (late() && this.run !== run) return;
      const more = Object.fromEntries(found.map((one) => [one.name, one.probability ?? one.value]));
      this.effects = { ...this.effects, ...more };
      if (late()) return;
    }
  }

  /** Read another text, in the run that is shown. */
  retype(text: string, more: Partial<Address> = {}): void {
    const { vs } = this.place;
    if (vs && this.side !== this.place) this.go({ vs: { ...vs, text }, ...more });
    else this.go({ text, ...more });
  }

  /** Cut what the cursor stands in, or take that cut back. */
  toggle(name = this.cut): void {
    if (!name) {
      this.note = "x cuts a head or a feedforward network; the cursor stands in neither";
      return;
    }
    const { vs, on, cuts, from } = this.place;
    const there =
      vs && on === "b" ? vs.cuts.includes(name) : (vs && on === "a" ? this.place : this.side).cuts.includes(name);
    const cut = (some: string[]): string[] => [...some.filter((one) => one !== name), ...(there ? [] : [name])];
    if (isKept && !holds(cut(cuts))) {
      this.note = `this file holds one cut at a time; 'vesalius explore ${about()?.model}' makes more`;
      return;
    }
    if (!vs) return this.go({ cuts: cut(cuts) });
    const rest = { from: from.filter((one) => one !== name) };
    this.go({
      ...(on === "b" ? {} : { cuts: cut(cuts), ...rest }),
      ...(on === "a" ? {} : { vs: { ...vs, cuts: cut(vs.cuts) } }),
    });
  }

  /** Hide a token from the model, or show it again. */
  hide(place = this.place.after ?? this.run?.position ?? -1): void {
    if (!this.run || !this.model || !maskable(this.run, this.model, place)) {
      this.note = this.model?.masks
        ? "this token is no word that can be masked"
        : "m hides a token of a model that restores some; this one restores none";
      return;
    }
    const { masks } = this.place;
    const shown = masks.includes(place);
    const rest = shown ? masks.filter((one) => one !== place) : [...masks, place].sort((a, b) => a - b);
    this.go({ masks: rest, after: shown && rest.length ? rest[0]! : place, word: null, at: null });
  }

  /** Read another picture or series; the cursor stays where it is, if it can. */
  look(at: Partial<Address>): void {
    this.go({ ...NOTHING, masks: [], word: null, after: null, at: null, ...at });
  }

  /** Bring a file to the server, and read it. */
  async bring(file: File): Promise<void> {
    this.busy = `reading ${file.name}`;
    try {
      const query = new URLSearchParams({ model: this.place.model, name: file.name });
      const { upload } = await sent<{ upload: string }>(`/api/uploads?${query}`, file);
      this.look({ upload });
    } catch (error) {
      this.asked++; // what is still on its way would clear the failure
      this.failure = error instanceof Failure ? error : new Failure(String(error), "Error", 0);
      this.busy = ""; // what was read before is still here
    }
  }

  undo(): void {
    const { cuts, vs, from } = this.place;
    if (from.length) return this.go({ from: from.slice(0, -1) });
    const last = this.side.cuts.at(-1) ?? cuts.at(-1) ?? vs?.cuts.at(-1);
    if (last === undefined) return;
    const rest = (some: string[]): string[] => some.filter((one) => one !== last);
    this.go({ cuts: rest(cuts), ...(vs ? { vs: { ...vs, cuts: rest(vs.cuts) } } : {}) });
  }
}

export const explorer = new Explorer();
