/* What the server tells, as src/vesalius/explorer/telling.py writes it. */

export type Cell = number[];
/** JSON has no infinities: they come by name. */
export type Numeral = number | "inf" | "-inf" | "nan";

export interface ModelName {
  id: string;
  title: string;
}

export interface ModelInfo extends ModelName {
  /** What Python and the command line call it. */
  name: string;
  family: string;
  family_title: string;
  parameters: number;
  dtype: string;
  context: number | null;
  /** The words of the tokenizer, or null where there is none. */
  tokenizer: number | null;
  text: string;
  symbols: Record<string, unknown>;
  figures: Drawable[];
  count: { total: number };
}

export interface Word {
  id: number;
  token: string;
  rank: number;
  probability: number;
}

export interface Part {
  name: string;
  share: number;
  what: string;
}

export interface Step {
  name: string;
  symbol: string;
  place: { layer?: number; head?: number; time?: number };
  equation: string;
  shape: number[];
  rows: string;
  columns: string;
  kind: "state" | "score" | "output";
  cut: string;
  least: Numeral;
  most: Numeral;
}

export interface Summary {
  id: string;
  clean: string;
  model: string;
  family: string;
  ids: number[];
  tokens: string[];
  surprisal: (number | null)[];
  cuts: string[];
  position: number;
  masked: boolean;
  target: {
    id: number;
    token: string;
    step: string;
    at: Cell;
    logit: number;
    probability: number;
  };
  likeliest: Word[];
  parts: Part[];
  sum: number;
  difference: number;
  layers: number;
  steps: Step[];
  milliseconds: number;
  again: number;
  dtype: string;
}

export interface Location {
  symbol: string;
  name: string;
  file: string;
  tensor: string;
  index: number[];
  offset: number;
  dtype: string;
}

export interface Factor {
  kind: "step" | "parameter" | "input" | "constant";
  name: string;
  at: Cell;
  value: Numeral;
  location: Location | null;
}

export interface Term {
  value: Numeral;
  scale: number;
  factors: Factor[];
}

export interface Unfolding {
  step: string;
  at: Cell;
  equation: string;
  value: Numeral;
  terms: Term[];
  others: number;
  rest: Numeral;
  sum: Numeral;
  outer: string;
  computed: Numeral;
  difference: Numeral;
  notes: Record<string, Numeral>;
  rivals: { at: number; sum: Numeral }[];
  edited: boolean;
}

/** One letter of an equation, and its class, which has a colour and a mark. */
export interface Symbol {
  name: string;
  latex: string;
  meaning: string;
  shape: string;
  kind: "parameter" | "bias" | "score" | "output" | "input" | "dimension" | "state";
}

export interface Equation {
  label: string;
  number: number | null;
  name: string;
  title: string;
  section: string;
  latex: string;
  remarks: string;
  symbols: Symbol[];
  source: string;
}

/** A figure that can be drawn: of the model, of a layer ("l") or of a head ("l,m"). */
export interface Drawable {
  part: string;
  place: "" | "l" | "l,m";
  figures: string[];
  shows: string;
  /** Whether it shows the numbers of a text, or is nothing without one. */
  text: "" | "shown" | "needed";
}

/** A part of a step's values, row by row. */
export interface Values {
  name: string;
  shape: number[];
  top: number;
  left: number;
  rows: number;
  columns: number;
  data: Float32Array;
}
