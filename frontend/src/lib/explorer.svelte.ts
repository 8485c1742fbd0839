/* One run, one cursor: what the address says, and what the server told about it. */

import { NOTHING, read, written, type Address } from "./address";
import { Failure, fetched, get, post, sent, sourcesPath, unfoldPath, values } from "./api";
import { beginning, maskable, wanted } from "./reading";
import type { Cell, Equation, Figure, ModelInfo, ModelName, Step, Summary, Unfolding, Values } from "./types";

const WINDOW = 256;
/** Rows and columns of a step that are fetched at once. */

interface Posted {
  id: string;
  clean: string;
}

export class Explorer {
  models = $state.raw<ModelName[]>([]);
  equations = $state.raw<Record<string, Equation>>({});
  model = $state.raw<ModelInfo | null>(null);
  figure = $state.raw<Figure | null>(null);
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
  failure = $state.raw<Failure | null>(null);
  busy = $state("");
  /** A sentence that goes away again. */
  note = $state("");
  private asked = 0;

  get step(): Step | null {
    return this.run?.steps.find((step) => step.name === this.place.step) ?? null;
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
    this.place = { ...this.place, ...change };
    const state = replace ? history.state : { depth: this.depth + 1 };
    history[replace ? "replaceState" : "pushState"](state, "", written(this.place));
    void this.follow();
  }

  get depth(): number {
    return (history.state?.depth as number | undefined) ?? 0;
  }

  fold(): void {
    if (this.depth > 0) history.back();
  }

  private fail(error: unknown): void {
    this.failure = error instanceof Failure ? error : new Failure(String(error), "Error", 0);
    [this.run, this.clean] = [null, null];
    this.busy = "";
  }

  /** Ask for whatever the address needs that is not here yet. */
  private async follow(): Promise<void> {
    const turn = ++this.asked;
    const late = (): boolean => turn !== this.asked;
    try {
      await this.followModel(late);
      if (late()) return;
      if (!wanted(this.place, this.model!)) return this.wait();
      await this.followRun(late);
      if (late()) return;
      await this.followCursor(late);
      if (late()) return;
      this.failure = null;
      this.busy = "";
      if (this.place.spine === "words" && !this.lens.length) await this.followLens(late);
      await this.followEffects(late);
    } catch (error) {
      if (!late()) this.fail(error);
    }
  }

  /** Nothing is chosen yet: the page asks for a picture or a series. */
  private wait(): void {
    [this.run, this.clean, this.failure, this.busy] = [null, null, null, ""];
  }

  private async followModel(late: () => boolean): Promise<void> {
    const key = this.place.model || this.models[0]!.id;
    if (this.model?.id !== key) {
      this.busy = `loading ${key}`;
      const path = `/api/models/${encodeURIComponent(key)}`;
      const [model, figure] = await Promise.all([get<ModelInfo>(path), get<Figure>(`${path}/figure`)]);
      if (late()) return;
      [this.model, this.figure, this.run, this.clean] = [model, figure, null, null];
    }
    const place = { ...this.place, model: key, ...beginning(this.place, this.model!) };
    if (written(place) !== written(this.place)) {
      this.place = place;
      history.replaceState(history.state, "", written(place));
    }
  }

  private async followRun(late: () => boolean): Promise<void> {
    const { model, cuts, word, after } = this.place;
    const given = wanted(this.place, this.model!);
    const meant = JSON.stringify([model, given, cuts, word, after]);
    if (this.run && this.meant === meant) return;
    this.busy ||= cuts.length ? "computing again what depends on the cut" : "computing every step";
    const made = await post<Posted>("/api/runs", { model, cuts, ...given });
    if (late()) return;
    const query = new URLSearchParams();
    if (word !== null) query.set("word", String(word));
    if (after !== null) query.set("position", String(after));
    const clean = await this.told(made.clean, query);
    if (late()) return;
    query.set("word", String(clean.target.id)); // with cuts the same word is asked about
    const run = made.id === made.clean ? clean : await this.told(made.id, query);
    if (late()) return;
    if (run.id !== this.run?.id) {
      [this.values, this.mask, this.unfolding, this.lens] = [null, null, null, []];
    }
    if (run !== this.run) [this.effects, this.shares] = [{}, null];
    if (run.input?.kind !== "series") this.series = null;
    else if (this.seriesOf !== clean.id) await this.followSeries(clean, late);
    if (late()) return;
    [this.clean, this.run, this.meant] = [clean, run, meant];
  }

