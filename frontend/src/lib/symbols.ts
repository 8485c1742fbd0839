/* Letters of a typeset formula get the colour of their class, and say what they mean when pointed at.

   KaTeX sets each letter in a span of its own; indices stand beside it in the same parent. */

import type { Symbol } from "./types";

// prettier-ignore
const GREEK: Record<string, string> = {
  alpha: "α", beta: "β", epsilon: "ϵ", eta: "η", zeta: "ζ", theta: "θ", mu: "μ", sigma: "σ", omega: "ω",
  varkappa: "ϰ", Gamma: "Γ", Lambda: "Λ", Xi: "Ξ", Pi: "Π", Phi: "Φ", Psi: "Ψ", Omega: "Ω",
};

/** ``\bar{H}`` is an H, ``W^Q`` a W with a Q above. */
function taken(latex: string): { letter: string; above: string; accent: boolean } {
  const accent = /\\(?:hat|bar|tilde)\{/.test(latex);
  const inner = latex.replace(/\\(?:hat|bar|tilde|mathcal)\{([^}]*)\}/g, "$1");
  const command = /^\\([A-Za-z]+)/.exec(inner)?.[1];
  const letter = command ? (GREEK[command] ?? "") : (/^[A-Za-z]/.exec(inner)?.[0] ?? "");
  return { letter, above: /\^\{?([A-Za-z])/.exec(inner)?.[1] ?? "", accent };
}

/** The symbols that a letter may stand for; a small one for a column of the matrix of its name. */
function meant(letter: string, near: string, accented: boolean, symbols: Symbol[]): Symbol[] {
  const fits = (wanted: string): Symbol[] =>
    symbols.filter((symbol) => {
      const { letter: own, accent } = taken(symbol.latex);
      return own === wanted && accent === accented && symbol.kind !== "dimension";
    });
  const found = fits(letter);
  const all = found.length ? found : letter.length === 1 && /[a-z]/.test(letter) ? fits(letter.toUpperCase()) : [];
  const exact = all.filter((symbol) => {
    const { above } = taken(symbol.latex);
    return above && near.includes(above);
  });
  return exact.length ? exact : all;
}

/** What a letter means, and what other works call it. */
export function explained({ meaning, known_as, shape }: Symbol): string {
  const usual = known_as && known_as !== meaning ? `${meaning}, elsewhere ${known_as}` : meaning;
  return shape ? `${usual} (${shape})` : usual;
}

export function marked(formula: HTMLElement, symbols: Symbol[]): void {
  for (const leaf of formula.querySelectorAll<HTMLElement>(".katex-html .mord")) {
    if (leaf.childElementCount || [...(leaf.textContent ?? "")].length !== 1) continue;
    if (leaf.closest(".msupsub, .op-limits, .text")) continue;
    const accented = !!leaf.closest(".accent");
    const inner = accented ? leaf.closest<HTMLElement>(".accent")! : leaf;
    const whole = inner.parentElement?.querySelector(":scope > .msupsub") ? inner.parentElement : inner;
    const found = meant(leaf.textContent ?? "", whole.textContent ?? "", accented, symbols);
    const kinds = new Set(found.map((symbol) => symbol.kind));
    if (kinds.size !== 1) continue;
    inner.classList.add("symbol", `is-${[...kinds][0]}`);
    whole.dataset.symbol = found[0]!.name;
    whole.title = found.map(explained).join("; ");
  }
}
