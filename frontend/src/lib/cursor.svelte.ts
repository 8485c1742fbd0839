/* The cursor: a step of the run and one of its cells, and what is known of the number there. */

import { get, sourcesPath, unfoldPath, values } from "./api";
import { Computed } from "./computed.svelte";
import { firstCell, firstStep, largest, windowed } from "./cursor";
import { Stage } from "./resource.svelte";
import type { Cell, Equation, Step, Summary, Unfolding, Values } from "./types";

interface Shares {
  name: string;
  shares: number[];
}

export abstract class Cursor extends Computed {
  values = $state.raw<Values | null>(null);
  mask = $state.raw<Values | null>(null);
  unfolding = $state.raw<Unfolding | null>(null);
  shares = $state.raw<Shares | null>(null);
  readonly step = $derived.by<Step | null>(() => this.run?.steps.find((step) => step.name === this.place.step) ?? null);

  private there = new Stage<Values>();
  private hidden = new Stage<Values>();
  private terms = new Stage<Unfolding>();
  private sources = new Stage<Shares>();

  get equation(): Equation | null {
    const found = this.step && this.equations[this.step.equation];
    if (!found) return null;
    const latex = this.model?.formulas[found.name];
    return latex ? { ...found, latex } : found;
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

  protected override clear(): void {
    super.clear();
    [this.values, this.mask, this.unfolding] = [null, null, null];
  }

  protected async followCursor(): Promise<void> {
    const run = this.run!;
    const step = this.step ?? this.begun(run);
    const [rows = 1, columns = 1] = step.shape;
    const at = this.place.at;
    const fits = at && at.length === Math.max(1, step.shape.length) && at.every((k, i) => k < (step.shape[i] ?? 1));
    const cell = fits ? at : null;
    const [r, c] = [cell?.[0] ?? firstCell(run, step)[0]!, cell?.[1] ?? 0];
    const part = [windowed(r, rows), windowed(c, columns)] as const;
    this.missing = "";
    const seen = (of: Stage<Values>, name: string): Promise<Values | null> =>
      this.unless(of.ask(`${run.id} ${name} ${part.join()}`, (signal) => values(run.id, name, ...part, signal)));
    const terms = (at: Cell): Promise<Unfolding | null> =>
      this.unless(this.terms.ask(unfoldPath(run.id, step.name, at)));
    const masked = step.symbol === "mu" && run.steps.some((one) => one.name === "S");
    const [found, mask, early, shares] = await Promise.all([
      seen(this.there, step.name),
      masked ? seen(this.hidden, "S") : null,
      cell && terms(cell),
      this.followSources(step, run),
    ]);
    const first = step.shape.length > 1 ? [r, c] : [r];
    this.settle(cell ? {} : { at: found ? largest(run, step, found) : first });
    const unfolding = cell ? early : await terms(this.at);
    [this.values, this.mask, this.unfolding, this.shares] = [found, mask, unfolding, shares];
  }

  /** The step to begin with, where the address has none of this run. */
  private begun(run: Summary): Step {
    if (this.place.step) this.note = `${this.place.step} is no step of this run`;
    const name = firstStep(run);
    this.place = { ...this.place, step: name, at: null };
    return run.steps.find((one) => one.name === name)!;
  }

  /** How the number at the cursor was made, also before it is shown. */
  async unfold(): Promise<Unfolding | null> {
    const [shown, { step, at }] = [this.unfolding, this.place];
    if (!this.run || !step || !at || (shown?.step === step && String(shown.at) === String(at))) return shown;
    return this.unless(get<Unfolding>(unfoldPath(this.run.id, step, at)));
  }

  /** What the head at the cursor adds, by token; a pane of its own says it where a file has it not. */
  private followSources(step: Step, run: Summary): Promise<Shares | null> | null {
    if (!step.cut.startsWith("P[")) return null;
    const position = run.tokens.length > 1 && this.place.after !== null ? `&position=${run.position}` : "";
    const path = sourcesPath(run.id, step.cut, `?word=${run.target.id}${position}`);
    return this.unless(this.sources.ask(path), false);
  }
}