  /** What the run that is here is of. */
  private meant = "";
  private seriesOf = "";

  private async followSeries(run: Summary, late: () => boolean): Promise<void> {
    const found = await fetched(`/api/runs/${run.id}/series`, "series");
    if (!late()) [this.series, this.seriesOf] = [found, run.id];
  }

  private kept = new Map<string, Summary>();

  private async told(id: string, query: URLSearchParams): Promise<Summary> {
    const path = `/api/runs/${id}?${query}`;
    const found = this.kept.get(path) ?? (await get<Summary>(path));
    this.kept.set(path, found);
    if (this.kept.size > 24) this.kept.delete(this.kept.keys().next().value!);
    return found;
  }

  private async followCursor(late: () => boolean): Promise<void> {
    const run = this.run!;
    let step = this.step;
    if (!step) {
      if (this.place.step) this.note = `${this.place.step} is no step of this run`;
      const name = this.first(run);
      step = run.steps.find((one) => one.name === name)!;
      this.place = { ...this.place, step: name, at: null };
    }
    const [rows = 1, columns = 1] = step.shape;
    const at = this.place.at;
    const fits = at && at.length === Math.max(1, step.shape.length) && at.every((k, i) => k < (step.shape[i] ?? 1));
    const cell = fits ? at : null;
    const [r, c] = [cell?.[0] ?? this.beginning(step)[0]!, cell?.[1] ?? 0];
    const there = this.values;
    const [[top], [left]] = [windowed(r, rows), windowed(c, columns)];
    const same = there?.name === step.name && there.top === top && there.left === left;
    const found = same ? there : await values(run.id, step.name, windowed(r, rows), windowed(c, columns));
    if (late()) return;
    if (!cell) {
      this.place = { ...this.place, at: this.largest(step, found) };
    }
    history.replaceState(history.state, "", written(this.place));
    const masked = step.symbol === "mu" && run.steps.some((one) => one.name === "S");
    const kept = same && this.mask;
    const mask = kept || (masked ? await values(run.id, "S", windowed(r, rows), windowed(c, columns)) : null);
    if (late()) return;
    [this.values, this.mask] = [found, mask];
    const unfolding = await get<Unfolding>(unfoldPath(run.id, step.name, this.at));
    if (late()) return;
    this.unfolding = unfolding;
    await this.followSources(late, step, run);
  }

  private async followSources(late: () => boolean, step: Step, run: Summary): Promise<void> {
    const head = step.cut.startsWith("P[") ? step.cut : "";
    if (!head || this.shares?.name === head) {
      if (!head) this.shares = null;
      return;
    }
    const query = `?word=${run.target.id}${run.tokens.length > 1 && this.place.after !== null ? `&position=${run.position}` : ""}`;
    const shares = await get<{ name: string; shares: number[] }>(sourcesPath(run.id, head, query));
    if (!late()) this.shares = shares;
  }

  private async followLens(late: () => boolean): Promise<void> {
    const found = await get<typeof this.lens>(`/api/runs/${this.run!.id}/lens`);
    if (!late()) this.lens = found;
  }

  /** Layer by layer from the top, where a cut is computed soonest. */
  private async followEffects(late: () => boolean): Promise<void> {
    const run = this.run!;
    if (!run.steps.some((step) => step.cut)) return;
    const query = `word=${run.target.id}${this.place.after === null ? "" : `&position=${run.position}`}`;
    for (let layer = run.layers; layer >= 1; layer--) {
      if (run.steps.every((s) => s.cut !== s.name || s.place.layer !== layer || s.name in this.effects)) continue;
      const found = await get<{ name: string; probability: number | null; value: number }[]>(
        `/api/runs/${run.id}/cuts?layer=${layer}&${query}`,
      );
      if (late() && this.run !== run) return;
      const more = Object.fromEntries(found.map((one) => [one.name, one.probability ?? one.value]));
      this.effects = { ...this.effects, ...more };
      if (late()) return;
    }
  }

