/* What the server tells and is asked; `make docs` writes it as Python declares it. */

export type Cell = number[];

/** JSON has no infinities: they come by name. */
export type Numeral = number | "inf" | "-inf" | "nan";

export interface ModelName {
  id: string;
  title: string;
}

export interface ModelInfoCount {
  total: number;
}

export interface ModelInfoExample {
  number: number;
  label: string | null;
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
  /** What to begin with, and the other text of a pair. */
  text: string;
  second: string;
  symbols: Record<string, unknown>;
  /** The LaTeX of equations that this model computes with other functions than the paper's. */
  formulas: Record<string, string>;
  figures: Drawable[];
  count: ModelInfoCount;
  reads: "text" | "pixels" | "images" | "series";
  /** What a second text is for; empty where it reads one. */
  pairs: string;
  /** Whether it restores what is masked. */
  masks: boolean;
  /** Whether it reads a fixed number of tokens, so that not any text will do. */
  window: boolean;
  /** Endings of the files that it reads. */
  accepts: string[];
  examples: ModelInfoExample[];
  corpus: string;
  /** The example to begin with, if there is one. */
  begins: number | null;
  /** Examples that can be asked for by any number. */
  more: number;
  /** Whether there are attention heads to show. */
  heads: boolean;
  /** Which of the states over time the room of gates shows as memory; empty where it has none. */
  gates: "" | "c" | "h";
  /** Steps that are drawn inside a box, by their symbols, with that of the step it gives. */
  boxes: Record<string, string>;
}

export type Span = [number, number, number, number, string];

/** How tokens lie in a picture. */
export interface SeenPicture {
  kind: "patches" | "pixels";
  /** Cells of a side. */
  across: number;
  /** The token of the first cell. */
  first: number;
  levels?: number;
  restores: boolean;
}

/** How tokens lie in a series. */
export interface SeenSeries {
  kind: "series";
  channels: number;
  time: number;
  /** Columns of the states that are no padding. */
  real: number;
  /** The channels, where each is read for itself. */
  names: string[];
  /** What patches cover: channel, first time, how many, number in the channel, name. */
  spans: Span[];
  /** How many patches cover a time. */
  overlap: number;
}

export type Seen = SeenPicture | SeenSeries;

export interface Word {
  id: number;
  token: string;
  rank: number;
  /** Null where the model gives values, which have none. */
  probability: number | null;
  value: number;
}

/** The target with one part more cut, or with its cut taken back. */
export interface Effect {
  name: string;
  probability: number | null;
  value: number;
}

export interface Part {
  name: string;
  share: number;
  what: string;
}

export interface StepPlace {
  layer?: number;
  head?: number;
  time?: number;
}

export interface Step {
  name: string;
  symbol: string;
  place: StepPlace;
  equation: string;
  shape: number[];
  rows: string;
  columns: string;
  kind: "state" | "score" | "output";
  cut: string;
}

/** The value of a forecast that is looked at, in the units of its series. */
export interface Forecast {
  channel: number;
  step: number;
  time: string;
  value: number;
  /** The ends of its interval, where the model keeps one, and what it is to hold. */
  ends: [number, number] | null;
  level: number;
  /** What the model's own numbers are scaled by. */
  mean: number;
  std: number;
  scaled: boolean;
}

/** One channel of a forecast: what was before, what is to come, and what came, if known. */
export interface Course {
  channel: number;
  past: number[];
  values: number[];
  ends: [number[], number[]] | null;
  level: number;
  follows: number[] | null;
  before: string[];
  after: string[];
}

export interface SummaryTarget {
  id: number;
  token: string;
  /** Its place among all words or classes; null of values. */
  rank: number | null;
  step: string;
  at: Cell;
  logit: number;
  probability: number | null;
}

export interface SummaryHidden {
  id: number;
  token: string;
  probability: number;
  rank: number;
}

export interface Summary {
  id: string;
  clean: string;
  model: string;
  /** What Python and the command line call the model. */
  name: string;
  family: string;
  ids: number[];
  tokens: string[];
  /** Whether tokens hold the blanks between words. */
  blanks: boolean;
  surprisal: (number | null)[];
  cuts: string[];
  /** Steps whose values are another run's. */
  patches: string[];
  position: number;
  masked: boolean;
  target: SummaryTarget;
  /** The target of a forecast; null of all else. */
  forecast: Forecast | null;
  likeliest: Word[];
  /** How many words, classes or values there are. */
  outcomes: number;
  parts: Part[];
  sum: number;
  difference: number;
  /** How far rounding alone can bring the sum of the parts from the target. */
  bound: number;
  /** Whether that is small beside the values of the target's step. */
  precise: boolean;
  layers: number;
  /** Whether only states are kept, so that the rest is computed anew when it is asked for. */
  long: boolean;
  steps: Step[];
  milliseconds: number;
  again: number;
  dtype: string;
  /** What was read, as Python and the command line write it. */
  python: string;
  command: string;
  /** The second text of a pair, or nothing. */
  second: string;
  /** Of a pair: 0 or 1 for each token. */
  segments: number[];
  /** The letters that tokens are some bytes of, by place. */
  within: Record<string, string>;
  masks: number[];
  /** What the masks hide, by place. */
  behind: Record<string, string>;
  hidden: SummaryHidden | null;
  /** Of a pair: the probability that the second text follows. */
  follows: number | null;
  label: string | null;
  source: string;
  /** How many its file holds. */
  files: number;
  prepared: string;
  hint: string;
  input: Seen | null;
}

/** What another implementation gave for the same outputs. */
export interface Check {
  /** Which it was; none where there is no other here. */
  peer: "network" | "engine" | null;
  steps: string[];
  numbers: number;
  difference: number;
  agrees: boolean;
}

export interface MakingWord {
  layer: number;
  token: string;
  probability: number;
}

/** A run in the making: the word that each state gives so far, that of the embeddings first. */
export interface Making {
  id: string;
  tokens: number;
  layers: number;
  words: MakingWord[];
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
  /** What the term takes of the number, with a dot in its place, as "tanh(·)"; or nothing. */
  function: string;
}

export interface Term {
  value: Numeral;
  factors: Factor[];
}

export interface UnfoldingRival {
  at: number;
  sum: Numeral;
}

export interface UnfoldingCurve {
  reach: number;
  values: Numeral[];
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
  /** How far rounding alone can bring what the terms make from the value. */
  bound: Numeral;
  notes: Record<string, Numeral>;
  rivals: UnfoldingRival[];
  curve: UnfoldingCurve | null;
  /** Whether the value was replaced, so that its terms do not make it. */
  edited: boolean;
}

/** One letter of an equation, and its class, which has a colour and a mark. */
export interface Symbol {
  name: string;
  latex: string;
  meaning: string;
  /** What other works call it, or nothing. */
  known_as: string;
  shape: string;
  kind: "parameter" | "bias" | "score" | "output" | "input" | "dimension" | "state";
}

export interface Erratum {
  /** E17. */
  number: string;
  kind: string;
  title: string;
  paper: string;
  practice: string;
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
  /** Where the paper and practice part ways about it. */
  errata?: Erratum[];
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

/** A run: a model by its id, what it is to read, and the steps to cut. */
export interface RunRequest {
  model: string;
  text?: string | null;
  second?: string | null;
  ids?: number[] | null;
  upload?: string | null;
  example?: number | null;
  index?: number;
  invert?: boolean;
  masks?: number[];
  given?: number | null;
  cuts?: string[];
  patches?: string[];
  source?: string | null;
  word?: number | null;
  position?: number | null;
}
