/* How numbers, tokens and names of steps are written. */

import type { Numeral } from "./types";

const MINUS = "−";
const NAMED: Record<string, string> = { inf: "∞", "-inf": `${MINUS}∞`, nan: "NaN" };

/** Rounds half away from zero, on the digits that the number is written with. */
function rounded(x: number, digits: number): string {
  const scale = 10 ** digits;
  const written = Math.abs(x).toString();
  const shifted = written.includes("e") ? Math.abs(x) * scale : Number(`${written}e${digits}`);
  return (Math.round(shifted) / scale).toFixed(digits);
}

/** Four significant digits, or fewer where that is said. */
export function number(x: Numeral, digits = 4): string {
  if (typeof x === "string") return NAMED[x] ?? x;
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : `${MINUS}∞`;
  if (x === 0) return "0";
  const power = Math.floor(Math.log10(Math.abs(x)));
  const sign = x < 0 ? MINUS : "";
  if (power < -4 || power > 6)
    return (
      sign +
      Math.abs(x)
        .toExponential(Math.min(1, digits - 1))
        .replace("-", MINUS)
    );
  return sign + rounded(x, Math.max(0, digits - 1 - power));
}

/** With its sign, and as many decimals as are said. */
export function signed(x: Numeral, digits = 2): string {
  if (typeof x === "string") return NAMED[x] ?? x;
  const text = rounded(x, digits);
  return (x < 0 && Number(text) !== 0 ? MINUS : "+") + text;
}

/** One decimal; of less than a tenth of a percent two digits, of less than a hundredth one and its power. */
export function percent(p: number): string {
  const x = 100 * p;
  if (x === 0) return "0 %";
  if (Math.abs(x) >= 0.0995) return `${rounded(x, 1)} %`;
  if (Math.abs(x) < 0.0095) return `${(x < 0 ? MINUS : "") + small(x)} %`;
  return `${number(x, 2)} %`;
}

/** What scales a forecast's numbers back to the units of its series. */
type Scale = { mean: number; std: number } | null | undefined;

/** What a target would be: its probability, or its value where it has none, in its series' units. */
export function would(
  run: { target: { probability: number | null }; forecast?: Scale } | null | undefined,
  x: number,
): string {
  return outcome(
    run?.target.probability === null ? null : x,
    run?.forecast ? x * run.forecast.std + run.forecast.mean : x,
  );
}

/** What a run says of its target. */
export const says = (run: { target: { probability: number | null; logit: number }; forecast?: Scale }): string =>
  would(run, run.target.probability ?? run.target.logit);

/** A probability, or the value of what has none. */
export function outcome(probability: number | null, value: number): string {
  return probability === null ? number(value) : percent(probability);
}

export function decimals(x: number, digits: number): string {
  return (x < 0 ? MINUS : "") + rounded(x, digits);
}

/** The size of a difference: one digit and its power. */
export function small(x: Numeral): string {
  if (typeof x === "string") return NAMED[x] ?? x;
  return x === 0 ? "0" : Math.abs(x).toExponential(0).replace("-", MINUS).replace("+", "");
}

export const grouped = (n: number): string => n.toLocaleString("en-US");

export function counted(n: number): string {
  if (n >= 1e9) return `${rounded(n / 1e9, 2)} B`;
  if (n >= 1e6) return `${rounded(n / 1e6, 2)} M`;
  return grouped(n);
}

/** A large number by its power of a thousand, with four digits: 1.234 G. */
export function rough(n: number): string {
  return scaled(n, ["", " k", " M", " G", " T", " P", " E", " Z"]);
}

export function byteText(n: number): string {
  return scaled(n, [" bytes", " kB", " MB", " GB", " TB", " PB", " EB"]);
}

function scaled(n: number, units: string[]): string {
  let power = 0;
  while (n >= 999.95 && power < units.length - 1) [n, power] = [n / 1000, power + 1];
  return (power ? number(n) : grouped(n)) + units[power]!;
}

/** A token with its blanks and line ends to be seen. */
export function visible(token: string): { blank: string; rest: string } {
  const rest = token.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/\r/g, "␍");
  const blanks = /^ */.exec(rest)?.[0].length ?? 0;
  return { blank: "␣".repeat(blanks), rest: rest.slice(blanks).replace(/ /g, "␣") };
}

export function shown(token: string): string {
  const { blank, rest } = visible(token);
  return blank + rest;
}

// prettier-ignore
const LETTERS: Record<string, string> = {
  mu: "μ", H_bar: "H̄", C_bar: "C̄", H_e: "Hᵉ", H_M: "Hᴹ", H_O: "Hᴼ", Y_hat: "Ŷ", y_hat: "ŷ",
  h_C: "hᶜ", h_bar: "h̄", z_C: "zᶜ", y_hat_C: "ŷᶜ", h_0: "h₀", Lambda: "Λ", Lambda_p: "Λᵖ", Lambda_s: "Λˢ",
  Omega: "Ω", Phi: "Φ", Gamma: "Γ", Pi: "Π", Pi_M: "Πᴹ", Pi_N: "Πᴺ", Psi: "Ψ", Xi: "Ξ", Xi_e: "Ξₑ", Xi_m: "Ξₘ",
  Xi_1: "Ξ₁", Xi_2: "Ξ₂", alpha: "α", beta: "β", X_0: "X₀", Pi_Y: "Πʸ", Pi_R: "Πᴿ", Pi_C: "Πᶜ", Omega_hat: "Ω̂",
  W_1: "W₁", W_2: "W₂", b_1: "b₁", b_2: "b₂", b_E: "bᴱ",
};

/** ``mu[3,4]`` as the paper writes it: μ[3,4]. */
export function letters(name: string): string {
  return name.replace(/[A-Za-z]\w*/g, (word) => LETTERS[word] ?? word);
}

/** An edit as one says it: a unit held at zero, a gate at one, a head cut. */
export function edit(name: string): string {
  const [, symbol, layer, time, unit, , value] = /^(\w+)\[(\d+),(\*|\d+)\]\((\d+)\)(=(.+))?$/.exec(name) ?? [];
  if (!symbol) return `${letters(name)} cut`;
  const when = time === "*" ? "" : ` at token ${Number(time) - 1}`;
  return symbol === "p"
    ? `forget gate of unit ${unit}, layer ${layer}, frozen at ${value ?? 0}`
    : `unit ${unit} of layer ${layer} held at ${value ?? 0}${when}`;
}

/** A shape as it is typeset: d_e (× n), n_max × |V|, labels × d_L. */
export function shapeLatex(shape: string): string {
  return shape
    .replace(/×/g, "\\times ")
    .replace(/([A-Za-z]+)(?:_([A-Za-z]+|\d))?/g, (all, letter: string, index?: string) => {
      if (letter === "times") return all;
      const base = letter === "tau" ? "\\tau" : letter.length > 2 ? `\\text{${letter}}` : letter;
      return index === undefined ? base : `${base}_{${index.length > 1 ? `\\text{${index}}` : index}}`;
    });
}

export function symbolOf(name: string): string {
  return letters(name.replace(/\[.*/, ""));
}