  /** Where the cursor stands at first: the scores of the head with the largest share, or the logit. */
  private first(run: Summary): string {
    const head = run.parts.find((part) => part.name.startsWith("P["));
    return head ? head.name.replace("P", "mu") : run.target.step;
  }

  private beginning(step: Step): Cell {
    const run = this.run!;
    if (step.rows === "vocabulary") return [run.target.id];
    return [step.rows ? run.position : 0];
  }

  /** The cell to begin with: the largest in the row or column of the current position. */
  private largest(step: Step, found: Values): Cell {
    const run = this.run!;
    if (!step.shape.length) return [0];
    if (step.rows === "vocabulary") return step.shape.length > 1 ? [run.target.id, run.position] : [run.target.id];
    const size = (r: number, c: number): number => Math.abs(found.data[r * found.columns + c] ?? 0);
    let best: Cell = [0, 0];
    for (let r = 0; r < found.rows; r++) {
      if (step.rows && r + found.top !== run.position) continue;
      for (let c = 0; c < found.columns; c++) {
        if (!step.rows && step.columns && c + found.left !== run.position) continue;
        const [br, bc] = best as [number, number];
        const outside = (step.rows && br !== r) || (!step.rows && step.columns && bc !== c);
        if (outside || size(r, c) > size(br, bc)) best = [r, c];
      }
    }
    const cell = [best[0]! + found.top, best[1]! + found.left];
    return step.shape.length > 1 ? cell : cell.slice(0, 1);
  }

  /** Cut what the cursor stands in, or take that cut back. */
  toggle(name = this.cut): void {
    if (!name) {
      this.note = "x cuts a head or a feedforward network; the cursor stands in neither";
      return;
    }
    const cuts = this.place.cuts.includes(name)
      ? this.place.cuts.filter((one) => one !== name)
      : [...this.place.cuts, name];
    this.go({ cuts });
  }

  /** Hide a token from the model, or show it again. */
  hide(place = this.place.after ?? this.run?.position ?? -1): void {
    if (!this.run || !this.model || !maskable(this.run, this.model, place)) {
      this.note = this.model?.masks ? "this token is no word that can be masked" : "m hides a token of a model that restores some; this one restores none";
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
      this.failure = error instanceof Failure ? error : new Failure(String(error), "Error", 0);
      this.busy = ""; // what was read before is still here
    }
  }

  undo(): void {
    if (this.place.cuts.length) this.go({ cuts: this.place.cuts.slice(0, -1) });
  }

  /** The command that unfolds the number at the cursor; cuts are for Python. */
  get command(): string {
    const read = this.run?.command;
    if (!read) return "";
    return `vesalius unfold ${quoted(this.model?.name ?? "")} ${quoted(read)} ${quoted(this.place.step)} ${this.at.join(" ")}`;
  }

  /** The line of Python that gives the number at the cursor. */
  get python(): string {
    const { cuts, step } = this.place;
    const edit = cuts.map((name) => `${JSON.stringify(name)}: lambda v: 0 * v`).join(", ");
    const more = edit ? `, edit={${edit}}` : "";
    return `vs.dissect(${JSON.stringify(this.model?.name)}, ${this.run?.python}${more})[${JSON.stringify(step)}][${this.at.join(", ")}]`;
  }
}

/** A word as a shell takes it. */
function quoted(text: string): string {
  return /^[\w.:/-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}

function windowed(k: number, n: number): [number, number] {
  const first = n <= WINDOW ? 0 : Math.floor(k / WINDOW) * WINDOW;
  return [first, Math.min(n, first + WINDOW)];
}

export const explorer = new Explorer();
